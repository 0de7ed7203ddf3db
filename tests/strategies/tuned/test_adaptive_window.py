"""The adaptive window, beside what river's ADWIN reports for the same series."""

from __future__ import annotations

import random

import pytest

from ebbflow.strategies.tuned.adaptive_window import AdaptiveWindow

Part = tuple[int, float, float]


def series(seed: int, *parts: Part) -> list[float]:
    """Values in [0, 1]: parts of (count, mean, standard deviation)."""
    rng = random.Random(seed)
    return [min(1.0, max(0.0, rng.gauss(mean, sd))) for count, mean, sd in parts for _ in range(count)]


def changes(values: list[float]) -> list[int]:
    window = AdaptiveWindow(most=2000)
    return [index for index, value in enumerate(values) if window.update(value)]


@pytest.mark.parametrize(
    ("values", "changed_at", "rivers"),
    [
        (series(1, (200, 0.2, 0.03), (200, 0.5, 0.03)), 200, 235),
        (series(2, (300, 0.8, 0.05), (200, 0.6, 0.05)), 300, 351),
        (series(3, (400, 0.5, 0.05), (400, 0.55, 0.05)), 400, 743),
    ],
)
def test_a_change_is_reported_once_and_no_later_than_by_river(
    values: list[float], changed_at: int, rivers: int
) -> None:
    """``rivers``: where river 0.26.1, ``ADWIN(delta=0.002, clock=1)``, reports its only change of the series."""
    (first, *more) = changes(values)
    assert changed_at <= first <= rivers
    assert not more or max(more) - first < 20  # the cut is refined while the newer part grows


def test_a_steady_series_raises_no_alarm() -> None:
    assert changes(series(4, (2000, 0.5, 0.1))) == []


def test_the_scale_of_the_values_makes_no_difference() -> None:
    values = series(1, (200, 0.2, 0.03), (200, 0.5, 0.03))
    assert changes([2e4 * value for value in values]) == changes(values)
