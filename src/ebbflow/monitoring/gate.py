"""Who may listen to an agent: ZeroMQ asks here (ZAP, RFC 27) before a connection carries anything.

The handler lives in the agent's own loop. The library's runs in a thread of its own, and ZeroMQ lets
everyone in who knows the agent's public key once no handler is there any more.
"""

from __future__ import annotations

import logging
from typing import Any

import zmq
from zmq.utils import z85

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
