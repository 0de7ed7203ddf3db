"""ARIMA, boosted trees and PRESS: worked examples by hand, and loads whose answer is known."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from ebbflow.core.curve import Floats
from ebbflow.errors import InputError
from ebbflow.forecasting.trained import AnyModel
from ebbflow.forecasting.trained.arima import Arima, ArimaModel
from ebbflow.forecasting.trained.boosting import Boosting
from ebbflow.forecasting.trained.model import TrainingLoad
from ebbflow.forecasting.trained.press import MarkovModel, Press, SignatureModel


def series(values: Floats | list[float]) -> TrainingLoad:
    return TrainingLoad.of(np.asarray(values, dtype=np.float64), end_s=60.0 * len(values), step_s=60.0)


def test_an_arima_forecast_by_hand() -> None:
    model = ArimaModel(differences=0, constant=2.0, ar=(0.5,), ma=(0.4,))
    # √load: 4, 5. The shock of 5 is 5 − (2 + 0.5·4) = 1, so 2 + 0.5·5 + 0.4·1 = 4.9, then 2 + 0.5·4.9 = 4.45.
    ahead = model.ahead(np.array([16.0, 25.0]), end_s=120.0, step_s=60.0, steps=2)
    assert ahead == pytest.approx([4.9**2, 4.45**2])


def test_arima_finds_the_coefficients_of_a_known_process() -> None:
    random, w, shock = np.random.default_rng(1), [0.0], 0.0
    for e in random.normal(0, 1, 8000):
        w.append(0.8 * w[-1] + e + 0.5 * shock)
        shock = e
    model = Arima(ar=(1,), differences=(0,), ma=(1,)).fit(series(np.square(20.0 + np.asarray(w))))
    assert model.ar[0] == pytest.approx(0.8, abs=0.03)
    assert model.ma[0] == pytest.approx(0.5, abs=0.05)
    assert model.constant / (1 - model.ar[0]) == pytest.approx(20.0, abs=0.3)


def test_arima_stays_near_a_random_walk_and_never_grows_without_bound() -> None:
    walk = 500.0 + np.random.default_rng(2).normal(0, 1, 3000).cumsum()
    ahead = Arima().fit(series(walk**2)).ahead(walk**2, 3000 * 60.0, 60.0, 30)
    assert ahead == pytest.approx(np.full(30, walk[-1] ** 2), rel=0.02)
    with pytest.raises(InputError, match="no stable ARIMA model fits these 600 steps"):
        Arima().fit(series(1.01 ** np.arange(600.0)))
    assert Arima().fit(series(np.full(100, 7.0))).ahead(np.full(100, 7.0), 6000.0, 60.0, 9) == pytest.approx(
        7.0
    )


def test_a_markov_chain_by_hand() -> None:
    # Bins [0, 5) and [5, 10]; from the lower one twice up and once down, from the upper one always down.
    model = Press(bins=2)._chain(np.array([0.0, 10.0, 2.0, 1.0, 9.0, 3.0]))
    assert model.chances == ((pytest.approx(1 / 3), pytest.approx(2 / 3)), (1.0, 0.0))
    assert model.levels == (1.5, 9.5)
    # After 3: 1/3·1.5 + 2/3·9.5. One step later: 1/3·(1/3·1.5 + 2/3·9.5) + 2/3·1.5
    first = 1.5 / 3 + 9.5 * 2 / 3
    assert model.ahead(np.array([3.0]), 0.0, 60.0, 2) == pytest.approx([first, first / 3 + 1.5 * 2 / 3])


def test_press_takes_a_signature_only_if_the_windows_are_alike() -> None:
    hour = np.concatenate((np.full(40, 100.0), np.full(20, 400.0)))
    noise = np.random.default_rng(0).normal(0, 5, 600)
    model = Press().fit(series(np.tile(hour, 10) + noise))
    assert isinstance(model, SignatureModel)
    assert len(model.loads) == 60
    ahead = model.ahead(np.array([100.0]), 600 * 60.0, 60.0, 60)
    assert ahead == pytest.approx(hour, abs=10.0)
    grows = np.tile(hour, 10) * np.repeat(
        1.2 ** np.arange(10), 60
    )  # the same shape, but another mean each hour
    assert isinstance(Press().fit(series(grows)), MarkovModel)
    assert isinstance(Press().fit(series(200.0 + noise)), MarkovModel)


def test_boosted_trees_learn_a_daily_load_and_follow_it_above_all_they_saw() -> None:
    minutes = np.arange(5 * 1440)
    load = (
        500.0
        + 300.0 * np.sin(2 * np.pi * minutes / 1440)
        + np.random.default_rng(0).normal(0, 10, len(minutes))
    )
    cut = 4 * 1440
    model = Boosting(trees=60).fit(series(load[:cut]))
    assert model.seasons == (60, 1440)

    def missed(scale: float) -> tuple[float, float]:
        net, naive = [], []
        for origin in range(cut, len(load) - 30, 20):
            came = scale * load[origin + 29]
            ahead = model.ahead(scale * load[origin - model.needs : origin], origin * 60.0, 60.0, 30)
            net.append(abs(ahead[-1] - came))
            naive.append(abs(scale * load[origin - 1] - came))
        return float(np.mean(net)), float(np.mean(naive))

    error, naive = missed(1.0)
    assert error < 0.4 * naive
    error, naive = missed(3.0)
    assert error < 0.6 * naive


def test_a_tree_splits_where_the_load_does() -> None:
    rows = np.random.default_rng(0).uniform(0, 1, (4000, 3))
    wanted = np.where(rows[:, 1] > 0.5, 2.0, -1.0)
    trees = Boosting(depth=1, trees=60, rate=0.3)._grow(rows, wanted, 60)
    assert set(trees.features) == {(1,)}
    assert trees.thresholds[0][0] == pytest.approx(0.5, abs=0.03)
    assert trees.predict(np.array([[0.9, 0.2, 0.9], [0.1, 0.8, 0.1]])) == pytest.approx([-1.0, 2.0], abs=0.05)


@pytest.mark.parametrize(
    "method", [Arima(), Boosting(trees=5), Press()], ids=lambda each: type(each).__name__
)
def test_models_are_the_same_after_json_and_too_little_is_refused(method: Arima | Boosting | Press) -> None:
    values = 100.0 + np.random.default_rng(5).gamma(2.0, 20.0, 400)
    model = method.fit(series(values))
    again = msgspec.json.decode(msgspec.json.encode(model), type=AnyModel)
    assert again == model
    assert (
        again.ahead(values, 24_000.0, 60.0, 30).tolist() == model.ahead(values, 24_000.0, 60.0, 30).tolist()
    )
    with pytest.raises(InputError, match="needs at least"):
        method.fit(series(values[:1]))
