"""What a reconfiguration costs, how long it stops processing, and dips of the load."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_snapshots import made_snapshot

from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading, Windows
from ebbflow.strategies.symbiotic.reconfiguration import USUAL_STOP_S, LearnedStop, weigh


def test_a_stop_costs_the_idle_nodes_and_saves_the_released_ones() -> None:
    worth = weigh(4, 2, stop_s=10.0, busy=0.5, rate_per_s=50.0, until_s=60.0)
    assert (worth.cost_node_s, worth.saved_node_s, worth.drain_s) == (20.0, 100.0, 10.0)
    assert worth.late_rows == 1000.0
    assert worth.pays_off


@pytest.mark.parametrize(
    ("before", "after", "stop_s", "busy", "pays_off"),
    [
        (4, 3, 6.0, 0.75, True),  # 18 for 54
        (12, 11, 6.0, 0.75, False),  # 66 for 54
        (12, 10, 6.0, 0.75, True),  # 60 for 108
        (4, 3, 6.0, 0.95, False),  # it would drain for 114 s
        (4, 3, 61.0, 0.1, False),  # it would stop for longer than the minute
        (4, 3, 0.0, 0.99, True),  # no stop
        (3, 3, 6.0, 0.5, False),  # saves nothing
        (3, 4, 6.0, 0.5, False),
        (4, 3, 6.0, 1.0, False),  # would never drain
    ],
)
def test_what_pays_off(before: int, after: int, stop_s: float, busy: float, pays_off: bool) -> None:
    worth = weigh(before, after, stop_s=stop_s, busy=busy, rate_per_s=100.0, until_s=60.0)
    assert worth.pays_off is pays_off
    assert "node-seconds" in str(worth)


@given(
    before=st.integers(1, 200), after=st.integers(1, 200), stop_s=st.floats(0, 100), busy=st.floats(0, 1.2)
)
def test_nothing_pays_off_that_costs_more_than_it_saves(
    before: int, after: int, stop_s: float, busy: float
) -> None:
    worth = weigh(before, after, stop_s=stop_s, busy=busy, rate_per_s=10.0, until_s=60.0)
    if worth.pays_off:
        assert after < before
        assert worth.cost_node_s < worth.saved_node_s
        assert stop_s + worth.drain_s <= 60.0
    assert math.isfinite(worth.late_rows)


def test_the_stop_is_learned_from_measured_restarts() -> None:
    stop, windows = LearnedStop(), Windows()
    assert stop.stop_s == USUAL_STOP_S
    for k in range(8):
        at_s = 100.0 * k
        windows.add(
            [
                Reading(at_s, "words", Metric.RESTART_STOP, 4.0),
                Reading(at_s, "words", Metric.RESTART_STATE, 1.0),
                Reading(at_s, "words", Metric.RESTART_START, 20.0),
            ]
        )
        for later_s in (0.0, 10.0):  # counted once, however often it is in the window
            stop.learn(made_snapshot([], now_s=at_s + later_s, windows=windows), ["words"])
    assert stop.stop_s == pytest.approx(25.0, abs=0.1)


def test_the_stop_is_that_of_the_profile_until_a_restart_was_measured() -> None:
    stop = LearnedStop(known_s=5.0)
    stop.learn(made_snapshot([]), ["words"])
    assert stop.stop_s == 5.0
