"""Impossible changes are refused before a query is stopped; a query stopped for a restart is started again."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from ebbflow.errors import TargetError
from ebbflow.targets.spark.act import restart
from ebbflow.targets.spark.act.restart import STATE_STORE, ManagedQuery

ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


class Session:
    """The parts of a session that a restart uses."""

    version = "4.1.0"

    def __init__(self, store: str = ROCKS, *, manager: bool = True) -> None:
        self.conf = {STATE_STORE: store}
        self.repartitioned: list[int] = []
        if manager:
            self._streamingCheckpointManager = SimpleNamespace(
                repartition=lambda _, count: self.repartitioned.append(count)
            )


class Started:
    """A query; ``stored`` is the state store in its checkpoint."""

    def __init__(self, stored: str | None = None) -> None:
        self.isActive = True
        self.lastProgress: dict[str, Any] = {"stateOperators": [{"numShufflePartitions": 2}]}
        if stored is not None:
            option = SimpleNamespace(isDefined=lambda: True, get=lambda: stored)
            metadata = SimpleNamespace(conf=lambda: SimpleNamespace(get=lambda key: option))
            execution = SimpleNamespace(offsetSeqMetadata=lambda: metadata)
            self._jsq = SimpleNamespace(streamingQuery=lambda: execution)

    def awaitTermination(self) -> None:  # noqa: N802
        self.isActive = False

    def exception(self) -> Exception | None:
        return None


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    stopped: list[object] = []

    def stop(query: Any, within_s: float, *, interrupt: bool = True) -> bool:
        stopped.append(query)
        query.isActive = False
        return True

    monkeypatch.setattr(restart, "stop_between_batches", stop)
    monkeypatch.setattr(restart, "unfinished_batch", lambda query: -1)
    return stopped


def managed(session: Session, stored: str | None = None) -> ManagedQuery:
    return ManagedQuery(
        session,  # type: ignore[arg-type]
        name="words",
        checkpoint="/c",
        parallelism={"tag": 1, "count": 2, "rank": 2},
        start=lambda sizes: Started(stored),  # type: ignore[arg-type,return-value]
        stateful=("count", "rank"),
    )


@pytest.mark.parametrize(
    ("session", "stored", "wanted", "message"),
    [
        (Session(), None, {"count": 3}, "not 2 and 3; scale them together"),
        (Session(HDFS), None, {"count": 3, "rank": 3}, "from 2 to 3 partitions in HDFSBacked.*start it on"),
        (Session(ROCKS), HDFS, {"count": 3, "rank": 3}, "in HDFSBackedStateStoreProvider"),
        (Session(manager=False), None, {"count": 3, "rank": 3}, "on Spark 4.1.0; it takes Spark 4.2"),
    ],
)
def test_an_impossible_change_does_not_stop_the_query(
    stops: list[object], session: Session, stored: str | None, wanted: dict[str, int], message: str
) -> None:
    query = managed(session, stored)
    running = query.query
    with pytest.raises(TargetError, match=message):
        query.restart(wanted)
    assert stops == []
    assert query.query is running
    assert query.parallelism == {"tag": 1, "count": 2, "rank": 2}


@pytest.mark.parametrize(
    ("session", "stored"), [(Session(), None), (Session(HDFS), ROCKS), (Session(store=""), None)]
)
def test_state_is_repartitioned_if_the_state_store_can(
    stops: list[object], session: Session, stored: str | None
) -> None:
    query = managed(session, stored)
    query.restart({"count": 3, "rank": 3})
    assert len(stops) == 1
    assert session.repartitioned == [3]
    assert query.parallelism == {"tag": 1, "count": 3, "rank": 3}


def test_a_stateless_operator_needs_no_particular_state_store(stops: list[object]) -> None:
    session = Session(HDFS, manager=False)
    query = managed(session)
    query.restart({"tag": 4})
    assert len(stops) == 1
    assert session.repartitioned == []
    assert query.parallelism["tag"] == 4


def test_a_restart_reports_the_durations_of_its_parts(
    stops: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [100.0]

    def pass_time(seconds: float) -> bool:
        now_s[0] += seconds
        return True

    session = Session()
    query = managed(session)
    assert query.last_restart is None
    monkeypatch.setattr(restart.time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(restart, "stop_between_batches", lambda query, within_s, interrupt: pass_time(3.0))
    session._streamingCheckpointManager.repartition = lambda _, count: pass_time(0.5)
    start = query._start
    query._start = lambda sizes: pass_time(6.5) and start(sizes)  # type: ignore[assignment]
    assert query.restart({"count": 3, "rank": 3}) == 10.0
    assert query.last_restart == (3.0, 0.5, 6.5)


def running(query: ManagedQuery) -> bool:
    return bool(query.query.isActive)


def test_a_query_that_was_stopped_is_not_started_again(stops: list[object]) -> None:
    query = managed(Session())
    query.stop()
    with pytest.raises(TargetError, match="query words has ended"):
        query.restart({"tag": 4})
    assert not running(query)
    assert query.parallelism["tag"] == 1


def test_a_query_that_ended_by_itself_is_not_started_again(stops: list[object]) -> None:
    query = managed(Session())
    query.query.isActive = False  # type: ignore[misc]
    with pytest.raises(TargetError, match="query words has ended"):
        query.restart({"tag": 4})
    assert stops == []
    assert not running(query)


def test_a_query_that_does_not_stop_in_time_is_waited_for_and_restarted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def time_out(query: Any, within_s: float, *, interrupt: bool) -> bool:
        raise TimeoutError("Stream Execution thread for stream words failed to stop within 500 milliseconds")

    monkeypatch.setattr(restart, "stop_between_batches", time_out)
    query = managed(Session())
    before: Any = query.query
    query.restart({"tag": 4})
    assert not before.isActive, "its end was waited for"
    assert query.query is not before
    assert running(query)
    assert query.parallelism["tag"] == 4


def test_a_query_that_cannot_be_stopped_between_batches_runs_on_unchanged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_pause(query: Any, within_s: float, *, interrupt: bool) -> bool:
        assert not interrupt
        raise TargetError("query words showed no pause between two batches")

    monkeypatch.setattr(restart, "stop_between_batches", no_pause)
    query = managed(Session())
    before = query.query
    with pytest.raises(TargetError, match="showed no pause"):
        query.restart({"tag": 4})
    assert query.query is before
    assert running(query)
    assert query.parallelism["tag"] == 1


def test_a_query_that_cannot_be_started_again_is_reported_and_tried_at_the_next_restart(
    stops: list[object],
) -> None:
    query = managed(Session())
    start, query._start = query._start, lambda sizes: {}["no executors"]
    with pytest.raises(
        TargetError, match=r"cannot run with .*; restarting it unchanged failed too, so it is stopped"
    ):
        query.restart({"tag": 4})
    assert not running(query)
    assert "so it is stopped" in str(query.failure())
    query._start = start
    query.restart({"tag": 2})
    assert query.failure() is None
    assert running(query)
    assert query.parallelism["tag"] == 2


def test_a_failed_query_is_reported_but_not_one_that_is_being_restarted(stops: list[object]) -> None:
    query = managed(Session())
    broken, reported = ValueError("broken"), []
    start = query._start

    def start_while_another_thread_reads(sizes: Any) -> Any:
        query.query.exception = lambda: broken  # type: ignore[method-assign]
        reader = threading.Thread(target=lambda: reported.append(query.failure()))
        reader.start()
        reader.join()
        reported.append(query.failure())
        return start(sizes)

    assert query.failure() is None
    query._start = start_while_another_thread_reads
    query.restart({"tag": 4})
    assert reported == [None, None], "by another thread, and by that of the restart"
    assert query.failure() is None, "the new one runs"
    query.query.exception = lambda: broken  # type: ignore[method-assign]
    assert query.failure() is broken


def test_no_failure_is_reported_while_another_thread_restarts_the_query(stops: list[object]) -> None:
    """A query that only finishes an abandoned batch is then stopped, which is not a failure."""
    query = managed(Session())
    broken, reported = ValueError("broken"), []
    query.query.exception = lambda: broken  # type: ignore[method-assign]
    reader = threading.Thread(target=lambda: reported.append(query.failure()))
    with query._restarting:
        reader.start()
        reader.join()
    assert reported == [None]
    assert query.failure() is broken


def test_a_driver_that_does_not_answer_is_a_failure(stops: list[object]) -> None:
    query = managed(Session())

    def no_answer() -> None:
        raise Py4JError("Answer from Java side is empty")

    query.query.exception = no_answer  # type: ignore[method-assign]
    assert "does not answer: Answer from Java side is empty" in str(query.failure())
