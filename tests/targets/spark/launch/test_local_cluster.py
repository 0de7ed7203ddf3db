"""A local cluster starts, answers, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ebbflow.targets.spark.launch import preflight
from ebbflow.targets.spark.launch.local_cluster import LocalCluster

pytestmark = pytest.mark.spark

STARTER = """
import sys
from ebbflow.targets.spark.launch.local_cluster import LocalCluster
from ebbflow.targets.spark.launch.session import local_session
from ebbflow.targets.spark.launch.local_cluster import local_settings
from ebbflow.targets.spark.launch.settings import scaling_settings
with LocalCluster(cores=1) as cluster:
    settings = scaling_settings(initial_executors=1, master=cluster.master_url)
    settings |= cluster.settings | local_settings(cores_per_executor=2)
    cluster.ensure_cores(2)
    with local_session(cluster.master_url, settings, name="left") as spark:
        spark.range(10).count()
        print(cluster.folder, *(process.popen.pid for process in cluster._processes), flush=True)
        sys.stdin.read()
"""


def tree(pids: list[int]) -> list[psutil.Process]:
    found = []
    for pid in pids:
        process = psutil.Process(pid)
        found += [process, *process.children(recursive=True)]
    return found


def command_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # or a zombie
        return ""


def test_the_shared_cluster_answers_and_listens_on_loopback_only(cluster: LocalCluster) -> None:
    state = cluster.state()
    assert state["status"] == "ALIVE"
    assert state["aliveworkers"] == 1
    for process in tree([process.popen.pid for process in cluster._processes]):
        for connection in process.net_connections(kind="tcp"):
            if connection.status == psutil.CONN_LISTEN:
                assert connection.laddr.ip in ("127.0.0.1", "::ffff:127.0.0.1", "::1"), connection


def test_a_client_without_the_secret_is_refused(cluster: LocalCluster) -> None:
    def ask(**known: str) -> str:
        client = [preflight.spark_home() / "bin" / "spark-class", "org.apache.spark.deploy.Client"]
        done = subprocess.run(
            [*client, "kill", cluster.master_url, "driver-unheard-of"],
            capture_output=True, text=True, timeout=60, env={**os.environ, **known},
        )  # fmt: skip
        return done.stdout + done.stderr

    secret = cluster.settings["spark.authenticate.secret"]
    known = {"JAVA_TOOL_OPTIONS": "-Dspark.authenticate=true", "_SPARK_AUTH_SECRET": secret}
    assert "does not exist" in ask(**known)
    assert "does not exist" not in ask()
    for process in psutil.process_iter(["cmdline"]):
        assert secret not in " ".join(process.info["cmdline"] or ()), "visible to every user of this machine"


@pytest.mark.parametrize(
    ("end", "number"),
    [
        (os.kill, signal.SIGKILL),
        (os.killpg, signal.SIGKILL),
        pytest.param(os.killpg, signal.SIGINT, marks=pytest.mark.long),
    ],
)
def test_nothing_is_left_when_the_starter_is_killed_or_interrupted(end, number: int, wait) -> None:
    """Alone, or with its process group, as a terminal and a shell do."""
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert starter.stdout is not None
    line = starter.stdout.readline().split()
    processes = tree([int(pid) for pid in line[1:]])
    assert any("java" in process.name() for process in processes)
    assert any("CoarseGrainedExecutorBackend" in command_of(process) for process in processes)
    end(starter.pid, number)
    starter.wait(30)
    wait(
        lambda: not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes),
        "all to end",
        30,
    )
    wait(lambda: not Path(line[0]).exists(), "its folder to go", 30)
