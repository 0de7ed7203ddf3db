"""The six tests of the Rules thesis: exact in the simulator, within one reading on a real cluster."""

from __future__ import annotations

import json
from datetime import date

import numpy as np
import pytest

from ebbflow.control.loop import CycleReport
from ebbflow.core.clock import ManualClock
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.ports import Observation
from ebbflow.core.readings import Reading
from ebbflow.errors import TargetError, UnknownNameError
from ebbflow.papers import SIMULATOR, SPARK
from ebbflow.papers.rules.cases import CASES, QUICK, Case, Change
from ebbflow.papers.rules.judge import judge, lag_s, most_queued, queue_slope_per_s, windows_s
from ebbflow.papers.rules.page import CasePicture, rules_page
from ebbflow.papers.rules.record import CaseRecorder, CaseRun, run_in_simulator
from ebbflow.papers.rules.run import run_cases, stored_on_spark
from ebbflow.policy.files import parse_policy, policy_text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_simulator_reproduces_each_case_to_the_second(case: Case) -> None:
    result = judge(case, SIMULATOR, run_in_simulator(case))
    assert result.problems == ()
    assert json.loads(json.dumps(result.to_json()))["ok"] is True


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_policy_of_each_case_round_trips_through_a_file(case: Case) -> None:
    for suffix in (".toml", ".yaml"):
        assert parse_policy(policy_text(case.policy, suffix), f"case{suffix}") == case.policy


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", [case.name for case in CASES])
def test_a_real_cluster_reproduces_each_case_within_one_reading(case: str) -> None:
    (result,) = run_cases(SPARK, [case])
    assert result.problems == (), result.to_json()


@pytest.mark.spark
@pytest.mark.alone
@pytest.mark.long
def test_a_real_cluster_reproduces_a_short_case_within_one_reading() -> None:
    """About a minute: half of it for the case, half for the start of the cluster."""
    (result,) = run_cases(SPARK, [QUICK.name])
    assert result.problems == (), result.to_json()


def test_the_stored_run_on_spark_has_all_cases_with_their_expected_results() -> None:
    stored = stored_on_spark()
    assert list(stored) == [case.name for case in CASES]
    for case in CASES:
        result = stored[case.name]
        assert result.ok
        assert result.expected == case.changes, "the case has changed since: store a new run on Spark"
        assert [(c.operator, c.before, c.after) for c in result.changes] == [
            (c.operator, c.before, c.after) for c in case.changes
        ]
        assert (result.queue_slope_per_s is None) is (case.queue_slope_per_s is None)
        date.fromisoformat(result.measured_on)


def test_a_run_on_spark_is_dated(monkeypatch) -> None:
    monkeypatch.setattr("ebbflow.papers.rules.on_spark.run_in_a_process", run_in_simulator)
    (result,) = run_cases(SPARK, ["hysteresis"], clock=ManualClock(86_400.0 * 365))
    assert result.to_json()["measured_on"] == "1971-01-01"
    (simulated,) = run_cases(SIMULATOR, ["hysteresis"])
    assert "measured_on" not in simulated.to_json()


def test_a_run_round_trips_through_json() -> None:
    run = run_in_simulator(QUICK)
    assert CaseRun.from_json(json.loads(json.dumps(run.to_json()))) == run
    assert judge(QUICK, SIMULATOR, run).problems == ()


def test_a_case_that_fails_to_run_does_not_stop_the_others(monkeypatch) -> None:
    def run(case: Case) -> CaseRun:
        if case is CASES[0]:
            raise TargetError("no cluster")
        return run_in_simulator(case)

    monkeypatch.setattr("ebbflow.papers.rules.on_spark.run_in_a_process", run)
    reported: list[str] = []
    failed, other = run_cases(
        SPARK, [CASES[0].name, CASES[1].name], on_result=lambda result: reported.append(result.case.name)
    )
    assert failed.problems == ("no cluster",)
    assert failed.to_json()["ok"] is False
    assert other.problems == ()
    assert reported == [CASES[0].name, CASES[1].name]


def test_the_judge_finds_other_and_late_changes() -> None:
    first, other = CASES[0], CASES[1]
    run = run_in_simulator(first)
    assert "expected operator 1→3" in judge(other, SIMULATOR, run).problems[0]
    late = type(run)(
        changes=tuple(
            type(c)(time_s=c.time_s + 7, operator=c.operator, before=c.before, after=c.after)
            for c in run.changes
        ),
        queues=run.queues,
        sizes=run.sizes,
    )
    assert judge(first, SIMULATOR, late).problems
    assert "at 98.0 s, expected from 90.0 to 93.0 s" in judge(first, SPARK, late).problems[0]


def test_the_judge_finds_a_queue_that_is_too_long() -> None:
    peaks = CASES[3]
    run = run_in_simulator(peaks)
    assert most_queued(run) == pytest.approx(1071, abs=20)
    assert peaks.most_queued is not None
    queue = [*run.queues["operator"], (299.5, peaks.most_queued + 1)]
    longer = CaseRun(changes=(), queues={"operator": queue}, sizes=run.sizes)
    assert "rows queued" in judge(peaks, SIMULATOR, longer).problems[0]


def lagging_run(case: Case, lag_s: float, every_s: float, *changes: float) -> CaseRun:
    """The simulator's queue, read every ``every_s`` seconds with a lag."""
    points = run_in_simulator(case).queues["operator"]
    times_s = np.arange(0.0, case.lasts_s, every_s)
    rows = np.interp(times_s - lag_s, [t for t, _ in points], [rows for _, rows in points])
    return CaseRun(
        changes=tuple(Change(time_s=t, operator="operator", before=1, after=2) for t in changes),
        queues={"operator": list(zip(times_s.tolist(), rows.tolist(), strict=True))},
        sizes={},
    )


def test_a_change_on_spark_must_come_within_one_reading_of_its_time_plus_the_lag() -> None:
    case = CASES[0]
    run = lagging_run(case, 1.5, 1.0, 92.0)
    assert lag_s(case, run) == pytest.approx(1.5, abs=0.1)
    assert windows_s(case, run) == [(pytest.approx(90.0), pytest.approx(91.0 + 1.5 + 1.0 + 1.0, abs=0.1))]
    assert (
        "1→2 at 95.5 s, expected from 90.0"
        in judge(case, SPARK, lagging_run(case, 1.5, 1.0, 95.5)).problems[0]
    )
    assert (
        "1→2 at 89.0 s, expected from 90.0"
        in judge(case, SPARK, lagging_run(case, 0.0, 1.0, 89.0)).problems[0]
    )
    assert windows_s(case, lagging_run(case, 1.5, 1.0)) == [], "no windows if a change is missing"


def test_the_judge_finds_readings_that_lag_by_more_than_two_readings() -> None:
    case = CASES[0]
    assert not any(
        "behind" in words for words in judge(case, SPARK, lagging_run(case, 2.0, 1.0, 93.0)).problems
    )
    assert any(
        "behind the queue" in words
        for words in judge(case, SPARK, lagging_run(case, 4.0, 1.0, 95.0)).problems
    )


def test_a_change_after_a_restart_may_be_later_by_the_effect_of_the_restart() -> None:
    """Three instances do 30 rows/s, 20 more than arrive: they catch up with a pause of 5 s in 7.5 s."""
    out_and_in = CASES[4]
    times_s = [float(t) for t in range(200) if not 56 < t < 61]
    run = CaseRun(changes=out_and_in.changes, queues={"operator": [(t, 7.0) for t in times_s]}, sizes={})
    (from_s, to_s), (back_from_s, back_to_s), *_ = windows_s(out_and_in, run)
    late_s = lag_s(out_and_in, run) + 1.0 + 1.0
    assert (from_s, to_s) == (55.0, pytest.approx(56.0 + late_s))
    assert back_from_s == 70.0
    assert back_to_s == pytest.approx(71.0 + 7.5 + late_s, abs=1.0)


def test_the_slope_is_measured_from_when_the_query_runs_again() -> None:
    queue = [(float(t), 300.0) for t in range(95)] + [(100.0 + t, 500.0 - 5.0 * t) for t in range(31)]
    change = Change(time_s=91.0, operator="operator", before=1, after=3)
    run = CaseRun(changes=(change,), queues={"operator": queue}, sizes={})
    assert queue_slope_per_s(run) == pytest.approx(-5.0)


def test_the_recorded_queue_is_the_one_that_the_rules_evaluate() -> None:
    case = CASES[0]
    layout = Layout.of(1, operator=1)

    def recorded(limited: frozenset[str]) -> list[tuple[float, float]]:
        recorder = CaseRecorder(case.policy, started_s=100.0)
        for t in (100.0, 101.0, 101.0):
            readings = [
                Reading(t, "operator", Metric.BACKLOG, 5.0),
                Reading(t, "operator", Metric.QUEUE_LENGTH, 25.0),
                Reading(t, "app", Metric.QUEUE_LENGTH, 40.0),
            ]
            observation = Observation(
                time_s=t, pipeline=Pipeline(name="app", operators=()), layout=layout, requested=layout,
                slots_per_node=1, lead_time_s=1.0, readings=readings, read_limited=limited,
            )  # fmt: skip
            recorder.record(CycleReport(observation=observation, entry=None, planned=layout))
        return recorder.run().queues["operator"]

    assert recorded(frozenset({"operator"})) == [(0.0, 5.0), (1.0, 5.0)]
    assert recorded(frozenset()) == [(0.0, 25.0), (1.0, 25.0)]


def test_unknown_cases_and_targets_are_errors_with_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'scale-out'"):
        run_cases(SIMULATOR, ["scaleout"])
    with pytest.raises(UnknownNameError, match="did you mean 'spark'"):
        run_cases("spork")


def test_the_page_has_a_figure_for_each_case_and_escapes_texts() -> None:
    picture = CasePicture(
        title="<b>x</b>",
        expected="e",
        measured="m",
        ok=False,
        queues={"a": [(0.0, 1.0)]},
        sizes={"a": [(0.0, 1)]},
    )
    page = rules_page([picture])
    assert "0 of 1 tests" in page
    assert "&lt;b&gt;x" in page
    assert '"queue length"' in page
