"""The agent on a worker host: samples metrics with subscribers, and publishes them.

This is the monitoring slave of Rules §4.3.3, with the roles on the wire reversed so that collectors can say what they
need (§5.4): the agent listens, collectors connect and subscribe. Without subscribers it only waits.

``Subscriptions`` follows what collectors subscribed to. ``Gate`` admits collectors by their key: ZeroMQ asks it (ZAP,
RFC 27) before a connection carries anything. It runs in the agent's own loop, because ZeroMQ admits everyone who knows
the agent's public key once no handler answers, and the library's handler runs in a thread that may die.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import random
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zmq
from zmq.utils import z85

from ebbflow.core.clock import Clock, SystemClock
from ebbflow.errors import InputError
from ebbflow.monitoring.addresses import check
from ebbflow.monitoring.keys import AgentKeys, agent_keys
from ebbflow.monitoring.messages import AGENT_METRICS, VERSION, Sample, Topic, encode, is_name, prefix
from ebbflow.monitoring.sampling import HostSampler

MOST = 1_000
"""Limit on subscriptions, far above the number of metrics and applications."""
_METRICS = tuple(prefix(metric) for metric in AGENT_METRICS)


class Subscriptions:
    """Prefixes with subscribers. The socket reports the first subscriber of each and when the last one leaves.

    >>> subscriptions = Subscriptions()
    >>> subscriptions.update(b"\\x01node/node-cpu/")
    >>> from ebbflow.core.metrics import Metric
    >>> subscriptions.wants(Topic(Metric.NODE_CPU, "app-1")), subscriptions.wants(Topic(Metric.NODE_HEAP, "app-1"))
    (True, False)
    >>> subscriptions.update(b"\\x00node/node-cpu/")
    >>> bool(subscriptions)
    False
    """

    def __init__(self) -> None:
        self._prefixes: set[bytes] = set()

    def update(self, frame: bytes) -> None:
        """Process a frame from the socket: 1 or 0, then a prefix. Anything else is ignored."""
        kind, subscription = frame[:1], frame[1:]
        if kind == b"\x00":
            self._prefixes.discard(subscription)
        elif kind == b"\x01" and len(self._prefixes) < MOST and _can_match(subscription):
            self._prefixes.add(subscription)

    def wants(self, topic: Topic) -> bool:
        """Whether a topic has subscribers."""
        return bool(self._prefixes) and topic.encode().startswith(tuple(self._prefixes))

    @property
    def include_nodes(self) -> bool:
        """Whether any metric of executors has subscribers."""
        return any(each.startswith(b"node/") or b"node/".startswith(each) for each in self._prefixes)

    def __bool__(self) -> bool:
        return bool(self._prefixes)

    def __len__(self) -> int:
        return len(self._prefixes)


def _can_match(subscription: bytes) -> bool:
    """Whether a prefix can match topics of agents: a metric, an application, or a whole kind."""
    return len(subscription) <= 256 and any(
        subscription.startswith(each) or each.startswith(subscription) for each in _METRICS
    )


log = logging.getLogger(__name__)

DOMAIN = b"ebbflow"
MOST_AT_ONCE = 1_000
_ENDPOINT = "inproc://zeromq.zap.01"


class Gate:
    """Admits collectors with a known public key."""

    def __init__(self, context: zmq.Context[Any], listeners: frozenset[bytes]) -> None:
        self._known = frozenset(z85.decode(key) for key in listeners)
        self.refused = 0
        self.socket = context.socket(zmq.REP)
        self.socket.linger = 0
        self.socket.bind(_ENDPOINT)

    def answer(self) -> None:
        """Answer all pending requests."""
        for _ in range(MOST_AT_ONCE):
            try:
                request = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            version, number = [*request, b"", b""][:2]
            known = self._is_known(request)
            if not known:
                self.refused += 1
                if self.refused in (1, 10, 100) or self.refused % 1000 == 0:
                    log.warning("refused a collector with an unknown key (%d so far)", self.refused)
            status, text = (b"200", b"OK") if known else (b"400", b"unknown key")
            self.socket.send_multipart([version, number, status, text, b"", b""])

    def _is_known(self, request: list[bytes]) -> bool:
        match request:
            case [b"1.0", _, domain, _, _, b"CURVE", key]:
                return domain == DOMAIN and key in self._known
        return False


HEARTBEAT_S = 5
MOST_WAITING = 1_000
"""Messages buffered for a slow collector; after that, new ones are dropped for it."""


def host_name() -> str:
    """The name of this host, as a valid name of agents and subjects."""
    name = "".join(c if is_name(c) else "-" for c in socket.gethostname())
    return name[:64] or "host"


class Agent:
    """Listens at an address and publishes samples to subscribers."""

    def __init__(
        self,
        address: str,
        sampler: HostSampler,
        clock: Clock,
        *,
        elapsed_s: Callable[[], float],
        name: str | None = None,
        keys: AgentKeys | None = None,
        every_s: float = 1.0,
    ) -> None:
        check(address, has_keys=keys is not None)
        self.name = host_name() if name is None else name
        if not is_name(self.name):
            raise InputError(
                f"'{self.name}' is not a valid agent name; use letters, digits, dots, dashes and underscores"
            )
        if not 0.01 <= every_s <= 3600:
            raise InputError(f"a sample every {every_s:g} s is out of range; use 10ms to 1h")
        self._sampler = sampler
        self._clock = clock
        self._elapsed_s = elapsed_s
        self._every_s = every_s
        self.boot = random.SystemRandom().getrandbits(32)
        self._sequence = itertools.count(1)
        self.subscriptions = Subscriptions()
        self.sent_readings = 0
        self._context: zmq.Context[Any] = zmq.Context()
        self._gate = Gate(self._context, keys.listeners) if keys is not None else None
        self._socket = self._context.socket(zmq.XPUB)
        try:
            self.address = self._listen(address, keys)
        except zmq.ZMQError as error:
            self.close()
            raise InputError(f"cannot listen at {address}: {zmq.strerror(error.errno or 0)}") from None

    def _listen(self, address: str, keys: AgentKeys | None) -> str:
        publisher = self._socket
        publisher.linger = 0
        publisher.sndhwm = MOST_WAITING
        publisher.maxmsgsize = 1024  # collectors send only subscriptions
        publisher.heartbeat_ivl = HEARTBEAT_S * 1000
        publisher.heartbeat_timeout = 3 * HEARTBEAT_S * 1000
        publisher.ipv6 = "[" in address
        if keys is not None:
            publisher.curve_server = True
            publisher.curve_publickey, publisher.curve_secretkey = keys.public, keys.secret
            publisher.zap_domain = DOMAIN
            publisher.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        mask = os.umask(0o077)  # a socket file is for its owner only
        try:
            publisher.bind(address)
        finally:
            os.umask(mask)
        bound = publisher.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(bound, bytes)
        return bound.rstrip(b"\0").decode()

    # -- running -------------------------------------------------------------------------------

    def run(self, stop: threading.Event) -> None:
        """Sample and publish until ``stop`` is set. A failed sample is logged and skipped."""
        due_s = self._elapsed_s()
        failures = 0
        while not stop.is_set():
            self._wait(due_s - self._elapsed_s())
            if self._elapsed_s() < due_s:
                continue
            try:
                self.sample()
                failures = 0
            except Exception:
                failures += 1
                if failures in (1, 10, 100) or failures % 1000 == 0:
                    log.exception("a sample failed (%d in a row)", failures)
            # After a pause, such as a suspended host, missed samples are not made up for.
            due_s = max(due_s + self._every_s, self._elapsed_s())

    def _wait(self, seconds: float) -> None:
        """Wait, or until a collector connects or subscribes."""
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        if self._gate is not None:
            poller.register(self._gate.socket, zmq.POLLIN)
        poller.poll(max(0, math.ceil(seconds * 1000)))
        self.listen()

    def listen(self) -> None:
        """Process pending connections and subscriptions."""
        if self._gate is not None:
            self._gate.answer()
        for _ in range(MOST_WAITING):  # a flood of them must not stop sampling
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self.subscriptions.update(frames[0])

    def sample(self) -> int:
        """Sample the metrics with subscribers and publish them; returns the number of values."""
        now_s = self._clock.now_s()
        values: dict[Topic, list[tuple[str, float]]] = {}
        for measured in self._sampler.sample(
            self.subscriptions.wants, nodes=self.subscriptions.include_nodes
        ):
            values.setdefault(measured.topic, []).append((measured.subject, measured.value))
        for topic, of_topic in values.items():
            self.publish(topic, of_topic, now_s)
        return sum(len(of_topic) for of_topic in values.values())

    def publish(self, topic: Topic, values: list[tuple[str, float]], time_s: float) -> None:
        """Send one message to the subscribers of its topic."""
        sample = Sample(VERSION, self.name, self.boot, next(self._sequence), time_s, values)
        self._socket.send_multipart([topic.encode(), encode(sample)])
        self.sent_readings += len(values)

    @property
    def refused(self) -> int:
        """Number of connections refused because of an unknown key."""
        return 0 if self._gate is None else self._gate.refused

    def close(self) -> None:
        """Stop listening."""
        self._context.destroy(linger=0)
        self._sampler.close()


def start_agent(
    address: str, *, keys: Path | None = None, name: str | None = None, every_s: float = 1.0
) -> Agent:
    """Create an agent on this host; ``run`` starts sampling."""
    name = host_name() if name is None else name
    return Agent(
        address,
        HostSampler(host=name, elapsed_s=time.monotonic),
        SystemClock(),
        elapsed_s=time.monotonic,
        name=name,
        keys=None if keys is None else agent_keys(keys),
        every_s=every_s,
    )
