"""Sorting the minutes of a load changes nothing else, and the comparison reports the result."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from ebbflow.papers import SIMULATOR, SPARK
from ebbflow.papers.elysium import comparison
from ebbflow.papers.elysium.cases import cases
from ebbflow.papers.elysium.comparison import Comparison, SortedMinutes, explain_with_sorted_minutes
from ebbflow.papers.elysium.models import Models
from ebbflow.papers.elysium.published import JOINT, SYMBIOTIC, T1
from ebbflow.papers.elysium.run import Result, RowMetrics
from ebbflow.workloads import parse_load

LOAD = parse_load("noise(square(base=50, peak=400, period=2m), amount=0.5, seed=4)")
ORDERED = SortedMinutes(load=LOAD, seconds=630.0)
WORSE = Comparison(
    application=T1, load="twitter", target=SIMULATOR, saves_more=True, degrades_no_more=False, explanation="Why."
)  # fmt: skip


def test_the_minutes_are_the_same_but_sorted() -> None:
    minutes = ORDERED.rows_between(np.arange(0.0, 601.0, 60.0)) / 60.0
    assert ORDERED.duration_s == 600.0, "an incomplete minute at the end is left out"
    assert sorted(minutes) == pytest.approx(sorted(ORDERED.minutes_per_s))
    busiest = int(minutes.argmax())
    assert 0 < busiest < 9
    assert (np.diff(minutes[: busiest + 1]) >= 0).all()
    assert (np.diff(minutes[busiest:]) <= 0).all()


def test_seconds_within_a_minute_are_unchanged() -> None:
    def seconds(load) -> list[tuple[float, ...]]:
        rows = load.rows_between(np.arange(0.0, 601.0)).round(6)
        return sorted(tuple(minute) for minute in rows.reshape(10, 60))

    assert seconds(ORDERED) == seconds(LOAD)


def test_rows_are_the_integral_of_the_rate_for_any_edges() -> None:
    edges_s = np.array([0.0, 0.25, 59.5, 60.5, 61.0, 200.0, 599.75])
    fine_s = np.arange(0.0, 599.76, 0.25)
    each = 0.25 * ORDERED.rate_per_s(fine_s[:-1])
    expected = [each[(fine_s[:-1] >= a) & (fine_s[:-1] < b)].sum() for a, b in itertools.pairwise(edges_s)]
    assert ORDERED.rows_between(edges_s) == pytest.approx(expected)


def test_the_jump_is_the_mean_change_from_minute_to_minute() -> None:
    square = parse_load("square(base=10, peak=30, period=2m)")
    assert SortedMinutes(load=square, seconds=600.0).jump == pytest.approx(1.0)
    assert SortedMinutes(load=parse_load("constant(5)"), seconds=600.0).jump == 0.0
    assert SortedMinutes(load=square, seconds=60.0).jump == 0.0


def test_only_rows_that_degrade_more_in_the_simulator_run_again(monkeypatch) -> None:
    rows = cases(applications=[T1], loads=["twitter"], strategies=[JOINT, SYMBIOTIC])
    rows = [replace(row, loads=((T1, LOAD),), seconds=630.0) for row in rows]
    ran = []

    def run_cases(again, models, *, seeds, workers):
        ran.extend(again)
        values = {SYMBIOTIC: 0.0371, JOINT: 0.0362}
        return [
            Result(
                case=case, target=SIMULATOR, runs=seeds,
                metrics=RowMetrics(
                    throughput_degradation=values[case.key.strategy], throughput_degradation_unsmoothed=0.0,
                    nodes_saved=0.4, latency_mean_s=1.0, reconfigurations=1.0,
                ),
            )
            for case in again
        ]  # fmt: skip

    monkeypatch.setattr(comparison, "run_cases", run_cases)
    fine, on_spark = replace(WORSE, degrades_no_more=True), replace(WORSE, target=SPARK)
    models = Models(profiles={}, forecasts={})
    explained = explain_with_sorted_minutes([WORSE, fine, on_spark], rows, models, seeds=2)
    assert explained[1:] == [fine, on_spark]
    assert explained[0].explanation.startswith("Why. From one minute to the next the load changes by ")
    assert explained[0].explanation.endswith("the quietest first and last: 0.037 against 0.036.")
    assert [(case.seconds, case.loads[0][1]) for case in ran] == [(600.0, ORDERED)] * 2
