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
from collections.abc import Callable
from typing import Any

import zmq

from ebbflow.core.clock import Clock
from ebbflow.errors import InputError
from ebbflow.monitoring.addresses import check
from ebbflow.monitoring.gate import DOMAIN, Gate
from ebbflow.monitoring.interest import Interest
from ebbflow.monitoring.keys import AgentKeys
from ebbflow.monitoring.messages import VERSION, Sample, Topic, encode, is_name
from ebbflow.monitoring.sampling import Sampler

log = logging.getLogger("ebbflow")

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
