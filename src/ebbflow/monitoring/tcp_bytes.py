"""Bytes that each executor sends and receives over TCP (Linux only).

The kernel counts bytes per socket and reports them through netlink (``sock_diag(7)``, as ``ss -ti`` shows them).
``/proc/PID/fd`` says which process holds a socket. Reading those takes a millisecond per JVM, so it is done only when
there are new sockets or executors, and at most every ten seconds: the first seconds of a new connection are missed.
Traffic between processes of one executor (the JVM and its Python workers, over loopback) does not count. Sockets of
other network namespaces are not visible.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ebbflow.monitoring.processes import Tree

MAP_EVERY_S = 10.0
ANSWER_WITHIN_S = 0.5

_SOCK_DIAG, _BY_FAMILY, _DUMP, _ERROR, _DONE = 4, 20, 0x301, 2, 3
_WITH_DATA = sum(1 << state for state in (1, 4, 5, 8, 9, 11))  # established, and the ways to close
_INFO = 2
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI48x")
_SOCKET = struct.Struct("=4x2s2s16s16s12x12x4xI")  # ports, addresses, …, inode
_ACKNOWLEDGED_AT = 120  # in struct tcp_info; bytes received follow
_MAPPED = b"\0" * 10 + b"\xff\xff"


class TcpSocket(NamedTuple):
    """The two ends of a socket, and its byte counts so far."""

    here: bytes
    there: bytes
    received: int
    sent: int


Sockets = dict[int, TcpSocket]
"""Sockets by inode."""


def tcp_sockets() -> Sockets | None:
    """All TCP sockets of this network namespace that carry data; None if the kernel does not report them."""
    if not hasattr(socket, "AF_NETLINK"):
        return None
    found: Sockets = {}
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as netlink:
            netlink.settimeout(ANSWER_WITHIN_S)
            for family in (socket.AF_INET, socket.AF_INET6):
                request = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, _WITH_DATA)
                netlink.send(_HEADER.pack(16 + len(request), _BY_FAMILY, _DUMP, 1, 0) + request)
                for message in _answers(netlink):
                    _take(message, found)
    except (OSError, struct.error):
        return None
    return found


def _answers(netlink: socket.socket) -> Iterator[bytes]:
    while True:
        data, at = netlink.recv(1 << 16), 0
        while at < len(data):
            length, kind, *_ = _HEADER.unpack_from(data, at)
            if kind == _DONE:
                return
            if kind == _ERROR or length < _HEADER.size:
                raise OSError("sock_diag refused")
            yield data[at + _HEADER.size : at + length]
            at += (length + 3) & ~3


def _take(message: bytes, found: Sockets) -> None:
    port, far_port, address, far_address, inode = _SOCKET.unpack_from(message)
    at = _SOCKET.size
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if length < 4:
            return
        if kind == _INFO and length >= 4 + _ACKNOWLEDGED_AT + 16 and inode:
            sent, received = struct.unpack_from("=QQ", message, at + 4 + _ACKNOWLEDGED_AT)
            found[inode] = TcpSocket(port + _plain(address), far_port + _plain(far_address), received, sent)
            return
        at += (length + 3) & ~3


def _plain(address: bytes) -> bytes:
    """Normalise IPv4 addresses: Java uses ::ffff:127.0.0.1 where Python uses 127.0.0.1."""
    return address[12:] + b"\0" * 12 if address.startswith(_MAPPED) else address


def socket_inodes(pid: int) -> set[int] | None:
    """Inodes of the sockets a process holds; None if not permitted."""
    folder = f"/proc/{pid}/fd"
    inodes = set()
    try:
        for name in os.listdir(folder):  # noqa: PTH208 - hundreds of them; a Path for each would double the cost
            with contextlib.suppress(FileNotFoundError):
                link = os.readlink(f"{folder}/{name}")  # noqa: PTH115
                if link.startswith("socket:["):
                    inodes.add(int(link[8:-1]))
    except FileNotFoundError:
        pass  # the process ended meanwhile
    except OSError:
        return None
    return inodes


class NetworkProbe:
    """Measures bytes per second into and out of each executor, since the last measurement."""

    def __init__(
        self,
        elapsed_s: Callable[[], float],
        *,
        sockets: Callable[[], Sockets | None] = tcp_sockets,
        inodes: Callable[[int], set[int] | None] = socket_inodes,
    ) -> None:
        self._elapsed_s = elapsed_s
        self._sockets, self._inodes = sockets, inodes
        self._before: tuple[float, Sockets] | None = None
        self._owner: dict[int, int] = {}
        self._known: set[int] = set()
        self._mapped_trees: set[int] = set()
        self._mapped_roots: set[int] = set()
        self._mapped_s = float("-inf")

    def forget(self) -> None:
        """Start again: the next measurement is a first one."""
        self._before = None

    def measure(self, trees: Iterable[Tree]) -> dict[int, tuple[float, float]]:
        """Rates (in, out) of each executor for which they are known, by the process id of its JVM."""
        now_s, sockets = self._elapsed_s(), self._sockets()
        before, self._before = self._before, None if sockets is None else (now_s, sockets)
        if sockets is None:
            return {}
        trees = list(trees)
        new = not sockets.keys() <= self._known or not {tree.root.pid for tree in trees} <= self._mapped_roots
        if new and now_s - self._mapped_s >= MAP_EVERY_S:
            self._map(trees, sockets, now_s)
        if before is None or now_s <= before[0]:
            return {}
        totals = {tree.root.pid: [0, 0] for tree in trees if tree.root.pid in self._mapped_trees}
        at_end = {each.here: inode for inode, each in sockets.items()}
        for inode, each in sockets.items():
            owner = self._owner.get(inode)
            peer = at_end.get(each.there)
            if owner not in totals or (peer is not None and self._owner.get(peer) == owner):
                continue
            old = before[1].get(inode)
            totals[owner][0] += each.received - (old.received if old else 0)
            totals[owner][1] += each.sent - (old.sent if old else 0)
        span_s = now_s - before[0]
        return {pid: (max(0, got) / span_s, max(0, sent) / span_s) for pid, (got, sent) in totals.items()}

    def _map(self, trees: Iterable[Tree], sockets: Sockets, now_s: float) -> None:
        self._owner, self._mapped_trees = {}, set()
        self._mapped_roots = {tree.root.pid for tree in trees}
        for tree in trees:
            held = [self._inodes(pid) for pid in tree.members]
            if None not in held:
                self._mapped_trees.add(tree.root.pid)
                self._owner |= {inode: tree.root.pid for inodes in held for inode in inodes or ()}
        self._known, self._mapped_s = set(sockets), now_s
