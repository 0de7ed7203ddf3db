"""What is drawn of a run is what happened in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from report_runs import EPOCH_S, empty_run, load_per_s, sine_run

from ebbflow.core.curve import Curve
from ebbflow.report import series


def _run(arrived: list[tuple[float, float]], processed: list[tuple[float, float]], ended_s: float = 100.0):
    return replace(
        empty_run(), arrived=Curve.of(arrived), processed=Curve.of(processed), ended_s=ended_s, started_s=0.0
    )


def test_times_count_from_the_start_of_the_run():
    run = sine_run()
    assert run.started_s == EPOCH_S
    for curve in (
        series.arrival_rate(run), series.processed_rate(run), series.nodes_held(run),
        series.nodes_working(run), series.backlog(run), series.freshness(run),
    ):  # fmt: skip
        assert curve.times_s[0] >= 0
        assert curve.times_s[-1] <= 180.0
        assert np.all(np.diff(curve.times_s) > 0)


def test_arrival_rate_follows_the_load():
    rate = series.arrival_rate(sine_run())
    for time_s, value in zip(rate.times_s, rate.values, strict=True):
        assert value == pytest.approx(load_per_s(time_s + 0.5), rel=0.1)


def test_thinned_rates_still_add_up_to_the_rows():
    times = np.arange(0.0, 3601.0, 0.25)
    run = _run([(t, 7 * t) for t in times], [(t, 7 * t) for t in times], ended_s=3600.0)
    rate = series.processed_rate(run)
    assert len(rate) <= 121
    assert np.allclose(rate.values, 7.0)


def test_freshness_is_the_age_of_the_oldest_row_just_before_the_commit():
    run = _run([(0, 0), (100, 1000)], [(10, 50), (20, 150)], ended_s=20.0)
    fresh = series.freshness(run)
    assert fresh.stepped(10.0) == pytest.approx(10.0, abs=1e-3)  # the row of second 0
    assert fresh.stepped(20.0) == pytest.approx(15.0, abs=1e-3)  # the row of second 5


def test_freshness_after_a_lull_counts_from_the_first_new_row():
    commits = [(2, 10), (4, 30), (6, 50), (8, 70), (10, 90), (12, 100), (72, 200)]
    run = _run([(0, 0), (10, 100), (60, 100), (70, 200)], commits, ended_s=72.0)
    fresh = series.freshness(run)
    assert fresh.interpolated(50.0) == pytest.approx(0.0, abs=1e-3)
    assert fresh.values[-1] == pytest.approx(12.0, abs=1e-3)


def test_the_freshness_of_a_stuck_pipeline_grows():
    run = _run([(0, 0), (100, 100)], [(5, 5), (10, 10)])
    assert series.freshness(run).values[-1] == pytest.approx(90.0, abs=1e-3)
    assert series.backlog(run).values[-1] == pytest.approx(90.0)
    assert len(series.freshness(run)) > 50


def test_long_runs_keep_their_peaks_when_they_are_thinned():
    times = np.arange(1.0, 5001.0)
    processed = [(t, t) for t in times if not 3000 < t < 3040]
    fresh = series.freshness(_run([(0, 0), (5000, 5000)], processed, ended_s=5000.0))
    assert len(fresh) <= 600
    assert fresh.values.max() == pytest.approx(40.0, abs=0.1)


def test_an_empty_run_draws_nothing():
    run = empty_run()
    for curve in (
        series.arrival_rate(run),
        series.nodes_held(run),
        series.backlog(run),
        series.freshness(run),
    ):
        assert len(curve) == 0


def test_a_run_of_no_length_draws_nothing_and_breaks_nothing():
    run = replace(sine_run(), ended_s=EPOCH_S)
    series.freshness(run)
    assert len(series.arrival_rate(run)) == 0
    assert len(series.nodes_held(run)) == 0
