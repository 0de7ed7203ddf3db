"""The agent on a worker host: samples what somebody listens to, and publishes it.

The seed's monitoring slave (Rules §4.3.3), with the roles on the wire turned round, so that it can be told
what is needed (§5.4): the agent listens, collectors call and subscribe. An agent nobody listens to does
nothing but wait.
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
from ebbflow.monitoring.sampling import Sampler

# What collectors have subscribed to, as the publishing socket tells it.


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


# Who may listen to an agent: ZeroMQ asks here (ZAP, RFC 27) before a connection carries anything.
#
# The handler lives in the agent's own loop. The library's runs in a thread of its own, and ZeroMQ lets
# everyone in who knows the agent's public key once no handler is there any more.


log = logging.getLogger("ebbflow")

DOMAIN = b"ebbflow"
MOST_AT_ONCE = 1_000
_ENDPOINT = "inproc://zeromq.zap.01"


class Gate:
    """Answers for the listeners' public keys; counts those it turned away."""

    def __init__(self, context: zmq.Context[Any], listeners: frozenset[bytes]) -> None:
        self._known = frozenset(z85.decode(key) for key in listeners)
        self.turned_away = 0
        self.socket = context.socket(zmq.REP)
        self.socket.linger = 0
        self.socket.bind(_ENDPOINT)

    def answer(self) -> None:
        """Answer all who ask now."""
        for _ in range(MOST_AT_ONCE):
            try:
                request = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            version, number = [*request, b"", b""][:2]
            welcome = self._is_welcome(request)
            if not welcome:
                self.turned_away += 1
                if self.turned_away in (1, 10, 100) or self.turned_away % 1000 == 0:
                    log.warning("turned away a listener with an unknown key (%d so far)", self.turned_away)
            status, text = (b"200", b"OK") if welcome else (b"400", b"unknown key")
            self.socket.send_multipart([version, number, status, text, b"", b""])

    def _is_welcome(self, request: list[bytes]) -> bool:
        match request:
            case [b"1.0", _, domain, _, _, b"CURVE", key]:
                return domain == DOMAIN and key in self._known
        return False


HEARTBEAT_S = 5
MOST_WAITING = 1_000
"""Messages kept for a listener that does not take them; then new ones are dropped for it."""


def host_name() -> str:
    """The name of this host, as agents and subjects are called."""
    name = "".join(c if is_name(c) else "-" for c in socket.gethostname())
    return name[:64] or "host"


class Agent:
    """Listens at an address and publishes samples to those who subscribed."""

    def __init__(
        self,
        address: str,
        sampler: Sampler,
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
                f"an agent cannot be called '{self.name}'; use letters, digits, dots, dashes and underscores"
            )
        if not 0.01 <= every_s <= 3600:
            raise InputError(f"a sample every {every_s:g} s makes no sense; write 100ms to 1h")
        self._sampler = sampler
        self._clock = clock
        self._elapsed_s = elapsed_s
        self._every_s = every_s
        self.boot = random.SystemRandom().getrandbits(32)
        self._sequence = itertools.count(1)
        self.interest = Interest()
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
        publisher.maxmsgsize = 1024  # of what listeners send: subscriptions
        publisher.heartbeat_ivl = HEARTBEAT_S * 1000
        publisher.heartbeat_timeout = 3 * HEARTBEAT_S * 1000
        publisher.ipv6 = "[" in address
        if keys is not None:
            publisher.curve_server = True
            publisher.curve_publickey, publisher.curve_secretkey = keys.public, keys.secret
            publisher.zap_domain = DOMAIN
            publisher.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        mask = os.umask(0o077)  # a socket that is a file is for its owner alone
        try:
            publisher.bind(address)
        finally:
            os.umask(mask)
        bound = publisher.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(bound, bytes)
        return bound.rstrip(b"\0").decode()

    # -- running -------------------------------------------------------------------------------

    def run(self, stop: threading.Event) -> None:
        """Sample and publish until told to stop. A look that fails is a look less, not the end."""
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
            # After a pause (a suspended host) the next sample is due now, not all those that were missed.
            due_s = max(due_s + self._every_s, self._elapsed_s())

    def _wait(self, seconds: float) -> None:
        """Let time pass; meanwhile open the gate to who may come, and hear what they want."""
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        if self._gate is not None:
            poller.register(self._gate.socket, zmq.POLLIN)
        poller.poll(max(0, math.ceil(seconds * 1000)))
        self.listen()

    def listen(self) -> None:
        """Take in what is there: who wants to come in, who subscribes to what."""
        if self._gate is not None:
            self._gate.answer()
        for _ in range(MOST_WAITING):  # who floods us shall not keep us from sampling
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self.interest.hear(frames[0])

    def sample(self) -> int:
        """Look once at what somebody listens to, and publish it. Returns how many values that were."""
        now_s = self._clock.now_s()
        values: dict[Topic, list[tuple[str, float]]] = {}
        for measured in self._sampler.sample(self.interest.wants, nodes=self.interest.in_nodes):
            values.setdefault(measured.topic, []).append((measured.subject, measured.value))
        for topic, of_topic in values.items():
            self.publish(topic, of_topic, now_s)
        return sum(len(of_topic) for of_topic in values.values())

    def publish(self, topic: Topic, values: list[tuple[str, float]], time_s: float) -> None:
        """Send one message to those who subscribed to its topic."""
        sample = Sample(VERSION, self.name, self.boot, next(self._sequence), time_s, values)
        self._socket.send_multipart([topic.encode(), encode(sample)])
        self.sent_readings += len(values)

    @property
    def turned_away(self) -> int:
        """How many connections with an unknown key were refused."""
        return 0 if self._gate is None else self._gate.turned_away

    def close(self) -> None:
        """Stop listening."""
        self._context.destroy(linger=0)
        self._sampler.close()


# An agent on this host, put together.


def start_agent(
    address: str, *, keys: Path | None = None, name: str | None = None, every_s: float = 1.0
) -> Agent:
    """An agent that listens; it samples once it is run."""
    name = host_name() if name is None else name
    return Agent(
        address,
        Sampler(host=name, elapsed_s=time.monotonic),
        SystemClock(),
        elapsed_s=time.monotonic,
        name=name,
        keys=None if keys is None else agent_keys(keys),
        every_s=every_s,
    )
