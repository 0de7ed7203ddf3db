"""A query is stopped between two batches, or at a deadline if it never pauses."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from ebbflow.core.clock import ManualClock
from ebbflow.errors import TargetError
from ebbflow.targets.spark.act import restart
from ebbflow.targets.spark.act.restart import await_batch, stop_between_batches


class Query:
    """A query on a Spark without the internal call; its batch ends at a given time."""

    name = "words"

    def __init__(self, clock: ManualClock, in_a_batch_until_s: float) -> None:
        self._clock, self._until_s = clock, in_a_batch_until_s
        self.isActive = True
        self.stopped_at_s: float | None = None

    @property
    def status(self) -> dict[str, bool]:
        return {"isTriggerActive": self._clock.now_s() < self._until_s}

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802
        return None if self._clock.now_s() < self._until_s else {"batchId": 4}

    def stop(self) -> None:
        self.stopped_at_s = self._clock.now_s()


@pytest.mark.parametrize(
    ("until_s", "complete", "stopped_s"), [(90.0, True, 100.0), (107.0, True, 107.0), (999.0, False, 130.0)]
)
def test_stop_waits_for_a_pause_until_the_deadline(until_s: float, complete: bool, stopped_s: float) -> None:
    clock = ManualClock(100.0)
    query: Any = Query(clock, until_s)
    assert stop_between_batches(query, 30.0, clock) is complete
    assert query.stopped_at_s == pytest.approx(stopped_s, abs=0.05)


def test_a_query_to_restart_is_never_stopped_within_a_batch() -> None:
    clock = ManualClock(100.0)
    query: Any = Query(clock, 999.0)
    with pytest.raises(
        TargetError, match="query words had no pause between two batches for 30 s and was not"
    ):
        stop_between_batches(query, 30.0, clock, interrupt=False)
    assert query.stopped_at_s is None
    assert query.isActive


class Terminated(Query):
    """A query that was terminated: it ends when its batch does."""

    def awaitTermination(self, timeout: int) -> bool:  # noqa: N802
        self._clock.advance(float(timeout))
        return self._clock.now_s() >= self._until_s


@pytest.mark.parametrize(("interrupt", "complete", "stopped_s"), [(True, False, 130.0), (False, True, 250.0)])
def test_a_batch_that_outlasts_the_deadline_is_interrupted_only_by_a_final_stop(
    monkeypatch: pytest.MonkeyPatch, interrupt: bool, complete: bool, stopped_s: float
) -> None:
    monkeypatch.setattr(restart, "_terminate_after_batch", lambda query, clock, until_s: True)
    clock = ManualClock(100.0)
    query: Any = Terminated(clock, 240.0)
    assert stop_between_batches(query, 30.0, clock, interrupt=interrupt) is complete
    assert query.stopped_at_s == stopped_s


def test_a_query_that_fails_while_stopping_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fails(Query):
        def awaitTermination(self, timeout: int) -> bool:  # noqa: N802
            raise StreamingQueryException("the sink is full")

    monkeypatch.setattr(restart, "_terminate_after_batch", lambda query, clock, until_s: True)
    clock = ManualClock(100.0)
    query: Any = Fails(clock, 240.0)
    stop_between_batches(query, 30.0, clock)
    assert query.stopped_at_s == 100.0


def test_await_batch_returns_when_the_batch_is_reported_or_the_query_has_ended() -> None:
    clock = ManualClock(100.0)
    query: Any = Query(clock, 103.0)
    assert not await_batch(query, 4, 2.0, clock)
    assert await_batch(query, 4, 2.0, clock)
    assert clock.now_s() == pytest.approx(103.0, abs=0.05)
    assert not await_batch(query, 5, 2.0, clock)
    query.isActive = False
    assert await_batch(query, 5, 2.0, clock), "there will be no other batch"
