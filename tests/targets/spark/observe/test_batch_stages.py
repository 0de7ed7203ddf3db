"""Which stages a batch is given, whenever the driver is polled."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ebbflow.core.batches import Batch
from ebbflow.targets.spark.driver import JobInfo, QueryStatus, StageInfo
from ebbflow.targets.spark.observe.batches import QueryMonitor
from ebbflow.targets.spark.observe.progress import Progress, SourceProgress
from ebbflow.targets.spark.operators.row_counts import RowCounts

STAGES = 3


class Query:
    name = id = "q"
    runId = "run"  # noqa: N815


class Driver:
    """Driver of a query with three jobs per batch, as in adaptive execution: job 3·b + k runs stage k of batch b."""

    def __init__(self) -> None:
        self.ended = -1
        """The last batch with progress."""
        self.done = 0
        """Number of jobs reported as finished."""
        self.known = 0
        """Number of jobs reported."""
        self.evicted: set[int] = set()
        self.idle = False
        self.only_first_jobs = False
        """Whether batches after the first have one job only."""

    def trigger_interval_s(self, query: Any) -> float:
        return 2.0

    def row_counts(self) -> RowCounts:
        return RowCounts(None, None)

    def has_read_limit(self, query: Any) -> bool | None:
        return None

    def status(self, query: Any) -> QueryStatus:
        return QueryStatus("", not self.idle, not self.idle)

    def stage_cpu_s(self, stage_id: int) -> float | None:
        return None

    def longest_task_s(self, stage: StageInfo) -> float | None:
        return None

    def progress_after(self, query: Any, batch_id: int, counts: Any) -> list[tuple[Progress, dict[str, int]]]:
        return [
            (
                Progress(
                    id="q", run_id="run", batch_id=each, num_input_rows=100, name="q",
                    timestamp=datetime.fromtimestamp(1000.0 + 2 * each, UTC).isoformat(),
                    sources=[SourceProgress(start_offset=0, end_offset=5, latest_offset=5, num_input_rows=100)],
                ),
                {},
            )
            for each in range(batch_id + 1, self.ended + 1)
        ]  # fmt: skip

    def jobs_after(self, run_id: str, job_id: int) -> list[JobInfo]:
        return [
            JobInfo(job, [job], f"\nid = q\nrunId = run\nbatch = {job // STAGES}")
            for job in range(job_id + 1, self.known)
            if not self.only_first_jobs or job < STAGES or job % STAGES == 0
        ]

    def stage(self, stage_id: int) -> StageInfo | None:
        if stage_id in self.evicted:
            return None
        return StageInfo(
            status="COMPLETE" if stage_id < self.done else "ACTIVE",
            stage_id=stage_id, attempt_id=0, num_complete_tasks=stage_id % STAGES + 1,
            executor_run_time=10, executor_deserialize_time=0, executor_cpu_time=0,
        )  # fmt: skip


class World:
    def __init__(self) -> None:
        self.driver = Driver()
        driver: Any = self.driver
        query: Any = Query()
        self.query = QueryMonitor(driver, query)
        self.now_s = 1000.0

    def poll(self, *, ended: int, done: int, known: int | None = None, is_last: bool = False) -> list[Batch]:
        """Poll with this last finished batch, and so many jobs finished and reported."""
        self.driver.ended, self.driver.done, self.driver.known = ended, done, known or done
        self.now_s += 1.0
        found = self.query.poll(self.now_s, slots=2, changed_s=0.0, is_last=is_last)
        return [*found.first_batches, *found.batches]


def tasks(batches: list[Batch]) -> list[tuple[int, list[int]]]:
    return [(batch.batch_id, [stage.tasks for stage in batch.stages]) for batch in batches]


ALL = [1, 2, 3]


@pytest.mark.parametrize("begun", [0, 1, 2])
def test_jobs_of_the_current_batch_are_not_read_before_it_has_finished(begun: int) -> None:
    world = World()
    assert tasks(world.poll(ended=0, done=3)) == [(0, ALL)]
    assert tasks(world.poll(ended=1, done=6 + begun, known=7 + begun)) == [(1, ALL)]
    assert tasks(world.poll(ended=2, done=9)) == [(2, ALL)]


@pytest.mark.parametrize(("done", "known"), [(5, 6), (4, 5), (3, 4), (3, 3), (4, 4), (5, 5), (4, 6)])
def test_a_batch_whose_stages_are_reported_late_is_held_back_until_it_has_all(done: int, known: int) -> None:
    world = World()
    world.poll(ended=0, done=3)
    assert world.poll(ended=1, done=done, known=known) == []
    assert tasks(world.poll(ended=1, done=6)) == [(1, ALL)]
    assert tasks(world.poll(ended=2, done=9)) == [(2, ALL)]


def test_batches_before_one_that_is_held_back_are_reported() -> None:
    world = World()
    world.poll(ended=0, done=3)
    assert tasks(world.poll(ended=2, done=7, known=9)) == [(1, ALL)]
    assert tasks(world.poll(ended=3, done=12)) == [(2, ALL), (3, ALL)]


def test_a_stage_that_never_ends_holds_its_batch_back_for_one_poll_only() -> None:
    world = World()
    world.poll(ended=0, done=3)
    assert world.poll(ended=1, done=5, known=6) == []
    assert tasks(world.poll(ended=1, done=5, known=6)) == [(1, [])], "none rather than some of them"
    assert tasks(world.poll(ended=2, done=9)) == [(2, ALL)], "although the stuck stage has ended since"


def test_a_stuck_stage_costs_no_other_batch_its_stages() -> None:
    world = World()
    world.poll(ended=0, done=3)
    assert world.poll(ended=1, done=3, known=6) == []
    world.driver.evicted = {5}
    assert tasks(world.poll(ended=4, done=15)) == [(1, []), (2, ALL), (3, ALL), (4, ALL)]


def test_a_batch_with_an_evicted_stage_gets_no_stages() -> None:
    world = World()
    world.poll(ended=0, done=3)
    world.driver.evicted = {3}
    assert world.poll(ended=1, done=6) == []
    assert tasks(world.poll(ended=2, done=9)) == [(1, []), (2, ALL)]


def test_fewer_stages_than_usual_are_accepted_at_the_second_poll_and_from_then_on() -> None:
    """Every batch after the first has one job."""
    world = World()
    world.poll(ended=0, done=3)
    world.driver.only_first_jobs = True
    assert world.poll(ended=1, done=6) == []
    assert tasks(world.poll(ended=1, done=6)) == [(1, [1])]
    assert tasks(world.poll(ended=2, done=9)) == [(2, [1])]


def test_the_last_poll_reports_every_finished_batch() -> None:
    world = World()
    world.poll(ended=0, done=3)
    assert tasks(world.poll(ended=2, done=8, known=9, is_last=True)) == [(1, ALL), (2, [])]


def test_a_query_whose_batch_is_held_back_is_not_idle() -> None:
    world = World()
    world.poll(ended=0, done=3)
    world.poll(ended=1, done=6)
    tracker = world.query.arrivals
    rate_per_s = tracker.rate_per_s
    world.driver.idle = True
    assert world.poll(ended=2, done=7, known=9) == []
    assert (tracker.rate_per_s, tracker.is_idle) == (rate_per_s, False)
    assert rate_per_s > 0
    assert tracker.running_since_s is None, "it has ended"


def test_batches_of_a_query_without_any_reported_stage_are_not_held_back() -> None:
    world = World()
    assert [tasks(world.poll(ended=each, done=0)) for each in range(3)] == [[(0, [])], [(1, [])], [(2, [])]]
