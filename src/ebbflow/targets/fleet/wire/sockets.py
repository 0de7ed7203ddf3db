"""Sockets of hosts and controllers, with the keys and the gate of monitoring agents.

A host listens, as an agent does; with keys it admits only controllers whose public key it has. Without keys it listens
at an address of this machine only, by default at a socket file in a folder that no other user can enter.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import zmq

from ebbflow.errors import InputError, MessageError, TargetError
from ebbflow.monitoring.addresses import check
from ebbflow.monitoring.agent import DOMAIN, Gate
from ebbflow.monitoring.keys import AgentKeys, CollectorKeys
from ebbflow.targets.fleet.wire.messages import (
    LARGEST_ANSWER,
    LARGEST_REQUEST,
    Answer,
    Refused,
    Request,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
)

ANSWER_WITHIN_S = 3.0


class HostSocket:
    """Answers requests at an address."""

    def __init__(self, address: str, keys: AgentKeys | None = None) -> None:
        check(address, has_keys=keys is not None, option="keys = DIR")
        self._context: zmq.Context[Any] = zmq.Context()
        self._gate = Gate(self._context, keys.listeners) if keys is not None else None
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.maxmsgsize = LARGEST_REQUEST
        self._socket.ipv6 = "[" in address
        if keys is not None:
            self._socket.curve_server = True
            self._socket.curve_publickey, self._socket.curve_secretkey = keys.public, keys.secret
            self._socket.zap_domain = DOMAIN
            self._socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        mask = os.umask(0o077)  # a socket file is for its owner only
        try:
            self._socket.bind(address)
        except zmq.ZMQError as error:
            self.close()
            raise InputError(f"cannot listen at {address}: {zmq.strerror(error.errno or 0)}") from None
        finally:
            os.umask(mask)
        bound = self._socket.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(bound, bytes)
        self.address = bound.rstrip(b"\0").decode()
        self.refused = 0
        """Messages that were not requests."""

    def serve(self, answer: Callable[[Request], Answer], stop: threading.Event) -> None:
        """Answer requests until ``stop`` is set."""
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        if self._gate is not None:
            poller.register(self._gate.socket, zmq.POLLIN)
        while not stop.is_set():
            ready = dict(poller.poll(200))
            if self._gate is not None and self._gate.socket in ready:
                self._gate.answer()
            if self._socket in ready:
                self._answer_one(answer)

    def _answer_one(self, answer: Callable[[Request], Answer]) -> None:
        frames = self._socket.recv_multipart()
        try:
            if len(frames) != 2:
                raise MessageError(f"{len(frames)} frames")
            number, request = decode_request(frames[1])
        except MessageError:
            self.refused += 1
            return
        try:
            reply = answer(request)
        except Exception as error:
            reply = Refused(why=f"{type(error).__name__}: {error}")
        self._socket.send_multipart([frames[0], encode_answer(number, reply)])

    def close(self) -> None:
        """Stop listening."""
        self._context.destroy(linger=0)


class HostLink:
    """A controller's connection to one host. Threads may share it; a request waits for the one before."""

    def __init__(self, address: str, keys: CollectorKeys | None = None) -> None:
        check(address, has_keys=keys is not None, option="keys = DIR")
        self.address = address
        self._keys = keys
        self._context: zmq.Context[Any] = zmq.Context.instance()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._socket: zmq.Socket[bytes] | None = None

    def ask(self, request: Request, *, within_s: float = ANSWER_WITHIN_S) -> Answer:
        """Send a request and wait for its answer; ``TargetError`` if none comes."""
        with self._lock:
            number = next(self._numbers)
            try:
                connected = self._connected()
                connected.send(encode_request(number, request), zmq.NOBLOCK)
                return self._receive(connected, number, within_s)
            except (zmq.ZMQError, MessageError) as error:
                self._drop()
                raise TargetError(f"the host at {self.address} does not answer: {error}") from error
            except TargetError:
                self._drop()  # an answer that comes late belongs to nobody
                raise

    def _connected(self) -> zmq.Socket[bytes]:
        if self._socket is None:
            made = self._context.socket(zmq.DEALER)
            made.linger = 0
            made.maxmsgsize = LARGEST_ANSWER
            made.ipv6 = "[" in self.address
            if self._keys is not None:
                made.curve_serverkey = self._keys.agent
                made.curve_publickey, made.curve_secretkey = self._keys.public, self._keys.secret
            made.connect(self.address)
            self._socket = made
        return self._socket

    def _receive(self, connected: zmq.Socket[bytes], number: int, within_s: float) -> Answer:
        deadline_s = time.monotonic() + within_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            if connected.poll(max(1, int(left_s * 1000))):
                found, answer = decode_answer(connected.recv())
                if found == number:
                    return answer
        raise TargetError(f"the host at {self.address} did not answer within {within_s:g} s")

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._drop()
