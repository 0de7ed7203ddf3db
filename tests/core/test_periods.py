"""A period keeps its length, however rarely it is checked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.core.periods import Every


@pytest.mark.parametrize("period_s", [1.0, 15.0, 30.0, 45.0, 60.0])
def test_checked_every_ten_seconds_the_mean_period_is_exact(period_s: float) -> None:
    every = Every(period_s)
    times = [due for k in range(361) for due in every.due(10.0 * k)]
    assert times == [period_s * k for k in range(round(3600 / period_s) + 1)]


@given(
    period_s=st.sampled_from([0.1, 1.0, 7.0, 15.0]),
    steps_s=st.lists(st.floats(0.01, 100.0), min_size=1, max_size=40),
)
def test_every_period_is_reported_once_by_the_first_call_after_it(
    period_s: float, steps_s: list[float]
) -> None:
    every, now_s = Every(period_s), 0.0
    reported = [every.due(0.0)]
    for step_s in steps_s:
        before_s, now_s = now_s, now_s + step_s
        reported.append(every.due(now_s))
        assert all(before_s - 1e-3 < due_s <= now_s + 1e-3 for due_s in reported[-1])
    times = [due_s for times in reported for due_s in times]
    assert times == pytest.approx([period_s * k for k in range(len(times))])
    assert now_s - times[-1] < period_s + 1e-3


def test_time_that_stands_still_or_goes_back_is_not_due() -> None:
    every = Every(10.0)
    assert [every.due(t) for t in (20.0, 20.0, 5.0, 29.0, 30.0)] == [(20.0,), (), (), (), (30.0,)]
