"""The papers' net: resilient back-propagation by hand, gradients, sizes, and the accuracy on the paper's loads."""

from __future__ import annotations

import numpy as np
import pytest

from ebbflow.errors import InputError
from ebbflow.forecasting.trained.model import TrainingLoad
from ebbflow.forecasting.trained.net import ELYSIUM, Net, Rprop, gradients
from ebbflow.workloads import parse_load

LOADS = {
    "sawtooth": "sawtooth(base=500, peak=1800, period=14m)",
    "sine": "sine(base=500, peak=1800, period=30m)",
    "square": "square(base=500, peak=1800, period=20m)",
}


def minutes(load: str, count: int) -> TrainingLoad:
    rows = parse_load(load).rows_between(np.arange(count + 1) * 60.0)
    return TrainingLoad.of(np.asarray(rows, dtype=np.float64) / 60.0, end_s=count * 60.0, step_s=60.0)


def test_one_step_of_rprop_by_hand() -> None:
    rule = Rprop((4,))
    weights = np.zeros(4, dtype=np.float32)
    weights = rule.step(weights, np.array([3.0, -0.01, 0.0, 5.0], dtype=np.float32))
    assert weights.tolist() == pytest.approx(
        [-0.1, 0.1, 0.0, -0.1]
    )  # by 0.1 against the sign, whatever the size
    weights = rule.step(weights, np.array([1.0, 0.5, 2.0, 0.0], dtype=np.float32))
    # same sign: 0.12 further; turned: taken back, and half the step; after a 0 and with a 0: the step stays 0.1
    assert weights.tolist() == pytest.approx([-0.22, 0.0, -0.1, -0.1])
    assert rule.sizes.tolist() == pytest.approx([0.12, 0.05, 0.1, 0.1])
    weights = rule.step(weights, np.array([1.0, 0.5, 2.0, 5.0], dtype=np.float32))
    # the gradient that turned counts as 0 now, so its step stays 0.05 and is taken again
    assert weights.tolist() == pytest.approx([-0.364, -0.05, -0.22, -0.2])


def test_step_sizes_stay_within_their_limits() -> None:
    grows, turns = Rprop((1,)), Rprop((1,))
    weights = np.zeros(1, dtype=np.float32)
    for k in range(200):
        grows.step(weights, np.ones(1, dtype=np.float32))
        turns.step(weights, np.array([1.0 if k % 3 == 0 else -1.0], dtype=np.float32))
    assert grows.sizes[0] == pytest.approx(50.0)
    assert turns.sizes[0] == pytest.approx(1e-6, rel=0.5)


def test_gradients_agree_with_differences() -> None:
    random = np.random.default_rng(3)
    inputs, targets = random.uniform(0, 1, (7, 4)), random.uniform(0, 1, (7, 2))
    w1, w2 = random.normal(0, 1, (2, 4, 3)), random.normal(0, 1, (2, 4, 2))
    learned = np.array([[1.0] * 7, [1.0, 0.0] * 3 + [1.0]])[:, :, None]

    def error() -> float:
        return float((0.5 * gradients(inputs, targets, w1, w2, learned)[0] ** 2 * learned).sum())

    _, one, two = gradients(inputs, targets, w1, w2, learned)
    for weights, gradient in ((w1, one), (w2, two)):
        for place in np.ndindex(weights.shape):
            before = weights[place]
            weights[place] = before + 1e-6
            above = error()
            weights[place] = before - 1e-6
            below = error()
            weights[place] = before
            assert gradient[place] == pytest.approx((above - below) / 2e-6, rel=1e-4, abs=1e-7)


def test_the_net_has_the_size_of_each_paper() -> None:
    series = minutes(LOADS["sine"], 150)
    pascal, elysium = Net(epochs=3).fit(series), Net(epochs=3, features=ELYSIUM, lag_steps=1).fit(series)
    assert np.shape(pascal.hidden_weights) == (4 + 10 + 1, 24)  # and a bias
    assert np.shape(elysium.hidden_weights) == (3 + 10 + 1, 24)
    assert np.shape(pascal.output_weights) == np.shape(elysium.output_weights) == (24 + 1, 5)


@pytest.mark.parametrize("load", LOADS)
def test_the_mean_square_error_is_below_one_percent_on_the_papers_loads(load: str) -> None:
    series = minutes(LOADS[load], 210)
    values, cut = series.values, 147  # 70 %
    model = Net(epochs=800).fit(series.until(cut))
    errors = [
        model.ahead(values[:origin], origin * 60.0, 60.0, 5) - values[origin : origin + 5]
        for origin in range(cut, len(values) - 4)
    ]
    assert np.square(errors).mean() / np.ptp(values[:cut]) ** 2 < 0.01


def test_a_time_feature_is_unused_until_a_whole_cycle_was_observed() -> None:
    spans = Net(epochs=1).fit(minutes("constant(50)", 26 * 60)).scale.feature_span
    assert dict(zip(Net().features, spans, strict=True)) == {"day": 0, "weekday": 0, "month": 0, "hour": 23}


def test_the_net_continues_from_its_own_forecast() -> None:
    series = minutes(LOADS["sine"], 150)
    model = Net(epochs=30).fit(series)
    five = model.ahead(series.values, series.end_s, 60.0, 5)
    ten = model.ahead(series.values, series.end_s, 60.0, 10)
    assert ten[:5].tolist() == five.tolist()
    then = model.ahead(np.append(series.values, five), series.end_s + 300.0, 60.0, 5)
    assert ten[5:] == pytest.approx(then)


def test_the_same_load_makes_the_same_net_and_wrong_options_are_refused() -> None:
    series = minutes(LOADS["square"], 120)
    assert Net(epochs=20, seed=4).fit(series) == Net(epochs=20, seed=4).fit(series)
    assert Net(epochs=20, seed=4).fit(series) != Net(epochs=20, seed=5).fit(series)
    with pytest.raises(InputError, match="needs at least 75 steps, but got 40"):
        Net().fit(series.until(40))
    with pytest.raises(InputError, match="unknown time feature 'year'; choose from: minute, hour"):
        Net(features=("year",))
