"""A store that cannot be written: the loop goes on, nothing is lost, and people are told."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbflow.core.clock import ManualClock
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.errors import StoreError
from ebbflow.monitoring import buffered_store
from ebbflow.monitoring.buffered_store import RETRY_EVERY_S, BufferedStore
from ebbflow.monitoring.store import Store

TERMS = {"slo": "freshness p95 <= 30s", "nodes": "1:4"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.sqlite"


@pytest.fixture
def store(path: Path, clock: ManualClock) -> Iterator[Store]:
    store = Store(path, clock)
    store.begin_run(TERMS)
    yield store
    with contextlib.suppress(StoreError, sqlite3.Error):
        store.close()


def reasons(path: Path) -> list[str]:
    return [row["reason"] for row in Store.read_ledger(path)]


class Full:
    """Lets every write fail as on a full disk."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __enter__(self) -> None:
        for connection in (self.store._fast, self.store._safe):
            connection.execute("PRAGMA max_page_count = 1")

    def __exit__(self, *_: object) -> None:
        for connection in (self.store._fast, self.store._safe):
            connection.execute("PRAGMA max_page_count = 1000000")


LONG = "x" * 20_000
"""Needs new pages."""


def test_on_a_full_disk_rows_are_kept_and_written_in_order_later(
    store: Store, path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    buffered = BufferedStore(store, clock)
    first = buffered.append_ledger(1.0, "hold", {"reason": "first"})
    with Full(store):
        with pytest.raises(StoreError):  # the negative control: the store itself fails
            store.append_ledger(1.5, "hold", {"reason": LONG})
        with caplog.at_level(logging.WARNING):
            second = buffered.append_ledger(2.0, "act", {"reason": LONG})
            third = buffered.append_ledger(3.0, "hold", {"reason": "third"})
        assert (second, third) == (-1, -2)
        buffered.add([Reading(2.0, "main", Metric.NODES, 2.0)])
        clock.advance(3.0)
        assert "full" in buffered.alarm
        assert "2 ledger rows kept in memory" in buffered.alarm
        buffered.amend_ledger({second: {"reason": LONG, "achieved": 7.0}})
        assert any("ledger row" in record.message for record in caplog.records), "acts are in the log"
    clock.advance(RETRY_EVERY_S)
    fourth = buffered.append_ledger(4.0, "hold", {"reason": "fourth"})
    assert buffered.alarm == ""
    assert reasons(path) == ["first", LONG, "third", "fourth"]
    assert fourth > first > 0
    assert Store.read_ledger(path)[1]["achieved"] == 7.0
    buffered.amend_ledger({third: {"reason": "third, amended"}})
    assert reasons(path)[2] == "third, amended", "under its temporary id"
    assert store.readings("main", Metric.NODES) == [(2.0, 2.0)]


def test_a_lock_of_another_process_costs_no_cycle_its_time(
    store: Store, path: Path, clock: ManualClock
) -> None:
    buffered = BufferedStore(store, clock)
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        began_s = time.monotonic()
        for second in range(20):
            buffered.append_ledger(float(second), "hold", {"reason": str(second)})
            buffered.add([Reading(float(second), "main", Metric.NODES, 1.0)])
            clock.advance(1.0)
        assert time.monotonic() - began_s < 5.0, "each of 20 cycles would have waited 10 s"
        assert "locked" in buffered.alarm
        other.rollback()
    clock.advance(RETRY_EVERY_S)
    buffered.add([])
    assert buffered.alarm == ""
    assert reasons(path) == [str(second) for second in range(20)]


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_deleted_or_replaced_file_is_noticed_and_made_anew(
    store: Store, path: Path, clock: ManualClock, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    buffered = BufferedStore(store, clock)
    first = buffered.append_ledger(1.0, "act", {"reason": "first"})
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).unlink()
    if how == "replaced":
        path.touch()
    with caplog.at_level(logging.WARNING):
        assert buffered.append_ledger(2.0, "hold", {"reason": "second"}) == first + 1
    assert any("deleted or replaced" in record.message for record in caplog.records)
    assert reasons(path) == ["first", "second"]
    assert Store.read_terms(path) == TERMS
    buffered.amend_ledger({first: {"reason": "first, amended"}})
    buffered.add([Reading(2.0, "main", Metric.NODES, 1.0)])
    store.flush()
    assert reasons(path) == ["first, amended", "second"]
    assert Store.read_readings(path, [Metric.NODES]).series != {}


def test_a_folder_that_is_gone_is_no_reason_to_stop(tmp_path: Path, clock: ManualClock) -> None:
    folder = tmp_path / "runs"
    store = Store(folder / "run.sqlite", clock)
    buffered = BufferedStore(store, clock)
    folder.rename(tmp_path / "elsewhere")
    folder.touch()  # a file in its place
    assert buffered.append_ledger(1.0, "act", {"reason": "kept"}) == -1
    assert "cannot open the store" in buffered.alarm
    folder.unlink()
    clock.advance(RETRY_EVERY_S)
    buffered.add([])
    assert reasons(store.path) == ["kept"]
    store.close()


def test_memory_is_bounded_and_acts_are_dropped_last(
    store: Store, path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffered_store, "MOST_ROWS", 5)
    buffered = BufferedStore(store, clock)
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        for number in range(10):
            buffered.append_ledger(float(number), "act" if number == 2 else "hold", {"reason": str(number)})
        assert "5 dropped" in buffered.alarm
        other.rollback()
    clock.advance(RETRY_EVERY_S)
    buffered.add([])
    assert reasons(path) == ["2", "6", "7", "8", "9"]
