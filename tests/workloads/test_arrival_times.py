"""Arrivals are exact and monotone, have an exact inverse, and do not depend on the order of requests."""

from __future__ import annotations

import math
import pickle
import random
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies_for_loads import loads

from ebbflow.errors import LoadError
from ebbflow.workloads import Arrivals, Constant, Load, Sine, Step, Trace, parse_load

times = st.floats(0, 20_000)


def test_rows_are_the_floor_of_the_integral() -> None:
    arrivals = Arrivals(Constant(level_per_s=4))
    assert [arrivals.rows_by(t) for t in (-1.0, 0.0, 0.2, 0.25, 0.49, 1.0, 1e6)] == [
        0,
        0,
        0,
        1,
        1,
        4,
        4_000_000,
    ]
    sine = Arrivals(Sine(base_per_s=100, peak_per_s=900, period_s=600))
    assert sine.rows_by(600.0) == 300_000
    assert sine.rows_by(6000.0) == 3_000_000


def test_a_third_of_a_row_each_second_is_a_row_every_three() -> None:
    arrivals = Arrivals(Constant(level_per_s=1 / 3))
    assert [arrivals.rows_by(3.0 * n) for n in (1, 1000, 1_000_000)] == [1, 1000, 1_000_000]


@settings(deadline=None, max_examples=60)
@given(loads, st.lists(times, min_size=2, max_size=30))
def test_rows_never_decrease(load: Load, requested: list[float]) -> None:
    arrivals = Arrivals(load)
    counts = [arrivals.rows_by(time_s) for time_s in sorted(requested)]
    assert counts == sorted(counts)
    assert arrivals.rows_by_each(np.array(sorted(requested))).tolist() == counts


@settings(deadline=None, max_examples=60)
@given(loads, st.lists(times, min_size=2, max_size=30), st.randoms(use_true_random=False))
def test_rows_do_not_depend_on_the_order_of_requests(
    load: Load, requested: list[float], dice: random.Random
) -> None:
    one, other = Arrivals(load), Arrivals(load)
    shuffled = requested.copy()
    dice.shuffle(shuffled)
    by_time = {time_s: one.rows_by(time_s) for time_s in requested}
    assert {time_s: other.rows_by(time_s) for time_s in shuffled} == by_time


@settings(deadline=None, max_examples=80)
@given(loads, times, st.integers(1, 200))
def test_each_row_arrives_at_the_first_moment_at_which_it_is_counted(
    load: Load, around_s: float, count: int
) -> None:
    arrivals = Arrivals(load)
    first = arrivals.rows_by(around_s)
    try:
        times_s = arrivals.times_of(first, count)
    except LoadError:  # so slow that the row would arrive in years
        return
    come = np.isfinite(times_s)
    times_s, rows = times_s[come], np.arange(first, first + count)[come]
    assert (np.diff(times_s) >= 0).all()
    assert (arrivals.rows_by_each(times_s) >= rows + 1).all()
    assert (arrivals.rows_by_each(np.nextafter(times_s, -math.inf)) <= rows).all()
    for time_s, row in list(zip(times_s.tolist(), rows.tolist(), strict=True))[:5]:
        assert arrivals.rows_by(time_s) >= row + 1


@settings(deadline=None, max_examples=40)
@given(loads, st.integers(0, 5000), st.integers(1, 300), st.integers(0, 300))
def test_times_do_not_depend_on_how_rows_are_grouped(load: Load, first: int, count: int, cut: int) -> None:
    cut = min(cut, count)
    try:
        whole = Arrivals(load).times_of(first, count)
        arrivals = Arrivals(load)
        parts = arrivals.times_of(first + cut, count - cut), arrivals.times_of(first, cut)
    except LoadError:
        return
    assert np.concatenate((parts[1], parts[0])).tolist() == whole.tolist()


def test_a_finite_load_stays_at_its_total_and_further_rows_never_arrive(
    trace_file: Callable[[str], str],
) -> None:
    file = trace_file("0,104\n300,100\n600,99\n")
    arrivals = Arrivals(Trace(file=file))
    assert [arrivals.rows_by(t) for t in (300.0, 600.0, 900.0, 1e9, math.inf)] == [104, 204, 303, 303, 303]
    assert arrivals.rows_by(math.inf) == 303
    times_s = arrivals.times_of(302, 3)
    assert times_s[0] == pytest.approx(900)
    assert times_s[1:].tolist() == [math.inf, math.inf]


def test_a_load_that_ends_within_a_second_is_complete_at_its_end(
    trace_file: Callable[[str], str],
) -> None:
    trace = Trace(file=trace_file("0,10\n1,20\n2,30\n"), speed=2)
    assert trace.duration_s == 1.5
    arrivals = Arrivals(trace)
    assert [arrivals.rows_by(t) for t in (1.0, 1.25, 1.4999, 1.5)] == [30, 45, 59, 60]
    assert arrivals.times_of(59, 1).tolist() == [1.5]


def test_a_load_of_zero_has_no_rows() -> None:
    assert Arrivals(Constant(level_per_s=0)).times_of(0, 2).tolist() == [math.inf, math.inf]


def test_rows_after_a_long_pause_still_arrive() -> None:
    arrivals = Arrivals(Step(base_per_s=0, peak_per_s=1, at_s=100_000))
    assert arrivals.times_of(0, 2).tolist() == [100_001, 100_002]


def test_times_beyond_five_years_are_refused() -> None:
    arrivals = Arrivals(Constant(level_per_s=1))
    for far_s in (1e9, 1e300, math.inf):
        with pytest.raises(LoadError, match="constant\\(1\\) is evaluated for at most 5 years"):
            arrivals.rows_by(far_s)
        with pytest.raises(LoadError, match="evaluated for at most 5 years"):
            arrivals.rows_by_each(np.array([far_s]))
    with pytest.raises(LoadError, match=r"brings more than 2\^42 rows"):
        Arrivals(Constant(level_per_s=1e12)).rows_by(5000.0)


def test_negative_rows_are_refused() -> None:
    arrivals = Arrivals(Constant(level_per_s=1))
    assert arrivals.times_of(3, 0).tolist() == []
    with pytest.raises(ValueError, match="rows are numbered from 0"):
        arrivals.times_of(-1, 5)


def test_arrivals_survive_pickling_and_stay_small() -> None:
    arrivals = Arrivals(parse_load("noise(sine(100, 900, 10m), 0.1, seed=3)"))
    counts = [arrivals.rows_by(float(t)) for t in range(0, 20_000, 777)]
    packed = pickle.dumps(arrivals)
    assert len(packed) < 1000
    again = pickle.loads(packed)
    assert [again.rows_by(float(t)) for t in range(0, 20_000, 777)] == counts


def test_chunks_dropped_from_the_cache_are_computed_again_the_same() -> None:
    arrivals = Arrivals(parse_load("noise(sine(100, 900, 10m), 0.1, seed=3)"))
    early = arrivals.times_of(0, 1000)
    arrivals.rows_by(1_000_000.0)
    assert 0 not in arrivals._tables
    assert (arrivals.times_of(0, 1000) == early).all()


def test_arrivals_are_fast_enough_for_a_source() -> None:
    arrivals = Arrivals(parse_load("sine(1000, 9000, 10m)"))
    arrivals.times_of(0, 1)
    started = time.perf_counter()
    arrivals.times_of(1_000_000, 100_000)
    for second in range(10_000):
        arrivals.rows_by(0.1 * second)
    assert time.perf_counter() - started < 1.0
