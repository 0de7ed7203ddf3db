"""The state of a strategy survives a restart of the job, and keeping it never delays or harms the loop."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attach_parts import SESSION, parts_of
from fake_target import FakeTarget, ScriptedStrategy

from ebbflow.control import attach as module
from ebbflow.control import state_file
from ebbflow.control.state_file import StateFile
from ebbflow.core.clock import SystemClock
from ebbflow.core.folders import replace_file
from ebbflow.errors import InputError, TableError


class Counting(ScriptedStrategy):
    """Its state is how often it was asked for it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file, self.asked = file, 0
        self.changed = True

    @property
    def state_file(self) -> Path | None:
        return self.file

    def state(self) -> str | None:
        self.asked += 1
        return str(self.asked) if self.changed else None


def test_the_state_is_written_once_per_period_and_at_the_end(tmp_path: Path) -> None:
    strategy = Counting(tmp_path / "state")
    kept = StateFile(strategy, strategy.file, every_s=30.0)
    for now_s in (0.0, 10.0, 29.0, 30.0, 45.0):
        kept.after_cycle(now_s)
    assert strategy.asked == 2, "at 0 and 30 s"
    kept.close()
    assert strategy.file.read_text() == "3"


def test_an_unchanged_state_is_not_written(tmp_path: Path) -> None:
    strategy = Counting(tmp_path / "state")
    strategy.changed = False
    kept = StateFile(strategy, strategy.file)
    kept.after_cycle(0.0)
    kept.close()
    assert not strategy.file.exists()


def test_a_slow_disk_does_not_delay_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written, go_on = threading.Event(), threading.Event()

    def slow(path: Path, text: str) -> None:
        written.set()
        assert go_on.wait(10)
        replace_file(path, text)

    monkeypatch.setattr(state_file, "replace_file", slow)
    strategy = Counting(tmp_path / "state")
    kept = StateFile(strategy, strategy.file, every_s=0.0)
    kept.after_cycle(0.0)
    assert written.wait(10)
    for now_s in range(1, 6):
        kept.after_cycle(float(now_s))  # returns although the first write has not ended
    assert not strategy.file.exists()
    go_on.set()
    kept.close()
    assert strategy.file.read_text() == "7"


def test_a_disk_that_is_full_is_logged_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried = threading.Semaphore(0)

    def full(*_: Any) -> None:
        tried.release()
        raise InputError("cannot write state: no space left on device")

    monkeypatch.setattr(state_file, "replace_file", full)
    strategy = Counting(tmp_path / "state")
    kept = StateFile(strategy, strategy.file, every_s=0.0)
    with caplog.at_level(logging.WARNING):
        for now_s in (0.0, 1.0):
            kept.after_cycle(now_s)
            assert tried.acquire(timeout=10)
        monkeypatch.undo()
        kept.close()
    assert caplog.text.count("no space left") == 1
    assert strategy.file.read_text() == "3"


def test_attach_continues_from_the_table_and_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = tmp_path / "t.json"

    def target(*_: Any, **__: Any) -> FakeTarget:
        return FakeTarget(SystemClock(), 1)  # type: ignore[arg-type]

    monkeypatch.setattr("ebbflow.targets.spark.target.SparkTarget", target)
    cycled = threading.Event()
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(applicationId="app-table"))
    attached = module.attach(
        session, strategy=f"learner(table={table})", cycle_s=0.05, on_cycle=lambda _: cycled.set()
    )
    assert cycled.wait(10)
    loop: Any = attached._loop
    loop._decider._strategy._changed = True  # as after a decision
    attached.stop()
    assert json.loads(table.read_text())["format"] == "ebbflow learner table"
    assert "there is no table" in caplog.text
    caplog.clear()
    parts = parts_of(monkeypatch, strategy=f"learner(table={table})")
    assert parts["strategy"].state_file == table
    assert "there is no table" not in caplog.text


def test_a_table_that_was_cut_off_is_an_error_before_anything_starts(tmp_path: Path) -> None:
    table = tmp_path / "t.json"
    table.write_text('{"format": "ebbflow learner table", "vers')
    with pytest.raises(InputError, match="not a whole learner table") as caught:
        module.attach(SESSION, strategy=f"learner(table={table})")
    assert isinstance(caught.value.__cause__, InputError | TableError)
    assert table.read_text() == '{"format": "ebbflow learner table", "vers', "untouched"
