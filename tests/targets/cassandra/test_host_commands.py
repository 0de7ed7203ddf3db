"""Commands for hosts: provisioner, nodetool and probe. Argument lists, never a shell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ebbflow.errors import InputError, TargetError
from ebbflow.targets.cassandra.host_command import HostCommand
from ebbflow.targets.cassandra.launch import artefacts
from ebbflow.targets.cassandra.launch.artefacts import fetch
from ebbflow.targets.cassandra.launch.node_files import NodeFiles
from ebbflow.targets.cassandra.monitor import CommandProbe
from ebbflow.targets.cassandra.provisioner import CommandProvisioner

APPEND = "import pathlib, sys; pathlib.Path(sys.argv[1]).open('a').write(' '.join(sys.argv[2:]) + '\\n')"


def test_a_provisioner_by_command_starts_and_stops_hosts(tmp_path: Path) -> None:
    said = tmp_path / "said"
    script = [sys.executable, "-c", APPEND, str(said)]
    made = CommandProvisioner(start=[*script, "start", "{host}", "{fresh}"], stop=[*script, "stop", "{host}"])
    made.start("10.0.0.4; rm -rf /", fresh=True)
    made.start("10.0.0.4", fresh=False)
    made.stop("10.0.0.4")
    assert said.read_text().splitlines() == [
        "start 10.0.0.4; rm -rf / fresh",  # one argument, no shell
        "start 10.0.0.4 restart",
        "stop 10.0.0.4",
    ]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; sys.exit('no capacity')", "failed with code 1: no capacity"),
        ("import time; time.sleep(60)", "did not end within 0.2 s"),
    ],
)
def test_a_command_that_fails_says_why(code: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        HostCommand([sys.executable, "-c", code, "{host}"]).run(
            "10.0.0.4", within_s=0.2 if "60" in code else 30
        )


def test_a_command_that_does_not_exist_says_so() -> None:
    with pytest.raises(TargetError, match="cannot run no-such-tool for a: no such file"):
        HostCommand(["no-such-tool", "{host}"]).run("a")


def test_a_probe_reads_disks_and_cpu() -> None:
    df = "F 1024-blocks Used Available C M\\n/dev/vda 10 4 6 40% /data"
    ticks = iter(["cpu 100 0 0 100 0 0 0 0", "cpu 130 0 0 110 0 0 0 0"])
    probe = CommandProbe(
        disk=HostCommand([sys.executable, "-c", f'print("{df}")', "{host}"]),
        cpu=HostCommand([sys.executable, "-c", "pass", "{host}"]),
    )
    probe._cpu = type("Fixed", (), {"run": lambda _self, _host: next(ticks)})()
    first, second = probe.sample("a"), probe.sample("a")
    assert (first.disk_free_bytes, first.cpu_share) == (6 * 1024.0, None)
    assert second.cpu_share == 0.75


def test_without_maven_the_artefacts_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="no Maven to fetch it with"):
        fetch()
    (artefacts.jars_folder()).mkdir(parents=True)
    assert not artefacts.are_cached()  # an empty folder is no Cassandra
    (artefacts.jars_folder() / f"cassandra-all-{artefacts.VERSION}.jar").touch()
    assert fetch() == artefacts.jars_folder()


def test_a_node_file_keeps_its_password_private_and_limits_requests(tmp_path: Path) -> None:
    (tmp_path / "jamm-0.4.0.jar").touch()
    files = NodeFiles(
        folder=tmp_path / "node", jars=tmp_path, java="java", cluster_name="c", address="127.0.0.9",
        seeds=["127.0.0.1"], rack="r1", jmx_port=17199, jmx_password="secret-word", replication_factor=3,
        ring_delay_s=5.0, heap_mb=512, requests_per_s=100,
    )  # fmt: skip
    files.write()
    private = [path for path in files.folder.iterdir() if "secret-word" in path.read_text()]
    assert [path.stat().st_mode & 0o077 for path in private] == [0]
    assert not any("secret-word" in word for word in (*files.command(), *files.nodetool()))
    settings = (files.folder / "cassandra.yaml").read_text()
    assert '"native_transport_max_requests_per_second": 100' in settings
