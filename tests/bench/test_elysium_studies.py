"""What the seed shows besides its table: how well the estimator knows, and which threshold is best."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ebbflow.bench.elysium.accuracy import estimator_accuracy
from ebbflow.bench.elysium.calibration import NODES
from ebbflow.bench.elysium.cases import cases
from ebbflow.bench.elysium.kit import HISTORY_MINUTES, Kit, history, profiled
from ebbflow.bench.elysium.names import PROACTIVE, STATIC, SYMBIOTIC, T1, T2
from ebbflow.bench.elysium.result import Curves
from ebbflow.bench.elysium.run import RunFailedError, play_case, run_cases
from ebbflow.bench.elysium.studies import Studies
from ebbflow.bench.elysium.thresholds import ThresholdStudy, study_thresholds
from ebbflow.cli.elysium_pictures import elysium_report
from ebbflow.profiling.fitting import QUICK
from ebbflow.report.elysium_page import elysium_page


@pytest.fixture(scope="module")
def kit() -> Kit:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("ebbflow.bench.elysium.kit.ALL", QUICK)
        return Kit(profiles={T1: profiled(T1), T2: profiled(T2)}, forecasts={})


@pytest.fixture(scope="module")
def study(kit: Kit) -> ThresholdStudy:
    return study_thresholds(kit, seeds=1, workers=1)


def test_the_profile_finds_out_what_operators_and_nodes_cost(kit: Kit) -> None:
    profile = kit.profiles[T1]
    assert profile.cpu["stop-words"].estimate(17.86 * 200).value == pytest.approx(0.56, rel=0.02)
    assert profile.node.estimate(2.0).value == pytest.approx(NODES.cpu_share(2.0), rel=0.02)
    assert profile.selectivity["words", "stop-words"].mean == pytest.approx(17.86)
    assert profile.costs is not None
    assert 5.0 <= (profile.costs.restart_s or 0.0) <= 10.0


def test_the_estimator_is_within_three_percent_on_a_load_it_did_not_see(kit: Kit) -> None:
    found = estimator_accuracy(kit.profiles[T1])
    assert max(found.operators.values()) < 0.03
    assert found.node < 0.03
    assert set(found.measured) == {"counter", "stop-words"}


def test_the_reward_has_its_maximum_inside_the_range(study: ThresholdStudy) -> None:
    assert study.learned.inside
    assert study.learned.ends_at == study.learned.best == 0.85
    rewards = [each.reward for each in study.tried]
    assert rewards[:6] == sorted(rewards[:6])
    assert rewards[6] < rewards[5]
    assert json.dumps(study.to_json())


def test_a_forecaster_sees_the_past_of_its_load() -> None:
    (case,) = cases(applications=[T1], loads=["square"], strategies=[PROACTIVE])
    past = history(case.loads[0][1], case, None)
    assert len(past) >= HISTORY_MINUTES
    assert past[0][1] == pytest.approx(150.0, rel=0.05)
    assert past[6][1] == pytest.approx(800.0, rel=0.05)


def test_one_reconfiguration_reaches_the_right_size_after_a_step(kit: Kit) -> None:
    (case,) = cases(applications=[T1], loads=["step"], strategies=[SYMBIOTIC])
    _, curves = play_case(case, kit.strategy(case), drawn=True)
    assert curves is not None
    in_peak = [nodes for time_s, nodes in curves.nodes if 180.0 <= time_s <= 360.0]
    assert len(in_peak) == 1, curves.nodes  # one change, and it stays until the load falls
    assert in_peak[0] >= 3


def test_rows_come_back_in_order_with_means_over_seeds(kit: Kit) -> None:
    rows = cases(applications=[T1], loads=["step"])
    done: list[None] = []
    results = run_cases(rows, kit, seeds=2, workers=1, on_done=lambda: done.append(None))
    assert [result.case for result in results] == rows
    assert len(done) == 4
    assert all(result.curves is not None and result.runs == 2 for result in results)
    page = elysium_page(elysium_report(results, [], None))
    assert "T1 step" in page


def test_a_run_that_fails_is_told_with_its_row(kit: Kit) -> None:
    (case,) = cases(applications=[T1], loads=["step"], strategies=[SYMBIOTIC])
    without = Kit(profiles={}, forecasts={})
    with pytest.raises(RunFailedError, match="T1 step symbiotic failed"):
        run_cases([case], without, seeds=1, workers=1)


def test_curves_of_another_process_come_back_the_same(kit: Kit) -> None:
    (case,) = cases(strategies=[STATIC])
    _, curves = play_case(replace(case, seconds=60.0), kit.strategy(case), drawn=True)
    assert curves is not None
    assert Curves.from_json(json.loads(json.dumps(curves.to_json()))) == curves


def test_all_studies_are_drawn(kit: Kit, study: ThresholdStudy, monkeypatch) -> None:
    monkeypatch.setattr("ebbflow.bench.elysium.studies.study_thresholds", lambda given, workers: study)
    page = elysium_report([], [], Studies.made(kit, workers=1))
    assert [picture.title.split(":")[0][:10] for picture in page.pictures] == [
        "Thresholds", "What recon", "CPU of ope", "CPU of a n",
    ]  # fmt: skip
    assert "picture-3" in elysium_page(page)
