"""Signals: what is measured, and what stays unknown."""

from __future__ import annotations

from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.core.signals import Signals
from ebbflow.testing.snapshots import OperatorReadings, make_batch, make_snapshot, make_stage


def test_the_span_of_a_batch_is_its_trigger_or_its_duration_if_longer() -> None:
    signals = Signals()
    signals.update(
        make_snapshot(10.0, 4, [make_batch(10.0, 4.0, make_stage(8, 12.0), make_stage(4, 8.0, index=1))])
    )
    assert signals.busy_slots == 2.0  # (12 + 8) / max(4, 10)
    assert signals.most_tasks == 8
    signals.update(make_snapshot(50.0, 4, [make_batch(50.0, 40.0, make_stage(8, 20.0))]))
    assert signals.busy_slots == 0.5  # 20 / 40


def test_queries_add_up_and_ended_ones_are_forgotten() -> None:
    signals = Signals()
    two = [make_batch(10.0, 4.0, make_stage(8, 10.0 * k), query=name) for k, name in ((1, "a"), (2, "b"))]
    signals.update(make_snapshot(10.0, 4, two, queries={"a": 10.0, "b": 10.0}))
    assert signals.busy_slots == 3.0
    signals.update(make_snapshot(20.0, 4, queries={"b": 10.0}))
    assert signals.busy_slots == 2.0
    assert signals.update(make_snapshot(30.0, 4, queries={})).startswith("no data")


def test_a_query_past_its_trigger_without_a_batch_is_idle_but_a_running_one_is_not() -> None:
    signals = Signals()
    signals.update(make_snapshot(10.0, 4, [make_batch(10.0, 4.0, make_stage(8, 20.0))]))
    signals.update(make_snapshot(60.0, 4, queries={"q": 55.0}))
    assert (signals.busy_slots, signals.rate_per_s) == (2.0, 100.0)
    signals.update(make_snapshot(60.0, 4, queries={"q": None}))
    assert (signals.busy_slots, signals.rate_per_s, signals.lag_rows) == (0.0, 0.0, 0.0)


def test_a_batch_that_outlasts_the_one_before_keeps_as_large_a_share_of_the_slots_busy() -> None:
    signals = Signals()
    signals.update(make_snapshot(10.0, 4, [make_batch(10.0, 4.0, make_stage(8, 12.0))]))
    signals.update(make_snapshot(31.0, 6, queries={"q": 20.0}))
    assert signals.busy_slots == 4.5  # 12 / (4 slots · 4 s) = 75 % of the 6 present slots
    assert signals.done_slots == 1.2  # 12 / 10
    signals.update(make_snapshot(31.0, 20, queries={"q": 20.0}))
    assert signals.busy_slots == 6.0  # 75 % of 8: there are no more tasks


def test_without_a_queue_length_the_lag_is_the_backlog_and_what_arrived_since() -> None:
    signals = Signals()
    signals.update(make_snapshot(10.0, 4, [make_batch(10.0, 4.0, make_stage(8, 20.0), backlog_rows=70.0)]))
    assert signals.lag_rows == 470.0  # 70 + 100 rows/s · 4 s


def test_the_lag_is_unknown_if_a_source_does_not_report_what_is_left() -> None:
    signals = Signals()
    assert (
        signals.update(
            make_snapshot(10.0, 4, [make_batch(10.0, 4.0, make_stage(8, 20.0), backlog_rows=None)])
        )
        == ""
    )
    assert signals.lag_rows is None


def test_operators_need_two_readings_and_busy_time_in_every_one() -> None:
    target, signals = OperatorReadings(), Signals()
    target.read(0.0, rate_per_s=10, lag_rows=0, read=(10, 10, 1, 1))
    assert signals.update(target.snapshot(0.0, Layout.of(2))).startswith("no data")
    target.read(2.0, rate_per_s=10, lag_rows=0, read=(10, 10, 1, 1))
    target.read(4.0, rate_per_s=10, lag_rows=0, read=(30, 10, 3, 1))
    assert signals.update(target.snapshot(4.0, Layout.of(2))) == ""
    assert (signals.busy_slots, signals.processed_per_s) == (1.0, 10.0)  # 4 s and 40 rows in 4 s
    target.windows.add([Reading(6.0, "read", Metric.ROWS_IN, 30.0)])
    signals.update(target.snapshot(6.0, Layout.of(2)))
    assert signals.busy_slots is None


def test_busy_time_follows_from_the_share_of_an_instance_if_seconds_are_not_measured() -> None:
    target, signals = OperatorReadings(), Signals()
    for time_s, share in ((0.0, 0.9), (10.0, 0.25), (20.0, 0.75)):
        for metric, value in ((Metric.ROWS_IN, 100.0), (Metric.INSTANCE_CPU, share), (Metric.INSTANCES, 4.0)):
            target.windows.add([Reading(time_s, "read", metric, value)])
    # such an engine lists its queries, but has no batches
    assert signals.update(target.snapshot(20.0, Layout.of(2), queries={"words": None})) == ""
    assert not signals.micro_batch
    assert signals.busy_slots == 2.0  # 4 instances · (0.25 + 0.75) · 10 s in 20 s
