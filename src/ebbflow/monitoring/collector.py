"""The collector: connects to agents, subscribes to the needed metrics and checks what they send.

This is the receiving part of the monitoring master of Rules §4.3.2. A message is dropped, and counted by cause, if it
is invalid, a duplicate, older than one already received, too far from the local clock, or of a metric without a
subscription. Dropped values are missing; the collector never fills them in.

``AgentConnection`` is the connection to one agent. ZeroMQ reconnects by itself after a connection breaks, but not after
an agent refused the key or answered in another protocol. So it watches the socket, reconnects in these cases, and
logs once why nothing arrives. Silence alone is not an error: an agent may have nothing to send.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import zmq
from msgspec.structs import replace
from zmq.utils.monitor import recv_monitor_message

from ebbflow.core.decision import Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric, SubjectKind
from ebbflow.core.ports import Observation, Target
from ebbflow.core.readings import Reading, Series
from ebbflow.errors import InputError, MessageError
from ebbflow.monitoring.addresses import check
from ebbflow.monitoring.agent import HEARTBEAT_S
from ebbflow.monitoring.keys import CollectorKeys
from ebbflow.monitoring.messages import (
    AGENT_METRICS,
    LARGEST_BODY,
    Sample,
    Topic,
    check_shares,
    decode,
    is_name,
    prefix,
)

log = logging.getLogger(__name__)

MOST_WAITING = 10_000
RECONNECT_AFTER_S = 5.0
WARN_AFTER_S = 15.0
_WATCHED = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
_NO_ANSWER = "no answer"
_FAULTS = {
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: "it refuses the key",
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "only one side has keys, or it is not an agent",
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "it closes the connection; are the keys for this agent?",
}


class AgentConnection:
    """A subscriber socket, connected to one agent."""

    def __init__(
        self,
        context: zmq.Context[Any],
        address: str,
        keys: CollectorKeys | None,
        *,
        reconnect_after_s: float = RECONNECT_AFTER_S,
    ) -> None:
        self.address = address
        self.connected = False
        self._reconnect_after_s = reconnect_after_s
        self._fault = _NO_ANSWER
        self._refused_s: float | None = None
        self._down_since_s: float | None = None
        self._warned = False
        self._socket = context.socket(zmq.SUB)
        self._socket.linger = 0
        self._socket.rcvhwm = MOST_WAITING
        self._socket.maxmsgsize = 2 * LARGEST_BODY
        self._socket.heartbeat_ivl = HEARTBEAT_S * 1000
        self._socket.heartbeat_timeout = 3 * HEARTBEAT_S * 1000
        self._socket.reconnect_ivl, self._socket.reconnect_ivl_max = 100, 5_000
        self._socket.ipv6 = "[" in address
        if keys is not None:
            self._socket.curve_serverkey = keys.agent
            self._socket.curve_publickey, self._socket.curve_secretkey = keys.public, keys.secret
        self._monitor = self._socket.get_monitor_socket(_WATCHED)
        self._socket.connect(address)

    def subscribe(self, prefixes: frozenset[bytes]) -> None:
        """Add subscriptions."""
        for each in prefixes:
            self._socket.subscribe(each)

    def unsubscribe(self, prefixes: frozenset[bytes]) -> None:
        """Remove subscriptions."""
        for each in prefixes:
            self._socket.unsubscribe(each)

    def receive(self) -> list[bytes] | None:
        """The frames of the next message; None if there is none."""
        try:
            frames: list[bytes] = self._socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None
        return frames

    def check(self, now_s: float) -> None:
        """Process events of the socket, and reconnect if the agent refused the connection."""
        while self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)["event"]
            self.connected = event == zmq.EVENT_HANDSHAKE_SUCCEEDED
            if event in _FAULTS:
                self._fault = _FAULTS[event]
                self._refused_s = now_s if self._refused_s is None else self._refused_s
            elif event == zmq.EVENT_DISCONNECTED and self._refused_s is None:
                self._fault = _NO_ANSWER
        if self.connected:
            self._note_connected()
        else:
            self._note_disconnected(now_s)

    def close(self) -> None:
        """Close the connection."""
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._socket.close()

    def _note_connected(self) -> None:
        self._refused_s = self._down_since_s = None
        if self._warned:
            self._warned = False
            log.warning("connected to the agent at %s again", self.address)

    def _note_disconnected(self, now_s: float) -> None:
        if self._down_since_s is None:
            self._down_since_s = now_s
        if not self._warned and now_s - self._down_since_s > WARN_AFTER_S:
            self._warned = True
            log.warning(
                "not connected to the agent at %s for %.0f s: %s; its readings are missing",
                self.address, now_s - self._down_since_s, self._fault,
            )  # fmt: skip
        if self._refused_s is not None and now_s - self._refused_s >= self._reconnect_after_s:
            self._refused_s = None
            with contextlib.suppress(zmq.ZMQError):  # it may be disconnected already
                self._socket.disconnect(self.address)
            self._socket.connect(self.address)


LATE_AFTER_S = 10.0
FUTURE_AFTER_S = 5.0
MOST_AGENTS = 4_096
SAME_NAME_AFTER = 30
_RECENT = 256


@dataclass
class Counts:
    """Numbers of messages by outcome. All but ``messages``, ``readings`` and ``restarts`` count dropped ones."""

    messages: int = 0
    """Accepted messages, with ``readings`` values in them."""
    readings: int = 0
    duplicate: int = 0
    """Received before."""
    late: int = 0
    """Sent before an accepted one, by an agent that has restarted since, or too long ago."""
    future: int = 0
    """Too far ahead of the local clock."""
    garbage: int = 0
    """Not a message of an agent, of another version, or with a share above 1."""
    unwanted: int = 0
    """Messages of a metric or application without subscription."""
    restarts: int = 0
    """How often an agent restarted."""

    def to_json(self) -> dict[str, int]:
        """The counts as JSON values."""
        return asdict(self)


@dataclass
class _Agent:
    boot: int
    newest: int = 0
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=_RECENT))
    """Its last sequence numbers. A repeated one is a duplicate; any other that is not newer is late."""
    retired: deque[int] = field(default_factory=lambda: deque(maxlen=16))
    """Boot numbers before its restarts. Messages with these are late."""
    echoes: int = 0
    """Messages with earlier boot numbers. Many of them mean that two agents have the same name."""


class Collector:
    """Receives readings of one application's executors, and of their hosts, from agents.

    It serves a single application, because executors of different applications have the same ids.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        application: str,
        keys: CollectorKeys | None = None,
        late_after_s: float = LATE_AFTER_S,
        future_after_s: float = FUTURE_AFTER_S,
        reconnect_after_s: float = RECONNECT_AFTER_S,
    ) -> None:
        for address in addresses:
            check(address, has_keys=keys is not None)
        if not is_name(application):
            raise InputError(f"'{application}' is not a Spark application id")
        self.counts = Counts()
        self._application = application
        self._late_after_s, self._future_after_s = late_after_s, future_after_s
        self._patterns: dict[Metric, frozenset[str]] = {}
        self._subscribed: frozenset[bytes] = frozenset()
        self._agents: dict[str, _Agent] = {}
        self._skewed: set[str] = set()
        # Sockets are not thread-safe, and another thread may close the collector during ``take``.
        self._lock = threading.Lock()
        self._context: zmq.Context[Any] = zmq.Context()
        self.connections: list[AgentConnection] = []
        for address in dict.fromkeys(addresses):
            try:
                connection = AgentConnection(
                    self._context, address, keys, reconnect_after_s=reconnect_after_s
                )
            except zmq.ZMQError as error:
                self.close()
                raise InputError(
                    f"cannot connect to the agent at {address}: {zmq.strerror(error.errno or 0)}"
                ) from None
            self.connections.append(connection)

    # -- subscribing ---------------------------------------------------------------------------

    def subscribe_to(self, series: Iterable[Series]) -> None:
        """Subscribe to these series and to nothing else. Series that agents do not measure are ignored."""
        patterns: dict[Metric, set[str]] = {}
        for subject, metric in series:
            if metric in AGENT_METRICS:
                patterns.setdefault(metric, set()).add(subject)
        self._patterns = {metric: frozenset(subjects) for metric, subjects in patterns.items()}
        wanted = frozenset(prefix(metric, self._application) for metric in patterns)
        if wanted != self._subscribed:
            with self._lock:
                for connection in self.connections:
                    connection.subscribe(wanted - self._subscribed)
                    connection.unsubscribe(self._subscribed - wanted)
            self._subscribed = wanted

    @property
    def subscriptions(self) -> frozenset[bytes]:
        """The prefixes subscribed to."""
        return self._subscribed

    # -- receiving -----------------------------------------------------------------------------

    def take(self, now_s: float) -> list[Reading]:
        """Return all readings received since the last call. Never blocks."""
        readings: list[Reading] = []
        with self._lock:
            for connection in self.connections:
                connection.check(now_s)
                for _ in range(MOST_WAITING):  # a flood must not block the loop
                    frames = connection.receive()
                    if frames is None:
                        break
                    readings += self.accept(frames, now_s)
        return readings

    def accept(self, frames: Sequence[bytes], now_s: float) -> list[Reading]:
        """The readings of one message; none if it is dropped."""
        try:
            topic, sample = _message(frames)
        except MessageError as error:
            self.counts.garbage += 1
            if self.counts.garbage in (1, 10, 100) or self.counts.garbage % 1000 == 0:
                log.warning("dropped an invalid message (%d so far): %s", self.counts.garbage, error)
            return []
        patterns = self._patterns.get(topic.metric)
        if patterns is None or topic.application not in ("", self._application):
            self.counts.unwanted += 1
            return []
        if not (self._is_in_time(sample, now_s) and self._is_new(sample)):
            return []
        about = "executor" if topic.metric.about is SubjectKind.NODE else "host"
        time_s = min(sample.time_s, now_s)  # the agent's clock may be slightly ahead
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
                    "dropping readings of agent %s: they are %.0f s %s the local clock",
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
                        "two agents are named %s, and the readings of one are dropped; start them with --name",
                        sample.agent,
                    )
                return False
            self.counts.restarts += 1
            log.info("agent %s has restarted", sample.agent)
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
        """Close all connections."""
        with self._lock:
            for connection in self.connections:
                connection.close()
            self.connections.clear()
            self._context.destroy(linger=0)


def _message(frames: Sequence[bytes]) -> tuple[Topic, Sample]:
    if len(frames) != 2:
        raise MessageError(f"{len(frames)} frames; a message has a topic and a body")
    topic, sample = Topic.parse(frames[0]), decode(frames[1])
    check_shares(topic, sample)
    return topic, sample


def _matches(subject: str, patterns: frozenset[str]) -> bool:
    return "*" in patterns or any(fnmatchcase(subject, pattern) for pattern in patterns)


class WithAgents:
    """A target whose observations include the readings of agents.

    ``needed`` returns the series to subscribe to; it is called at every observation. Readings of a node are included
    only if the target itself observes that node, which excludes nodes that still start or were given up.
    """

    def __init__(self, target: Target, collector: Collector, needed: Callable[[], Iterable[Series]]) -> None:
        self._target = target
        self._needed = needed
        self.collector = collector

    def observe(self) -> Observation:
        """Observe the target and add the readings of the agents."""
        seen = self._target.observe()
        self.collector.subscribe_to(self._needed())
        received = self.collector.take(seen.time_s)
        nodes = {reading.subject for reading in seen.readings if reading.metric.about is SubjectKind.NODE}
        joined = [r for r in received if r.metric.about is not SubjectKind.NODE or r.subject in nodes]
        return replace(seen, readings=(*seen.readings, *joined)) if joined else seen

    def apply(self, planned: Layout) -> Outcome:
        """Apply the layout to the target."""
        return self._target.apply(planned)

    def close(self) -> None:
        """Close the collector and the target."""
        self.collector.close()
        self._target.close()
