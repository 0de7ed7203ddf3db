"""Guards of a datastore. Each blocks what it is for, and nothing once its cause is gone (the negative control)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ebbflow.core.decision import Decision
from ebbflow.core.layout import Layout
from ebbflow.core.topology import (
    NoBackgroundWork,
    NodeState,
    StoreNode,
    Topology,
    leaving_order,
    next_to_join,
    next_to_leave,
    objection,
    safety_rules,
)
from ebbflow.guards import topology_guards
from ebbflow.guards.topology import TopologyGuard
from ebbflow.testing import check_guard
from ebbflow.testing.snapshots import make_snapshot

GUARDS = {guard.name: guard for guard in topology_guards()}


def ring(size: int = 5, *, racks: int = 1, factor: int = 3) -> Topology:
    """Nodes a, b, c, … on racks in turn; the first is the seed."""
    nodes = tuple(
        StoreNode(
            address=chr(ord("a") + i),
            rack=f"r{i % racks}",
            seed=i == 0,
            data_bytes=10e9,
            disk_free_bytes=100e9,
        )
        for i in range(size)
    )
    return Topology(nodes=nodes, replication_factor=factor)


def changed(topology: Topology, address: str, **fields: object) -> Topology:
    return replace(
        topology, nodes=tuple(replace(n, **fields) if n.address == address else n for n in topology.nodes)
    )


def restrained(guard: str, topology: Topology | None, wanted: int) -> Decision:
    size = len(topology.active) if topology is not None else 5
    seen = make_snapshot(0.0, size, topology=topology)
    return GUARDS[guard].restrain(seen, Decision(wanted=Layout.of(wanted), reason="test"))


Spoil = Callable[[Topology], Topology]
CASES: dict[str, tuple[Spoil, int, int]] = {
    "unfinished change": (lambda t: replace(t, unfinished="b died while it joined"), 6, 5),
    "one change at a time": (lambda t: replace(t, steps_left=1), 4, 5),
    "nodes down": (lambda t: changed(t, "c", up=False), 6, 5),
    "streams, cleanup or repair": (lambda t: changed(t, "d", repairs=1), 4, 5),
    "cleanup": (lambda t: changed(t, "b", needs_cleanup=True), 4, 5),
    "disk space": (lambda t: changed(t, "b", disk_free_bytes=1e9), 4, 5),
    "racks": (lambda t: replace(ring(5, racks=3), replication_factor=3), 2, 3),
    "replication factor": (lambda t: t, 2, 3),
}


def test_every_rule_has_a_case() -> None:
    assert set(CASES) == set(GUARDS)


@pytest.mark.parametrize("name", CASES)
def test_a_guard_blocks_its_cause_and_nothing_else(name: str) -> None:
    spoil, wanted, allowed = CASES[name]
    blocked = restrained(name, spoil(ring()), wanted)
    assert blocked.wanted.main_nodes == allowed
    assert [constraint.name for constraint in blocked.bound_by] == [name]
    # negative control: without its cause the same decision passes, and so it does past every other guard's cause
    healthy = replace(ring(), replication_factor=1)
    assert restrained(name, healthy, wanted).wanted.main_nodes == wanted


@pytest.mark.parametrize("name", GUARDS)
def test_a_target_without_a_topology_is_not_restrained(name: str) -> None:
    assert restrained(name, None, 1).bound_by == ()


def test_they_keep_the_contract_of_a_guard() -> None:
    check_guard(lambda: TopologyGuard(NoBackgroundWork()))


@pytest.mark.parametrize("state", [NodeState.JOINING, NodeState.DECOMMISSIONING])
def test_a_change_that_someone_else_began_blocks_too(state: NodeState) -> None:
    topology = changed(ring(6), "f", state=state)
    blocked = restrained("one change at a time", topology, 6)
    assert blocked.wanted.main_nodes == 5
    assert f"f is {state}" in blocked.bound_by[0].why


@pytest.mark.parametrize("work", ["streams", "cleanups", "repairs"])
def test_each_kind_of_background_work_blocks_growth_too(work: str) -> None:
    assert (
        restrained("streams, cleanup or repair", changed(ring(), "e", **{work: 1}), 6).wanted.main_nodes == 5
    )


def test_a_due_cleanup_does_not_block_growth() -> None:
    assert restrained("cleanup", changed(ring(), "b", needs_cleanup=True), 6).wanted.main_nodes == 6


def test_a_scale_in_stops_where_the_disks_would_fill() -> None:
    """30 GB of three leaving nodes on two do not fit into half of 20 GB; 20 GB of two on three do."""
    topology = ring(5, factor=1)
    for address in "abcde":
        topology = changed(topology, address, disk_free_bytes=20e9)
    assert restrained("disk space", topology, 2).wanted.main_nodes == 3


def test_unknown_disk_space_blocks_a_scale_in() -> None:
    blocked = restrained("disk space", changed(ring(), "a", disk_free_bytes=None), 4)
    assert blocked.wanted.main_nodes == 5
    assert "unknown" in blocked.bound_by[0].why


def test_racks_fill_and_empty_evenly() -> None:
    topology = changed(
        changed(ring(6, racks=3), "e", state=NodeState.INACTIVE), "f", state=NodeState.INACTIVE
    )
    joining = next_to_join(topology)
    assert joining is not None
    assert joining.address == "e"  # r1 and r2 have one node each, r0 has two
    leaving = next_to_leave(topology)
    assert leaving is not None
    assert leaving.address == "d"


@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 4))
def test_whatever_leaves_enough_racks_and_the_seed_stay(size: int, racks: int, factor: int) -> None:
    topology = ring(size, racks=racks, factor=factor)
    before = len({node.rack for node in topology.active})
    left = [node for node in topology.active if node not in leaving_order(topology)]
    assert len({node.rack for node in left}) >= min(before, factor)
    assert topology.nodes[0] in left


def test_a_step_is_checked_against_all_rules() -> None:
    rules = safety_rules()
    assert objection(rules, ring(4), -1) == ""
    assert objection(rules, ring(3), -1).startswith("replication factor: ")
    assert objection(rules, changed(ring(4), "b", needs_cleanup=True), -1).startswith("cleanup: ")
    assert objection(rules, changed(ring(4), "b", needs_cleanup=True), 1) == ""
