"""Arrival rate, freshness and backlog of a query, from nothing but its progress."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
import pytest

from ebbflow.targets.spark.observe.arrivals import ArrivalTracker
from ebbflow.targets.spark.observe.progress import Progress, SourceProgress


def progress(
    batch_id: int, at_s: float, start: int, end: int, latest: int | None, duration_s: float = 1.0
) -> Progress:
    return Progress(
        id="query-id", run_id="run", batch_id=batch_id,
        timestamp=datetime.fromtimestamp(at_s, UTC).isoformat(),
        num_input_rows=end - start, name="q", duration_ms={"triggerExecution": int(1000 * duration_s)},
        sources=[SourceProgress(start_offset=start, end_offset=end, latest_offset=latest, num_input_rows=end - start)],
    )  # fmt: skip


@dataclass
class Added:
    """What is known of a batch after it was added."""

    timed: bool
    rate_per_s: float
    backlog_rows: float | None
    oldest_arrival_s: float


def add(tracker: ArrivalTracker, batch: Progress) -> Added:
    timed = tracker.can_time(batch)
    oldest_arrival_s = tracker.add(batch)
    return Added(timed, tracker.rate_per_s, tracker.backlog_rows, oldest_arrival_s)


def tracked(*batches: Progress) -> tuple[ArrivalTracker, list[Added]]:
    tracker = ArrivalTracker(trigger_interval_s=10.0)
    return tracker, [add(tracker, batch) for batch in batches]


def test_the_first_batch_has_no_arrival_rate_because_the_start_of_its_arrivals_is_unknown() -> None:
    tracker, (first,) = tracked(progress(0, 100.0, 0, 5000, 5000))
    assert not first.timed
    assert tracker.rate_per_s == 0.0


def test_rows_of_the_first_batch_count_as_arrived_when_it_started() -> None:
    _, (first,) = tracked(progress(0, 100.0, 0, 5000, 6000))
    assert not first.timed
    assert first.backlog_rows == 1000.0
    assert first.oldest_arrival_s == 100.0


def test_the_backlog_of_an_old_topic_counts_from_where_the_first_batch_ended() -> None:
    """Its offsets begin at 3.9 million. The first batch has no start offset, as Kafka's."""
    first = progress(0, 100.0, 3_900_000, 3_901_000, 7_800_000)
    source = msgspec.structs.replace(first.sources[0], start_offset=None)
    _, (one, two) = tracked(
        msgspec.structs.replace(first, sources=[source]),
        progress(1, 110.0, 3_901_000, 3_902_000, 7_810_000),
    )
    assert one.backlog_rows == 3_899_000.0
    assert two.rate_per_s == 1000.0


def test_a_restarted_query_dates_its_rows_from_when_the_previous_run_left_them() -> None:
    tracker = ArrivalTracker(10.0, waiting_since_s=60.0)
    assert tracker.oldest_unprocessed_s() == 60.0
    assert tracker.queue_rows(100.0) is None, "their number is not known yet"
    first = add(tracker, progress(7, 100.0, 500, 700, 900))
    assert not first.timed
    assert first.oldest_arrival_s == 60.0
    assert tracker.oldest_unprocessed_s() == pytest.approx(80.0), "it took half of the 400 that came in 40 s"
    second = add(tracker, progress(8, 110.0, 700, 900, 900))
    assert second.timed
    assert second.oldest_arrival_s == pytest.approx(80.0)


def test_a_batch_after_the_clock_was_set_back_is_not_timed_but_its_rows_count() -> None:
    tracker = ArrivalTracker(10.0)
    add(tracker, progress(0, 100.0, 0, 50, 50))
    batch = progress(1, 90.0, 50, 80, 80)
    added = add(tracker, batch)
    assert not added.timed
    assert tracker._processed == 80
    assert added.oldest_arrival_s <= batch.started_s


def test_rate_and_oldest_row_without_a_read_limit() -> None:
    tracker, (_, batch) = tracked(progress(0, 100.0, 0, 50, 50), progress(1, 110.0, 50, 250, 250, 3.0))
    assert batch.timed
    assert batch.rate_per_s == pytest.approx(20.0)
    assert batch.oldest_arrival_s == pytest.approx(100.0)
    assert batch.backlog_rows == 0
    assert tracker.oldest_unprocessed_s() == pytest.approx(110.0)
    assert tracker.queue_rows(115.0) == pytest.approx(100.0)


def test_lag_hidden_by_a_read_limit_is_found_and_dated() -> None:
    # 100 rows/s arrive, a batch takes 500: by the fourth batch 1500 rows are left behind.
    limited = [progress(k, 100.0 + 10 * k, 500 * (k - 1), 500 * k, 1000 * k) for k in range(1, 5)]
    tracker, batches = tracked(progress(0, 100.0, 0, 0, 0), *limited)
    last = batches[-1]
    assert last.timed
    assert last.rate_per_s == pytest.approx(100.0)
    assert last.backlog_rows == pytest.approx(2000.0)
    assert last.oldest_arrival_s == pytest.approx(115.0), "row 1500 arrived 15 s after the start"
    assert tracker.oldest_unprocessed_s() == pytest.approx(120.0)


def test_without_a_latest_offset_the_rows_that_batches_take_count_as_arrivals() -> None:
    tracker, (_, batch) = tracked(progress(0, 100.0, 0, 50, None), progress(1, 105.0, 50, 150, None))
    assert batch.timed
    assert batch.rate_per_s == pytest.approx(20.0)
    assert batch.backlog_rows is None
    assert tracker.queue_rows(110.0) is None
    tracker.mark_idle(110.0)
    assert tracker.queue_rows(110.0) == 0.0, "the trigger found no data"


def test_rows_that_arrive_after_a_pause_did_not_wait_through_it() -> None:
    tracker, _ = tracked(progress(0, 100.0, 0, 50, 50), progress(1, 110.0, 50, 150, 150))
    for now_s in (121.0, 350.0, 700.0):
        tracker.mark_idle(now_s)
    assert tracker.oldest_unprocessed_s() == 690.0, "there were no rows at the last trigger"
    batch = add(tracker, progress(2, 705.0, 150, 160, 190))
    assert batch.timed
    assert batch.oldest_arrival_s == 690.0
    assert batch.rate_per_s == pytest.approx(40 / 595), "over the pause, which is part of the load"
    oldest_s = tracker.oldest_unprocessed_s()
    assert oldest_s is not None
    assert oldest_s >= 690.0


def test_the_backlog_is_unknown_if_one_of_several_sources_does_not_report_its_latest_offset() -> None:
    def joined(batch_id: int, at_s: float, rows: int, other_latest: object) -> Progress:
        batch = progress(batch_id, at_s, 0, rows, rows + 400)
        other = SourceProgress(start_offset=None, end_offset=9, latest_offset=other_latest)
        return msgspec.structs.replace(batch, sources=[*batch.sources, other])

    for missing in (None, "null", "not a number of rows"):
        tracker, (_, batch) = tracked(joined(0, 100.0, 50, missing), joined(1, 105.0, 100, missing))
        assert batch.timed
        assert batch.backlog_rows is None
        assert tracker.queue_rows(110.0) is None
    _, (_, batch) = tracked(joined(0, 100.0, 50, 9), joined(1, 105.0, 100, "19"))
    assert batch.backlog_rows == 400 + 10


def test_rows_of_a_first_batch_are_at_least_as_old_as_it_has_run() -> None:
    tracker = ArrivalTracker(trigger_interval_s=10.0)
    assert tracker.oldest_unprocessed_s() is None
    tracker.running_since_s = 100.0
    assert tracker.oldest_unprocessed_s() == 100.0
