"""A Cassandra cluster without Cassandra: nodes join and leave on a manual clock, and can be made to die."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from ebbflow.core.readings import Reading
from ebbflow.core.topology import NodeState, StoreNode, Topology
from ebbflow.errors import TargetError
from ebbflow.testing import ManualClock

JOIN_S, LEAVE_S, CLEANUP_S = 20.0, 15.0, 5.0


class FakeRing:
    """A monitor and the operations of one cluster. Decommissions and cleanups end when time has passed."""

    def __init__(self, clock: ManualClock, *, nodes: int = 3, hosts: int = 6, factor: int = 3) -> None:
        self.clock = clock
        self.factor = factor
        self.addresses = [f"10.0.0.{i + 1}" for i in range(hosts)]
        self.states = {
            each: NodeState.ACTIVE if i < nodes else NodeState.INACTIVE
            for i, each in enumerate(self.addresses)
        }
        self.down: set[str] = set()
        self.until_s: dict[str, float] = {}
        self.calls: list[tuple[str, str]] = []
        self.broken: dict[str, str] = {}
        """Operations that fail, with the reason."""
        self.free_bytes: float | None = 1e12
        self.repairs = 0
        self.most_changing = 0
        """The most nodes that ever joined or left at the same time."""

    # -- monitor -----------------------------------------------------------------------------------

    def poll(self) -> tuple[Topology, list[Reading]]:
        now_s = self.clock.now_s()
        for host, until_s in list(self.until_s.items()):
            if now_s >= until_s and host not in self.down:
                del self.until_s[host]
                done = {
                    NodeState.JOINING: NodeState.ACTIVE,
                    NodeState.DECOMMISSIONING: NodeState.INACTIVE,
                }.get(self.states[host])
                if done is not None:
                    self.states[host] = done
        nodes = tuple(
            StoreNode(
                address=host,
                state=state,
                up=host not in self.down and state is not NodeState.INACTIVE,
                seed=host == self.addresses[0],
                data_bytes=1e9,
                disk_free_bytes=self.free_bytes,
                cleanups=int(state is NodeState.ACTIVE and host in self.until_s),
                repairs=self.repairs if host == self.addresses[0] else 0,
            )
            for host, state in self.states.items()
        )
        topology = Topology(nodes=nodes, replication_factor=self.factor)
        self.most_changing = max(self.most_changing, len(topology.changing))
        return topology, []

    # -- operations --------------------------------------------------------------------------------

    def start(self, host: str, *, fresh: bool) -> None:
        self._call("start" if fresh else "restart", host)
        self.down.discard(host)
        if fresh:
            self.states[host] = NodeState.JOINING
            self.until_s[host] = self.clock.now_s() + JOIN_S
        elif self.states[host] is NodeState.DECOMMISSIONING:  # its leaving was not finished
            self.states[host] = NodeState.ACTIVE

    def stop(self, host: str) -> None:
        self._call("stop", host)
        self.down.discard(host)
        if self.states[host] is NodeState.JOINING:
            self.states[host] = NodeState.INACTIVE
        self.until_s.pop(host, None)

    def decommission(self, host: str) -> None:
        self._call("decommission", host)
        self.states[host] = NodeState.DECOMMISSIONING
        self.until_s[host] = self.clock.now_s() + LEAVE_S

    def cleanup(self, host: str) -> None:
        self._call("cleanup", host)
        self.until_s[host] = self.clock.now_s() + CLEANUP_S

    def _call(self, what: str, host: str) -> None:
        self.calls.append((what, host))
        if what in self.broken:
            raise TargetError(self.broken[what])

    def kill(self, host: str) -> None:
        """A crash: the node is still a member, but does not answer; its data stays where it is."""
        self.down.add(host)
        self.until_s.pop(host, None)

    def hosts_in(self, state: NodeState) -> list[str]:
        return [host for host, each in self.states.items() if each is state]


class FakeExecutor(Executor):
    """Operations end when the ring shows it: at once, except a decommission and a cleanup, which block."""

    def __init__(self, ring: FakeRing) -> None:
        self._ring = ring

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        before = len(self._ring.calls)
        future = _Blocking(self._ring)
        try:
            fn(*args, **kwargs)
        except Exception as error:
            future.set_exception(error)
            return future
        what, host = self._ring.calls[before]
        if what in ("decommission", "cleanup"):
            future.blocked_on = host
        else:
            future.set_result(None)
        return future


class _Blocking(Future[Any]):
    def __init__(self, ring: FakeRing) -> None:
        super().__init__()
        self._ring = ring
        self.blocked_on: str | None = None

    def done(self) -> bool:
        if self.blocked_on is not None and self.blocked_on not in self._ring.until_s:
            host, self.blocked_on = self.blocked_on, None
            if host in self._ring.down:
                self.set_exception(TargetError(f"connection to {host} lost"))
            else:
                self.set_result(None)
        return super().done()
