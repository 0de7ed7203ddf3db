"""States and heartbeats of nodes from gossip, as real clusters show them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ebbflow.core.topology import NodeState
from ebbflow.targets.cassandra.gossip import DOWN_AFTER_S, Gossip, Host, Membership

HOSTS = [Host(address="a", seed=True), Host(address="b", rack="r2")]
A = Gossip(address="a", status="NORMAL,-22", generation=1, heartbeat=1, rack="r1", serves=True)
B = Gossip(address="b", status="NORMAL,7", generation=1, heartbeat=1, serves=True)


def settled(*gossip: Gossip) -> Membership:
    ring = Membership(HOSTS)
    ring.update(0.0, gossip)
    ring.update(1.0, [replace(each, heartbeat=each.heartbeat + 1) for each in gossip])
    return ring


def beat(node: Gossip, heartbeat: int, **changes: object) -> Gossip:
    return replace(node, heartbeat=heartbeat, **changes)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("BOOT,12", NodeState.JOINING),
        ("BOOT_REPLACE,10.0.0.1", NodeState.JOINING),
        ("NORMAL,12", NodeState.ACTIVE),
        ("LEAVING,12", NodeState.DECOMMISSIONING),
        ("LEFT,12,1700000000", NodeState.INACTIVE),
        ("removed,1,2", NodeState.INACTIVE),
        ("", NodeState.JOINING),
        ("shutdown,true", NodeState.ACTIVE),
    ],
)
def test_a_status_is_a_state(status: str, state: NodeState) -> None:
    node = Membership(HOSTS).update(0.0, [A, beat(B, 1, status=status)])[1]
    assert node.state is state


def test_hosts_that_gossip_does_not_know_are_inactive_and_strangers_are_kept() -> None:
    stranger = Gossip(address="x", status="NORMAL,1", generation=1, heartbeat=1)
    nodes = {node.address: node for node in Membership(HOSTS).update(0.0, [A, stranger])}
    assert nodes["b"].state is NodeState.INACTIVE
    assert nodes["b"].rack == "r2"
    assert nodes["x"].state is NodeState.ACTIVE
    assert nodes["x"].seed, "a node that is none of our hosts must never be removed"


def test_a_node_is_up_only_while_its_heartbeat_advances() -> None:
    ring = settled(A, B)
    assert [node.up for node in ring.update(2.0, [beat(A, 3), beat(B, 3)])] == [True, True]
    late_s = 2.0 + DOWN_AFTER_S + 1.0
    assert [node.up for node in ring.update(late_s, [beat(A, 9), beat(B, 3)])] == [True, False]
    # a restart begins a new generation, from a low heartbeat
    assert [n.up for n in ring.update(late_s + 1, [beat(A, 10), beat(B, 1, generation=2)])] == [True, True]


def test_an_active_node_that_does_not_accept_requests_yet_is_not_up() -> None:
    ring = settled(A, B)
    assert not ring.update(2.0, [beat(A, 3), beat(B, 3, serves=False)])[1].up


@pytest.mark.parametrize(
    ("before", "after"),
    [("LEAVING,1", NodeState.DECOMMISSIONING), ("BOOT,1", NodeState.JOINING), ("NORMAL,1", NodeState.ACTIVE)],
)
@pytest.mark.parametrize("status", ["", "shutdown,true"])
def test_a_node_that_stops_or_restarts_keeps_its_membership(
    before: str, after: NodeState, status: str
) -> None:
    ring = settled(A, beat(B, 1, status=before))
    node = ring.update(2.0, [beat(A, 3), beat(B, 1, generation=2, status=status)])[1]
    assert node.state is after


def test_a_row_of_the_virtual_table() -> None:
    row = {
        "address": "127.0.0.2", "status_with_port": "BOOT,77", "status": None, "generation": 1794937737,
        "heartbeat": 62, "rack": "r1", "load": "26548.0", "rpc_ready": "true",
    }  # fmt: skip
    heard = Gossip.of_row(row)
    assert (heard.status, heard.heartbeat, heard.data_bytes, heard.serves) == ("BOOT,77", 62, 26548.0, True)
