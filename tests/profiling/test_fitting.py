"""Models and the cross-validation that chooses between them."""

from __future__ import annotations

import time

import numpy as np
import pytest

from ebbflow.profiling.fitting import ALL, FOLDS, QUICK, fit
from ebbflow.profiling.models import Knots, LinearCurve, NetCurve, Proportional, fall
from ebbflow.profiling.profile import Fitted

X = np.linspace(5, 500, 100)


def found(y: np.ndarray, x: np.ndarray = X, kinds: tuple[str, ...] = ALL) -> Fitted:
    answer = fit(x.tolist(), y.tolist(), kinds=kinds)
    assert answer is not None
    return answer


def noisy(y: np.ndarray, sigma: float = 0.03) -> np.ndarray:
    return np.asarray(y * np.exp(np.random.default_rng(7).normal(0, sigma, len(y))))


def test_if_all_rows_cost_the_same_the_simplest_model_wins_against_the_net() -> None:
    answer = found(noisy(0.002 * X))
    assert isinstance(answer.model, Proportional)
    assert answer.model.per_unit == pytest.approx(0.002, rel=0.01)
    assert set(answer.tried) == set(ALL)
    assert answer.error == pytest.approx(0.024, abs=0.01)  # mean |error| of σ = 3 %


def test_a_cost_whatever_the_load_gives_a_line() -> None:
    answer = found(noisy(0.2 + 0.001 * X))
    assert isinstance(answer.model, LinearCurve)
    assert answer.model.fixed == pytest.approx(0.2, rel=0.1)


def test_a_curve_gets_a_model_that_can_bend() -> None:
    curved = 0.9 * np.tanh((X - 200) / 120) + 1.0
    answer = found(noisy(curved, 0.01))
    assert isinstance(answer.model, NetCurve | Knots)
    assert answer.error < 0.02 < answer.tried["line"]
    assert answer.tried["net"] < 0.02


def test_the_net_is_that_of_elysium_and_fits_a_curve() -> None:
    curved = 0.9 * np.tanh((X - 200) / 120) + 1.0
    answer = found(noisy(curved, 0.01), kinds=("net",))
    assert isinstance(answer.model, NetCurve)
    assert len(answer.model.weights) == 3
    estimates = np.array([answer.model.at(x) for x in X])
    assert float(np.mean(np.abs(estimates - curved) / curved)) < 0.01


def test_the_error_is_that_of_held_out_samples() -> None:
    """A model that only remembers would have none: knots through pure noise must not look good."""
    rng = np.random.default_rng(3)
    answer = found(1.0 + 0.5 * rng.uniform(-1, 1, 60), np.sort(rng.uniform(1, 100, 60)), kinds=("knots",))
    assert answer.error > 0.2


def test_at_a_steady_load_only_the_cost_of_a_row_is_learned() -> None:
    answer = found(noisy(np.full(50, 0.3)), np.full(50, 100.0))
    assert isinstance(answer.model, Proportional)
    assert answer.model.at(100.0) == pytest.approx(0.3, rel=0.02)


@pytest.mark.parametrize(("samples", "spread"), [(5, 0.02), (10, 0.02), (30, 0.02), (100, 0.02), (100, 0.05)])
def test_extrapolation_from_a_narrow_range_does_not_follow_the_noise(samples: int, spread: float) -> None:
    """Rows cost the same each; windows are read with 5 % of noise at one load that varies a little."""
    off = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = 200 * np.exp(rng.normal(0, spread, samples))
        answer = found(0.002 * x * np.exp(rng.normal(0, 0.05, samples)), x, kinds=QUICK)
        off += [answer.estimate(at).value / (0.002 * at) - 1 for at in (100.0, 400.0, 800.0)]
    assert float(np.quantile(np.abs(off), 0.9)) < 0.15


@pytest.mark.parametrize("kinds", [("proportional",), ("line",)])
def test_a_straight_model_extrapolates_with_its_own_slope(kinds: tuple[str, ...]) -> None:
    answer = found(noisy(0.1 + 0.002 * X), kinds=kinds)
    for at in (1.0, 2000.0):
        assert answer.estimate(at).value == pytest.approx(answer.model.at(at))


def test_more_rows_never_cost_less() -> None:
    answer = found(noisy(0.5 - 0.0001 * X), kinds=("line",))
    assert isinstance(answer.model, LinearCurve)
    assert answer.model.per_unit == 0
    assert answer.slope > 0  # beyond what was seen nothing is for free


@pytest.mark.parametrize("kinds", [ALL, ("net",)])
def test_a_net_that_falls_never_wins(kinds: tuple[str, ...]) -> None:
    """Sizes are searched for as if more rows cost more, and the file of a profile has no other curves."""
    answer = found(noisy(0.2 + 0.3 * np.sin(np.pi * X / 500), 0.01), kinds=kinds)
    assert isinstance(answer.model, Knots)
    assert answer.tried["net"] < answer.error
    assert fall(answer.model, answer.low, answer.high) is None


@pytest.mark.parametrize(("x", "y"), [([], []), ([0.0, 0.0], [0.0, 0.0]), ([1.0, 2.0], [0.0, 0.0])])
def test_nothing_is_learned_from_nothing(x: list[float], y: list[float]) -> None:
    assert fit(x, y) is None


@pytest.mark.parametrize("count", [1, 2, 5, FOLDS, FOLDS + 1])
def test_a_few_samples_are_enough_to_start(count: int) -> None:
    x = np.linspace(10, 100, count)
    answer = found(0.01 * x, x)
    assert answer.model.at(50.0) == pytest.approx(0.5)
    assert answer.samples == count
    assert answer.error == (1.0 if count == 1 else pytest.approx(0.0, abs=1e-9))


def test_the_same_samples_give_the_same_model() -> None:
    x = np.linspace(5, 500, 40)
    y = noisy(0.9 * np.tanh((x - 200) / 120) + 1.0)
    assert found(y, x, kinds=("net",)) == found(y, x, kinds=("net",))


def test_quick_models_are_found_in_milliseconds() -> None:
    y = noisy(0.002 * X)
    found(y, kinds=QUICK)  # imports
    began = time.process_time()
    found(y, kinds=QUICK)
    assert time.process_time() - began < 0.2


def test_knots_handle_loads_that_are_almost_equal() -> None:
    """A stair has few loads, and means of one load differ in their last digits."""
    x = np.repeat([38.0, 209.0, 313.5], 40) + np.tile([0.0, 1e-14], 60)
    answer = found(noisy(0.002 * x), x, kinds=("knots",))
    assert isinstance(answer.model, Knots)
    assert answer.model.at(209.0) == pytest.approx(0.418, rel=0.02)
