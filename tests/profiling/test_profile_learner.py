"""Learning in operation: a profile is used until readings contradict it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from made_batches import TrueStage, made_batch

from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading
from ebbflow.profiling.curve_learner import Cusum
from ebbflow.profiling.models import Proportional
from ebbflow.profiling.profile import CpuProfile, Profile, SparkCosts, Spread
from ebbflow.profiling.profile_learner import ProfileLearner

PIPELINE = Pipeline.chain("p", "split")


def feed(
    learner: ProfileLearner,
    rates: list[float],
    cost_s: Callable[[float], float],
    *,
    start_s: float = 0.0,
    noise: float = 0.02,
) -> float:
    """One observation every 10 s; returns the time after the last."""
    rng = np.random.default_rng(round(start_s) + 1)
    for number, rate in enumerate(rates):
        now_s = start_s + 10.0 * number
        cpu = rate * cost_s(rate) * float(np.exp(rng.normal(0, noise)))
        learner.learn([
            Reading(now_s, "split", Metric.ROWS_IN, 10.0 * rate),
            Reading(now_s, "split", Metric.INSTANCE_CPU, cpu),
            Reading(now_s, "split", Metric.INSTANCES, 1.0),
        ])  # fmt: skip
    return start_s + 10.0 * len(rates)


def up_and_down(count: int) -> list[float]:
    return (200.0 + 150.0 * np.sin(np.linspace(0, 12, count))).tolist()


def base(per_row_s: float = 0.002, high: float = 400.0) -> Profile:
    cpu = CpuProfile(
        model=Proportional(per_unit=per_row_s), low=20.0, high=high, slope=per_row_s, error=0.02, samples=99
    )
    return Profile(pipeline="p", cpu={"split": cpu})


def test_the_profile_of_a_file_holds_while_it_fits() -> None:
    learner = ProfileLearner(PIPELINE, base=base())
    feed(learner, up_and_down(200), lambda _: 0.002)
    assert learner.drifts == []
    assert learner.profile().cpu["split"] == base().cpu["split"]


def test_five_percent_of_noise_report_no_change_in_a_thousand_windows() -> None:
    for rate in (10.0, 200.0, 280.0, 295.0, 320.0, 600.0):
        learner = ProfileLearner(PIPELINE, base=base(high=283.0))
        rates = (rate * np.exp(np.random.default_rng(round(rate)).normal(0, 0.016, 1000))).tolist()
        feed(learner, rates, lambda _: 0.002, noise=0.05)
        assert learner.drifts == [], rate


@pytest.mark.parametrize("rate", [10.0, 15.0, 200.0, 280.0, 295.0, 310.0, 320.0, 400.0, 600.0])
@pytest.mark.parametrize("factor", [2.0, 1.5])
def test_a_changed_cost_is_detected_at_any_rate(rate: float, factor: float) -> None:
    """The profile was learned from 20 to 283 rows/s; beyond that it is a guess, and a wrong guess is drift too."""
    learner = ProfileLearner(PIPELINE, base=base(high=283.0))
    feed(learner, [rate] * 30, lambda _: factor * 0.002)
    assert len(learner.drifts) == 1
    assert learner.drifts[0].time_s <= 60.0  # the first observation begins a window, the fifth ends at 50 s
    assert learner.drifts[0].change == pytest.approx(factor - 1, abs=0.1)
    for asked in (rate, 100.0, 800.0):
        estimate = learner.profile().cpu["split"].estimate(asked).value
        assert estimate == pytest.approx(factor * 0.002 * asked, rel=0.05)


@pytest.mark.parametrize("factor", [1.3, 0.7])
def test_a_changed_cost_is_detected_and_learned_again(factor: float) -> None:
    learner = ProfileLearner(PIPELINE, base=base())
    end_s = feed(learner, up_and_down(100), lambda _: 0.002)
    feed(learner, up_and_down(100), lambda _: factor * 0.002, start_s=end_s)
    assert len(learner.drifts) == 1
    drift = learner.drifts[0]
    assert drift.operator == "split"
    assert end_s < drift.time_s <= end_s + 100.0  # within ten windows
    assert drift.change == pytest.approx(factor - 1, abs=0.07)
    assert ("more" if factor > 1 else "less") in str(drift)
    assert learner.profile().cpu["split"].estimate(200.0).value == pytest.approx(0.4 * factor, rel=0.02)


def test_idling_far_below_the_profiled_range_is_no_drift() -> None:
    learner = ProfileLearner(PIPELINE, base=base(high=10_000.0))
    feed(learner, [25.0] * 60, lambda _: 0.002)
    assert learner.drifts == []


def test_drift_is_detected_without_a_file_too() -> None:
    learner = ProfileLearner(PIPELINE)
    end_s = feed(learner, up_and_down(150), lambda _: 0.002)
    assert learner.drifts == []
    feed(learner, up_and_down(150), lambda _: 0.003, start_s=end_s)
    assert len(learner.drifts) == 1
    assert learner.profile().cpu["split"].estimate(200.0).value == pytest.approx(0.6, rel=0.03)


def test_a_wider_load_extends_the_range_and_keeps_the_file_below_it() -> None:
    learner = ProfileLearner(PIPELINE, base=base(high=150.0))
    feed(learner, np.linspace(160, 600, 80).tolist(), lambda _: 0.002)
    cpu = learner.profile().cpu["split"]
    assert learner.drifts == []
    assert (cpu.low, cpu.high) == (20.0, pytest.approx(600.0))
    assert cpu.estimate(50.0).value == pytest.approx(0.1, rel=0.05)
    assert cpu.estimate(500.0).value == pytest.approx(1.0, rel=0.05)


def test_selectivity_has_a_spread() -> None:
    pipeline = Pipeline.chain("p", "read", "split")
    learner, rng = ProfileLearner(pipeline), np.random.default_rng(1)
    for t in range(0, 3000, 10):
        learner.learn([
            Reading(float(t), "read", Metric.ROWS_IN, 100.0),
            Reading(float(t), "split", Metric.ROWS_IN, 100.0 * float(rng.normal(17.86, 0.54))),
        ])  # fmt: skip
    spread = learner.profile().selectivity["read", "split"]
    assert spread.mean == pytest.approx(17.86, rel=0.01)
    assert spread.deviation == pytest.approx(0.54, rel=0.15)


def test_ordinary_noise_raises_no_alarm_in_a_week() -> None:
    cusum, rng = Cusum(error=0.05), np.random.default_rng(5)
    sigma = 0.05 * 1.2533
    assert not any(cusum.add(1 + e, expected=1.0) for e in rng.normal(0, sigma, 60_000).tolist())


def test_one_outlier_is_no_drift() -> None:
    cusum = Cusum(error=0.02)
    assert not any(cusum.add(used, expected=1.0) for used in (1.0, 51.0, 1.0, 0.0, 1.0, 1.0))


# -- costs ---------------------------------------------------------------------------------------


def test_batch_costs_are_those_of_the_batch_model() -> None:
    learner = ProfileLearner(PIPELINE)
    stage = TrueStage(tasks=4, per_task_s=0.1, per_row_s=0.01)
    for number, rows in enumerate((50, 100, 200, 300, 400, 100, 250)):
        learner.learn([], [made_batch(rows, [stage], batch_id=number)])
    costs = learner.profile().costs
    assert costs is not None
    assert costs.driver_s == pytest.approx(0.5)
    assert [(s.tasks, round(s.per_task_s, 6), round(s.per_row_s, 6)) for s in costs.stages] == [
        (4, 0.1, 0.01)
    ]


def test_the_costs_of_batches_are_those_of_the_whole_phase_not_of_its_end() -> None:
    noise = np.random.default_rng(4)
    stair = [1000 * step for step in (*range(1, 9), *range(8, 0, -1)) for _ in range(10)]
    learner = ProfileLearner(Pipeline.chain("q", "map"))
    stage = TrueStage(tasks=2, per_task_s=0.15, per_row_s=3e-5)
    for i, rows in enumerate([*stair, *[1000] * 40]):
        batch = made_batch(rows, [stage], batch_id=i, noise=lambda: float(noise.lognormal(0.0, 0.2)))
        learner.learn([], [batch])
    costs = learner.profile().costs
    assert costs is not None
    assert costs.stages[0].per_row_s == pytest.approx(3e-5, rel=0.15)
    assert costs.stages[0].per_task_s == pytest.approx(0.15, rel=0.1)


def test_lead_times_are_read_if_the_target_reports_them() -> None:
    learner = ProfileLearner(PIPELINE)
    learner.learn([Reading(t, f"executor-{t}", Metric.LEAD_TIME, v) for t, v in ((1.0, 10.0), (2.0, 14.0))])
    costs = learner.profile().costs
    assert costs is not None
    assert costs.lead_time_s == Spread(mean=12.0, deviation=2.0, samples=2)


def test_otherwise_lead_times_are_from_request_to_observation() -> None:
    learner = ProfileLearner(PIPELINE)
    for t, asked, there in ((0.0, 2.0, 2.0), (5.0, 2.0, 2.0), (6.0, 4.0, 2.0), (17.0, 4.0, 4.0)):
        learner.learn(
            [Reading(t, MAIN, Metric.NODES_REQUESTED, asked), Reading(t, MAIN, Metric.NODES, there)]
        )
    costs = learner.profile().costs
    assert costs is not None
    assert costs.lead_time_s == Spread(mean=12.0, deviation=0.0, samples=1)


def test_a_restart_has_its_parts_and_the_time_until_the_queue_is_back_to_normal() -> None:
    learner = ProfileLearner(PIPELINE)
    queue = [(float(t), 100.0) for t in range(0, 60, 5)] + [
        (67.0, 900.0), (70.0, 1200.0), (80.0, 600.0), (90.0, 119.0), (100.0, 90.0),
    ]  # fmt: skip
    for t, rows in queue:
        learner.learn([Reading(t, "p", Metric.QUEUE_LENGTH, rows)])
        if t == 67.0:
            parts = ((Metric.RESTART_STOP, 2.0), (Metric.RESTART_STATE, 0.5), (Metric.RESTART_START, 6.0))
            learner.learn([Reading(t, "p", metric, value) for metric, value in parts])
    costs = learner.profile().costs
    assert costs is not None
    assert costs.reconfiguration is not None
    change = costs.reconfiguration
    assert (change.stop_s.mean, change.state_s.mean, change.restart_s.mean) == (2.0, 0.5, 6.0)
    assert change.drain_s == Spread(mean=23.0, deviation=0.0, samples=1)
    assert costs.restart_s == 8.5


def test_reloading_is_the_extra_time_of_the_first_batch_after_a_restart() -> None:
    learner = ProfileLearner(PIPELINE)
    learner.learn([Reading(0.0, "p", Metric.FIRST_BATCH_TIME, 9.0)])
    learner.learn([Reading(float(t), "p", Metric.BATCH_TIME, 1.0) for t in range(1, 20)])
    learner.learn([Reading(30.0, "p", Metric.FIRST_BATCH_TIME, 3.5)])
    costs = learner.profile().costs
    assert costs is not None
    assert costs.reload_s == Spread(mean=2.5, deviation=0.0, samples=1)


def test_costs_that_are_not_observed_stay_as_in_the_file() -> None:
    known = Profile(pipeline="p", costs=SparkCosts(driver_s=0.4, lead_time_s=Spread(mean=33.0)))
    learner = ProfileLearner(PIPELINE, base=known)
    learner.learn([Reading(0.0, "p", Metric.STATE_ROWS, 7.0)])
    costs = learner.profile().costs
    assert costs is not None
    assert (costs.driver_s, costs.lead_time_s, costs.state_rows) == (0.4, Spread(mean=33.0), 7.0)
