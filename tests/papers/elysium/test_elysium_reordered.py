"""The minutes of a load in another order: nothing else about it changes, and the verdict tells what came of it."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from ebbflow.papers.elysium import reordered
from ebbflow.papers.elysium.cases import cases
from ebbflow.papers.elysium.kit import Kit
from ebbflow.papers.elysium.published import JOINT, SIMULATOR, SPARK, SYMBIOTIC, T1
from ebbflow.papers.elysium.reordered import InOrder, explained
from ebbflow.papers.elysium.result import Measured, Result
from ebbflow.papers.elysium.verdict import Verdict
from ebbflow.workloads import parse_load

LOAD = parse_load("noise(square(base=50, peak=400, period=2m), amount=0.5, seed=4)")
ORDERED = InOrder(load=LOAD, seconds=630.0)
WORSE = Verdict(
    application=T1, load="twitter", target=SIMULATOR, saves_more=True, degrades_no_more=False, explanation="It is so."
)  # fmt: skip


def test_the_minutes_are_the_same_and_in_order() -> None:
    minutes = ORDERED.rows_between(np.arange(0.0, 601.0, 60.0)) / 60.0
    assert ORDERED.duration_s == 600.0, "the half minute at the end is left out"
    assert sorted(minutes) == pytest.approx(sorted(ORDERED.minutes_per_s))
    busiest = int(minutes.argmax())
    assert 0 < busiest < 9
    assert (np.diff(minutes[: busiest + 1]) >= 0).all()
    assert (np.diff(minutes[busiest:]) <= 0).all()


def test_inside_a_minute_every_second_is_as_it_was() -> None:
    def seconds(load) -> list[tuple[float, ...]]:
        rows = load.rows_between(np.arange(0.0, 601.0)).round(6)
        return sorted(tuple(minute) for minute in rows.reshape(10, 60))

    assert seconds(ORDERED) == seconds(LOAD)


def test_rows_are_what_the_rate_says_wherever_one_cuts() -> None:
    edges_s = np.array([0.0, 0.25, 59.5, 60.5, 61.0, 200.0, 599.75])
    fine_s = np.arange(0.0, 599.76, 0.25)
    each = 0.25 * ORDERED.rate_per_s(fine_s[:-1])
    expected = [each[(fine_s[:-1] >= a) & (fine_s[:-1] < b)].sum() for a, b in itertools.pairwise(edges_s)]
    assert ORDERED.rows_between(edges_s) == pytest.approx(expected)


def test_a_jump_is_the_mean_change_from_minute_to_minute() -> None:
    square = parse_load("square(base=10, peak=30, period=2m)")
    assert InOrder(load=square, seconds=600.0).jump == pytest.approx(1.0)
    assert InOrder(load=parse_load("constant(5)"), seconds=600.0).jump == 0.0
    assert InOrder(load=square, seconds=60.0).jump == 0.0


def test_only_what_degrades_more_in_the_simulator_is_played_again(monkeypatch) -> None:
    rows = cases(applications=[T1], loads=["twitter"], strategies=[JOINT, SYMBIOTIC])
    rows = [replace(row, loads=((T1, LOAD),), seconds=630.0) for row in rows]
    played = []

    def run_cases(again, kit, *, seeds, workers):
        played.extend(again)
        values = {SYMBIOTIC: 0.0371, JOINT: 0.0362}
        return [
            Result(
                case=case, target=SIMULATOR, runs=seeds,
                measured=Measured(
                    throughput_degradation=values[case.key.strategy], throughput_degradation_unsmoothed=0.0,
                    nodes_saved=0.4, latency_mean_s=1.0, reconfigurations=1.0,
                ),
            )
            for case in again
        ]  # fmt: skip

    monkeypatch.setattr(reordered, "run_cases", run_cases)
    fine, on_spark = replace(WORSE, degrades_no_more=True), replace(WORSE, target=SPARK)
    kit = Kit(profiles={}, forecasts={})
    told = explained([WORSE, fine, on_spark], rows, kit, seeds=2)
    assert told[1:] == [fine, on_spark]
    assert told[0].explanation.startswith("It is so. From one minute to the next the load changes by ")
    assert told[0].explanation.endswith("the quietest first and last: 0.037 against 0.036.")
    assert [(case.seconds, case.loads[0][1]) for case in played] == [(600.0, ORDERED)] * 2
