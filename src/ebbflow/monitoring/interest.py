"""What collectors have subscribed to, as the publishing socket tells it."""

from __future__ import annotations

from ebbflow.monitoring.messages import AGENT_METRICS, Topic, prefix

MOST = 1_000
"""Subscriptions kept; who asks for more of them than there are metrics and applications means no good."""
_METRICS = tuple(prefix(metric) for metric in AGENT_METRICS)


class Interest:
    """The prefixes somebody listens to. The socket tells of the first who comes and the last who goes.

    >>> interest = Interest()
    >>> interest.hear(b"\\x01node/node-cpu/")
    >>> from ebbflow.core.metrics import Metric
    >>> interest.wants(Topic(Metric.NODE_CPU, "app-1")), interest.wants(Topic(Metric.NODE_HEAP, "app-1"))
    (True, False)
    >>> interest.hear(b"\\x00node/node-cpu/")
    >>> bool(interest)
    False
    """

    def __init__(self) -> None:
        self._prefixes: set[bytes] = set()

    def hear(self, frame: bytes) -> None:
        """Take in what the socket passed on: 1 or 0, then a prefix. Anything else is ignored."""
        what, asked = frame[:1], frame[1:]
        if what == b"\x00":
            self._prefixes.discard(asked)
        elif what == b"\x01" and len(self._prefixes) < MOST and _can_match(asked):
            self._prefixes.add(asked)

    def wants(self, topic: Topic) -> bool:
        """Whether anybody would hear a message about this."""
        return bool(self._prefixes) and topic.encode().startswith(tuple(self._prefixes))

    @property
    def in_nodes(self) -> bool:
        """Whether anybody listens to something of any executor."""
        return any(each.startswith(b"node/") or b"node/".startswith(each) for each in self._prefixes)

    def __bool__(self) -> bool:
        return bool(self._prefixes)

    def __len__(self) -> int:
        return len(self._prefixes)


def _can_match(asked: bytes) -> bool:
    """Whether a prefix is one of topics of ours: a metric, one of its applications, a whole kind."""
    return len(asked) <= 256 and any(asked.startswith(each) or each.startswith(asked) for each in _METRICS)
