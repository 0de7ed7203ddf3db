"""What cannot be had is told before a query is stopped for it; one that was stopped for a restart is started."""

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
    """As much of a session as a restart looks at."""

    version = "4.1.0"

    def __init__(self, store: str = ROCKS, *, manager: bool = True) -> None:
        self.conf = {STATE_STORE: store}
        self.repartitioned: list[int] = []
        if manager:
            self._streamingCheckpointManager = SimpleNamespace(
                repartition=lambda _, count: self.repartitioned.append(count)
            )


class Started:
    """A query; ``kept`` is the state store that its checkpoint was made with."""

    def __init__(self, kept: str | None = None) -> None:
        self.isActive = True
        self.lastProgress: dict[str, Any] = {"stateOperators": [{"numShufflePartitions": 2}]}
        if kept is not None:
            option = SimpleNamespace(isDefined=lambda: True, get=lambda: kept)
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


def managed(session: Session, kept: str | None = None) -> ManagedQuery:
    return ManagedQuery(
        session,  # type: ignore[arg-type]
        name="words",
        checkpoint="/c",
        parallelism={"tag": 1, "count": 2, "rank": 2},
        start=lambda sizes: Started(kept),  # type: ignore[arg-type,return-value]
        stateful=("count", "rank"),
    )


@pytest.mark.parametrize(
    ("session", "kept", "wanted", "message"),
    [
        (Session(), None, {"count": 3}, "not 2 and 3; scale them together"),
        (Session(HDFS), None, {"count": 3, "rank": 3}, "from 2 to 3 partitions in HDFSBacked.*start it on"),
        (Session(ROCKS), HDFS, {"count": 3, "rank": 3}, "in HDFSBackedStateStoreProvider"),
        (Session(manager=False), None, {"count": 3, "rank": 3}, "on Spark 4.1.0; it takes Spark 4.2"),
    ],
)
def test_a_shape_that_cannot_be_had_stops_nothing(
    stops: list[object], session: Session, kept: str | None, wanted: dict[str, int], message: str
) -> None:
    query = managed(session, kept)
    running = query.query
    with pytest.raises(TargetError, match=message):
        query.restart(wanted)
    assert stops == []
    assert query.query is running
    assert query.parallelism == {"tag": 1, "count": 2, "rank": 2}


@pytest.mark.parametrize(
    ("session", "kept"), [(Session(), None), (Session(HDFS), ROCKS), (Session(store=""), None)]
)
def test_one_that_can_be_had_is_had(stops: list[object], session: Session, kept: str | None) -> None:
    query = managed(session, kept)
    query.restart({"count": 3, "rank": 3})
    assert len(stops) == 1
    assert session.repartitioned == [3]
    assert query.parallelism == {"tag": 1, "count": 3, "rank": 3}


def test_a_stateless_operator_asks_nothing_of_the_state_store(stops: list[object]) -> None:
    session = Session(HDFS, manager=False)
    query = managed(session)
    query.restart({"tag": 4})
    assert len(stops) == 1
    assert session.repartitioned == []
    assert query.parallelism["tag"] == 4


def test_a_restart_tells_how_long_its_parts_took(
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


def test_one_that_was_stopped_for_good_stays_so(stops: list[object]) -> None:
    query = managed(Session())
    query.stop()
    with pytest.raises(TargetError, match="query words has ended"):
        query.restart({"tag": 4})
    assert not running(query)
    assert query.parallelism["tag"] == 1


def test_one_that_ended_by_itself_stays_so(stops: list[object]) -> None:
    query = managed(Session())
    query.query.isActive = False  # type: ignore[misc]
    with pytest.raises(TargetError, match="query words has ended"):
        query.restart({"tag": 4})
    assert stops == []
    assert not running(query)


def test_one_that_does_not_stop_in_time_is_waited_for_and_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def time_out(query: Any, within_s: float, *, interrupt: bool) -> bool:
        raise TimeoutError("Stream Execution thread for stream words failed to stop within 500 milliseconds")

    monkeypatch.setattr(restart, "stop_between_batches", time_out)
    query = managed(Session())
    before: Any = query.query
    query.restart({"tag": 4})
    assert not before.isActive, "it was told to end, and its end was waited for"
    assert query.query is not before
    assert running(query)
    assert query.parallelism["tag"] == 4


def test_one_that_cannot_be_stopped_between_batches_runs_on_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_one_that_starts_in_no_shape_is_told_of_and_tried_again_with_the_next_restart(
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


def test_one_that_failed_is_told_but_not_one_that_was_stopped_for_a_restart(stops: list[object]) -> None:
    query = managed(Session())
    broken, seen_meanwhile = ValueError("broken"), []
    start = query._start

    def start_while_somebody_looks(sizes: Any) -> Any:
        query.query.exception = lambda: broken  # type: ignore[method-assign]
        looking = threading.Thread(target=lambda: seen_meanwhile.append(query.failure()))
        looking.start()
        looking.join()
        seen_meanwhile.append(query.failure())
        return start(sizes)

    assert query.failure() is None
    query._start = start_while_somebody_looks
    query.restart({"tag": 4})
    assert seen_meanwhile == [None, None], "by another thread, and by that of the restart"
    assert query.failure() is None, "the new one runs"
    query.query.exception = lambda: broken  # type: ignore[method-assign]
    assert query.failure() is broken


def test_a_failure_is_not_asked_for_while_somebody_else_restarts(stops: list[object]) -> None:
    """A batch that was given up is finished by a query that is then stopped: what becomes of it is no failure."""
    query = managed(Session())
    broken, seen = ValueError("broken"), []
    query.query.exception = lambda: broken  # type: ignore[method-assign]
    looking = threading.Thread(target=lambda: seen.append(query.failure()))
    with query._restarting:
        looking.start()
        looking.join()
    assert seen == [None]
    assert query.failure() is broken


def test_a_driver_that_does_not_answer_is_a_failure(stops: list[object]) -> None:
    query = managed(Session())

    def gone() -> None:
        raise Py4JError("Answer from Java side is empty")

    query.query.exception = gone  # type: ignore[method-assign]
    assert "does not answer: Answer from Java side is empty" in str(query.failure())
