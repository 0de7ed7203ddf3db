"""The least-squares line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.policy.evaluation.line import RunningLine


@given(points=st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=3, max_size=20))
def test_removed_readings_leave_no_trace_in_the_line(points: list[tuple[float, float]]) -> None:
    left, never = RunningLine(), RunningLine()
    left.restart(points)
    left.count(*points[0], -1)
    never.restart(points[1:])
    expected = never.at(500.0)
    if expected is not None and (never.slope_per_s() or 0.0) < 1e3:
        assert left.at(500.0) == pytest.approx(expected, rel=1e-3, abs=1e-1)
