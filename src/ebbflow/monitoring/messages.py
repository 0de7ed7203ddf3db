"""Messages of agents: one per sample, metric and application, in two frames.

::

    topic    node/node-cpu/app-20261116000002-0000/     or     host/host-cpu/
    body     [version, agent, boot, sequence, time, [[executor or host, value], …]]     (MessagePack)

Subscriptions are prefixes of topics, and ZeroMQ filters at the publisher: a metric without subscribers does not leave
its host. A body is decoded into one type. Bodies that do not fit, are too large or hold impossible values (NaN,
negative, 57 times a host's memory) are invalid.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Literal, NamedTuple

import msgspec

from ebbflow.core.metrics import AT_MOST_ONE, Metric, SubjectKind
from ebbflow.errors import MessageError

VERSION: Literal[1] = 1
LARGEST_BODY = 64 * 1024
"""Enough for some 3,000 executors on one host."""

NODE_METRICS = frozenset(
    {
        Metric.NODE_CPU,
        Metric.NODE_MEMORY,
        Metric.NODE_HEAP,
        Metric.NODE_HEAP_SHARE,
        Metric.NODE_DISK_READ,
        Metric.NODE_DISK_WRITE,
        Metric.NODE_NETWORK_IN,
        Metric.NODE_NETWORK_OUT,
    }
)
HOST_METRICS = frozenset(metric for metric in Metric if metric.about is SubjectKind.HOST)
AGENT_METRICS = NODE_METRICS | HOST_METRICS
"""All metrics that agents measure."""

LARGEST_SHARE = 1.01
"""Limit for shares of a whole. Slightly more than 1 is rounding, or two counters read one after the other."""

_BY_KEY = {metric.key: metric for metric in AGENT_METRICS}
_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")

Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,128}\Z")]
"""Name of an agent, host, application or executor."""


class Sample(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """The body of a message: one metric of all executors of an application, or of the host, at one time."""

    version: Literal[1]
    agent: Name
    boot: Annotated[int, msgspec.Meta(ge=0)]
    """Random number drawn when the agent starts. The sequence starts again with each."""
    sequence: Annotated[int, msgspec.Meta(ge=1)]
    """Number of the message since the agent started."""
    time_s: float
    values: Annotated[list[tuple[Name, float]], msgspec.Meta(max_length=4096)]


class Topic(NamedTuple):
    """What a message is about.

    >>> Topic(Metric.NODE_CPU, "app-1").encode()
    b'node/node-cpu/app-1/'
    >>> Topic.parse(b"host/host-cpu/") == (Metric.HOST_CPU, "")
    True
    """

    metric: Metric
    application: str
    """Empty for metrics of the host."""

    def encode(self) -> bytes:
        """The topic as a frame."""
        return prefix(self.metric, self.application)

    @classmethod
    def parse(cls, frame: bytes) -> Topic:
        """Parse a frame, or raise ``MessageError``."""
        match frame.decode("ascii", "replace").split("/"):
            case [kind, key, application, ""] if _NAME.fullmatch(application):
                about = SubjectKind.NODE
            case [kind, key, ""]:
                about, application = SubjectKind.HOST, ""
            case _:
                raise MessageError(f"not a topic: {frame[:80]!r}")
        metric = _BY_KEY.get(key)
        if metric is None or metric.about is not about or kind != about.value:
            raise MessageError(f"not a metric of agents: {frame[:80]!r}")
        return cls(metric, application)


def prefix(metric: Metric, application: str | None = None) -> bytes:
    """The subscription for a metric of one application, or of all."""
    tail = f"{application}/" if application and metric.about is SubjectKind.NODE else ""
    return f"{metric.about.value}/{metric.key}/{tail}".encode("ascii")


def is_name(text: str) -> bool:
    """Whether a text is a valid name: letters, digits, dots, dashes and underscores."""
    return _NAME.fullmatch(text) is not None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Sample)


def encode(sample: Sample) -> bytes:
    """Encode a sample as a body frame."""
    return _encoder.encode(sample)


def decode(body: bytes) -> Sample:
    """Decode a body frame, or raise ``MessageError``.

    >>> decode(encode(Sample(1, "worker-1", 7, 1, 100.0, [("0", 0.5)]))).values
    [('0', 0.5)]
    """
    if len(body) > LARGEST_BODY:
        raise MessageError(f"{len(body)} bytes; a sample has at most {LARGEST_BODY}")
    try:
        sample = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MessageError(f"not a sample of version {VERSION}: {error}") from None
    if not math.isfinite(sample.time_s):
        raise MessageError(f"{sample.time_s} is not a time")
    for subject, value in sample.values:
        if not 0 <= value < math.inf:
            raise MessageError(f"{value} is not a valid value for {subject}")
    return sample


def check_shares(topic: Topic, sample: Sample) -> None:
    """Raise ``MessageError`` if a share exceeds 1."""
    if topic.metric not in AT_MOST_ONE:
        return
    for subject, value in sample.values:
        if value > LARGEST_SHARE:
            raise MessageError(f"{topic.metric.key} of {subject} is {value:g}; it cannot exceed 1")
