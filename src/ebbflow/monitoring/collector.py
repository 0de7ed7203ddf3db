"""The collector: calls the agents, subscribes to what is needed, and lets through only what can be believed.

The seed's monitoring master (Rules §4.3.2), as far as it receives; who decides is elsewhere. A message is
dropped, and counted under its fault, if it is garbage, has been seen before, comes after a newer one, is
older or newer than our clock allows, or is of a metric nobody subscribed to. Dropped or never sent means
missing: a collector makes nothing up.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import zmq

from ebbflow.core.metrics import Metric, SubjectKind
from ebbflow.core.readings import Reading
from ebbflow.errors import InputError, MessageError
from ebbflow.monitoring.addresses import check
from ebbflow.monitoring.keys import CollectorKeys
from ebbflow.monitoring.line import DIAL_AGAIN_AFTER_S, MOST_WAITING, Line
from ebbflow.monitoring.messages import (
    AGENT_METRICS,
    Sample,
    Topic,
    check_shares,
    decode,
    is_name,
    prefix,
)

log = logging.getLogger("ebbflow")

Series = tuple[str, Metric]
"""A subject, or a pattern of subjects (``*``, ``executor-*``), and a metric."""

LATE_AFTER_S = 10.0
FUTURE_AFTER_S = 5.0
MOST_AGENTS = 4_096
SAME_NAME_AFTER = 30
_RECENT = 256


@dataclass
class Counts:
    """What came, and what became of it. Everything but ``messages`` and ``readings`` was dropped."""

    messages: int = 0
    """Let through, with ``readings`` values in them."""
    readings: int = 0
    duplicate: int = 0
    """Seen before."""
    late: int = 0
    """Sent before one that was let through, by an agent since restarted, or too long ago by our clock."""
    future: int = 0
    """Ahead of our clock by more than is tolerated."""
    garbage: int = 0
    """Not a message of ours, one of another version, or one of more than the whole of something."""
    unwanted: int = 0
    """Of a metric or application that is not subscribed to, or not any more."""
    restarts: int = 0
    """How often an agent came back as a new process. Nothing was dropped for it."""

    def to_json(self) -> dict[str, int]:
        """As plain values."""
        return asdict(self)


@dataclass
class _Agent:
    boot: int
    newest: int = 0
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=_RECENT))
    """Its last sequence numbers: one of them is a duplicate, any other that is not newer is late."""
    retired: deque[int] = field(default_factory=lambda: deque(maxlen=16))
    """Boots of its earlier lives: what still comes from them is late."""
    echoes: int = 0
    """Messages of earlier lives. A few are under way at a restart; many are another agent of that name."""


class Collector:
    """What the agents at some addresses say of one application's executors, and of their hosts.

    Executors of different applications have the same numbers, so it is never more than one.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        application: str,
        keys: CollectorKeys | None = None,
        late_after_s: float = LATE_AFTER_S,
        future_after_s: float = FUTURE_AFTER_S,
        dial_again_after_s: float = DIAL_AGAIN_AFTER_S,
    ) -> None:
        for address in addresses:
            check(address, has_keys=keys is not None)
        if not is_name(application):
            raise InputError(f"'{application}' is not the id of a Spark application")
        self.counts = Counts()
        self._application = application
        self._late_after_s, self._future_after_s = late_after_s, future_after_s
        self._patterns: dict[Metric, frozenset[str]] = {}
        self._subscribed: frozenset[bytes] = frozenset()
        self._agents: dict[str, _Agent] = {}
        self._skewed: set[str] = set()
        # Sockets are not for two threads at once: one that stops the loop may come while the loop still takes.
        self._lock = threading.Lock()
        self._context: zmq.Context[Any] = zmq.Context()
        self.lines: list[Line] = []
        for address in dict.fromkeys(addresses):
            try:
                line = Line(self._context, address, keys, dial_again_after_s=dial_again_after_s)
            except zmq.ZMQError as error:
                self.close()
                raise InputError(
                    f"cannot call the agent at {address}: {zmq.strerror(error.errno or 0)}"
                ) from None
            self.lines.append(line)

    # -- what is needed ------------------------------------------------------------------------

    def subscribe_to(self, series: Iterable[Series]) -> None:
        """Hear these series from now on, and nothing else. Those that agents do not measure are left to others."""
        patterns: dict[Metric, set[str]] = {}
        for subject, metric in series:
            if metric in AGENT_METRICS:
                patterns.setdefault(metric, set()).add(subject)
        self._patterns = {metric: frozenset(subjects) for metric, subjects in patterns.items()}
        wanted = frozenset(prefix(metric, self._application) for metric in patterns)
        if wanted != self._subscribed:
            with self._lock:
                for line in self.lines:
                    line.subscribe(wanted - self._subscribed)
                    line.unsubscribe(self._subscribed - wanted)
            self._subscribed = wanted

    @property
    def subscriptions(self) -> frozenset[bytes]:
        """The prefixes that the agents filter by."""
        return self._subscribed

    # -- what comes ----------------------------------------------------------------------------

    def take(self, now_s: float) -> list[Reading]:
        """What has come since the last time and can be believed. Never waits."""
        readings: list[Reading] = []
        with self._lock:
            for line in self.lines:
                line.tend(now_s)
                for _ in range(MOST_WAITING):  # who floods us shall not keep us from deciding
                    frames = line.receive()
                    if frames is None:
                        break
                    readings += self.accept(frames, now_s)
        return readings

    def accept(self, frames: Sequence[bytes], now_s: float) -> list[Reading]:
        """The readings in one message, none if it is dropped."""
        try:
            topic, sample = _message(frames)
        except MessageError as error:
            self.counts.garbage += 1
            if self.counts.garbage in (1, 10, 100) or self.counts.garbage % 1000 == 0:
                log.warning("dropped a message that is none (%d so far): %s", self.counts.garbage, error)
            return []
        patterns = self._patterns.get(topic.metric)
        if patterns is None or topic.application not in ("", self._application):
            self.counts.unwanted += 1
            return []
        if not (self._is_in_time(sample, now_s) and self._is_new(sample)):
            return []
        about = "executor" if topic.metric.about is SubjectKind.NODE else "host"
        time_s = min(sample.time_s, now_s)  # a clock a little ahead of ours must not date readings after now
        readings = [
            Reading(time_s, subject, topic.metric, value)
            for name, value in sample.values
            if _matches(subject := f"{about}-{name}", patterns)
        ]
        self.counts.messages += 1
        self.counts.readings += len(readings)
        return readings

    def _is_in_time(self, sample: Sample, now_s: float) -> bool:
        ahead_s = sample.time_s - now_s
        in_time = -self._late_after_s <= ahead_s <= self._future_after_s
        if in_time:
            self._skewed.discard(sample.agent)
        else:
            if ahead_s > 0:
                self.counts.future += 1
            else:
                self.counts.late += 1
            if sample.agent not in self._skewed and len(self._skewed) < MOST_AGENTS:
                self._skewed.add(sample.agent)
                log.warning(
                    "readings of agent %s are %.0f s %s our clock and are dropped",
                    sample.agent, abs(ahead_s), "ahead of" if ahead_s > 0 else "behind",
                )  # fmt: skip
        return in_time

    def _is_new(self, sample: Sample) -> bool:
        agent = self._agents.get(sample.agent)
        if agent is None:
            if len(self._agents) >= MOST_AGENTS:
                self._agents.pop(next(iter(self._agents)))
            agent = self._agents[sample.agent] = _Agent(sample.boot)
        elif sample.boot != agent.boot:
            if sample.boot in agent.retired:
                self.counts.late += 1
                agent.echoes += 1
                if agent.echoes == SAME_NAME_AFTER:
                    log.warning(
                        "two agents call themselves %s, and only one is heard; start them with --name",
                        sample.agent,
                    )
                return False
            self.counts.restarts += 1
            log.info("agent %s has started anew", sample.agent)
            reborn = _Agent(sample.boot, retired=agent.retired, echoes=agent.echoes)
            reborn.retired.append(agent.boot)
            agent = self._agents[sample.agent] = reborn
        if sample.sequence <= agent.newest:
            if sample.sequence in agent.recent:
                self.counts.duplicate += 1
            else:
                self.counts.late += 1
            return False
        agent.newest = sample.sequence
        agent.recent.append(sample.sequence)
        return True

    def close(self) -> None:
        """Hang up; nothing comes after that."""
        with self._lock:
            for line in self.lines:
                line.close()
            self.lines.clear()
            self._context.destroy(linger=0)


def _message(frames: Sequence[bytes]) -> tuple[Topic, Sample]:
    if len(frames) != 2:
        raise MessageError(f"{len(frames)} frames; a message has a topic and a body")
    topic, sample = Topic.parse(frames[0]), decode(frames[1])
    check_shares(topic, sample)
    return topic, sample


def _matches(subject: str, patterns: frozenset[str]) -> bool:
    return "*" in patterns or any(fnmatchcase(subject, pattern) for pattern in patterns)
