"""The store: readable while it is written, and without loss of ledger rows."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbflow.core.batches import Batch, OperatorRun, StageRun
from ebbflow.core.clock import ManualClock
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.errors import InputError, NoStoreError, StoreError
from ebbflow.monitoring.store import MOST_BATCHES_WAITING, Store

DAY_S = 86400.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000.0)


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    store = Store(tmp_path / "run.sqlite", clock)
    yield store
    store.close()


def nodes(time_s: float, value: float) -> Reading:
    return Reading(time_s, "main", Metric.NODES, value)


def in_another_process(path: Path, sql: str) -> list[list[object]]:
    code = "import json,sqlite3,sys; print(json.dumps(sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchall()))"
    answer = subprocess.run(
        [sys.executable, "-S", "-c", code, str(path), sql], capture_output=True, check=True, timeout=60
    )
    return list(json.loads(answer.stdout))


# -- readings ------------------------------------------------------------------------------------


def test_series_whose_readings_are_all_forgotten_are_forgotten_too(tmp_path: Path) -> None:
    clock = ManualClock(1000.0)
    store = Store(tmp_path / "run.sqlite", clock, keep_readings_s=1800.0)
    for executor in range(50):  # each works for two minutes
        for _ in range(2):
            store.add([Reading(clock.now_s(), f"executor-{executor}", Metric.ACTIVE_TASKS, 1.0)])
            clock.advance(60.0)
    clock.advance(3600.0)
    store.add([Reading(clock.now_s(), "executor-49", Metric.ACTIVE_TASKS, 2.0)])
    store.flush()
    assert in_another_process(store.path, "SELECT subject FROM series") == [["executor-49"]]
    assert [subject for subject, _ in store._series] == ["executor-49"]
    store.add([Reading(clock.now_s(), "executor-7", Metric.ACTIVE_TASKS, 3.0)])
    store.flush()
    assert store.readings("executor-7", Metric.ACTIVE_TASKS) == [(clock.now_s(), 3.0)], "it is back"
    assert store.readings("executor-49", Metric.ACTIVE_TASKS) == [(clock.now_s(), 2.0)]
    store.close()


def test_the_file_is_in_wal_mode(store: Store) -> None:
    assert in_another_process(store.path, "PRAGMA journal_mode") == [["wal"]]


def test_every_metric_is_read_back_as_written(store: Store) -> None:
    values = {metric: 1.5 + i for i, metric in enumerate(Metric)}
    store.add(Reading(10.0, "it", metric, value) for metric, value in values.items())
    store.flush()
    assert {metric: store.readings("it", metric) for metric in Metric} == {
        metric: [(10.0, value)] for metric, value in values.items()
    }


def test_an_unknown_series_is_empty(store: Store) -> None:
    assert store.readings("unknown", Metric.NODES) == []


def test_readings_since_a_time_come_oldest_first(store: Store) -> None:
    store.add(nodes(t, t) for t in (3.0, 1.0, 2.0))
    store.flush()
    assert store.readings("main", Metric.NODES, since_s=2.0) == [(2.0, 2.0), (3.0, 3.0)]


def test_of_two_readings_at_one_time_the_later_one_wins(store: Store) -> None:
    store.add([nodes(1.0, 5.0), nodes(1.0, 6.0)])
    store.flush()
    store.add([nodes(1.0, 7.0)])
    store.flush()
    assert store.readings("main", Metric.NODES) == [(1.0, 7.0)]


def test_a_late_reading_is_sorted_by_its_time(store: Store) -> None:
    store.add([nodes(5.0, 5.0)])
    store.flush()
    store.add([nodes(4.0, 4.0)])
    store.flush()
    assert store.readings("main", Metric.NODES) == [(4.0, 4.0), (5.0, 5.0)]


def test_readings_are_on_disk_after_a_second_of_adding(store: Store, clock: ManualClock) -> None:
    start_s = clock.now_s()
    for _ in range(25):
        store.add([nodes(clock.now_s(), 1.0)])
        written = in_store(store)
        assert clock.now_s() - max((t for t, _ in written), default=start_s) <= 1.0 + 1e-9
        clock.advance(0.1)


def in_store(store: Store) -> list[tuple[float, float]]:
    with sqlite3.connect(store.path) as other:
        return other.execute("SELECT time_s, value FROM readings ORDER BY time_s").fetchall()


@pytest.mark.parametrize("step_s", [-3600.0, 86400.0 * 365])
def test_a_step_of_the_clock_neither_delays_writing_nor_deletes_anything(
    store: Store, clock: ManualClock, step_s: float
) -> None:
    time_s = clock.now_s()
    store.append_ledger(time_s, "hold", {"reason": "before"})
    store.add([nodes(time_s, 1.0)])
    clock.set(time_s + step_s)
    for second in range(1, 4000, 2):  # more than an hour: it deletes old rows meanwhile
        clock.advance(2.0)
        store.add([nodes(time_s + second, 2.0)])
    assert store.readings("main", Metric.NODES)[0] == (time_s, 1.0)
    assert len(store.readings("main", Metric.NODES)) == 2001
    assert [row["reason"] for row in store.ledger()] == ["before"]


def test_adding_nothing_still_writes_buffered_rows(store: Store, clock: ManualClock) -> None:
    store.add([nodes(clock.now_s(), 1.0)])
    clock.advance(1.0)
    store.add([])
    assert len(in_store(store)) == 1


def test_a_nan_is_dropped_and_other_readings_are_stored(store: Store) -> None:
    store.add([nodes(1.0, 1.0), nodes(2.0, float("nan")), nodes(3.0, 3.0)])
    store.flush()
    assert store.readings("main", Metric.NODES) == [(1.0, 1.0), (3.0, 3.0)]


def test_another_process_reads_while_we_write(store: Store, clock: ManualClock) -> None:
    ids = [store.append_ledger(clock.now_s(), "act", {"n": n}) for n in range(3)]
    store.add(nodes(clock.now_s() + t, float(t)) for t in range(5))
    store.flush()
    # A transaction of ours is open while the other process reads; neither waits for the other.
    store._fast.execute("BEGIN IMMEDIATE")
    store._fast.execute("INSERT INTO series(subject, metric) VALUES ('half', 'written')")
    try:
        assert in_another_process(store.path, "SELECT id FROM ledger") == [[i] for i in ids]
        assert in_another_process(store.path, "SELECT count(*) FROM readings") == [[5]]
        assert in_another_process(store.path, "SELECT count(*) FROM series") == [[1]]
    finally:
        store._fast.execute("ROLLBACK")


def test_a_reader_with_an_open_transaction_does_not_block_writing(store: Store, clock: ManualClock) -> None:
    store.append_ledger(clock.now_s(), "hold", {})
    reader = sqlite3.connect(store.path, isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM ledger").fetchone() == (1,)
    store.append_ledger(clock.now_s(), "act", {})
    store.add([nodes(1.0, 1.0)])
    store.flush()
    assert reader.execute("SELECT count(*) FROM ledger").fetchone() == (1,)  # its transaction sees no change
    reader.execute("COMMIT")
    assert reader.execute("SELECT count(*) FROM ledger").fetchone() == (2,)
    reader.close()


def test_threads_may_write_at_the_same_time(store: Store, clock: ManualClock) -> None:
    def write(who: int) -> None:
        for n in range(50):
            store.add([Reading(float(n), f"node-{who}", Metric.TASK_TIME, float(n))])
            store.append_ledger(clock.now_s(), "hold", {"who": who, "n": n})

    threads = [threading.Thread(target=write, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.flush()
    assert all(len(store.readings(f"node-{who}", Metric.TASK_TIME)) == 50 for who in range(4))
    rows = store.ledger()
    assert len({row["id"] for row in rows}) == 200
    for who in range(4):
        assert [row["n"] for row in rows if row["who"] == who] == list(range(50))


# -- batches -------------------------------------------------------------------------------------


def a_batch(ended_s: float, *, query: str = "q", batch_id: int = 7) -> Batch:
    return Batch(
        query=query,
        batch_id=batch_id,
        started_s=ended_s - 1.25,
        duration_s=1.25,
        rows=100,
        slots=4,
        steady=False,
        trigger_interval_s=5.0,
        arrival_rate_per_s=20.1,
        backlog_rows=None,
        oldest_arrival_s=ended_s - 6.0,
        stages=(
            StageRun(
                index=0, tasks=4, task_time_s=1 / 3, cpu_time_s=0.1 + 0.2, wall_s=0.1, longest_task_s=0.09
            ),
            StageRun(index=1, tasks=2, task_time_s=0.2, cpu_time_s=0.1, wall_s=0.1, longest_task_s=0.1),
        ),
        operators=(
            OperatorRun(name="wörter", rows_in=100, rows_out=1800),
            OperatorRun(
                name="look",
                rows_in=1,
                rows_out=0,
                cpu_s=0.5,
                busiest_instance_cpu_s=0.3,
                instances=2,
                stage=1,
            ),
        ),
    )


def batches_in(store: Store) -> list[Batch]:
    return list(Store.read_batches(store.path).batches)


def test_batches_are_read_back_as_written_in_the_order_of_their_ends(store: Store) -> None:
    late, early, other = a_batch(20.0, batch_id=2), a_batch(10.0, batch_id=1), a_batch(10.0, query="p")
    store.add((), [late, early])
    store.add([nodes(1.0, 1.0)], [other])
    store.flush()
    assert batches_in(store) == [other, early, late]


def test_a_batch_added_twice_is_stored_once_and_one_run_twice_is_stored_twice(store: Store) -> None:
    store.add((), [a_batch(10.0)])
    store.flush()
    store.add((), [a_batch(10.0), a_batch(16.0)])  # the latter with the same number, after a restart
    store.flush()
    assert batches_in(store) == [a_batch(10.0), a_batch(16.0)]


def test_batches_are_on_disk_after_a_second_of_adding(store: Store, clock: ManualClock) -> None:
    start_s = clock.now_s()
    for _ in range(25):
        store.add((), [a_batch(clock.now_s())])
        written = [batch.ended_s for batch in batches_in(store)]
        assert clock.now_s() - max(written, default=start_s) <= 1.0 + 1e-6
        clock.advance(0.1)


def test_old_batches_are_deleted_with_the_readings_of_their_time(tmp_path: Path, clock: ManualClock) -> None:
    store = Store(tmp_path / "run.sqlite", clock, keep_readings_s=DAY_S)
    for _ in range(4):
        store.add([nodes(clock.now_s(), 1.0)], [a_batch(clock.now_s())])
        clock.advance(DAY_S / 2)
    store.flush()
    kept_s = [time_s for time_s, _ in store.readings("main", Metric.NODES)]
    assert len(kept_s) == 3, "the newest, and those up to a day older"
    assert [batch.ended_s for batch in batches_in(store)] == kept_s
    store.close()


def test_a_failed_write_of_batches_is_repeated_with_the_readings(
    store: Store,
) -> None:
    store.add([nodes(1.0, 1.0)], [a_batch(1.0)])
    store._fast.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreError):
        store.flush()
    store._fast.execute("PRAGMA query_only = OFF")
    store.flush()
    assert store.readings("main", Metric.NODES) == [(1.0, 1.0)]
    assert batches_in(store) == [a_batch(1.0)]


def test_while_the_disk_is_full_the_newest_batches_are_buffered(store: Store, clock: ManualClock) -> None:
    store._fast.execute("PRAGMA query_only = ON")
    start_s = clock.now_s()
    for first in range(0, 30_000, 1000):
        clock.advance(2.0)
        with pytest.raises(StoreError):
            store.add((), [a_batch(start_s + first + i) for i in range(1000)])
    assert len(store._batches) <= MOST_BATCHES_WAITING
    store._fast.execute("PRAGMA query_only = OFF")
    store.flush()
    assert batches_in(store)[-1].ended_s == start_s + 29_999.0


def test_a_store_of_a_version_without_batches_has_none_and_gets_a_table_when_opened(
    store: Store,
) -> None:
    store.add([nodes(1.0, 1.0)])
    store.close()
    with sqlite3.connect(store.path) as file:
        file.execute("DROP TABLE batches")
    assert batches_in(store) == []
    again = Store(store.path, ManualClock())
    again.add((), [a_batch(2.0)])
    again.close()
    assert batches_in(store) == [a_batch(2.0)]
    kept = Store.read_readings(store.path, [Metric.NODES])
    assert (kept.series, kept.dropped) == ({("main", Metric.NODES): [(1.0, 1.0)]}, 0)


def test_a_batch_of_a_version_with_other_fields_does_not_affect_the_rest(store: Store) -> None:
    store.add((), [a_batch(1.0), a_batch(2.0), a_batch(3.0)])
    store.flush()
    with sqlite3.connect(store.path) as other:
        other.execute("""UPDATE batches SET body = '{"query":"q","number":7}' WHERE time_s = 1""")
        other.execute("UPDATE batches SET body = json_set(body, '$.new_field', 3) WHERE time_s = 2")
    assert batches_in(store) == [a_batch(2.0), a_batch(3.0)]
    assert Store.read_batches(store.path).dropped == 1


@pytest.mark.parametrize(
    "body",
    [
        "'moon'", "''", "NULL", "7", "x'ff00fe'", "CAST(x'7b22ff' AS TEXT)", "printf('%.*c', 100000, '[')",
        "json_remove(body, '$.rows')",
        *(
            f"json_set(body, '$.{key}', {value})"
            for key, value in (
                ("rows", -100), ("rows", 10**17), ("slots", -1), ("duration_s", "1e308"), ("duration_s", -1.0),
                ("started_s", "1e300"), ("oldest_arrival_s", "-1e300"), ("arrival_rate_per_s", -1.0),
                ("trigger_interval_s", -5.0), ("backlog_rows", -1.0), ("stages[0].tasks", 0),
                ("stages[1].tasks", -3), ("stages[0].task_time_s", -5.0), ("stages[0].task_time_s", "2e9"),
                ("stages[0].cpu_time_s", -5.0), ("stages[0].wall_s", -5.0), ("stages[1].longest_task_s", -5.0),
                ("stages[1].index", 0), ("stages[0].index", 1), ("stages[1].index", 7),
                ("operators[0].rows_in", -1), ("operators[0].rows_out", -1), ("operators[1].cpu_s", -1.0),
                ("operators[1].busiest_instance_cpu_s", "1e300"), ("operators[1].instances", -2),
            )
        ),
        "replace(body, '\"rows\":100', '\"rows\":1e999')",
        "replace(body, '\"duration_s\":1.25', '\"duration_s\":1e999')",
        "replace(body, '\"duration_s\":1.25', '\"duration_s\":NaN')",
    ],
)  # fmt: skip
def test_an_implausible_batch_is_left_out_and_counted(store: Store, body: str) -> None:
    store.add((), [a_batch(1.0), a_batch(2.0), a_batch(3.0)])
    store.close()
    with sqlite3.connect(store.path) as file:
        file.execute("CREATE TABLE free AS SELECT * FROM batches")  # the real table refuses NULL
        file.execute(f"UPDATE free SET body = {body} WHERE time_s = 2")
        file.execute("DROP TABLE batches")
        file.execute("ALTER TABLE free RENAME TO batches")
    kept = Store.read_batches(store.path)
    assert (kept.batches, kept.dropped) == ([a_batch(1.0), a_batch(3.0)], 1)


def test_batches_are_in_the_order_of_their_ends_though_one_was_moved(store: Store) -> None:
    store.add((), [a_batch(1.0), a_batch(2.0), a_batch(3.0)])
    store.flush()
    with sqlite3.connect(store.path) as file:
        file.execute("UPDATE batches SET body = json_set(body, '$.started_s', 98.75) WHERE time_s = 2")
    assert [batch.ended_s for batch in batches_in(store)] == [1.0, 3.0, 100.0]


# -- ledger --------------------------------------------------------------------------------------


def test_a_ledger_row_is_visible_to_other_processes_when_append_returns(
    store: Store, clock: ManualClock
) -> None:
    entry_id = store.append_ledger(clock.now_s(), "act", {"reason": "ρ ≤ 1"})
    with sqlite3.connect(store.path) as other:
        rows = other.execute("SELECT id, verdict, body FROM ledger").fetchall()
    assert rows == [(entry_id, "act", '{"reason":"ρ ≤ 1"}')]


def test_an_amended_row_keeps_its_place(store: Store, clock: ManualClock) -> None:
    first = store.append_ledger(clock.now_s(), "act", {"achieved": None})
    second = store.append_ledger(clock.now_s(), "hold", {})
    store.amend_ledger({first: {"achieved": 3.5}})
    assert store.ledger() == [{"id": first, "achieved": 3.5}, {"id": second}]
    assert store.ledger(since_id=first) == [{"id": second}]
    assert store.ledger(verdict="act") == [{"id": first, "achieved": 3.5}]
    assert store.ledger(since_id=first, verdict="act") == []


def test_many_rows_are_amended_in_one_commit(store: Store, clock: ManualClock) -> None:
    ids = [store.append_ledger(clock.now_s(), "hold", {"achieved": None}) for _ in range(20)]
    commits: list[str] = []
    store._safe.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)
    store.amend_ledger({entry_id: {"achieved": float(entry_id)} for entry_id in ids})
    assert len(commits) == 1
    assert [row["achieved"] for row in store.ledger()] == [float(entry_id) for entry_id in ids]


def test_the_ledger_of_a_running_store_is_read_from_its_path_alone(store: Store, clock: ManualClock) -> None:
    store.append_ledger(clock.now_s(), "act", {"n": 1})
    assert Store.read_ledger(store.path) == store.ledger()


def test_a_reopened_store_continues_its_ledger(tmp_path: Path, clock: ManualClock) -> None:
    path = tmp_path / "run.sqlite"
    first = Store(path, clock)
    first.add([nodes(1.0, 1.0)])
    one = first.append_ledger(1.0, "act", {"n": 1})
    first.close()
    second = Store(path, clock)
    second.add([nodes(2.0, 2.0)])
    two = second.append_ledger(2.0, "act", {"n": 2})
    second.flush()
    assert two > one
    assert second.readings("main", Metric.NODES) == [(1.0, 1.0), (2.0, 2.0)]
    assert [row["n"] for row in second.ledger()] == [1, 2]
    second.close()


# -- retention -----------------------------------------------------------------------------------


def test_old_readings_and_holds_are_deleted_and_acts_are_kept(tmp_path: Path, clock: ManualClock) -> None:
    store = Store(tmp_path / "run.sqlite", clock, keep_readings_s=1 * DAY_S, keep_holds_s=2 * DAY_S)
    start_s = clock.now_s()
    for verdict in ("act", "hold"):
        store.append_ledger(start_s, verdict, {"verdict": verdict, "old": True})
    store.add([nodes(start_s, 1.0)])
    clock.advance(400 * DAY_S)
    for verdict in ("act", "hold"):
        store.append_ledger(clock.now_s(), verdict, {"verdict": verdict, "old": False})
    store.add([nodes(clock.now_s(), 2.0)])
    assert store.readings("main", Metric.NODES) == [(clock.now_s(), 2.0)]
    assert [(r["verdict"], r["old"]) for r in store.ledger()] == [
        ("act", True),
        ("act", False),
        ("hold", False),
    ]
    store.close()


def test_recent_rows_are_kept(tmp_path: Path, clock: ManualClock) -> None:
    store = Store(tmp_path / "run.sqlite", clock, keep_readings_s=DAY_S, keep_holds_s=DAY_S)
    store.append_ledger(clock.now_s(), "hold", {})
    store.add([nodes(clock.now_s(), 1.0)])
    clock.advance(DAY_S - 1.0)
    store.add([nodes(clock.now_s(), 2.0)])
    assert len(store.readings("main", Metric.NODES)) == 2
    assert len(store.ledger()) == 1
    store.close()


def test_old_holds_are_found_by_an_index(store: Store, clock: ManualClock) -> None:
    store.add([nodes(clock.now_s(), 1.0)])
    asked: list[str] = []
    store._fast.set_trace_callback(asked.append)
    clock.advance(DAY_S)
    store.flush()
    deletes = [sql for sql in asked if sql.startswith("DELETE")]
    assert {sql.split()[2] for sql in deletes} == {"batches", "first_batches", "ledger", "readings", "series"}
    for sql in deletes:
        plan = store._fast.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()
        assert not any("SCAN" in row[-1] for row in plan), (sql, plan)


def test_old_rows_are_pruned_after_a_minute_and_then_hourly(store: Store, clock: ManualClock) -> None:
    asked: list[str] = []
    store._fast.set_trace_callback(asked.append)
    for _ in range(2 * 3600 - 1):
        clock.advance(1.0)
        store.flush()
    assert len([sql for sql in asked if sql.startswith("DELETE FROM ledger")]) == 2


# -- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["a folder", "below a file", "no database"])
def test_an_invalid_path_of_a_store_is_a_one_line_error(
    tmp_path: Path, clock: ManualClock, kind: str
) -> None:
    path = tmp_path / "thing"
    if kind == "a folder":
        path.mkdir()
    elif kind == "below a file":
        path.write_text("x")
        path = path / "run.sqlite"
    else:
        path.write_text("this is a letter and not a database, at any length" * 50)
    with pytest.raises(StoreError) as caught:
        Store(path, clock)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("nothing", "there is no store"),
        ("a folder", "there is no store"),
        ("empty", "is not a store of Ebbflow: it is empty"),
        ("a letter", "or it is damaged (file is not a database)"),
        ("of another", "it has no table 'series'"),
        ("cut off", "or it is damaged (database disk image is malformed)"),
        ("a torn ledger", "or it is damaged (JSON is malformed"),
    ],
)
def test_a_file_that_is_not_a_store_is_reported_in_one_line(
    tmp_path: Path, clock: ManualClock, kind: str, words: str
) -> None:
    path = tmp_path / "run.sqlite"
    if kind == "a folder":
        path.mkdir()
    elif kind == "a letter":
        path.write_text("this is a letter and not a database, at any length" * 50)
    elif kind == "empty":
        path.touch()
    elif kind == "of another":
        with contextlib.closing(sqlite3.connect(path)) as file:
            file.execute("CREATE TABLE mails(body)")
    elif kind != "nothing":
        store = Store(path, clock)
        for number in range(300):
            store.append_ledger(float(number), "act", {"reason": "x" * 100})
        store.close()
        if kind == "cut off":
            path.write_bytes(path.read_bytes()[:20_000])
        else:
            with contextlib.closing(sqlite3.connect(path)) as file, file:
                file.execute("UPDATE ledger SET body = '}'")
    with pytest.raises(NoStoreError) as caught:
        Store.read_ledger(path)
    assert isinstance(caught.value, InputError), "commands end with code 2"
    assert words in str(caught.value)
    assert str(caught.value).endswith("; name the file that a run was given with --store")


def test_a_locked_store_is_not_reported_as_damaged(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "run.sqlite", clock)
    store.close()
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **{**k, "timeout": 0.0}))
    with contextlib.closing(connect(store.path)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="locked") as caught:
            Store.read_ledger(store.path)
    assert not isinstance(caught.value, InputError)


def test_closing_closes_the_file_even_if_the_last_readings_cannot_be_written(
    tmp_path: Path, clock: ManualClock
) -> None:
    full = Store(tmp_path / "full.sqlite", clock)
    full.add([nodes(1.0, 1.0)])
    full._fast.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreError):
        full.close()
    with pytest.raises(sqlite3.ProgrammingError):
        full._safe.execute("SELECT 1")


def test_a_missing_store_is_reported_without_an_sqlite_error(store: Store, clock: ManualClock) -> None:
    broken = Store(store.path.with_name("other.sqlite"), clock)
    broken._fast.close()
    broken._safe.close()
    with pytest.raises(StoreError):
        broken.append_ledger(0.0, "act", {})
    with pytest.raises(StoreError):
        broken.readings("main", Metric.NODES)


def test_a_failed_write_of_readings_is_repeated(store: Store, clock: ManualClock) -> None:
    store.add([nodes(1.0, 1.0)])
    store._fast.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreError):
        store.flush()
    store._fast.execute("PRAGMA query_only = OFF")
    store.flush()
    assert store.readings("main", Metric.NODES) == [(1.0, 1.0)]


def test_while_the_disk_is_full_memory_is_bounded(store: Store, clock: ManualClock) -> None:
    store.add([nodes(0.0, 0.0)])
    store._fast.execute("PRAGMA query_only = ON")
    times = itertools.count(1)
    for _ in range(50):
        clock.advance(2.0)
        with pytest.raises(StoreError):
            store.add([nodes(float(next(times)), 1.0) for _ in range(10_000)])
    assert len(store._buffer) <= 200_000
    store._fast.execute("PRAGMA query_only = OFF")
    store.flush()
    assert store.readings("main", Metric.NODES)[-1][0] == 500_000.0  # the newest are the ones kept


WRITER = textwrap.dedent(
    """
    import os, signal, sys
    from pathlib import Path
    from ebbflow.core.batches import Batch
    from ebbflow.core.clock import ManualClock
    from ebbflow.core.metrics import Metric
    from ebbflow.core.readings import Reading
    from ebbflow.monitoring.store import Store

    clock = ManualClock(0.0)
    store = Store(Path(sys.argv[1]), clock)
    for step in range(57):  # 5.7 s, ten readings and ledger rows a second
        batch = Batch(
            query="q", batch_id=step, started_s=clock.now_s() - 0.1, duration_s=0.1, rows=1, slots=1,
            trigger_interval_s=0.1, arrival_rate_per_s=10.0, backlog_rows=0.0, oldest_arrival_s=0.0,
        )
        store.add([Reading(clock.now_s(), "main", Metric.NODES, float(step))], [batch])
        entry = store.append_ledger(clock.now_s(), "act" if step % 2 else "hold", {"step": step})
        os.write(1, b"%d %d\\n" % (entry, step))  # said only after the append returned
        clock.advance(0.1)
    if sys.argv[2] == "exit":
        os._exit(1)
    os.kill(os.getpid(), signal.SIGKILL)
    """
)


@pytest.mark.parametrize("death", ["exit", "kill"])
def test_a_crash_loses_no_ledger_row_and_at_most_the_last_second_of_readings_and_batches(
    tmp_path: Path, death: str
) -> None:
    path = tmp_path / "run.sqlite"
    result = subprocess.run(
        [sys.executable, "-c", WRITER, str(path), death], capture_output=True, timeout=60, check=False
    )
    assert result.returncode == (1 if death == "exit" else -signal.SIGKILL), result.stderr.decode()
    acknowledged = [tuple(map(int, line.split())) for line in result.stdout.splitlines()]
    assert len(acknowledged) == 57
    survivor = Store(path, ManualClock(100.0))
    assert [(row["id"], row["step"]) for row in survivor.ledger()] == acknowledged
    kept = {value for _, value in survivor.readings("main", Metric.NODES)}
    assert kept >= {float(step) for step in range(57) if step * 0.1 < 5.6 - 1.0}
    assert {float(batch.batch_id) for batch in batches_in(survivor)} == kept, (
        "in one commit with the readings"
    )
    survivor.close()


def test_a_crash_while_writing_loses_no_acknowledged_row(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    endless = WRITER.replace("range(57)", "__import__('itertools').count()")
    child = subprocess.Popen([sys.executable, "-c", endless, str(path), "kill"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    acknowledged = [int(child.stdout.readline().split()[0]) for _ in range(40)]
    os.kill(child.pid, signal.SIGKILL)
    acknowledged += [int(line.split()[0]) for line in child.stdout.read().splitlines() if b" " in line]
    child.wait()
    child.stdout.close()
    survivor = Store(path, ManualClock(100.0))
    assert {row["id"] for row in survivor.ledger()} >= set(acknowledged)
    survivor.close()


# -- terms -----------------------------------------------------------------------------------------


def test_the_terms_of_a_run_are_stored_and_replaced_by_the_next(store: Store) -> None:
    store.set_terms({"slo": "freshness p95 <= 30s", "nodes": "1:20"})
    store.set_terms({"slo": "freshness p95 <= 10s"})
    assert Store.read_terms(store.path) == {"slo": "freshness p95 <= 10s", "nodes": "1:20"}


def test_a_store_of_a_version_without_terms_has_none(store: Store) -> None:
    store.close()
    with sqlite3.connect(store.path) as file:
        file.execute("DROP TABLE terms")
    assert Store.read_terms(store.path) == {}
    Store(store.path, ManualClock()).close()
    assert Store.read_terms(store.path) == {}, "and gets them when it is opened again"
