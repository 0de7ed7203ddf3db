"""Counted quantities over time."""

from __future__ import annotations

import pytest

from ebbflow.core.curve import Curve

STAIR = Curve.of([(0.0, 1.0), (10.0, 3.0), (20.0, 2.0)])


@pytest.mark.parametrize(("time_s", "value"), [(-1.0, 0.0), (0.0, 1.0), (9.9, 1.0), (10.0, 3.0), (99.0, 2.0)])
def test_a_step_holds_its_value_until_the_next(time_s: float, value: float) -> None:
    assert float(STAIR.stepped(time_s)) == value


def test_the_integral_of_steps_is_value_times_seconds() -> None:
    assert STAIR.integral(5.0, 25.0) == pytest.approx(5 * 1 + 10 * 3 + 5 * 2)
    assert STAIR.integral(-10.0, 0.0) == 0.0


def test_a_count_is_dated_by_interpolation() -> None:
    arrived = Curve.of([(0.0, 0.0), (10.0, 100.0), (20.0, 100.0), (30.0, 300.0)])
    assert float(arrived.time_of(50.0)) == 5.0
    assert float(arrived.interpolated(25.0)) == 200.0


def test_an_empty_curve_has_no_points() -> None:
    assert len(Curve.of([])) == 0
