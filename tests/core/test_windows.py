"""Windows of recent readings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading, Window, Windows


def test_an_empty_window_gives_none_and_not_zero() -> None:
    window = Window(span_s=10.0)
    assert (window.last, window.last_time_s, window.mean(), window.maximum()) == (None, None, None, None)
    assert window.slope_per_s() == 0.0


def test_a_late_reading_does_not_change_the_last_value() -> None:
    window = Window(span_s=10.0)
    window.add(5.0, 1.0)
    window.add(4.0, 99.0)
    assert list(window) == [(5.0, 1.0)]


@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(-1e6, 1e6)), max_size=60),
    st.floats(min_value=0.1, max_value=50.0),
)
def test_a_window_is_ordered_and_never_longer_than_its_span(
    points: list[tuple[float, float]], span_s: float
) -> None:
    window = Window(span_s=span_s)
    for time_s, value in points:
        window.add(time_s, value)
    times = [time_s for time_s, _ in window]
    assert times == sorted(times)
    assert not times or times[-1] - times[0] <= span_s + 1e-9
    assert len(window) == len(times)


@given(slope=st.floats(-100, 100), start=st.floats(-100, 100), count=st.integers(2, 30))
def test_the_slope_of_a_straight_line_is_exact(slope: float, start: float, count: int) -> None:
    window = Window(span_s=1000.0)
    for t in range(count):
        window.add(float(t), start + slope * t)
    assert window.slope_per_s() == pytest.approx(slope, abs=1e-6)


def test_readings_at_one_time_have_no_slope() -> None:
    window = Window(span_s=10.0)
    window.add(1.0, 5.0)
    window.add(1.0, 50.0)
    assert window.slope_per_s() == 0.0


def test_since_takes_the_readings_at_or_after_a_time() -> None:
    window = Window(span_s=10.0)
    for t in range(4):
        window.add(float(t), float(t))
    assert window.since(2.0) == [(2.0, 2.0), (3.0, 3.0)]


def test_after_returns_only_newer_readings() -> None:
    window = Window(span_s=10.0)
    for t in (1.0, 2.0, 2.0, 3.0):
        window.add(t, t)
    assert window.after(2.0) == [(3.0, 3.0)]
    assert window.after(3.0) == []
    assert window.after(0.0) == list(window)


@given(
    st.lists(st.floats(0, 20) | st.sampled_from([5.0, 10.0]), max_size=12),
    st.floats(-1, 21) | st.sampled_from([5.0, 10.0]),
)
def test_since_and_after_leave_out_earlier_readings(times_s: list[float], from_s: float) -> None:
    window = Window(span_s=100.0)
    for time_s in times_s:
        window.add(time_s, 2 * time_s)
    assert window.since(from_s) == [point for point in window if point[0] >= from_s]
    assert window.after(from_s) == [point for point in window if point[0] > from_s]


@given(
    st.lists(
        st.tuples(st.floats(0, 40), st.sampled_from("ab"), st.sampled_from([Metric.NODES, Metric.SLOTS])),
        max_size=30,
    )
)
def test_adding_to_windows_equals_adding_to_each_window(series: list[tuple[float, str, Metric]]) -> None:
    windows, each = Windows(span_s=10.0), {(s, m): Window(10.0) for _, s, m in series}
    for number, (time_s, subject, metric) in enumerate(series):
        windows.add([Reading(time_s, subject, metric, float(number))])
        each[subject, metric].add(time_s, float(number))
    assert {key: list(windows.of(*key)) for key in windows.series()} == {k: list(w) for k, w in each.items()}


def test_series_are_separate_by_subject_and_metric() -> None:
    windows = Windows()
    windows.add(
        [
            Reading(1.0, "a", Metric.NODES, 1.0),
            Reading(1.0, "b", Metric.NODES, 2.0),
            Reading(1.0, "a", Metric.SLOTS, 3.0),
        ]
    )
    assert windows.of("a", Metric.NODES).last == 1.0
    assert windows.of("b", Metric.NODES).last == 2.0
    assert windows.of("a", Metric.SLOTS).last == 3.0
    assert windows.of("c", Metric.NODES).last is None


def test_silent_series_can_be_dropped() -> None:
    windows = Windows()
    windows.add([Reading(1.0, "gone", Metric.TASK_TIME, 1.0), Reading(90.0, "here", Metric.TASK_TIME, 1.0)])
    windows.forget_before(50.0)
    assert len(windows) == 1
    assert windows.of("here", Metric.TASK_TIME).last == 1.0
