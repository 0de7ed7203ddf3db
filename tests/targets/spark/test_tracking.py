"""Arrivals, freshness and backlog of a query, from nothing but its progress."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from ebbflow.targets.spark.observe.progress import Progress, SourceProgress
from ebbflow.targets.spark.observe.tracking import QueryTracker


def progress(
    batch_id: int, at_s: float, start: int, end: int, latest: int | None, duration_s: float = 1.0
) -> Progress:
    return Progress(
        id="query-id", run_id="run", batch_id=batch_id,
        timestamp=datetime.fromtimestamp(at_s, UTC).isoformat(),
        num_input_rows=end - start, name="q", duration_ms={"triggerExecution": int(1000 * duration_s)},
        sources=[SourceProgress(start_offset=start, end_offset=end, latest_offset=latest, num_input_rows=end - start)],
    )  # fmt: skip


def tracked(*all_progress: Progress):
    """The tracker, and the batches whose rows it could time; None in the place of the others."""
    tracker = QueryTracker(trigger_interval_s=10.0)
    seen = [tracker.finished(p, (), slots=1, steady=True) for p in all_progress]
    return tracker, [each.batch if each.timed else None for each in seen]


def test_the_first_batch_tells_no_rate_because_nothing_says_since_when_its_rows_came() -> None:
    _, batches = tracked(progress(0, 100.0, 0, 5000, 5000))
    assert batches == [None]


def test_rows_of_the_first_batch_are_taken_to_have_come_when_it_started() -> None:
    first = QueryTracker(10.0).finished(progress(0, 100.0, 0, 5000, 6000), (), slots=1, steady=True)
    assert not first.timed
    assert (first.batch.rows, first.batch.backlog_rows) == (5000, 1000.0)
    assert first.batch.oldest_arrival_s == 100.0


def test_a_query_that_goes_on_dates_its_rows_from_when_the_run_before_left_them() -> None:
    tracker = QueryTracker(10.0, waiting_since_s=60.0)
    assert tracker.oldest_unprocessed_s() == 60.0
    assert tracker.queue_rows(100.0) is None, "how many they are is not known yet"
    first = tracker.finished(progress(7, 100.0, 500, 700, 900), (), slots=1, steady=True)
    assert not first.timed
    assert first.batch.oldest_arrival_s == 60.0
    assert tracker.oldest_unprocessed_s() == pytest.approx(80.0), (
        "half of the 400 that came in 40 s were taken"
    )
    second = tracker.finished(progress(8, 110.0, 700, 900, 900), (), slots=1, steady=True)
    assert second.timed
    assert second.batch.oldest_arrival_s == pytest.approx(80.0)


def test_a_clock_that_was_set_back_times_nothing_and_loses_no_rows() -> None:
    tracker = QueryTracker(10.0)
    tracker.finished(progress(0, 100.0, 0, 50, 50), (), slots=1, steady=True)
    seen = tracker.finished(progress(1, 90.0, 50, 80, 80), (), slots=1, steady=True)
    assert not seen.timed
    assert seen.batch.rows == 30
    assert seen.batch.oldest_arrival_s <= seen.batch.started_s


def test_rate_and_oldest_row_without_a_read_limit() -> None:
    tracker, (_, batch) = tracked(progress(0, 100.0, 0, 50, 50), progress(1, 110.0, 50, 250, 250, 3.0))
    assert batch is not None
    assert batch.arrival_rate_per_s == pytest.approx(20.0)
    assert batch.oldest_arrival_s == pytest.approx(100.0)
    assert batch.backlog_rows == 0
    assert tracker.oldest_unprocessed_s() == pytest.approx(110.0)
    assert tracker.queue_rows(115.0) == pytest.approx(100.0)


def test_lag_that_a_read_limit_hides_is_seen_and_dated() -> None:
    # 100 rows/s arrive, a batch takes 500: by the fourth batch 1500 rows are left behind.
    seen = [progress(k, 100.0 + 10 * k, 500 * (k - 1), 500 * k, 1000 * k) for k in range(1, 5)]
    tracker, batches = tracked(progress(0, 100.0, 0, 0, 0), *seen)
    last = batches[-1]
    assert last is not None
    assert last.arrival_rate_per_s == pytest.approx(100.0)
    assert last.backlog_rows == pytest.approx(2000.0)
    assert last.oldest_arrival_s == pytest.approx(115.0), "row 1500 arrived 15 s after the start"
    assert tracker.oldest_unprocessed_s() == pytest.approx(120.0)


def test_a_source_that_does_not_tell_its_latest_offset_counts_what_batches_take() -> None:
    tracker, (_, batch) = tracked(progress(0, 100.0, 0, 50, None), progress(1, 105.0, 50, 150, None))
    assert batch is not None
    assert batch.arrival_rate_per_s == pytest.approx(20.0)
    assert batch.backlog_rows is None
    assert tracker.queue_rows(110.0) is None
    tracker.idle(110.0)
    assert tracker.queue_rows(110.0) == 0.0, "it found nothing to do"


def test_rows_that_come_after_a_pause_did_not_wait_through_it() -> None:
    tracker, _ = tracked(progress(0, 100.0, 0, 50, 50), progress(1, 110.0, 50, 150, 150))
    for now_s in (121.0, 350.0, 700.0):
        tracker.idle(now_s)
    assert tracker.oldest_unprocessed_s() == 690.0, "nothing was there at the last trigger"
    batch, timed = tracker.finished(progress(2, 705.0, 150, 160, 190), (), slots=1, steady=True)
    assert timed
    assert batch.oldest_arrival_s == 690.0
    assert batch.arrival_rate_per_s == pytest.approx(40 / 595), "over the pause, which is part of the load"
    assert tracker.oldest_unprocessed_s() >= 690.0


def test_what_waits_is_unknown_where_one_of_several_sources_does_not_tell() -> None:
    def joined(batch_id: int, at_s: float, rows: int, other_latest: object) -> Progress:
        told = progress(batch_id, at_s, 0, rows, rows + 400)
        other = SourceProgress(start_offset=None, end_offset=9, latest_offset=other_latest)
        return msgspec.structs.replace(told, sources=[*told.sources, other])

    for untold in (None, "null", "not a number of rows"):
        tracker, (_, batch) = tracked(joined(0, 100.0, 50, untold), joined(1, 105.0, 100, untold))
        assert batch is not None
        assert batch.backlog_rows is None
        assert tracker.queue_rows(110.0) is None
    _, (_, batch) = tracked(joined(0, 100.0, 50, 9), joined(1, 105.0, 100, "19"))
    assert batch is not None
    assert batch.backlog_rows == 400 + 10


def test_rows_of_a_first_batch_are_at_least_as_old_as_it_has_run() -> None:
    tracker = QueryTracker(trigger_interval_s=10.0)
    assert tracker.oldest_unprocessed_s() is None
    tracker.running_since_s = 100.0
    assert tracker.oldest_unprocessed_s() == 100.0
