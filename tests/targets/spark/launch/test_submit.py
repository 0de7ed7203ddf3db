"""``ebbflow submit`` runs unmodified scripts."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pyspark
import pytest

pytestmark = pytest.mark.spark

EBBFLOW = str(Path(sys.executable).parent / "ebbflow")
ROOT = Path(__file__).parents[4]
WORD_COUNT = (
    Path(pyspark.__file__).parent / "examples/src/main/python/sql/streaming/structured_network_wordcount.py"
)


def let_in(cluster) -> dict[str, str]:
    """The environment of a user who may use the shared cluster."""
    return {**os.environ, "PYSPARK_SUBMIT_ARGS": f"--properties-file {cluster.settings_file} pyspark-shell"}


class Lines:
    """A server that keeps sending lines of words to its client."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        client, _ = self._server.accept()
        with client:
            while not self._stop.wait(0.2):
                client.sendall(b"ebb flow ebb\n" * 5)

    def close(self) -> None:
        self._stop.set()
        self._server.close()


def test_sparks_network_word_count_is_scaled_unchanged(tmp_path, wait) -> None:
    lines, report = Lines(), tmp_path / "out.json"
    output = tmp_path / "output.txt"
    with output.open("w") as sink:
        job = subprocess.Popen(
            [EBBFLOW, "submit", "--executors", "1:4", "--json-report", str(report), "--store",
             str(tmp_path / "run.sqlite"), str(WORD_COUNT), "127.0.0.1", str(lines.port)],
            stdout=sink, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            from ebbflow.monitoring.store import Store

            def decided() -> bool:
                assert job.poll() is None, output.read_text()[-3000:]
                store = tmp_path / "run.sqlite"
                entries = Store.read_ledger(store) if store.exists() else []
                return any("learning" not in entry["reason"] for entry in entries)

            wait(lambda: "Batch: 2" in output.read_text(), "the script's own output", 150)
            wait(decided, "decisions made on its batches", 60)
            family = psutil.Process(job.pid).children(recursive=True)
            job.send_signal(signal.SIGTERM)
            assert job.wait(60) == 128 + signal.SIGTERM
        finally:
            job.kill()
            lines.close()
    wait(
        lambda: not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in family),
        "all to end",
        30,
    )
    text = output.read_text()
    assert "| ebb|" in text, "it counted words"
    document = json.loads(report.read_text())
    assert document["strategy"] == "capacity"
    # The first observation may come before the first executor, and then shows none.
    assert next(size for _, size in document["executors"] if size) == 1
    assert document["rows_in"] > 0
    assert document["decisions"]
    assert document["exit_code"] == 128 + signal.SIGTERM


def test_a_script_runs_on_a_named_master_and_its_output_stays_apart_from_json(
    cluster, spark, tmp_path
) -> None:
    job = tmp_path / "job.py"
    # A session opened as in older scripts, and a thread that outlasts the main one.
    job.write_text(
        "import sys, threading\n"
        "from pyspark import SparkContext\n"
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession(SparkContext(appName='job'))\n"
        "def work():\n"
        "    threading.main_thread().join(2)\n"
        "    print('rows', spark.range(5).count(), sys.argv[1:])\n"
        "    spark.stop()\n"
        "threading.Thread(target=work).start()\n"
        "sys.exit(7)\n"
    )
    done = subprocess.run(
        [EBBFLOW, "submit", "--master", cluster.master_url, "--executors", "1:2", "--json",
         "--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1",
         "--conf", "spark.driver.host=127.0.0.1", str(job), "--its", "own"],
        capture_output=True, text=True, timeout=120, env=let_in(cluster),
    )  # fmt: skip
    assert done.returncode == 7, done.stderr[-2000:]
    document = json.loads(done.stdout)
    assert document["exit_code"] == 7
    assert document["node_seconds"] > 0  # so the session was found
    assert "rows 5 ['--its', 'own']" in done.stderr


def test_the_attach_example_runs(cluster, spark) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "attach_example.py"), "3", "--master", cluster.master_url],
        capture_output=True, text=True, timeout=120, env=let_in(cluster),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


def submitted(cluster, *job: str) -> list[str]:
    return [
        EBBFLOW, "submit", "--master", cluster.master_url, "--executors", "1:1",
        "--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1",
        "--conf", "spark.driver.host=127.0.0.1", *job,
    ]  # fmt: skip


@pytest.mark.long
def test_the_plain_example_runs(cluster, spark) -> None:
    done = subprocess.run(
        submitted(cluster, str(ROOT / "examples" / "plain_job.py"), "4"),
        capture_output=True, text=True, timeout=120, env=let_in(cluster),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.long
def test_the_operators_example_prints_rows_and_cpu_of_each_operator(cluster, spark, tmp_path, wait) -> None:
    output = tmp_path / "output.txt"
    with output.open("w") as sink:
        job = subprocess.Popen(
            submitted(cluster, str(ROOT / "examples" / "operators_example.py")),
            stdout=sink, stderr=subprocess.STDOUT, env={**let_in(cluster), "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        try:
            for pattern in (
                r"batch \d+  split  +\d+ rows in, \d+ out$",
                r"batch \d+  shout  .* CPU s in 4 instances$",
            ):
                found = re.compile(pattern, re.MULTILINE)
                wait(lambda found=found: found.search(output.read_text()), pattern, 120)
            job.send_signal(signal.SIGTERM)
            assert job.wait(60) == 128 + signal.SIGTERM
        finally:
            job.kill()


def test_a_script_terminated_while_its_jvm_is_launched_leaves_no_jvm_behind(
    cluster, spark, tmp_path, wait
) -> None:
    job = tmp_path / "job.py"
    job.write_text("from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate()\n")
    running = subprocess.Popen(
        [EBBFLOW, "submit", "--master", cluster.master_url, "--executors", "1:1", str(job)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=let_in(cluster),
    )  # fmt: skip
    drivers: list[psutil.Process] = []

    def launching() -> bool:
        assert running.poll() is None
        for child in psutil.Process(running.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if re.search("spark-submit|SparkSubmit", " ".join(child.cmdline())):
                    drivers.append(child)
        return bool(drivers)

    try:
        wait(launching, "its JVM to be launched", 60)
        running.send_signal(signal.SIGTERM)
        output, _ = running.communicate(timeout=90)
    finally:
        running.kill()
    assert running.returncode == 128 + signal.SIGTERM
    assert "ended before it opened a Spark session" in " ".join(output.split())
    wait(
        lambda: not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in drivers),
        "its JVM to end",
        30,
    )
