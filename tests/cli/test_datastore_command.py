"""``ebbflow datastore``: bad input is one clear line and exit code 2, before anything starts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from console import ebbflow

from ebbflow.cli.datastore import for_datastore
from ebbflow.errors import InputError
from ebbflow.options import Configuration, from_command_line
from ebbflow.profiling.datastore.profile import paper_profile
from ebbflow.targets.cassandra.cluster_file import ClusterFile
from ebbflow.targets.cassandra.connection import Connection

Run = Callable[..., tuple[int, str, str]]
CLUSTER = """
name = "orders"
data_center = "dc1"
nodetool = ["ssh", "{host}", "nodetool"]
start = ["./node", "start", "{host}", "{fresh}"]
stop = ["./node", "stop", "{host}"]

[[hosts]]
address = "127.0.0.201"
seed = true
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Code, standard output and standard error of a command."""
    return partial(ebbflow, monkeypatch, capsys, "datastore")


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    path = tmp_path / "orders.toml"
    path.write_text(CLUSTER)
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("{host}", "host"), "does not contain {host}"),
        (('name = "orders"', ""), "missing required field `name`"),
        (("seed = true", ""), "no host is a seed"),
        (("seed = true", "seed = 1"), "Expected `bool`"),
        (("[[hosts]]", '[[hosts]]\naddress = "127.0.0.201"\n[[hosts]]'), "127.0.0.201 is there twice"),
        (("name", "nam"), "unknown field `nam`"),
        (("[[hosts]]", "[[hosts]"), "is not TOML"),
    ],
)
def test_a_wrong_cluster_file_says_what_is_wrong(
    run: Run, cluster: Path, change: tuple[str, str], words: str
) -> None:
    cluster.write_text(CLUSTER.replace(*change, 1) if change[0] != "{host}" else CLUSTER.replace(*change))
    code, out, err = run("status", str(cluster))
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


def test_a_host_that_does_not_answer_is_named(run: Run, cluster: Path) -> None:
    code, _, err = run("check", str(cluster))
    assert code == 2
    assert "no Cassandra answers at 127.0.0.201, port 9042" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--nodes", "2:6", "--strategy", "static"], "below the replication factor of 3; write 3:6"),
        (["run", "--nodes", "6:3", "--strategy", "static"], "did you mean 3:6?"),
        (["run", "--load", "sinus(1)", "--for", "1m", "--strategy", "static"], "unknown load shape 'sinus'"),
        (["run", "--load", "constant(50)", "--strategy", "static"], "--load needs --for"),
        (["run", "--keyspace", "My Rows", "--strategy", "static"], "is not a keyspace name"),
        (["run"], "needs a profile of the cluster"),
        (["run", "--strategy", "static", "--profile", "a.toml"], "--profile is not for the strategy static"),
        (["profile", "--hold", "0s"], "above 0"),
    ],
)
def test_options_that_cannot_be_meant_are_refused_before_anything_starts(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.setattr("ebbflow.cli.datastore.LocalCassandra.open", lambda _: pytest.fail("it started"))
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert words in err


def test_a_profile_of_another_cluster_is_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(paper_profile().to_text())
    code, _, err = run("run", "--profile", str(path))
    assert code == 2
    assert "this profile is of the cluster 'pascal', but this cluster is named 'local'" in err
    given = Configuration([from_command_line({"strategy": "datastore"})])
    assert for_datastore(given, path, "pascal")["strategy.datastore.profile"] == path  # the negative control


def test_without_java_nothing_starts(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, err = run("run", "--strategy", "static")
    assert code == 2
    assert "Cassandra needs Java 17 or later" in err


def test_a_cluster_needs_a_journal(run: Run, cluster: Path) -> None:
    code, _, err = run("run", "--cluster", str(cluster), "--strategy", "static")
    assert code == 2
    assert "--cluster needs --journal FILE" in err


def test_an_old_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = object.__new__(Connection)
    rows = [{"cluster_name": "orders", "release_version": "3.11.4"}]
    monkeypatch.setattr(connection, "query", lambda _: rows)
    monkeypatch.setattr(connection, "close", lambda: None)
    with pytest.raises(InputError, match=r"10.0.0.1 runs Cassandra 3.11.4; Ebbflow needs 4.1 or later"):
        connection._check_version(["10.0.0.1"])
    rows[0]["release_version"] = "5.0-beta1"
    connection._check_version(["10.0.0.1"])
    assert connection.version == "5.0-beta1"


def test_a_password_is_read_from_its_file(cluster: Path) -> None:
    cluster.write_text('user = "ebbflow"\npassword_file = "secret"\n' + CLUSTER)
    (cluster.parent / "secret").write_text("letmein\n")
    assert ClusterFile.read(cluster).password() == "letmein"
    (cluster.parent / "secret").unlink()
    with pytest.raises(InputError, match="cannot read the password"):
        ClusterFile.read(cluster).password()
