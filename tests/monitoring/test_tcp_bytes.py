"""The kernel's own counts of a real connection."""

from __future__ import annotations

import os
import socket

import pytest

from ebbflow.monitoring.tcp_bytes import socket_inodes, tcp_sockets

SENT = 50_000  # fits into the sockets' buffers


def test_a_real_connection_is_counted_at_both_ends(wait) -> None:
    if tcp_sockets() is None:
        pytest.skip("this kernel does not report bytes per socket")
    with (
        socket.create_server(("127.0.0.1", 0)) as door,
        socket.create_connection(door.getsockname()) as caller,
    ):
        called, _ = door.accept()
        with called:
            caller.sendall(b"x" * SENT)
            left = SENT
            while left:
                left -= len(called.recv(65536))
            here, there = (os.fstat(each.fileno()).st_ino for each in (caller, called))
            assert {here, there} <= (socket_inodes(os.getpid()) or set())

            def acknowledged() -> bool:
                sockets = tcp_sockets() or {}
                return sockets[here].sent >= SENT

            wait(acknowledged, "the last acknowledgement")
            sockets = tcp_sockets() or {}
            assert sockets[there].received == SENT
            assert SENT <= sockets[here].sent <= SENT + 2  # the handshake counts as one
            assert sockets[here].here == sockets[there].there
            assert sockets[here].there == sockets[there].here


def test_an_ended_process_holds_no_sockets() -> None:
    assert socket_inodes(2**22 + 1) == set()
