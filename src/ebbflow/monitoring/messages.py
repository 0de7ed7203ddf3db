"""What agents send: one message for each metric and application at each sample, in two frames.

::

    topic    node/node-cpu/app-20261116000002-0000/     or     host/host-cpu/
    body     [version, agent, boot, sequence, time, [[executor or host, value], …]]     (MessagePack)

Subscriptions are prefixes of topics, and ZeroMQ matches them at the publisher: a metric that nobody
subscribed to does not leave its host. The body is decoded into one type and nothing else; what does not
fit, is too large, or has a value that was not measured (NaN, negative, 57 times a host's memory) is no message.
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
"""Room for some 3,000 executors on one host."""

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
"""What agents measure; a reading of anything else does not come from them."""

LARGEST_SHARE = 1.01
"""Of what cannot be more than the whole: a little more is rounding, or two counters read one after the other."""

_BY_KEY = {metric.key: metric for metric in AGENT_METRICS}
_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")

Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,128}\Z")]
"""An agent, a host, an application or an executor."""


class Sample(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """The body of a message: one metric of all executors of an application, or of the host, at one time."""

    version: Literal[1]
    agent: Name
    boot: Annotated[int, msgspec.Meta(ge=0)]
    """Drawn when the agent starts: its sequence begins anew with another one."""
    sequence: Annotated[int, msgspec.Meta(ge=1)]
    """Counts the agent's messages."""
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
        """As it travels."""
        return prefix(self.metric, self.application)

    @classmethod
    def parse(cls, frame: bytes) -> Topic:
        """What a frame says, or ``MessageError``."""
        match frame.decode("ascii", "replace").split("/"):
            case [kind, key, application, ""] if _NAME.fullmatch(application):
                about = SubjectKind.NODE
            case [kind, key, ""]:
                about, application = SubjectKind.HOST, ""
            case _:
                raise MessageError(f"not a topic: {frame[:80]!r}")
        metric = _BY_KEY.get(key)
        if metric is None or metric.about is not about or kind != about.value:
            raise MessageError(f"agents do not measure this: {frame[:80]!r}")
        return cls(metric, application)


def prefix(metric: Metric, application: str | None = None) -> bytes:
    """What to subscribe to for a metric, of one application or of all of them."""
    tail = f"{application}/" if application and metric.about is SubjectKind.NODE else ""
    return f"{metric.about.value}/{metric.key}/{tail}".encode("ascii")


def is_name(text: str) -> bool:
    """Whether an agent may be called so: letters, digits, dot, dash and underscore."""
    return _NAME.fullmatch(text) is not None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Sample)


def encode(sample: Sample) -> bytes:
    """The body frame."""
    return _encoder.encode(sample)


def decode(body: bytes) -> Sample:
    """The sample in a body frame, or ``MessageError``.

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
        raise MessageError(f"{sample.time_s} is no time")
    for subject, value in sample.values:
        if not 0 <= value < math.inf:
            raise MessageError(f"{value} was not measured of {subject}")
    return sample


def check_shares(topic: Topic, sample: Sample) -> None:
    """``MessageError`` for more than the whole of something."""
    if topic.metric not in AT_MOST_ONE:
        return
    for subject, value in sample.values:
        if value > LARGEST_SHARE:
            raise MessageError(f"{topic.metric.key} of {subject} is {value:g}; the whole is 1")
