"""The contract of every load, and how loads are added and multiplied."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies_for_loads import loads, simple_loads

from ebbflow.errors import LoadError
from ebbflow.workloads import Constant, Load, Scaled, Sine, Step, Sum


@settings(deadline=None)
@given(loads, st.lists(st.floats(-10, 1e6), min_size=1, max_size=50))
def test_rates_are_finite_and_never_negative(load: Load, times_s: list[float]) -> None:
    rates = load.rate_per_s(np.array(times_s))
    assert rates.shape == (len(times_s),)
    assert np.isfinite(rates).all()
    assert (rates >= 0).all()


@given(loads)
def test_nothing_arrives_before_the_start(load: Load) -> None:
    assert load.rate_per_s(np.array([-1.0, -1e-9])).tolist() == [0.0, 0.0]
    assert load.rows_between(np.array([-5.0, -1.0, 0.0])).tolist() == [0.0, 0.0]


@settings(deadline=None, max_examples=50)
@given(simple_loads, st.floats(0, 1e4))
def test_rows_between_is_the_integral_of_the_rate(load: Load, start_s: float) -> None:
    length_s = min(max(load.span_s, 1.0), 5e3)
    edges_s = np.linspace(start_s, start_s + length_s, 200_001)
    sampled = float(np.sum(load.rate_per_s((edges_s[1:] + edges_s[:-1]) / 2)) * (length_s / 200_000))
    rows = float(load.rows_between(edges_s[[0, -1]])[0])
    highest = float(load.rate_per_s(edges_s).max())
    # a period much shorter than the sampling step leaves the sampled sum a few parts in a thousand off
    assert rows == pytest.approx(sampled, rel=1e-2, abs=1e-3 * highest * length_s + 1e-6)


@settings(deadline=None, max_examples=50)
@given(loads, st.lists(st.floats(0, 5e3), min_size=3, max_size=10))
def test_rows_of_parts_add_up_to_the_rows_of_the_whole(load: Load, edges: list[float]) -> None:
    edges_s = np.sort(np.array(edges))
    whole = float(load.rows_between(edges_s[[0, -1]])[0])
    assert float(load.rows_between(edges_s).sum()) == pytest.approx(whole, rel=1e-6, abs=1e-3)


def test_sum_of_sums_is_one_sum() -> None:
    a, b, c = (Constant(level_per_s=rate) for rate in (1, 2, 3))
    assert (a + b) + c == a + (b + c) == Sum(parts=(a, b, c))
    assert (a + b + c).rate_per_s(np.zeros(1)).tolist() == [6.0]


def test_a_factor_on_either_side_multiplies_the_rate() -> None:
    load = Sine(base_per_s=1, peak_per_s=3, period_s=60)
    assert 2 * load == load * 2 == Scaled(factor=2, load=load)
    assert (2 * load).rate_per_s(np.array([30.0])).tolist() == [6.0]


def test_a_load_cannot_be_multiplied_by_a_negative_number() -> None:
    with pytest.raises(LoadError, match="factor of a load: -1 is invalid; it must be a number above 0"):
        _ = -1 * Constant(level_per_s=1)
    with pytest.raises(TypeError):
        _ = Constant(level_per_s=1) + 1  # type: ignore[operator]


def test_endless_loads_have_an_infinite_duration_and_a_finite_span() -> None:
    load = Constant(level_per_s=1) + Step(base_per_s=0, peak_per_s=1, at_s=300)
    assert load.duration_s == math.inf
    assert load.span_s == 600


@given(loads)
def test_load_survives_pickling(load: Load) -> None:
    assert pickle.loads(pickle.dumps(load)) == load
