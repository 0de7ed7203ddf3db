"""A relay between a collector and an agent that counts what goes through: the bytes on the wire."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from types import TracebackType


class Relay:
    """Listens on a loopback port and passes everything on to another one, both ways, counting."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._door.getsockname()[1])
        self.from_agent = self.to_agent = 0
        self.heard = bytearray()
        """What came from the agent, for who wants to look into it."""
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
        with self._door, contextlib.ExitStack() as open_sockets:
            peers: dict[socket.socket, socket.socket] = {}
            agents: set[socket.socket] = set()
            while not self._stop.is_set():
                ready, _, _ = select.select([self._door, *peers], [], [], 0.05)
                for each in ready:
                    if each is self._door:
                        caller, _ = self._door.accept()
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
                        continue  # its other end has just hung up
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
                        self.heard += data
                    else:
                        self.to_agent += len(data)
