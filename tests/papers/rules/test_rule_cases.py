"""The six tests of the Rules seed: in the simulator to the second, on a real cluster within one reading."""

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
from ebbflow.papers.rules.cases import CASES, QUICK, Case, Change
from ebbflow.papers.rules.in_simulator import run_in_simulator
from ebbflow.papers.rules.judge import (
    SIMULATOR,
    SPARK,
    judge,
    lag_s,
    most_queued,
    queue_slope_per_s,
    windows_s,
)
from ebbflow.papers.rules.page import CasePicture, rules_page
from ebbflow.papers.rules.run import run_cases, stored_on_spark
from ebbflow.papers.rules.seen import Seen, Watching
from ebbflow.policy.files import parse_policy, policy_text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_simulator_shows_what_the_seed_expects_to_the_second(case: Case) -> None:
    result = judge(case, SIMULATOR, run_in_simulator(case))
    assert result.wrong == ()
    assert json.loads(json.dumps(result.to_json()))["ok"] is True


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_policy_of_a_case_does_the_same_from_a_file(case: Case) -> None:
    for suffix in (".toml", ".yaml"):
        assert parse_policy(policy_text(case.policy, suffix), f"case{suffix}") == case.policy


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", [case.name for case in CASES])
def test_a_real_cluster_shows_it_within_one_reading(case: str) -> None:
    (result,) = run_cases(SPARK, [case])
    assert result.wrong == (), result.to_json()


@pytest.mark.spark
@pytest.mark.alone
@pytest.mark.long
def test_a_real_cluster_shows_a_short_case_within_one_reading() -> None:
    """About a minute: half of it the case, half what a cluster takes to start."""
    (result,) = run_cases(SPARK, [QUICK.name])
    assert result.wrong == (), result.to_json()


def test_the_stored_run_on_spark_is_of_these_cases_and_shows_what_it_must() -> None:
    stored = stored_on_spark()
    assert list(stored) == [case.name for case in CASES]
    for case in CASES:
        then = stored[case.name]
        assert then.ok
        assert then.expected == case.changes, "the case has changed since: run it anew on Spark"
        assert [(c.operator, c.before, c.after) for c in then.changes] == [
            (c.operator, c.before, c.after) for c in case.changes
        ]
        assert (then.queue_slope_per_s is None) is (case.queue_slope_per_s is None)
        date.fromisoformat(then.measured_on)


def test_a_run_on_spark_tells_its_day_so_that_it_can_be_stored(monkeypatch) -> None:
    monkeypatch.setattr("ebbflow.papers.rules.on_spark.run_in_a_process", run_in_simulator)
    (result,) = run_cases(SPARK, ["hysteresis"], clock=ManualClock(86_400.0 * 365))
    assert result.to_json()["measured_on"] == "1971-01-01"
    (simulated,) = run_cases(SIMULATOR, ["hysteresis"])
    assert "measured_on" not in simulated.to_json()


def test_what_another_process_saw_comes_back_the_same() -> None:
    seen = run_in_simulator(QUICK)
    assert Seen.from_json(json.loads(json.dumps(seen.to_json()))) == seen
    assert judge(QUICK, SIMULATOR, seen).wrong == ()


def test_a_case_that_cannot_be_run_does_not_take_the_others_with_it(monkeypatch) -> None:
    def run(case: Case) -> Seen:
        if case is CASES[0]:
            raise TargetError("no cluster")
        return run_in_simulator(case)

    monkeypatch.setattr("ebbflow.papers.rules.on_spark.run_in_a_process", run)
    told: list[str] = []
    failed, other = run_cases(
        SPARK, [CASES[0].name, CASES[1].name], on_result=lambda result: told.append(result.case.name)
    )
    assert failed.wrong == ("no cluster",)
    assert failed.to_json()["ok"] is False
    assert other.wrong == ()
    assert told == [CASES[0].name, CASES[1].name]


def test_the_judge_sees_what_is_wrong() -> None:
    first, other = CASES[0], CASES[1]
    seen = run_in_simulator(first)
    assert "expected operator 1→3" in judge(other, SIMULATOR, seen).wrong[0]
    late = type(seen)(
        changes=tuple(
            type(c)(time_s=c.time_s + 7, operator=c.operator, before=c.before, after=c.after)
            for c in seen.changes
        ),
        queues=seen.queues,
        sizes=seen.sizes,
    )
    assert judge(first, SIMULATOR, late).wrong
    assert "at 98.0 s, not from 90.0 to 93.0 s" in judge(first, SPARK, late).wrong[0]


def test_a_queue_that_gets_longer_than_its_peaks_make_it_is_wrong() -> None:
    peaks = CASES[3]
    seen = run_in_simulator(peaks)
    assert most_queued(seen) == pytest.approx(1071, abs=20)
    assert peaks.most_queued is not None
    queue = [*seen.queues["operator"], (299.5, peaks.most_queued + 1)]
    longer = Seen(changes=(), queues={"operator": queue}, sizes=seen.sizes)
    assert "rows queued" in judge(peaks, SIMULATOR, longer).wrong[0]


def a_seen(times_s: list[float], *changes: float, rows: float = 7.0) -> Seen:
    return Seen(
        changes=tuple(Change(time_s=t, operator="operator", before=1, after=2) for t in changes),
        queues={"operator": [(t, rows) for t in times_s]},
        sizes={},
    )


def told_late(case: Case, lag_s: float, every_s: float, *changes: float) -> Seen:
    """What Spark would tell of the simulator's queue: every so often, and so much later."""
    points = run_in_simulator(case).queues["operator"]
    times_s = np.arange(0.0, case.lasts_s, every_s)
    rows = np.interp(times_s - lag_s, [t for t, _ in points], [rows for _, rows in points])
    return Seen(
        changes=tuple(Change(time_s=t, operator="operator", before=1, after=2) for t in changes),
        queues={"operator": list(zip(times_s.tolist(), rows.tolist(), strict=True))},
        sizes={},
    )


def test_a_change_must_come_within_one_reading_of_when_lagging_readings_let_it() -> None:
    case = CASES[0]
    seen = told_late(case, 1.5, 1.0, 92.0)
    assert lag_s(case, seen) == pytest.approx(1.5, abs=0.1)
    assert windows_s(case, seen) == [(pytest.approx(90.0), pytest.approx(91.0 + 1.5 + 1.0 + 1.0, abs=0.1))]
    assert "1→2 at 95.5 s, not from 90.0" in judge(case, SPARK, told_late(case, 1.5, 1.0, 95.5)).wrong[0]
    assert "1→2 at 89.0 s, not from 90.0" in judge(case, SPARK, told_late(case, 0.0, 1.0, 89.0)).wrong[0]
    assert windows_s(case, told_late(case, 1.5, 1.0)) == [], "nothing to judge where a change is missing"


def test_readings_that_lag_by_more_than_two_readings_excuse_nothing() -> None:
    case = CASES[0]
    assert not any("behind" in words for words in judge(case, SPARK, told_late(case, 2.0, 1.0, 93.0)).wrong)
    assert any(
        "behind the queue" in words for words in judge(case, SPARK, told_late(case, 4.0, 1.0, 95.0)).wrong
    )


def test_what_comes_after_a_restart_is_expected_as_much_later_as_the_restart_took() -> None:
    """Three instances do 30 rows/s: what they miss in 5 s they make up for at 20 rows/s more than come, in 7.5 s."""
    out_and_in = CASES[4]
    times_s = [float(t) for t in range(200) if not 56 < t < 61]
    seen = Seen(changes=out_and_in.changes, queues={"operator": [(t, 7.0) for t in times_s]}, sizes={})
    (from_s, to_s), (back_from_s, back_to_s), *_ = windows_s(out_and_in, seen)
    late_s = lag_s(out_and_in, seen) + 1.0 + 1.0
    assert (from_s, to_s) == (55.0, pytest.approx(56.0 + late_s))
    assert back_from_s == 70.0
    assert back_to_s == pytest.approx(71.0 + 7.5 + late_s, abs=1.0)


def test_the_slope_counts_from_when_a_query_works_again() -> None:
    queue = [(float(t), 300.0) for t in range(95)] + [(100.0 + t, 500.0 - 5.0 * t) for t in range(31)]
    change = Change(time_s=91.0, operator="operator", before=1, after=3)
    seen = Seen(changes=(change,), queues={"operator": queue}, sizes={})
    assert queue_slope_per_s(seen) == pytest.approx(-5.0)


def test_what_is_drawn_is_what_the_rules_judged() -> None:
    case = CASES[0]
    layout = Layout.of(1, operator=1)

    def seen(limited: frozenset[str]) -> list[tuple[float, float]]:
        watching = Watching(case.policy, started_s=100.0)
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
            watching.take(CycleReport(observation=observation, entry=None, planned=layout))
        return watching.seen().queues["operator"]

    assert seen(frozenset({"operator"})) == [(0.0, 5.0), (1.0, 5.0)]
    assert seen(frozenset()) == [(0.0, 25.0), (1.0, 25.0)]


def test_cases_and_targets_that_do_not_exist_are_told() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'scale-out'"):
        run_cases(SIMULATOR, ["scaleout"])
    with pytest.raises(UnknownNameError, match="did you mean 'spark'"):
        run_cases("spork")


def test_the_page_has_a_picture_for_each_case_and_no_markup_of_others() -> None:
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
