"""The line from a collector to one agent.

ZeroMQ calls again by itself when a connection breaks, but not after an agent refused our key or answered
in another way than agents do. So a line watches how its calls fare, dials anew after such an answer, and
says once in plain words why nothing is heard. An agent may have nothing to say, so silence alone is no fault.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from ebbflow.monitoring.agent import HEARTBEAT_S
from ebbflow.monitoring.keys import CollectorKeys
from ebbflow.monitoring.messages import LARGEST_BODY

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
        for prefix in prefixes:
            self._socket.subscribe(prefix)

    def unsubscribe(self, prefixes: frozenset[bytes]) -> None:
        """Hear these no more."""
        for prefix in prefixes:
            self._socket.unsubscribe(prefix)

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
