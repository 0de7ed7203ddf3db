"""The nodes of a ring, as gossip shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ebbflow.core.topology import NodeState, StoreNode

DOWN_AFTER_S = 10.0
"""A node whose heartbeat has not advanced for this long is down. Heartbeats advance once a second."""


class Host(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A host that a node may run on."""

    address: str
    rack: str = "rack1"
    seed: bool = False


class Gossip(msgspec.Struct, frozen=True, kw_only=True):
    """What gossip says about one address."""

    address: str
    status: str
    """Such as ``NORMAL,-2241389154796018180``; empty while a node starts."""
    generation: int
    heartbeat: int
    rack: str = ""
    data_bytes: float | None = None
    serves: bool = False
    """Whether it accepts requests of clients."""

    @classmethod
    def of_row(cls, row: Mapping[str, object]) -> Gossip:
        """From a row of ``system_views.gossip_info``."""
        load = row.get("load")
        return cls(
            address=str(row["address"]),
            status=str(row.get("status_with_port") or row.get("status") or ""),
            generation=int(str(row.get("generation") or 0)),
            heartbeat=int(str(row.get("heartbeat") or 0)),
            rack=str(row.get("rack") or ""),
            data_bytes=float(str(load)) if load else None,
            serves=str(row.get("rpc_ready")).lower() == "true",
        )


_STATES = {
    "BOOT": NodeState.JOINING,
    "BOOT_REPLACE": NodeState.JOINING,
    "NORMAL": NodeState.ACTIVE,
    "MOVING": NodeState.ACTIVE,
    "LEAVING": NodeState.DECOMMISSIONING,
    "LEFT": NodeState.INACTIVE,
    "removing": NodeState.DECOMMISSIONING,
    "removed": NodeState.INACTIVE,
}


class Membership:
    """Follows the states of nodes and their heartbeats from one observation to the next.

    >>> ring = Membership([Host(address="a"), Host(address="b")])
    >>> def seen(beat): return [Gossip(address="a", status="NORMAL,1", generation=1, heartbeat=beat, serves=True)]
    >>> [(n.address, str(n.state), n.up) for n in ring.update(0.0, seen(5))]
    [('a', 'active', False), ('b', 'inactive', False)]
    >>> [(n.address, n.up) for n in ring.update(1.0, seen(6))]
    [('a', True), ('b', False)]
    """

    def __init__(self, hosts: Sequence[Host], down_after_s: float = DOWN_AFTER_S) -> None:
        self._hosts = {host.address: host for host in hosts}
        self._down_after_s = down_after_s
        self._states: dict[str, NodeState] = {}
        self._beats: dict[str, tuple[tuple[int, int], float]] = {}
        """For each address its newest heartbeat, and when it last advanced; minus infinity until it did."""

    def update(self, now_s: float, gossip: Iterable[Gossip]) -> list[StoreNode]:
        """The nodes of all hosts, and of addresses that are no host of ours but take part in the ring."""
        by_address = {each.address: each for each in gossip}
        nodes = []
        for address in dict.fromkeys((*self._hosts, *by_address)):
            host, heard = self._hosts.get(address), by_address.get(address)
            state = self._state(address, heard)
            if host is None and state is NodeState.INACTIVE:
                continue
            self._states[address] = state
            up = self._is_up(now_s, address, heard) and heard is not None
            if state is NodeState.ACTIVE and heard is not None:
                up = up and heard.serves
            nodes.append(
                StoreNode(
                    address=address,
                    state=state,
                    up=up and state is not NodeState.INACTIVE,
                    rack=(heard.rack if heard is not None and heard.rack else None)
                    or (host.rack if host is not None else "rack1"),
                    seed=host.seed if host is not None else True,  # not ours to remove
                    data_bytes=heard.data_bytes if heard is not None else None,
                )
            )
        return nodes

    def _state(self, address: str, heard: Gossip | None) -> NodeState:
        """Its state. A node that starts or was shut down gossips no membership: it keeps the one it had."""
        if heard is None:
            # Members stay in gossip while they are down; one that joined and died is forgotten.
            return NodeState.INACTIVE
        word = heard.status.partition(",")[0]
        if word in _STATES:
            return _STATES[word]
        before = self._states.get(address, NodeState.INACTIVE)
        if before is not NodeState.INACTIVE:
            return before
        return NodeState.ACTIVE if word in ("shutdown", "hibernate") else NodeState.JOINING

    def _is_up(self, now_s: float, address: str, heard: Gossip | None) -> bool:
        if heard is None:
            self._beats.pop(address, None)
            return False
        beat = (heard.generation, heard.heartbeat)
        newest, advanced_s = self._beats.get(address, (beat, float("-inf")))
        if beat > newest:
            advanced_s = now_s
        self._beats[address] = (max(beat, newest), advanced_s)
        shut_down = heard.status.startswith(("shutdown", "hibernate"))
        return now_s - advanced_s <= self._down_after_s and not shut_down
