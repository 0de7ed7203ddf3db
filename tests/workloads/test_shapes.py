"""The form of each load shape."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies_for_loads import simple_loads

from ebbflow.errors import LoadError
from ebbflow.workloads import (
    Constant,
    Day,
    Load,
    Noise,
    Periodic,
    Sawtooth,
    Sine,
    Square,
    Stair,
    Step,
)


@settings(deadline=None)
@given(simple_loads, st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_shapes_stay_between_base_and_peak(load: Load, times_s: list[float]) -> None:
    if isinstance(load, Constant):
        return
    rates = load.rate_per_s(np.array(times_s))
    slack = 1e-9 * load.peak_per_s  # type: ignore[attr-defined]
    assert (rates >= load.base_per_s - slack).all()  # type: ignore[attr-defined]
    assert (rates <= load.peak_per_s + slack).all()  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [Square, Sine, Sawtooth, Day])
def test_wave_starts_at_its_trough_and_repeats(kind: type[Sine]) -> None:
    load = kind(base_per_s=100, peak_per_s=900, period_s=600)
    times_s = np.arange(0.0, 600.0)
    assert load.rate_per_s(times_s)[0] == 100
    np.testing.assert_allclose(load.rate_per_s(times_s), load.rate_per_s(times_s + 6000))
    assert load.span_s == 600


def test_sine_has_its_peak_in_the_middle() -> None:
    load = Sine(base_per_s=100, peak_per_s=900, period_s=600)
    assert load.rate_per_s(np.array([300.0, 600.0])).tolist() == [900.0, 100.0]
    assert load.rows_between(np.array([0.0, 600.0]))[0] == pytest.approx(500 * 600)


def test_stair_goes_up_and_down_once() -> None:
    load = Stair(base_per_s=10, peak_per_s=40, steps=3, hold_s=60)
    rates = load.rate_per_s(np.arange(30.0, 600.0, 60.0))
    assert rates.tolist() == [10, 20, 30, 40, 30, 20, 10, 10, 10, 10]
    assert load.span_s == 7 * 60


def test_square_is_at_its_peak_for_its_duty() -> None:
    load = Square(base_per_s=10, peak_per_s=20, period_s=60, duty=0.25)
    assert load.rate_per_s(np.arange(0.5, 60.0)).tolist() == [10.0] * 45 + [20.0] * 15


def test_step_counts_rows_exactly_when_it_jumps_within_a_second() -> None:
    load = Step(base_per_s=0, peak_per_s=8, at_s=0.25)
    assert load.rows_between(np.array([0.0, 1.0])).tolist() == [6.0]


def test_day_has_a_night_a_morning_a_dip_and_a_higher_evening() -> None:
    load = Day(base_per_s=0, peak_per_s=1, period_s=24)
    hours = np.arange(0.0, 24.0, 0.01)
    rates = load.rate_per_s(hours)
    assert 18 <= hours[rates.argmax()] <= 22
    assert rates.max() == pytest.approx(1)
    assert rates[0] == 0
    assert rates[-1] < 0.01
    morning = rates[(hours > 8) & (hours < 13)].max()
    dip = rates[(hours > 13) & (hours < 17)].min()
    assert dip < morning < 1
    assert np.abs(np.diff(rates)).max() < 0.01  # smooth: no jump anywhere
    rise = np.diff(rates)
    assert hours[rise.argmax()] < 9.5  # the morning is steepest of all rises


def test_periodic_has_the_given_number_of_peaks_in_each_period() -> None:
    load = Periodic(base_per_s=10, peak_per_s=20, period_s=600, peaks=4, seed=7)
    for period in range(3):
        high = load.rate_per_s(np.arange(period * 600, (period + 1) * 600, 0.1)) == 20
        starts = np.count_nonzero(np.diff(np.concatenate(([False], high)).astype(int)) == 1)
        assert 3 <= starts <= 4  # peaks of neighbouring slots may touch


def test_peaks_of_periodic_are_random_but_the_same_for_the_same_seed() -> None:
    times_s = np.arange(0.0, 1200.0)
    load, same, other = (
        Periodic(base_per_s=1, peak_per_s=2, period_s=600, seed=seed).rate_per_s(times_s)
        for seed in (1, 1, 2)
    )
    assert (load == same).all()
    assert (load != other).any()
    assert (load[:600] != load[600:]).any()


def test_noise_keeps_the_mean_and_changes_once_a_second() -> None:
    load = Noise(load=Constant(level_per_s=100), amount=0.3, seed=5)
    rates = load.rate_per_s(np.arange(0.0, 50_000.0))
    assert rates.mean() == pytest.approx(100, rel=0.01)
    assert rates.std() == pytest.approx(30, rel=0.03)
    assert load.rate_per_s(np.array([7.0, 7.5, 7.999])).tolist() == [rates[7]] * 3


def test_noise_of_a_second_does_not_depend_on_other_requests() -> None:
    load = Noise(load=Constant(level_per_s=100), amount=0.3, seed=5)
    assert load.rate_per_s(np.array([41.0]))[0] == load.rate_per_s(np.arange(100.0))[41]
    other = Noise(load=Constant(level_per_s=100), amount=0.3, seed=6)
    assert load.rate_per_s(np.array([41.0]))[0] != other.rate_per_s(np.array([41.0]))[0]


def test_a_peak_below_the_base_is_refused_with_a_suggestion() -> None:
    with pytest.raises(LoadError, match="peak 100 below its base 900; did you mean base=100, peak=900"):
        Sine(base_per_s=900, peak_per_s=100, period_s=60)


def test_shapes_made_in_python_check_their_arguments() -> None:
    with pytest.raises(LoadError, match="rate of constant: nan is invalid; it must be rows per second"):
        Constant(level_per_s=float("nan"))
    with pytest.raises(LoadError, match="peaks in a period of 2s; each needs at least a second"):
        Periodic(base_per_s=1, peak_per_s=2, period_s=2, peaks=3)
