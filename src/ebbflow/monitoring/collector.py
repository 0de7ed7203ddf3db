"""The collector: calls the agents, subscribes to what is needed, and lets through only what can be believed.

The seed's monitoring master (Rules §4.3.2), as far as it receives; who decides is elsewhere. A message is
dropped, and counted under its fault, if it is garbage, has been seen before, comes after a newer one, is
older or newer than our clock allows, or is of a metric nobody subscribed to. Dropped or never sent means
missing: a collector makes nothing up.
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

# The line from a collector to one agent.
#
# ZeroMQ calls again by itself when a connection breaks, but not after an agent refused our key or answered
# in another way than agents do. So a line watches how its calls fare, dials anew after such an answer, and
# says once in plain words why nothing is heard. An agent may have nothing to say, so silence alone is no fault.


log = logging.getLogger("ebbflow")

MOST_WAITING = 10_000
DIAL_AGAIN_AFTER_S = 5.0
TELL_AFTER_S = 15.0
_WATCHED = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
_NO_ANSWER = "it does not answer"
_FAULTS = {
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: "it refuses our key",
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "only one side has keys, or it is no agent",
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "it hangs up; is it the agent our keys are for?",
}


class Line:
    """A subscribing socket that is connected to one address."""

    def __init__(
        self,
        context: zmq.Context[Any],
        address: str,
        keys: CollectorKeys | None,
        *,
        dial_again_after_s: float = DIAL_AGAIN_AFTER_S,
    ) -> None:
        self.address = address
        self.connected = False
        self._dial_again_after_s = dial_again_after_s
        self._fault = _NO_ANSWER
        self._refused_s: float | None = None
        self._down_since_s: float | None = None
        self._told = False
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
        """Hear these as well."""
        for each in prefixes:
            self._socket.subscribe(each)

    def unsubscribe(self, prefixes: frozenset[bytes]) -> None:
        """Hear these no more."""
        for each in prefixes:
            self._socket.unsubscribe(each)

    def receive(self) -> list[bytes] | None:
        """The frames of the next message, None if there is none."""
        try:
            frames: list[bytes] = self._socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None
        return frames

    def tend(self, now_s: float) -> None:
        """See how the calls fare, and dial anew where nobody else would."""
        while self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)["event"]
            self.connected = event == zmq.EVENT_HANDSHAKE_SUCCEEDED
            if event in _FAULTS:
                self._fault = _FAULTS[event]
                self._refused_s = now_s if self._refused_s is None else self._refused_s
            elif event == zmq.EVENT_DISCONNECTED and self._refused_s is None:
                self._fault = _NO_ANSWER
        if self.connected:
            self._answered()
        else:
            self._wait(now_s)

    def close(self) -> None:
        """Hang up."""
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._socket.close()

    def _answered(self) -> None:
        self._refused_s = self._down_since_s = None
        if self._told:
            self._told = False
            log.warning("the agent at %s answers again", self.address)

    def _wait(self, now_s: float) -> None:
        if self._down_since_s is None:
            self._down_since_s = now_s
        if not self._told and now_s - self._down_since_s > TELL_AFTER_S:
            self._told = True
            log.warning(
                "no line to the agent at %s for %.0f s: %s; what it measures is missing",
                self.address, now_s - self._down_since_s, self._fault,
            )  # fmt: skip
        if self._refused_s is not None and now_s - self._refused_s >= self._dial_again_after_s:
            self._refused_s = None
            with contextlib.suppress(zmq.ZMQError):  # given up already, so there is nothing to hang up
                self._socket.disconnect(self.address)
            self._socket.connect(self.address)


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


# A target whose observations also hold what agents measured.


class WithAgents:
    """Adds the collector's readings to what a target shows, so that strategies see them as in the simulator.

    ``needed`` tells at every look which series the active policy needs; they, and nothing else, are
    subscribed to. Readings of a node are added only while the target itself shows that node: one that is
    still starting, or has been given up, is none to decide on. Silent agents leave the observation as it was.
    """

    def __init__(self, target: Target, collector: Collector, needed: Callable[[], Iterable[Series]]) -> None:
        self._target = target
        self._needed = needed
        self.collector = collector

    def observe(self) -> Observation:
        """Look at the target, and take what the agents sent."""
        seen = self._target.observe()
        self.collector.subscribe_to(self._needed())
        told = self.collector.take(seen.time_s)
        nodes = {reading.subject for reading in seen.readings if reading.metric.about is SubjectKind.NODE}
        joined = [r for r in told if r.metric.about is not SubjectKind.NODE or r.subject in nodes]
        return replace(seen, readings=(*seen.readings, *joined)) if joined else seen

    def apply(self, planned: Layout) -> Outcome:
        """Ask the target."""
        return self._target.apply(planned)

    def close(self) -> None:
        """Hang up, and let go of the target."""
        self.collector.close()
        self._target.close()
