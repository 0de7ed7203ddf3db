"""The collector accepts valid messages, and drops and counts all others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ebbflow.core.metrics import Metric
from ebbflow.errors import InputError
from ebbflow.monitoring.collector import FUTURE_AFTER_S, LATE_AFTER_S, SAME_NAME_AFTER, Collector, Counts
from ebbflow.monitoring.messages import Sample, Topic, encode

NOW_S = 10_000.0
CPU = ("*", Metric.NODE_CPU)


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector([], application="app-1")
    made.subscribe_to([CPU])
    yield made
    made.close()


def message(
    sequence: int = 1,
    *,
    time_s: float = NOW_S,
    boot: int = 1,
    agent: str = "a",
    topic: Topic = Topic(Metric.NODE_CPU, "app-1"),  # noqa: B008
    values: list[tuple[str, float]] | None = None,
) -> list[bytes]:
    sample = Sample(1, agent, boot, sequence, time_s, [("0", 0.5)] if values is None else values)
    return [topic.encode(), encode(sample)]


def accepted(collector: Collector, *frames: bytes, now_s: float = NOW_S) -> list[tuple[str, float]]:
    return [(r.subject, r.value) for r in collector.accept(frames, now_s)]


def test_a_message_becomes_readings_of_its_executors(collector: Collector) -> None:
    readings = collector.accept(message(time_s=NOW_S - 1, values=[("0", 0.5), ("12", 0.75)]), NOW_S)
    assert [(r.time_s, r.subject, r.metric, r.value) for r in readings] == [
        (NOW_S - 1, "executor-0", Metric.NODE_CPU, 0.5),
        (NOW_S - 1, "executor-12", Metric.NODE_CPU, 0.75),
    ]
    assert collector.counts == Counts(messages=1, readings=2)


def test_a_message_of_the_host_is_about_the_host(collector: Collector) -> None:
    collector.subscribe_to([("*", Metric.HOST_CPU)])
    frames = message(topic=Topic(Metric.HOST_CPU, ""), values=[("worker-1", 0.5)])
    assert accepted(collector, *frames) == [("host-worker-1", 0.5)]


@pytest.mark.parametrize("metric", [Metric.HOST_CPU, Metric.HOST_MEMORY, Metric.NODE_HEAP_SHARE])
def test_a_share_above_one_is_invalid(collector: Collector, metric: Metric) -> None:
    collector.subscribe_to([("*", metric)])
    topic = Topic(metric, "app-1" if metric is Metric.NODE_HEAP_SHARE else "")
    assert not accepted(collector, *message(1, topic=topic, values=[("a", 0.5), ("b", 57.0)]))
    assert collector.counts == Counts(garbage=1)
    assert len(accepted(collector, *message(2, topic=topic, values=[("a", 1.0), ("b", 1.001)]))) == 2, (
        "rounding"
    )


def test_a_node_may_use_more_cpu_than_its_cores(collector: Collector) -> None:
    assert accepted(collector, *message(values=[("0", 3.5)])) == [("executor-0", 3.5)]


def test_a_duplicate_is_dropped(collector: Collector) -> None:
    assert accepted(collector, *message(5))
    assert not accepted(collector, *message(5))
    assert collector.counts.duplicate == 1


def test_a_message_out_of_order_is_late(collector: Collector) -> None:
    assert accepted(collector, *message(5))
    assert not accepted(collector, *message(4))
    assert (collector.counts.late, collector.counts.duplicate) == (1, 0)


def test_each_agent_has_its_own_sequence(collector: Collector) -> None:
    assert accepted(collector, *message(5, agent="a"))
    assert accepted(collector, *message(5, agent="b"))


def test_two_agents_with_one_name_are_reported(collector: Collector, caplog) -> None:
    warning = "two agents are named a, and the readings of one are dropped; start them with --name"
    for sequence in range(1, SAME_NAME_AFTER + 1):
        for boot in (1, 2):
            accepted(collector, *message(sequence, boot=boot))
        logged = [record.getMessage() for record in caplog.records]
        assert logged.count(warning) == 0, "a few may be in transit at a restart"
    for sequence in range(100, 200):
        accepted(collector, *message(sequence, boot=1))
    assert [record.getMessage() for record in caplog.records].count(warning) == 1


def test_messages_from_before_a_restart_of_the_agent_are_late(collector: Collector) -> None:
    assert accepted(collector, *message(500, boot=1))
    assert accepted(collector, *message(1, boot=2))
    assert not accepted(collector, *message(501, boot=1))
    assert accepted(collector, *message(2, boot=2))
    assert (collector.counts.restarts, collector.counts.late) == (1, 1)


@pytest.mark.parametrize(
    ("ahead_s", "count"),
    [
        (FUTURE_AFTER_S, "messages"),
        (FUTURE_AFTER_S + 0.1, "future"),
        (1e300, "future"),
        (-LATE_AFTER_S, "messages"),
        (-LATE_AFTER_S - 0.1, "late"),
        (-NOW_S, "late"),
    ],
)
def test_times_too_far_from_the_local_clock_are_dropped(
    collector: Collector, ahead_s: float, count: str
) -> None:
    accepted(collector, *message(time_s=NOW_S + ahead_s))
    counts = collector.counts.to_json()
    assert counts.pop(count) == 1
    counts.pop("readings")
    assert not any(counts.values())


def test_no_reading_is_dated_after_now(collector: Collector) -> None:
    (reading,) = collector.accept(message(time_s=NOW_S + 3), NOW_S)
    assert reading.time_s == NOW_S


def test_a_message_from_the_future_does_not_block_later_ones(collector: Collector) -> None:
    assert not accepted(collector, *message(2**40, time_s=NOW_S + 1e6))
    assert accepted(collector, *message(1))


def test_a_skewed_clock_is_reported_once_and_again_after_it_was_right(collector: Collector, caplog) -> None:
    for sequence in range(1, 5):
        accepted(collector, *message(sequence, time_s=NOW_S + 60))
    assert [r.message for r in caplog.records] == [
        "dropping readings of agent a: they are 60 s ahead of the local clock"
    ]
    accepted(collector, *message(5))
    accepted(collector, *message(6, time_s=NOW_S - 60))
    assert caplog.records[-1].message == "dropping readings of agent a: they are 60 s behind the local clock"


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b"x"],
        [b"", b""],
        [*message(), b""],
        [message()[0], b"\x80\x04K\x01."],
        [b"node/node-cpu/", message()[1]],
    ],
)
def test_invalid_messages_are_only_counted(collector: Collector, frames: list[bytes]) -> None:
    assert not accepted(collector, *frames)
    assert collector.counts == Counts(garbage=1)
    assert accepted(collector, *message())


def test_a_metric_that_agents_do_not_measure_is_invalid(collector: Collector) -> None:
    collector.subscribe_to([("*", Metric.LEAD_TIME), CPU])
    assert not accepted(collector, b"node/lead-time/app-1/", message()[1])
    assert collector.counts.garbage == 1


def test_unsubscribed_metrics_count_as_unwanted(collector: Collector) -> None:
    assert not accepted(collector, *message(topic=Topic(Metric.NODE_MEMORY, "app-1")))
    assert not accepted(collector, *message(topic=Topic(Metric.NODE_CPU, "app-2")))
    assert collector.counts == Counts(unwanted=2)


def test_only_agent_metrics_of_the_application_are_subscribed_to(collector: Collector) -> None:
    collector.subscribe_to(
        [CPU, ("main", Metric.QUEUE_LENGTH), ("*", Metric.HOST_CPU), ("x", Metric.NODE_CPU)]
    )
    assert collector.subscriptions == {b"node/node-cpu/app-1/", b"host/host-cpu/"}
    collector.subscribe_to([])
    assert collector.subscriptions == set()
    assert not accepted(collector, *message())


@pytest.mark.parametrize(
    ("pattern", "subjects"),
    [
        ("*", ["executor-1", "executor-12", "executor-2"]),
        ("executor-*", ["executor-1", "executor-12", "executor-2"]),
        ("executor-1", ["executor-1"]),
        ("executor-1*", ["executor-1", "executor-12"]),
        ("enrich", []),
    ],
)
def test_subjects_may_be_chosen_by_pattern(collector: Collector, pattern: str, subjects: list[str]) -> None:
    collector.subscribe_to([(pattern, Metric.NODE_CPU)])
    readings = accepted(collector, *message(values=[("1", 1.0), ("12", 1.0), ("2", 1.0)]))
    assert [subject for subject, _ in readings] == subjects


deliveries = st.lists(
    st.tuples(st.integers(1, 12), st.integers(1, 3), st.sampled_from([-100.0, -1.0, 0.0, 1.0, 100.0])),
    max_size=60,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(deliveries)
def test_in_any_order_no_message_counts_twice_and_all_are_counted(sent) -> None:
    collector = Collector([], application="app-1")
    try:
        collector.subscribe_to([CPU])
        accepted_messages: list[tuple[int, int]] = []
        for sequence, boot, ahead_s in sent:
            if accepted(collector, *message(sequence, boot=boot, time_s=NOW_S + ahead_s)):
                assert abs(ahead_s) <= 1.0
                accepted_messages.append((boot, sequence))
        assert len(set(accepted_messages)) == len(accepted_messages)
        for boot in (1, 2, 3):
            sequences = [s for b, s in accepted_messages if b == boot]
            assert sequences == sorted(sequences)
        boots = [
            boot
            for i, (boot, _) in enumerate(accepted_messages)
            if i == 0 or accepted_messages[i - 1][0] != boot
        ]
        assert len(set(boots)) == len(boots)  # no agent returns to an earlier boot
        counts = collector.counts
        assert counts.messages == len(accepted_messages)
        assert counts.messages + counts.duplicate + counts.late + counts.future == len(sent)
    finally:
        collector.close()


def test_memory_is_bounded(collector: Collector, monkeypatch) -> None:
    monkeypatch.setattr("ebbflow.monitoring.collector.MOST_AGENTS", 10)
    for number in range(100):
        accepted(collector, *message(agent=f"a{number}"))
        accepted(collector, *message(agent=f"b{number}", time_s=NOW_S + 999))
    assert len(collector._agents) <= 10
    assert len(collector._skewed) <= 10


def test_a_silent_agent_gives_no_readings_and_is_reported_once(caplog, tmp_path) -> None:
    alone = Collector([f"ipc://{tmp_path}/no-agent"], application="app-1")
    alone.subscribe_to([CPU])
    for seconds in range(60):
        assert alone.take(NOW_S + seconds) == []
    assert alone.counts == Counts()
    assert [r.message.partition(": ")[2] for r in caplog.records] == ["no answer; its readings are missing"]
    alone.close()


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:7788", "tcp://worker:7788"])
def test_without_keys_only_local_agents_are_allowed(address: str) -> None:
    with pytest.raises(InputError, match="which needs keys"):
        Collector([address], application="app-1")


def test_an_application_id_is_required() -> None:
    with pytest.raises(InputError, match="is not a Spark application id"):
        Collector([], application="")
