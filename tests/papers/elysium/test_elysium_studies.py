"""The studies besides the table: the accuracy of the estimator, and the best thresholds."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from ebbflow.errors import RunFailedError
from ebbflow.papers.elysium.calibration import NODES
from ebbflow.papers.elysium.cases import cases
from ebbflow.papers.elysium.models import HISTORY_MINUTES, Models, history, learn_profile
from ebbflow.papers.elysium.page import elysium_page
from ebbflow.papers.elysium.published import PROACTIVE, STATIC, SYMBIOTIC, T1, T2, THRESHOLDS
from ebbflow.papers.elysium.run import RunCurves, run_case, run_cases
from ebbflow.papers.elysium.studies import Studies, estimator_accuracy
from ebbflow.papers.elysium.threshold_learning import (
    CORE_MAX,
    CORE_MIN,
    CPU_MAX,
    GRIDS,
    TRIAL,
    LearnedThreshold,
    ThresholdStudy,
    study_thresholds,
    threshold_runs,
)
from ebbflow.papers.studies import ReconfigurationCost
from ebbflow.profiling.fitting import QUICK
from ebbflow.strategies.symbiotic import UsageThresholds


@pytest.fixture(scope="module")
def models() -> Models:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("ebbflow.papers.elysium.models.ALL", QUICK)
        return Models(profiles={T1: learn_profile(T1), T2: learn_profile(T2)}, forecasts={})


FEW = (
    CPU_MAX,
    replace(CORE_MAX, values=(0.65, 0.80, 0.85, 0.95, 1.00)),
    replace(CORE_MIN, values=(0.05, 0.25, 0.30, 0.45, 0.50, 0.60)),
)
"""The values of the core thresholds at which something changes."""


@pytest.fixture(scope="module")
def study(models: Models) -> dict[str, ThresholdStudy]:
    done: list[None] = []
    found = study_thresholds(models, grids=FEW, seeds=1, workers=1, on_done=lambda: done.append(None))
    assert len(done) == threshold_runs(FEW, seeds=1) == 18
    return {each.name: each for each in found}


def test_the_profile_learns_the_costs_of_operators_and_nodes(models: Models) -> None:
    profile = models.profiles[T1]
    assert profile.cpu["stop-words"].estimate(17.86 * 200).value == pytest.approx(0.56, rel=0.02)
    assert profile.node.estimate(2.0).value == pytest.approx(NODES.cpu_share(2.0), rel=0.02)
    assert profile.selectivity["words", "stop-words"].mean == pytest.approx(17.86)
    assert profile.costs is not None
    assert 5.0 <= (profile.costs.restart_s or 0.0) <= 10.0


def test_the_estimator_is_within_three_percent_on_another_load(models: Models) -> None:
    found = estimator_accuracy(models.profiles[T1])
    assert max(found.operators.values()) < 0.03
    assert found.node < 0.03
    assert set(found.measured) == {"counter", "stop-words"}


def test_the_reward_of_cpu_max_has_its_maximum_inside_the_range(study: dict[str, ThresholdStudy]) -> None:
    learned, tried = study["cpu_max"].learned, study["cpu_max"].tried
    assert learned.inside
    assert learned.ends_at == learned.best == 0.85
    rewards = [each.reward for each in tried]
    assert rewards[:6] == sorted(rewards[:6])
    assert rewards[6] < rewards[5]
    assert "highest at 0.85, inside the values tried (0.60 to 0.90)" in study["cpu_max"].found


def test_the_reward_of_core_max_rises_to_the_end_although_throughput_is_lost(
    study: dict[str, ThresholdStudy],
) -> None:
    learned, tried = study["core_max"].learned, {t.value: t for t in study["core_max"].tried}
    assert not learned.inside
    assert learned.ends_at == learned.best == 1.00
    assert tried[0.80].throughput_degradation == pytest.approx(tried[0.65].throughput_degradation, abs=0.005)
    assert (
        tried[0.85].throughput_degradation > tried[0.80].throughput_degradation + 0.03
    )  # one stop-word filter fewer
    assert (
        tried[0.95].throughput_degradation > tried[0.85].throughput_degradation + 0.03
    )  # one splitter fewer
    assert "highest at 1.00, at the upper end of the values tried (0.65 to 1.00)" in study["core_max"].found


def test_core_min_has_no_effect_up_to_half_of_core_max_and_overloads_instances_above(
    study: dict[str, ThresholdStudy],
) -> None:
    learned, tried = study["core_min"].learned, {t.value: t for t in study["core_min"].tried}
    assert learned.inside
    assert learned.ends_at == learned.best == 0.45
    assert study["core_min"].same_until >= 0.30
    assert tried[0.30].reward - tried[0.25].reward == pytest.approx(0.05)
    assert tried[0.50].throughput_degradation > tried[0.45].throughput_degradation + 0.05
    assert tried[0.60].throughput_degradation > tried[0.50].throughput_degradation + 0.05
    assert "Up to 0.45 the value makes no difference." in study["core_min"].found


def test_the_cost_of_a_threshold_is_explained_from_the_runs(study: dict[str, ThresholdStudy]) -> None:
    lost = {t.value: t.throughput_degradation for t in study["cpu_max"].tried}
    assert study["cpu_max"].why == (
        f"From 0.85 to 0.90 the degradation rises from {lost[0.85]:.3f} to {lost[0.90]:.3f}, with at most 2 nodes "
        "instead of 3."
    )
    assert "with at most 2 instances of stop-words instead of 3" in study["core_max"].why
    assert "with at most 1 instance of words instead of 2" in study["core_min"].why
    assert study["cpu_max"].to_json()["why"] == study["cpu_max"].why


def test_other_runs_have_other_explanations(study: dict[str, ThresholdStudy]) -> None:
    cpu_max = study["cpu_max"]
    flat = [replace(each, throughput_degradation=0.1) for each in cpu_max.tried]
    assert replace(cpu_max, tried=flat).why == "No step costs more than half of what it gains."
    early = [flat[0], *(replace(each, throughput_degradation=0.2, most=flat[0].most) for each in flat[1:])]
    assert replace(cpu_max, tried=early).why == (
        "From 0.60 to 0.65 the degradation rises from 0.100 to 0.200, with the same maximum of nodes and instances."
    )


def test_only_the_default_trial_is_said_to_be_picked(study: dict[str, ThresholdStudy]) -> None:
    studies = Studies(
        accuracy=estimator_accuracy(learn_profile(T1)),
        overheads=[
            ReconfigurationCost(
                period_s=60.0,
                throughput_degradation=0.01,
                throughput_degradation_unsmoothed=0.3,
                latency_mean_s=1.0,
                published=None,
            )
        ],
        thresholds=[replace(study["cpu_max"], case=replace(TRIAL, seconds=600.0))],
    )
    page = elysium_page([], [], studies)
    assert "<p>Each value was run on 10 minutes of T1 on stair(base=150" in page
    assert "The load was picked" not in page
    assert "Every 60 s: 0.30 unsmoothed, 0.010 in windows of a minute.</p>" in page


def test_each_threshold_is_tried_with_the_others_as_published() -> None:
    published = UsageThresholds(cpu_max=0.80, core_max=0.65, core_min=0.25)
    assert [each.name for each in GRIDS] == ["cpu_max", "core_max", "core_min"]
    for each in GRIDS:
        assert each.thresholds(THRESHOLDS[each.name]) == published
        assert THRESHOLDS[each.name] in each.values[1:-1], "a maximum there would be inside"
        for value in each.values:  # raises if a value is invalid
            assert getattr(each.thresholds(value), each.name) == value


def test_a_maximum_at_the_end_of_the_grid_is_reported_as_such(study: dict[str, ThresholdStudy]) -> None:
    core_min = study["core_min"]
    falling = LearnedThreshold(rewards={0.05: 0.3, 0.25: 0.2, 0.60: 0.1}, trials={}, ends_at=0.05)
    found = replace(core_min, learned=falling, same_until=0.05).found
    assert found == "The reward is highest at 0.05, at the lower end of the values tried (0.05 to 0.60)."


def test_a_forecaster_is_trained_on_the_past_of_its_load() -> None:
    (case,) = cases(applications=[T1], loads=["square"], strategies=[PROACTIVE])
    past = history(case.loads[0][1], case, None)
    assert 10.0 * len(past) >= 60.0 * HISTORY_MINUTES
    assert past[-1][0] == 0.0
    assert past[0][1] == pytest.approx(150.0, rel=0.15)
    assert past[36][1] == pytest.approx(800.0, rel=0.15)


def test_one_reconfiguration_reaches_the_right_size_after_a_step(models: Models) -> None:
    (case,) = cases(applications=[T1], loads=["step"], strategies=[SYMBIOTIC])
    _, curves = run_case(case, models.strategy(case), with_curves=True)
    assert curves is not None
    in_peak = [nodes for time_s, nodes in curves.nodes if 180.0 <= time_s <= 360.0]
    assert len(in_peak) == 1, curves.nodes  # one change, and it stays until the load falls
    assert in_peak[0] >= 3


def test_results_are_in_order_with_means_over_seeds(models: Models) -> None:
    rows = cases(applications=[T1], loads=["step"])
    done: list[None] = []
    results = run_cases(rows, models, seeds=2, workers=1, on_done=lambda: done.append(None))
    assert [result.case for result in results] == rows
    assert len(done) == 4
    assert all(result.curves is not None and result.runs == 2 for result in results)
    assert "T1 step" in elysium_page(results, [], None)


def test_a_failed_run_names_its_row(models: Models) -> None:
    (case,) = cases(applications=[T1], loads=["step"], strategies=[SYMBIOTIC])
    without = Models(profiles={}, forecasts={})
    with pytest.raises(RunFailedError, match="T1 step symbiotic failed"):
        run_cases([case], without, seeds=1, workers=1)


def test_curves_survive_json(models: Models) -> None:
    (case,) = cases(strategies=[STATIC])
    _, curves = run_case(replace(case, seconds=60.0), models.strategy(case), with_curves=True)
    assert curves is not None
    assert RunCurves.from_json(json.loads(json.dumps(curves.to_json()))) == curves


def test_all_studies_are_on_the_page(models: Models, study: dict[str, ThresholdStudy], monkeypatch) -> None:
    def done(given: Models, *, workers: int, on_done: object) -> list[ThresholdStudy]:
        return list(study.values())

    monkeypatch.setattr("ebbflow.papers.elysium.studies.study_thresholds", done)
    studies = Studies.run(models, workers=1)
    data = json.loads(json.dumps(studies.to_json()))["thresholds"]
    assert {name: (each["published"], each["ends_at"], each["inside"]) for name, each in data.items()} == {
        "cpu_max": (0.80, 0.85, True), "core_max": (0.65, 1.00, False), "core_min": (0.25, 0.45, True),
    }  # fmt: skip
    assert data["cpu_max"]["table"][0]["published"] == 0.53
    assert data["core_min"]["table"][1]["published"] is None
    text = elysium_page([], [], studies)
    assert re.findall(r"<section><h2>(\S+) [^<]*</h2><p>", text) == [
        "Thresholds", "cpu_max_thr", "core_max_thr", "core_min_thr", "Cost", "CPU", "CPU",
    ]  # fmt: skip
    assert "picture-5" in text
    assert "<th>core_max_thr</th><td>0.65</td><td>1.00</td><td>0.76</td><td>1.00</td><td>no</td>" in text
    assert "From 0.85 to 0.90 the degradation rises from " in text
    assert "on stair(base=150, peak=580, steps=1, hold=3m), the other two" in text
    assert "The load was picked for cpu_max" in text
    assert "0.20 unsmoothed, 0.004 in windows of a minute; the paper published 0.64." in text
