"""Recorded loads: formats of trace files, errors for invalid ones, replay, and counted rows."""

from __future__ import annotations

import gzip
import math
import pickle
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbflow.core.curve import Curve
from ebbflow.errors import LoadError
from ebbflow.workloads import Arrivals, Recorded, Trace
from ebbflow.workloads.trace import Draws, read_samples

Write = Callable[[str], str]
MINUTES = "minute,events\n0,60\n1,240\n2,120\n"


def rates(trace: Trace, *times_s: float) -> list[float]:
    return [float(rate) for rate in trace.rate_per_s(np.array(times_s))]


@pytest.mark.parametrize(
    ("text", "step_s"),
    [
        ("second,events\n0,1\n1,2\n2,3\n", 1),
        ("0,1\n1,2\n2,3\n", 1),
        ("1661724000,1\n1661724010,2\n1661724020,3", 10),
        ("minute,events\n10,1\n11,2\n12,3\n", 60),
        ("time (min),events\n0,1\n5,2\n10,3\n", 300),
        ("hour,events\n0,1\n1,2\n2,3\n", 3600),
        ("time,events\n2019-10-06 22:00:00,1\n2019-10-06 22:05:00,2\n2019-10-06 22:10:00,3\n", 300),
        ("2019-10-06T22:00:00Z,1\n2019-10-06T22:00:30Z,2\n2019-10-06T22:01:00Z,3\n", 30),
        ("time,events\n2019-10-06T23:00:00+02:00,1\n2019-10-06T22:00:00+00:00,2\n2019-10-07,3\n", 5400),
        ('"time", "events"\r\n"0", "1"\r\n\r\n"1", "2"\r\n2,3\r\n', 1),
        ("\ufefftime,events\n0,1\n0.5,2\n1,3e0\n", 0.5),
        ("time,events\r0,1\r60,2\r120,3\r", 60),
        ("time_ms,events\n1700000000000,1\n1700000000500,2\n1700000001000,3\n", 0.5),
        ("day,events\n0,1\n1,2\n2,3\n", 86400),
        ("second of the day,events\n0,1\n1,2\n2,3\n", 1),
        ("epoch_millis,events\n0,1\n500,2\n1000,3\n", 0.5),
        ("elapsed_h,events\n0,1\n1,2\n2,3\n", 3600),
        ("daytime,events\n0,1\n1,2\n2,3\n", 1),
        ("minimum lag,events\n0,1\n1,2\n2,3\n", 1),
        ("hourly reading,events\n0,1\n1,2\n2,3\n", 1),
        ("secondary clock (minutes),events\n0,1\n1,2\n2,3\n", 60),
    ],
)
def test_times_are_numbers_in_the_unit_of_the_heading_or_stamps(
    text: str, step_s: float, trace_file: Write
) -> None:
    samples = read_samples(trace_file(text))
    assert samples.step_s == step_s
    assert samples.times_s[0] == 0
    assert samples.events.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no rows; it needs at least two"),
        ("second,events\n", "has no rows; it needs at least two"),
        ("second,events\n0,1\n", "has only one row"),
        ("0,1\n1,-2\n2,3\n", "line 2 has -2 events; the count must be 0 or more"),
        ("0,1\n1,two\n2,3\n", "line 2: 'two' is not a number of events"),
        ("0,1\n1,1_000\n2,3\n", "line 2: '1_000' is not a number of events"),
        ("0,1\n1,nan\n2,3\n", "line 2: 'nan' is not a number of events"),
        ("0,1\n1,inf\n2,3\n", "line 2: 'inf' is not a number of events"),
        ("0,1\n1,\n2,3\n", "line 2: '' is not a number of events"),
        ("second,events\n0,1\n\nx,2\n", "line 4: 'x' is neither a number nor a timestamp"),
        ("x,5\n0,1\n1,2\n", "line 1: 'x' is neither a number nor a timestamp"),
        ("nan,5\n0,1\n1,2\n", "line 1: 'nan' is neither a number nor a timestamp"),
        ("second,events\n0,1\n2,1\n1,1\n", "line 4 goes back in time: '1' is not later"),
        ("second,events\n0,1\n1,1\n1,1\n", "line 4 goes back in time"),
        ("0,1\n1,2,3\n2,3\n", "line 2 has 3 columns; a trace has two columns, time,events"),
        ("0,1\n1\n2,3\n", "line 2 has 1 column; a trace has two columns"),
        ("a,b,c\n1,2,3\n", "line 1 has 3 columns"),
        (
            "time,events\n0,1\n2024-01-01,2\n",
            "line 3: '2024-01-01' is a timestamp, but the row before has a number",
        ),
        ("2024-01-01,1\n86400,2\n", "line 2: '86400' is a number, but the row before has a timestamp"),
        (
            "time,events\n1700000000000,1\n1700000060000,2\n",
            "line 2: '1700000000000' is too large for seconds",
        ),
        ("time,events\n0,1e300\n60,1e308\n", "reaches 1.66667e+306 rows per second; the limit is 1e12"),
        ("time,events\n0,1\n60,2\0\n", "is not UTF-8 text"),
        ("time,events\n0,1\n60," + "9" * 200_000 + "\n", "line 3: field larger than field limit"),
    ],
)
def test_an_invalid_trace_is_refused_with_its_line(text: str, problem: str, trace_file: Write) -> None:
    file = trace_file(text)
    with pytest.raises(LoadError) as caught:
        Trace(file=file)
    assert file in str(caught.value)
    assert problem in str(caught.value)


def test_a_trace_whose_timestamps_go_back_is_refused_with_its_line(trace_file: Write) -> None:
    file = trace_file("time,events\n2020-01-01 00:00,1\n2020-01-01 00:01,1\n2019-12-31 23:59,1\n")
    with pytest.raises(LoadError, match="line 4 goes back in time: '2019-12-31 23:59'"):
        Trace(file=file)


def test_missing_and_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"there is no trace file 'nowhere\.csv'"):
        Trace(file="nowhere.csv")
    with pytest.raises(LoadError, match="cannot be read: Is a directory"):
        Trace(file=str(tmp_path))
    whole = gzip.compress(MINUTES.encode())
    for broken in (whole[:-12], whole[:15] + b"\0\0\0\0" + whole[19:], b"\x1f\x8bnonsense"):
        file = tmp_path / "broken.csv.gz"
        file.unlink(missing_ok=True)
        file.write_bytes(broken)
        with pytest.raises(LoadError, match=r"broken.csv.gz is not a whole gzip file"):
            Trace(file=str(file))


def test_gzip_is_recognised_by_content_not_by_name(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_bytes(gzip.compress(MINUTES.encode()))
    assert rates(Trace(file=str(file)), 60) == [4.0]


def test_changed_file_is_read_again(trace_file: Write) -> None:
    assert rates(Trace(file=trace_file("0,1\n1,2\n")), 0) == [1.0]
    assert rates(Trace(file=trace_file("0,10\n1,20\n")), 0) == [10.0]


def test_events_become_rates_held_within_their_interval(trace_file: Write) -> None:
    trace = Trace(file=trace_file(MINUTES))
    assert rates(trace, 0, 59.9, 60, 119, 120, 179.9, 180) == [1, 1, 4, 4, 2, 2, 0]
    assert trace.duration_s == 180


def test_peak_scales_the_highest_sample(trace_file: Write) -> None:
    trace = Trace(file=trace_file(MINUTES), peak_per_s=1000)
    assert rates(trace, 0, 60, 120) == [250, 1000, 500]


def test_speed_replays_the_same_events_in_less_time(trace_file: Write) -> None:
    trace = Trace(file=trace_file(MINUTES), speed=60)
    assert trace.duration_s == 3
    assert rates(trace, 0, 1, 2) == [60, 240, 120]
    assert Arrivals(trace).rows_by(math.inf) == 420


def test_speed_does_not_change_a_requested_peak(trace_file: Write) -> None:
    trace = Trace(file=trace_file(MINUTES), peak_per_s=1000, speed=60)
    assert rates(trace, 0, 1, 2, 3) == [250, 1000, 500, 0]


def test_start_and_end_are_in_the_time_of_the_trace(trace_file: Write) -> None:
    file = trace_file(MINUTES)
    assert rates(Trace(file=file, start_s=60), 0, 60, 120) == [4, 2, 0]
    cut = Trace(file=file, start_s=30, end_s=90, speed=10)
    assert cut.duration_s == 6
    assert rates(cut, 0, 2.9, 3.1, 5.9) == [10, 10, 40, 40]
    assert rates(Trace(file=file, end_s=60, peak_per_s=50), 0) == [50]  # the peak of the section
    assert Trace(file=file, end_s=1e9).duration_s == 180


def test_section_outside_the_trace_is_refused(trace_file: Write) -> None:
    file = trace_file(MINUTES)
    with pytest.raises(LoadError, match="ends at 3m; start=1h must be earlier"):
        Trace(file=file, start_s=3600)
    with pytest.raises(LoadError, match="would end at 1m, before its start at 2m"):
        Trace(file=file, start_s=120, end_s=60)
    with pytest.raises(LoadError, match="has no events in the selected section, so it cannot be scaled"):
        Trace(file=trace_file("0,0\n1,0\n2,5\n"), end_s=2, peak_per_s=10)


def test_nothing_arrives_in_a_gap(trace_file: Write) -> None:
    trace = Trace(file=trace_file("0,10\n1,10\n2,10\n6,10\n7,10\n"))
    assert rates(trace, 0, 2, 2.9, 3, 5.9, 6, 7.9) == [10, 10, 10, 0, 0, 10, 10]
    assert Arrivals(trace).rows_by(math.inf) == 50


def test_uneven_steps_are_not_gaps(trace_file: Write) -> None:
    trace = Trace(file=trace_file("0,10\n1,10\n2.2,12\n3.1,10\n4.1,10\n"))
    assert rates(trace, 1.1) == pytest.approx([10 / 1.2])
    assert Arrivals(trace).rows_by(math.inf) == 52


def test_a_repeated_trace_never_ends(trace_file: Write) -> None:
    trace = Trace(file=trace_file(MINUTES), repeat=True)
    assert trace.duration_s == math.inf
    assert trace.span_s == 180
    assert rates(trace, 0, 180, 60 + 180_000) == [1, 1, 4]
    assert Arrivals(trace).rows_by(1800) == 4200


def test_line_interpolates_linearly_between_samples(trace_file: Write) -> None:
    trace = Trace(file=trace_file(MINUTES), between="line")
    assert rates(trace, 0, 30, 60, 90, 120, 150) == [1, 2.5, 4, 3, 2, 2]
    assert trace.rows_between(np.array([0.0, 60.0, 90.0])).tolist() == [150, 105]


def test_draw_keeps_the_sum_of_each_interval(trace_file: Write) -> None:
    trace = Trace(file=trace_file(MINUTES), between="draw", seed=4)
    assert trace.rows_between(np.array([0.0, 60.0, 120.0, 180.0])).tolist() == [60, 240, 120]
    seconds = trace.rate_per_s(np.arange(180.0))
    assert seconds.sum() == 420
    assert len(set(seconds)) > 5
    assert (seconds == np.floor(seconds)).all()
    np.testing.assert_allclose(trace.rows_between(np.arange(181.0)), seconds, atol=1e-9)


def test_draw_depends_only_on_the_seed(trace_file: Write) -> None:
    file = trace_file(MINUTES)
    times_s = np.arange(180.0)
    first = Trace(file=file, between="draw", seed=4)
    assert rates(first, 100) == [first.rate_per_s(times_s)[100]]
    again, other = (Trace(file=file, between="draw", seed=seed).rate_per_s(times_s) for seed in (4, 5))
    assert (first.rate_per_s(times_s) == again).all()
    assert (again != other).any()


def test_draw_of_a_trace_finer_than_a_second_is_a_hold(trace_file: Write) -> None:
    file = trace_file(MINUTES)
    assert rates(Trace(file=file, between="draw", speed=60), 0.1, 0.9) == [60, 60]


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=200),
    st.integers(2, 3000),
    st.integers(0, 2**63 - 1),
)
def test_drawn_blocks_do_not_depend_on_the_order_of_requests(
    rows: list[float], cells: int, seed: int
) -> None:
    index = np.arange(len(rows))
    position = np.full(len(rows), 0.37)
    one, other = (Draws(rows=np.array(rows), cells=cells, seed=seed) for _ in range(2))
    forward = one.rows_until(index, position)
    backward = other.rows_until(index[::-1].copy(), position)[::-1]
    assert (forward == backward).all()
    np.testing.assert_allclose(one.rows_until(index, np.ones(len(rows))), rows)


def test_a_pickled_trace_does_not_need_its_file(trace_file: Write) -> None:
    file = trace_file(MINUTES)
    for between in ("hold", "draw", "line"):
        trace = Trace(file=file, between=between)
        packed = pickle.dumps(trace)
        before = trace.rate_per_s(np.arange(180.0))
        Path(file).rename(f"{file}.away")
        unpacked = pickle.loads(packed)
        Path(f"{file}.away").rename(file)
        assert unpacked == trace
        assert (unpacked.rate_per_s(np.arange(180.0)) == before).all()


def write_trace(file: Path, times: list[str], events: list[float], heading: str = "time,events") -> str:
    text = "\n".join([heading, *(f"{time},{count}" for time, count in zip(times, events, strict=True))])
    file.write_bytes(gzip.compress(text.encode(), compresslevel=1))
    return str(file)


def stamps(step_s: int, count: int) -> list[str]:
    first = datetime(2019, 10, 6, 22, 0, tzinfo=UTC)
    return [f"{first + timedelta(seconds=step_s * k):%Y-%m-%d %H:%M:%S}" for k in range(count)]


@pytest.mark.parametrize(
    ("heading", "times", "step_s"),
    [
        ("second,events", [str(1661724000 + k) for k in range(2000)], 1),
        ("minute,events", [str(k) for k in range(2000)], 60),
        ("time,events", stamps(300, 2000), 300),
        ("time,events", stamps(1800, 2000), 1800),
    ],
)
def test_a_long_gzipped_trace_is_read_completely(
    heading: str, times: list[str], step_s: float, tmp_path: Path
) -> None:
    events = [(7 * k * k) % 1009 + 0.25 for k in range(len(times))]
    file = write_trace(tmp_path / "long.csv.gz", times, events, heading)
    samples = read_samples(file)
    assert samples.step_s == step_s
    assert samples.events.tolist() == events
    trace = Trace(file=file, peak_per_s=2000, speed=3600)
    peak = trace.rate_per_s(samples.times_s[[samples.events.argmax()]] / 3600 + 1e-9)
    assert peak[0] == pytest.approx(2000)


def test_all_events_around_many_gaps_are_replayed_and_none_in_the_gaps(tmp_path: Path) -> None:
    minutes = [k for k in range(5000) if k % 997 > 12]
    file = write_trace(
        tmp_path / "gaps.csv.gz",
        [str(k) for k in minutes],
        [1 + k % 91 for k in minutes],
        "minute,events",
    )
    samples, trace = read_samples(file), Trace(file=file)
    before = np.flatnonzero(np.diff(samples.times_s) > 60)
    assert len(before) == 5
    assert rates(trace, *(samples.times_s[before] + 61)) == [0] * 5
    assert Arrivals(trace).rows_by(math.inf) == int(samples.events.sum())


def test_nine_days_of_seconds_load_in_under_a_second_and_a_half(tmp_path: Path) -> None:
    seconds = 9 * 86400
    file = write_trace(
        tmp_path / "days.csv.gz",
        [str(k) for k in range(seconds)],
        [k % 97 for k in range(seconds)],
        "second,events",
    )
    started = time.perf_counter()
    trace = Trace(file=file)
    assert time.perf_counter() - started < 1.5
    assert trace.duration_s == seconds


# -- counted rows of a run -----------------------------------------------------------------------


@given(
    gaps_s=st.lists(st.floats(0.1, 500.0), min_size=1, max_size=20),
    rows=st.lists(st.integers(0, 100_000), min_size=20, max_size=20),
)
def test_the_rows_up_to_each_count_are_the_counted_rows(gaps_s, rows) -> None:
    times_s = np.concatenate(([0.0], np.cumsum(gaps_s)))
    counts = np.concatenate(([0.0], np.cumsum(rows[: len(gaps_s)]).astype(float)))
    load = Recorded(source="x", arrived=Curve(times_s, counts))
    assert np.sum(load.rows_between(times_s)) == pytest.approx(counts[-1])
    assert np.allclose(load.rows_between(times_s), np.diff(counts))
    assert Arrivals(load).rows_by(math.inf) == counts[-1]
    assert np.all(load.rate_per_s(np.linspace(-1.0, times_s[-1] + 1.0, 50)) >= 0)
    assert load.duration_s == load.span_s == times_s[-1]


@pytest.mark.parametrize(
    "points",
    [
        [(0, 0)],
        [(1, 0), (2, 5)],
        [(0, 0), (2, 5), (2, 6)],
        [(0, 0), (1, 5), (2, 4)],
        [(0, 0), (1, float("nan"))],
    ],
)
def test_invalid_counts_are_refused(points) -> None:
    with pytest.raises(LoadError):
        Recorded(source="x", arrived=Curve.of(points))
