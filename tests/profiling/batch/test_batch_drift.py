"""Drift on batches: a changed cost of a stage is detected soon; noise and warming executors are not drift."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest
from made_batches import TrueStage, made_batch

from ebbflow.profiling.batch.profiles import BatchWatch, StageDrift
from ebbflow.profiling.profile import Range, SparkCosts, StageCosts

MAP = TrueStage(tasks=8, per_task_s=0.08, per_row_s=0.01)
REDUCE = TrueStage(tasks=5, per_task_s=0.04, per_row_s=0.002)


def watch(error: float | None = 0.04) -> BatchWatch:
    known = [
        StageCosts(tasks=s.tasks, per_task_s=s.per_task_s, per_row_s=s.per_row_s, error=error)
        for s in (MAP, REDUCE)
    ]
    return BatchWatch(SparkCosts(driver_s=0.5, stages=tuple(known)))


def times(factor: float, stage: TrueStage = MAP) -> TrueStage:
    return TrueStage(
        tasks=stage.tasks, per_task_s=factor * stage.per_task_s, per_row_s=factor * stage.per_row_s
    )


def noticed(
    watching: BatchWatch,
    factors: Iterable[tuple[float, float]],
    *,
    first: int = 0,
    noise: Callable[[], float] = lambda: 1.0,
    steady: Callable[[int], bool] = lambda _: True,
) -> list[tuple[int, StageDrift]]:
    """(batch, drift) by batches every 5 s, whose stages cost so many times what they did."""
    found = []
    for number, (one, other) in enumerate(factors, start=first):
        batch = made_batch(
            500 + 37 * (number % 20), [times(one), times(other, REDUCE)], slots=8, driver_s=0.1,
            noise=noise, steady=steady(number), batch_id=number,
        )  # fmt: skip
        found += [(number, drift) for drift in watching.add(batch)]
    return found


def test_a_stage_that_gets_40_percent_more_expensive_is_detected_within_eight_batches() -> None:
    watching = watch()
    assert not noticed(watching, [(1.0, 1.0)] * 100)
    ((number, found),) = noticed(watching, [(1.0, 1.4)] * 20, first=100)
    assert number < 108
    assert found.stage == 1
    assert found.drift.change == pytest.approx(0.4, abs=0.1)
    assert len(found.runs) in (6, 8)  # of three or four windows
    assert all(run.index == 1 for _, run in found.runs)


def test_a_cheaper_stage_is_detected_too_and_each_stage_separately() -> None:
    watching = watch()
    noticed(watching, [(1.0, 1.0)] * 10)
    found = noticed(watching, [(0.7, 1.5)] * 10, first=10)
    assert sorted((each.stage, each.drift.change > 0) for _, each in found) == [(0, False), (1, True)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("spread", [0.05, 0.1, 0.25])
def test_noise_that_the_profile_knows_of_raises_no_alarm_in_a_day(spread: float, seed: int) -> None:
    chance = random.Random(seed)
    watching = watch(error=0.8 * spread)
    assert not noticed(watching, [(1.0, 1.0)] * 17_280, noise=lambda: chance.lognormvariate(0.0, spread))


def test_a_profile_without_an_error_gets_a_default_one() -> None:
    chance = random.Random(1)
    watching = watch(error=None)
    assert not noticed(watching, [(1.0, 1.0)] * 5000, noise=lambda: chance.lognormvariate(0.0, 0.2))
    ((number, found),) = noticed(watching, [(1.6, 1.0)] * 40, first=5000)
    assert number < 5020
    assert found.stage == 0


def test_executors_that_warm_up_are_no_drift() -> None:
    """Batches of a start, and of new executors, take up to three times as long, and get quicker."""

    def cold(count: int) -> list[tuple[float, float]]:
        return [(1 + 2 * 0.9**k, 1 + 2 * 0.9**k) for k in range(count)]

    assert not noticed(watch(0.08), cold(60))
    watching = watch(0.08)
    noticed(watching, [(1.0, 1.0)] * 20)
    assert not noticed(watching, cold(60), first=20, steady=lambda number: number > 20)


def test_a_stage_that_is_more_expensive_from_the_start_is_detected_after_the_warm_up() -> None:
    found = noticed(watch(), [(1.4, 1.0)] * 20)
    assert [each.stage for _, each in found] == [0]
    assert found[0][0] <= 10


def test_a_batch_in_which_nodes_joined_does_not_count_for_drift() -> None:
    watching = watch()
    noticed(watching, [(1.0, 1.0)] * 20)
    assert not noticed(watching, [(2.0, 2.0)] * 60, first=20, steady=lambda _: False)


def test_after_an_alarm_the_new_cost_is_the_reference() -> None:
    watching = watch()
    noticed(watching, [(1.0, 1.0)] * 20)
    assert len(noticed(watching, [(1.4, 1.0)] * 200, first=20)) == 1
    ((number, found),) = noticed(watching, [(1.0, 1.0)] * 20, first=220)
    assert number < 230
    assert found.drift.change == pytest.approx(1 / 1.4 - 1, abs=0.08)


def test_batches_below_the_profiled_range_are_not_compared() -> None:
    """The cost of a task without rows was profiled badly: that shows in small batches, and is no drift."""
    costs = SparkCosts(
        driver_s=0.5, stages=(StageCosts(tasks=8, per_task_s=0.2, per_row_s=0.01, error=0.05),),
        batch_rows=Range(low=800.0, high=9000.0),
    )  # fmt: skip
    truly = TrueStage(tasks=8, per_task_s=0.05, per_row_s=0.01)
    for rows, noticed in ((100, False), (1000, True)):
        watching = BatchWatch(costs)
        found = [watching.add(made_batch(rows, [truly], batch_id=i)) for i in range(60)]
        assert any(found) == noticed
