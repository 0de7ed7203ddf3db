"""A relay between a collector and an agent that counts the bytes on the wire."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from types import TracebackType


class Relay:
    """Listens on a loopback port, forwards to another one in both directions, and counts bytes."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self.from_agent = self.to_agent = 0
        self.received = bytearray()
        """Bytes from the agent."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with self._server, contextlib.ExitStack() as open_sockets:
            peers: dict[socket.socket, socket.socket] = {}
            agents: set[socket.socket] = set()
            while not self._stop.is_set():
                ready, _, _ = select.select([self._server, *peers], [], [], 0.05)
                for each in ready:
                    if each is self._server:
                        caller, _ = self._server.accept()
                        open_sockets.enter_context(caller)
                        try:
                            agent = socket.create_connection(("127.0.0.1", self._to_port))
                        except OSError:
                            caller.close()
                            continue
                        open_sockets.enter_context(agent)
                        peers[caller], peers[agent] = agent, caller
                        agents.add(agent)
                        continue
                    if each not in peers:
                        continue  # its peer has just closed the connection
                    try:
                        data = each.recv(1 << 16)
                        peers[each].sendall(data)
                    except OSError:
                        data = b""
                    if not data:
                        for end in (peers.pop(each), each):
                            peers.pop(end, None)
                            end.close()
                    elif each in agents:
                        self.from_agent += len(data)
                        self.received += data
                    else:
                        self.to_agent += len(data)
