"""Q-learning of a threshold finds the maximum from any start."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbflow.errors import InputError
from ebbflow.papers.elysium.published import TABLE_1
from ebbflow.papers.elysium.threshold_learning import ThresholdLearner

GRID = list(TABLE_1)


def published(value: float, _number: int) -> float:
    """The degradation that Table 1 must have come from: threshold − reward."""
    return value - TABLE_1[value]


@pytest.mark.parametrize("seed", range(5))
def test_the_published_table_is_learned_from_its_own_degradations(seed: int) -> None:
    found = ThresholdLearner(GRID, published, np.random.default_rng(seed)).learn(300)
    assert found.rewards == pytest.approx(TABLE_1)
    assert found.best == found.ends_at == 0.80
    assert found.inside


@settings(max_examples=15)
@given(peak=st.integers(1, 5), noise=st.floats(0.0, 0.02), seed=st.integers(0, 100))
def test_the_peak_is_found_wherever_it_is_and_with_any_seed(peak: int, noise: float, seed: int) -> None:
    noise_rng = np.random.default_rng(seed)

    def trial(value: float, _number: int) -> float:
        beyond = max(0.0, value - GRID[peak])
        return 4.0 * beyond + float(noise_rng.normal(0.0, noise))

    found = ThresholdLearner(GRID, trial, np.random.default_rng(seed)).learn(300)
    assert found.best == GRID[peak]
    assert found.inside
    assert sum(found.trials.values()) == 300


def test_the_best_is_not_inside_if_more_is_always_better() -> None:
    found = ThresholdLearner(GRID, lambda value, number: 0.0, np.random.default_rng(0)).learn(300)
    assert found.best == 0.90
    assert not found.inside


def test_learning_continues_where_it_stopped() -> None:
    learner = ThresholdLearner(GRID, published, np.random.default_rng(1))
    learner.learn(5)
    assert learner.learn(300).best == 0.80


@pytest.mark.parametrize(
    ("values", "changes", "trials"),
    [
        ([0.6, 0.7], {}, 10),
        ([0.6, 0.8, 0.7], {}, 10),
        (GRID, {"learning_rate": 0.0}, 10),
        (GRID, {"discount": 1.0}, 10),
        (GRID, {}, 0),
    ],
)
def test_invalid_settings_are_refused(values: list[float], changes: dict[str, float], trials: int) -> None:
    with pytest.raises(InputError):
        ThresholdLearner(values, published, np.random.default_rng(0), **changes).learn(trials)
