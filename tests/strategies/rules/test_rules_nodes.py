"""Nodes are added and removed with the instances that need them, for any steps and slots per node."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rule_world import HIGH, LOW, World, grow

from ebbflow.core.decision import Decision, LedgerEntry, Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.policy import Policy, absolute, cluster, nodes, operator, rule
from ebbflow.strategies.rules.nodes import InstanceNodes

WIDE = {"limits": Limits(min_nodes=1, max_nodes=40)}


def up_and_down(by: int = 1) -> Policy:
    """Scale out and in by the same step."""
    return Policy(
        grow(absolute(by)).but_never_above(nodes(99)).when(HIGH),
        rule("in").scale_in(operator("enrich")).by(absolute(by)).when(LOW),
    )


def stepped(world: World, *, out: bool) -> tuple[int, int]:
    """The size and the nodes after one step."""
    assert len(world.run(11, enrich=301 if out else 0)) == 1
    return world.layout.parallelism["enrich"], world.layout.main_nodes


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_nodes_added_for_instances_are_removed_with_them_step_by_step(slots: int) -> None:
    world = World(up_and_down(), Layout.of(1, enrich=1), slots_per_node=slots, **WIDE)
    for _ in range(3):
        for size in (*range(2, 10), *range(8, 0, -1)):
            out = size > world.layout.parallelism["enrich"]
            assert stepped(world, out=out) == (size, math.ceil(size / slots))


def test_a_step_that_added_a_node_to_a_full_one_removes_it() -> None:
    world = World(up_and_down(2), Layout.of(1, enrich=3, store=1), slots_per_node=4)
    assert [stepped(world, out=out) for out in (True, False, False)] == [(5, 2), (3, 1), (1, 1)]


def test_instances_that_share_slots_from_the_start_do_not_accumulate_nodes() -> None:
    for slots, first in ((1, 2), (4, 1)):
        world = World(up_and_down(), Layout.of(first, enrich=5, store=5), slots_per_node=slots, **WIDE)
        for _ in range(4):
            assert stepped(world, out=True) == (6, first + 1)
            assert stepped(world, out=False) == (5, first)


def test_nodes_added_by_a_person_stay() -> None:
    world = World(up_and_down(), Layout.of(3, enrich=2, store=1), **WIDE)
    world.run(40, enrich=5)
    world.layout = Layout.of(4, enrich=2, store=1)
    assert stepped(world, out=True) == (3, 4)
    assert stepped(world, out=True) == (4, 5)
    assert [stepped(world, out=False) for _ in range(3)] == [(3, 5), (2, 4), (1, 3)]


def test_a_node_removed_by_a_person_is_not_removed_again() -> None:
    world = World(up_and_down(), Layout.of(3, enrich=1, store=1), **WIDE)
    world.run(40, enrich=5)
    assert [stepped(world, out=True) for _ in range(3)] == [(2, 3), (3, 4), (4, 5)]
    world.layout = Layout.of(4, enrich=4, store=1)
    world.run(1, enrich=5)
    assert [stepped(world, out=False) for _ in range(3)] == [(3, 4), (2, 3), (1, 3)], (
        "three were there at the start"
    )


def test_nodes_added_before_a_restart_are_removed_after_it() -> None:
    before, after = Layout.of(1, enrich=2, store=2), Layout.of(2, enrich=3, store=2)
    act = LedgerEntry(
        entry_id=1,
        time_s=-10.0,
        strategy="rules",
        verdict="act",
        before=before,
        decision=Decision(wanted=after, reason="grew"),
        outcome=Outcome(requested=after),
    )
    forgetful, world = (World(up_and_down(), after, slots_per_node=4) for _ in range(2))
    world.rules.recall([act])
    assert stepped(forgetful, out=False) == (2, 2), (
        "without the ledger the second node belongs to no instance"
    )
    assert stepped(world, out=False) == (2, 1)


def test_rules_that_scale_in_nodes_also_decide_on_nodes_of_instances() -> None:
    fewer = rule("n").scale_in(cluster()).by(absolute(1)).when(HIGH)
    more = rule("n").scale_out(cluster()).by(absolute(1)).when(HIGH)
    for added, left in ((fewer, 2), (more, 1)):
        world = World(up_and_down(), Layout.of(1, enrich=1), **WIDE)
        assert stepped(world, out=True) == (2, 2)
        world.rules.use(Policy(*up_and_down().rules, added))
        assert stepped(world, out=False) == (1, left)


@given(
    slots=st.integers(1, 5),
    first=st.integers(1, 6),
    size=st.integers(1, 30),
    more=st.lists(st.integers(0, 20), min_size=1, max_size=12),
)
def test_growing_and_shrinking_back_by_any_steps_ends_with_the_same_nodes(
    slots: int, first: int, size: int, more: list[int]
) -> None:
    limits = Limits(min_nodes=1, max_nodes=999)
    world = World(Policy(), Layout.of(first, enrich=size), slots_per_node=slots, limits=limits)
    nodes_of = InstanceNodes()
    for number, each in enumerate([0, *more, *range(more[-1], -1, -1)]):
        snapshot = world.snapshot()
        nodes_of.observe(snapshot, starting=number == 0)
        world.layout, _ = nodes_of.layout_with(snapshot, {"enrich": size + each}, release_nodes=True)
        now = world.layout.main_nodes
        needed = math.ceil((size + each - max(size, first * slots)) / slots)
        assert now >= first + max(0, needed), "instances share no slots that they did not share at the start"
        assert now <= first + math.ceil(max(more) / slots)
    assert world.layout == Layout.of(first, enrich=size)
