"""Forecasts: the line, the net that must beat it, and the loads both are given."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.errors import InputError
from ebbflow.forecasting import load_net
from ebbflow.forecasting.forecast import Forecast
from ebbflow.forecasting.line import Naive, RunningLine
from ebbflow.forecasting.load_net import MOST_MINUTES, LoadNet
from ebbflow.forecasting.minutes import MinuteLoads, by_minute

LOADS = st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 1e4)), max_size=30).map(sorted)


def square(minute: int) -> float:
    """Ten minutes low, ten minutes high."""
    return 200.0 if minute // 10 % 2 == 0 else 900.0


def history(minutes: int) -> list[tuple[float, float]]:
    return [(60.0 * k + 30.0, square(k)) for k in range(minutes)]


@given(points=st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=3, max_size=20))
def test_removed_readings_leave_no_trace_in_the_line(
    points: list[tuple[float, float]],
) -> None:
    left, never = RunningLine(), RunningLine()
    left.restart(points)
    left.count(*points[0], -1)
    never.restart(points[1:])
    expected = never.at(500.0)
    if expected is not None and (never.slope_per_s() or 0.0) < 1e3:
        assert left.at(500.0) == pytest.approx(expected, rel=1e-3, abs=1e-1)


@given(loads=LOADS, now_s=st.floats(0, 1e4))
def test_the_line_predicts_five_valid_loads_or_nothing(
    loads: list[tuple[float, float]], now_s: float
) -> None:
    ahead = Naive().predict(loads, now_s)
    assert len(ahead) == (5 if loads else 0)
    assert all(math.isfinite(load) and load >= 0 for load in ahead)
    if loads:
        assert max(ahead) <= 3 * max(load for _, load in loads) + 1e-9


def test_the_line_ignores_loads_older_than_its_span() -> None:
    loads = [(60.0 * k, 1000.0) for k in range(20)] + [(60.0 * k, 100.0) for k in range(20, 30)]
    assert Naive().predict(loads, now_s=60.0 * 29) == pytest.approx([100.0] * 5)


def test_both_are_forecasts() -> None:
    assert isinstance(Naive(), Forecast)
    assert isinstance(LoadNet(), Forecast)


@pytest.fixture(scope="module")
def trained() -> LoadNet:
    net = LoadNet()
    net.learn(history(200))
    return net


def test_the_net_foresees_a_square_wave_that_the_line_does_not(trained: LoadNet) -> None:
    net, training = trained, trained.training
    assert training is not None
    assert training.net_wins
    assert training.net_error < 0.1 < training.naive_error
    seen = history(228)  # two minutes before the jump at 230
    assert max(net.predict(seen, now_s=228 * 60.0)) == pytest.approx(900.0, rel=0.1)
    assert max(Naive().predict(seen, now_s=228 * 60.0)) == pytest.approx(200.0, rel=0.1)
    assert net.basis.startswith("the net (mean error")


def test_the_net_trains_itself_once_there_is_enough_and_says_so() -> None:
    net = LoadNet(least=60)
    net.predict(history(59), now_s=59 * 60.0)
    assert net.training is None
    assert "59 of the 60 minutes" in net.basis
    for minutes in range(61, 100):  # a training step per prediction
        net.predict(history(minutes), now_s=minutes * 60.0)
    first = net.training
    assert first is not None
    assert first.minutes == 61
    net.predict(history(110), now_s=110 * 60.0)
    assert net.training is first, "not again before there is twice as much"
    for minutes in range(125, 155):
        net.predict(history(minutes), now_s=minutes * 60.0)
    assert net.training is not first


def test_training_in_steps_gives_the_same_net_as_training_at_once(trained: LoadNet) -> None:
    net = LoadNet(least=200)
    for minutes in range(200, 230):
        net.predict(history(minutes), now_s=minutes * 60.0)
    assert net.training == trained.training
    assert net.predict(history(231), 231 * 60.0) == trained.predict(history(231), 231 * 60.0)


def test_each_prediction_fits_at_most_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    class Fake:
        def predict(self, inputs: np.ndarray) -> np.ndarray:
            return np.zeros((len(inputs), 5))

    def fit(inputs: np.ndarray, *_: object) -> Fake:
        sizes.append(len(inputs))
        return Fake()

    monkeypatch.setattr(load_net, "_fit", fit)
    net, week = LoadNet(), history(7 * 24 * 60)
    for minute in range(30):
        before = len(sizes)
        net.predict(week, now_s=week[-1][0] + 60.0 * minute)
        assert len(sizes) <= before + 1
    assert net.training is not None
    assert max(sizes) <= MOST_MINUTES


def test_the_line_predicts_if_the_net_does_worse() -> None:
    net = LoadNet()
    rising = [
        (60.0 * k, 100.0 + 5.0 * k) for k in range(120)
    ]  # a straight line, above all loads of the training
    assert not net.learn(rising).net_wins
    assert net.predict(rising, now_s=119 * 60.0) == pytest.approx([700.0 + 5.0 * k for k in range(5)])
    assert "the net did worse" in net.basis


def test_the_same_history_makes_the_same_net() -> None:
    one, other = LoadNet(seed=4), LoadNet(seed=4)
    one.learn(history(90))
    other.learn(history(90))
    assert one.predict(history(101), 101 * 60.0) == other.predict(history(101), 101 * 60.0)


def test_after_a_long_silence_the_net_needs_ten_minutes_of_readings(trained: LoadNet) -> None:
    net = trained
    loads = [*history(200), (60.0 * 500, 400.0)]
    assert net.predict(loads, now_s=60.0 * 500) == [400.0] * 5
    assert "1 of the 10 minutes" in net.basis


def test_too_short_a_history_is_refused() -> None:
    with pytest.raises(InputError, match="needs at least 60 minutes"):
        LoadNet().learn(history(40))
    with pytest.raises(InputError, match="too few to learn from"):
        LoadNet(least=5)
    with pytest.raises(InputError, match="above 0"):
        Naive(span_s=0.0)


def test_short_gaps_in_the_readings_are_bridged() -> None:
    assert by_minute([(10.0, 1.0), (190.0, 4.0)]) == [(0.0, 1.0), (60.0, 1.0), (120.0, 1.0), (180.0, 4.0)]
    assert by_minute([(10.0, 1.0), (7200.0, 4.0)]) == [(7200.0, 4.0)]
    assert by_minute([]) == []


def test_minute_loads_drop_old_minutes_and_late_readings() -> None:
    loads = MinuteLoads(most=2)
    for minute in range(5):
        loads.add(60.0 * minute + 30.0, float(minute))
    loads.add(10.0, 99.0)
    assert [load for _, load in loads.all()] == [2.0, 3.0, 4.0]
