"""How soon a small change of cost is detected with 5 % of noise: the figures of the docs."""

from __future__ import annotations

import numpy as np
import pytest

from ebbflow.profiling.curve_learner import Cusum

TRIES, MOST = 100, 3000


def windows_until_noticed(change: float) -> list[int]:
    """In each of some tries; the most where it was not."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(TRIES):
        cusum = Cusum(error=0.02)
        used = ((1 + change) * np.exp(rng.normal(0, 0.05, MOST))).tolist()
        found.append(next((k for k, each in enumerate(used, 1) if cusum.add(each, expected=1.0)), MOST))
    return found


@pytest.mark.parametrize(("change", "least", "most"), [(0.1, 5, 10), (0.05, 25, 50), (0.04, 70, 150)])
def test_a_change_of_a_few_percent_is_always_detected_and_the_smaller_the_later(
    change: float, least: int, most: int
) -> None:
    found = windows_until_noticed(change)
    assert max(found) < MOST
    assert least <= np.median(found) <= most


def test_a_change_of_two_percent_is_mostly_not_detected_in_hours() -> None:
    assert np.median(windows_until_noticed(0.02)) == MOST
