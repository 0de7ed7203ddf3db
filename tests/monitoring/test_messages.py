"""A message is exactly what agents send; anything else is refused with its reason."""

from __future__ import annotations

import math
import pickle

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.core.metrics import Metric, SubjectKind
from ebbflow.errors import MessageError
from ebbflow.monitoring.messages import (
    AGENT_METRICS,
    LARGEST_BODY,
    Sample,
    Topic,
    decode,
    encode,
    prefix,
)

names = st.text("abcXYZ0129._-", min_size=1, max_size=40)
values = st.lists(st.tuples(names, st.floats(0, 1e18)), max_size=20)
GOOD = [1, "agent", 7, 1, 100.0, [["0", 0.5]]]


@given(names, st.integers(0, 2**32), st.integers(1, 2**50), st.floats(0, 1e10), values)
def test_a_sample_round_trips(agent: str, boot: int, sequence: int, time_s: float, of: list) -> None:
    sample = Sample(1, agent, boot, sequence, time_s, of)
    assert decode(encode(sample)) == sample


@pytest.mark.parametrize("metric", sorted(AGENT_METRICS, key=lambda m: m.key), ids=lambda m: m.key)
def test_a_topic_round_trips_and_starts_with_its_subscription(metric: Metric) -> None:
    topic = Topic(metric, "app-1" if metric.about is SubjectKind.NODE else "")
    assert Topic.parse(topic.encode()) == topic
    assert topic.encode().startswith(prefix(metric))
    assert topic.encode().startswith(prefix(metric, "app-1"))
    others = [other for other in AGENT_METRICS if other is not metric]
    assert not any(topic.encode().startswith(prefix(other)) for other in others)


def test_a_subscription_does_not_match_a_longer_application_id() -> None:
    assert not Topic(Metric.NODE_CPU, "app-12").encode().startswith(prefix(Metric.NODE_CPU, "app-1"))


@pytest.mark.parametrize(
    "frame",
    [
        b"", b"/", b"node", b"node/node-cpu", b"node/node-cpu/", b"node/node-cpu/app-1", b"node/node-cpu//",
        b"host/node-cpu/app-1/", b"node/host-cpu/app-1/", b"host/host-cpu/x/", b"host/host-cpu",
        b"node/lead-time/app-1/", b"node/task-time/app-1/", b"pipeline/queue-length/", b"node/node-cpu/a b/",
        b"node/node-cpu/a/b/", b"\xff\xfe", b"node/node-cpu/\xff/", b"node/node-cpu/" + b"a" * 200 + b"/",
    ],
)  # fmt: skip
def test_an_invalid_topic_is_refused(frame: bytes) -> None:
    with pytest.raises(MessageError):
        Topic.parse(frame)


@pytest.mark.parametrize(
    "body",
    [
        [2, *GOOD[1:]],
        GOOD[:5],
        [*GOOD, "more"],
        ["1", *GOOD[1:]],
        [1, "", *GOOD[2:]],
        [1, "a/b", *GOOD[2:]],
        [1, "a\n", *GOOD[2:]],
        [1, "a" * 129, *GOOD[2:]],
        [1, "agent", -1, *GOOD[3:]],
        [1, "agent", 7, 0, *GOOD[4:]],
        [*GOOD[:4], "now", GOOD[5]],
        [*GOOD[:4], math.nan, GOOD[5]],
        [*GOOD[:4], math.inf, GOOD[5]],
        [*GOOD[:5], [["0", math.nan]]],
        [*GOOD[:5], [["0", math.inf]]],
        [*GOOD[:5], [["0", -0.001]]],
        [*GOOD[:5], [["0", "1"]]],
        [*GOOD[:5], [["0"]]],
        [*GOOD[:5], [["0", 1.0, 2.0]]],
        [*GOOD[:5], [[0, 1.0]]],
        [*GOOD[:5], {"0": 1.0}],
        [*GOOD[:5], [["0", 1.0]] * 4097],
        {"version": 1},
        None,
        1,
    ],
)
def test_a_body_of_another_shape_is_refused(body: object) -> None:
    assert decode(msgspec.msgpack.encode(GOOD)).values == [("0", 0.5)]
    with pytest.raises(MessageError):
        decode(msgspec.msgpack.encode(body))


def test_a_body_that_is_too_large_is_refused_unread() -> None:
    with pytest.raises(MessageError, match="at most"):
        decode(b"\x00" * (LARGEST_BODY + 1))


class Trap:
    """A test would notice if it were unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (pytest.fail, ("a message was unpickled",))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_refused_and_never_loaded(protocol: int) -> None:
    with pytest.raises(MessageError):
        decode(pickle.dumps(Trap(), protocol))


@given(st.binary(max_size=400))
def test_random_bytes_raise_only_message_errors(data: bytes) -> None:
    with pytest.raises(MessageError):
        decode(data)


@given(st.integers(0, 60), st.integers(0, 255))
def test_a_changed_byte_is_refused_or_gives_a_valid_message(at: int, byte: int) -> None:
    body = bytearray(encode(Sample(1, "agent", 7, 1, 100.0, [("0", 0.5), ("1", 0.25)])))
    body[at % len(body)] = byte
    try:
        sample = decode(bytes(body))
    except MessageError:
        return
    assert all(0 <= value < math.inf for _, value in sample.values)


def test_a_deeply_nested_body_is_refused() -> None:
    with pytest.raises(MessageError):
        decode(b"\x91" * 60_000)
