"""From batches to arrivals: rows arrive between triggers, including those left behind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.runs.replay.recording import RecordedBatch, Recording, flow_of, trigger_interval_s


def batch(
    started_s: float, rows: int = 100, duration_s: float = 2.0, left: float | None = 0.0
) -> RecordedBatch:
    return RecordedBatch(started_s=started_s, duration_s=duration_s, rows=rows, left_rows=left)


def recording(*batches: RecordedBatch) -> Recording:
    return Recording(file="run", form="test", query="q", batches=batches)


def test_rows_arrive_between_batch_starts_and_the_first_ones_before() -> None:
    flow = flow_of(recording(*(batch(1000.0 + 5 * k, rows=100 * (k + 1)) for k in range(6))), 5.0)
    assert flow.origin_s == 1000.0
    assert flow.arrived.times_s.tolist() == [0.0, 5.0, 10.0, 15.0, 20.0, 25.0]
    assert flow.arrived.values.tolist() == [0.0, 200.0, 500.0, 900.0, 1400.0, 2000.0]
    assert flow.processed.times_s.tolist() == [0.0, 7.0, 12.0, 17.0, 22.0, 27.0]
    assert flow.processed.values.tolist() == flow.arrived.values.tolist()
    assert flow.end_s == 25.0


def test_rows_left_behind_count_as_arrived() -> None:
    left = [50.0, 150.0, 250.0, 150.0, 50.0, 0.0]
    flow = flow_of(recording(*(batch(5.0 * k, left=left[k]) for k in range(6))), 5.0)
    assert flow.arrived.times_s.tolist() == [0.0, 1.0, 5.0, 10.0, 15.0, 20.0, 25.0]
    assert flow.arrived.values.tolist() == [0.0, 50.0, 250.0, 450.0, 450.0, 450.0, 500.0]
    assert flow.processed.values[-1] == 500.0


def test_time_starts_at_a_trigger_even_if_the_first_batch_was_late() -> None:
    flow = flow_of(recording(batch(1003.0), *(batch(1005.0 + 5 * k) for k in range(6))), 5.0)
    assert flow.origin_s == 1000.0
    assert flow.arrived.times_s[:3].tolist() == [0.0, 5.0, 10.0]


def test_skipped_triggers_mean_no_arrivals_unless_the_query_was_down() -> None:
    starts = [0.0, 5.0, 10.0, 40.0, 45.0, 50.0, 55.0]
    made = [batch(t) for t in starts]
    ran = flow_of(recording(*made), 5.0).arrived
    assert float(ran.interpolated(35.0)) == 200.0  # all of the batch at 40 s came after the trigger at 35 s
    assert float(ran.interpolated(37.5)) == 250.0
    made[3] = RecordedBatch(started_s=40.0, duration_s=2.0, rows=100, left_rows=0.0, first=True)
    down = flow_of(recording(*made), 5.0).arrived
    assert (
        float(down.interpolated(25.0)) == 250.0
    )  # arrivals during the downtime are unknown and spread evenly


@given(
    rows=st.lists(st.integers(0, 1000), min_size=7, max_size=30),
    left=st.lists(st.floats(0.0, 5000.0), min_size=30, max_size=30),
)
def test_no_row_is_processed_before_it_arrives(rows, left) -> None:
    made = [batch(5.0 * k, rows=n + 1, left=left[k]) for k, n in enumerate(rows)]
    flow = flow_of(recording(*made), 5.0)
    done = flow.processed.values[1:]
    assert all(flow.arrived.interpolated(flow.processed.times_s[1:]) >= done - 1e-6)
    assert all(flow.arrived.values[1:] >= flow.arrived.values[:-1])


def test_the_trigger_is_found_although_some_batches_were_late_or_missing() -> None:
    starts = [0, 10, 20, 30, 55.0, 60, 70, 90, 100, 110, 120]
    durations = [3, 4, 3, 25.0, 4, 3, 3, 3, 3, 3, 3]
    late = tuple(batch(t, duration_s=d) for t, d in zip(starts, durations, strict=True))
    assert trigger_interval_s(late) == 10.0


@pytest.mark.parametrize(
    "starts",
    [[0, 3, 6, 9, 12, 15], [0, 3, 11, 40, 47, 49, 70, 91, 95], [0, 5]],
    ids=["back to back", "whenever rows came", "too few"],
)
def test_without_a_trigger_none_is_found(starts) -> None:
    assert trigger_interval_s(tuple(batch(float(t), duration_s=3.0) for t in starts)) is None


def test_a_read_limit_shows_in_batches_that_left_rows_behind() -> None:
    full = [batch(5.0 * k, rows=1000 if k % 2 else 400, left=500.0 if k % 2 else 0.0) for k in range(14)]
    assert recording(*full).read_limit_rows == 1000
    free = [batch(5.0 * k, rows=400 + 90 * k, left=5.0) for k in range(14)]
    assert recording(*free).read_limit_rows is None
