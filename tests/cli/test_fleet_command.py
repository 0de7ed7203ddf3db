"""``ebbflow fleet`` without Spark: what is wrong is one line, nothing is started, and states are shown as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from console import ebbflow

from ebbflow.core.clock import SystemClock
from ebbflow.core.folders import Owner
from ebbflow.targets.fleet.coordination import Member, Record, Wish
from ebbflow.targets.fleet.coordination.store import StoreCoordination

FLEET = """\
[application.left]
master = "local[1]"
[application.right]
master = "local[1]"
[operator.count]
start = "fleet_command_steps:count"
application = "left"
"""


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    (tmp_path / "fleet_command_steps.py").write_text("def count(context): ...\n")
    path = tmp_path / "words.toml"
    path.write_text(FLEET)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was started")

    monkeypatch.setattr("ebbflow.targets.fleet.keeper.HostKeeper.ensure", refuse)
    monkeypatch.setattr("subprocess.Popen", refuse)
    monkeypatch.setattr("ebbflow.targets.spark.launch.preflight.check_java", lambda: None)
    return path


@pytest.fixture
def store(file) -> StoreCoordination:
    """The coordination of a fleet that has been up."""
    return StoreCoordination(file.with_name("words.fleet") / "fleet.sqlite", SystemClock())


def controller() -> Member:
    return Member(name="c", boot="c", address="", machine="here", owner=Owner.this_process())


def test_check_is_silent_about_a_good_file_and_has_one_line_for_each_mistake(
    file, monkeypatch, capsys
) -> None:
    code, out, err = ebbflow(monkeypatch, capsys, "fleet", "check", str(file))
    assert (code, out) == (0, "")
    assert "is fine: 2 applications, 0 streams, 1 operator" in " ".join(err.split())
    file.write_text(FLEET.replace('"left"', '"lft"').replace("local[1]", "local[x]", 1))
    for command in ("check", "up"):
        code, out, err = ebbflow(monkeypatch, capsys, "fleet", command, str(file))
        assert (code, out) == (2, "")
        assert err.splitlines() == [
            f"{file}:2: 'local[x]' is not a master; write local[2], spark://HOST:PORT, yarn or k8s://HOST:PORT",
            f"{file}:7: unknown application 'lft'; did you mean 'left'?",
        ]
    code, out, _ = ebbflow(monkeypatch, capsys, "fleet", "check", str(file), "--json")
    assert code == 2
    assert json.loads(out)["ok"] is False
    assert len(json.loads(out)["problems"]) == 2


@pytest.mark.parametrize("command", [["status"], ["move", "count", "right"], ["pause"]])
def test_a_fleet_that_was_never_up_is_named(file, monkeypatch, capsys, command) -> None:
    code, out, err = ebbflow(monkeypatch, capsys, "fleet", command[0], str(file), *command[1:])
    assert (code, out) == (2, "")
    assert "has never been up; start it with `ebbflow fleet up" in err
    assert not file.with_name("words.fleet").exists()


def test_a_move_needs_a_controller_and_an_operator_and_application_that_exist(
    file, store, monkeypatch, capsys
) -> None:
    store.change(None, Record(query="count", application="left", token=1))
    asked = ("fleet", "move", str(file))
    assert "no controller of" in ebbflow(monkeypatch, capsys, *asked, "count", "right")[2]
    store.lead(controller())
    assert "did you mean 'count'" in ebbflow(monkeypatch, capsys, *asked, "cuont", "right")[2]
    assert "did you mean 'right'" in ebbflow(monkeypatch, capsys, *asked, "count", "rihgt")[2]
    assert "is in application left already" in ebbflow(monkeypatch, capsys, *asked, "count", "left")[2]


def test_only_one_controller_uses_a_store(file, store, monkeypatch, capsys) -> None:
    store.lead(controller())
    code, _, err = ebbflow(monkeypatch, capsys, "fleet", "up", str(file), "--strategy", "static")
    assert code == 2
    assert "a controller of words.toml runs already (process" in err


def test_status_and_pause_work_without_hosts_and_controller(file, store, monkeypatch, capsys) -> None:
    store.change(None, Record(query="count", application="right", token=4, moves=3, why="no such table"))
    code, out, _ = ebbflow(monkeypatch, capsys, "fleet", "status", str(file), "--json")
    assert code == 1, "a query that does not run is a failure"
    seen = json.loads(out)
    assert seen["controller"] is None
    assert [each["host"] for each in seen["applications"]] == [None, None]
    (operator,) = seen["operators"]
    assert (operator["application"], operator["phase"], operator["moves"]) == ("right", "unknown", 3)
    assert operator["last_move_given_up"] == "no such table"
    code, out, _ = ebbflow(monkeypatch, capsys, "fleet", "status", str(file))
    assert "no host" in out
    assert ebbflow(monkeypatch, capsys, "fleet", "pause", str(file))[0] == 0
    assert store.wish() is Wish.PAUSE
    code, out, _ = ebbflow(monkeypatch, capsys, "fleet", "pause", str(file), "--resume", "--json")
    assert json.loads(out) == {"fleet": "words", "paused": False}
    assert store.wish() is Wish.RUN


def test_down_ends_at_once_when_nothing_runs(file, store, monkeypatch, capsys) -> None:
    code, out, _ = ebbflow(monkeypatch, capsys, "fleet", "down", str(file), "--json")
    assert code == 0
    assert json.loads(out) == {"fleet": "words", "down": True, "left": []}


def test_detached_and_for_some_seconds_exclude_each_other(file, monkeypatch, capsys) -> None:
    code, _, err = ebbflow(monkeypatch, capsys, "fleet", "up", str(file), "--detach", "--seconds", "60")
    assert code == 2
    assert "exclude each other" in err
