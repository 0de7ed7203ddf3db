"""Layouts and their differences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ebbflow.core.layout import MAIN, Layout

NAMES = st.sampled_from(["read", "split", "count"])
LAYOUTS = st.builds(
    Layout,
    nodes=st.dictionaries(st.sampled_from([MAIN, "spare"]), st.integers(0, 20)),
    parallelism=st.dictionaries(NAMES, st.integers(1, 8)),
    placement=st.dictionaries(NAMES, st.sampled_from([MAIN, "spare"])),
)


def test_a_layout_of_one_cluster_has_its_nodes_in_main() -> None:
    assert Layout.of(3, split=4) == Layout(nodes={MAIN: 3}, parallelism={"split": 4})
    assert Layout(nodes={"spare": 2}).main_nodes == 0


def test_with_nodes_changes_one_cluster_and_nothing_else() -> None:
    before = Layout(nodes={MAIN: 1, "spare": 2}, parallelism={"split": 4}, placement={"split": "spare"})
    after = before.with_nodes(5)
    assert after.nodes == {MAIN: 5, "spare": 2}
    assert (after.parallelism, after.placement) == (before.parallelism, before.placement)
    assert before.main_nodes == 1


def test_the_difference_says_what_must_change() -> None:
    before = Layout(nodes={MAIN: 4}, parallelism={"split": 4}, placement={})
    after = Layout(nodes={MAIN: 2, "spare": 1}, parallelism={"split": 8}, placement={"count": "spare"})
    change = after.difference(before)
    assert change.nodes == {MAIN: -2, "spare": 1}
    assert change.parallelism == {"split": (4, 8)}
    assert change.moved == {"count": (MAIN, "spare")}
    assert str(change) == "main -2 nodes, spare +1 node, split ×4→8, count: main → spare"


def test_only_parallelism_and_placement_restart_a_query() -> None:
    assert not Layout.of(4).difference(Layout.of(2)).restarts
    assert Layout.of(2, split=8).difference(Layout.of(2, split=4)).restarts


def test_fusing_an_operator_and_moving_it_back_are_changes_too() -> None:
    apart = Layout(nodes={MAIN: 2}, parallelism={"split": 4}, placement={"count": "spare"})
    change = Layout.of(2).difference(apart)
    assert change.parallelism == {"split": (4, 1)}
    assert change.moved == {"count": ("spare", MAIN)}


@given(LAYOUTS)
def test_a_layout_does_not_differ_from_itself(layout: Layout) -> None:
    change = layout.difference(layout)
    assert not change
    assert str(change) == "nothing"


@given(LAYOUTS, LAYOUTS)
def test_applying_the_reverse_difference_restores_the_layout(one: Layout, other: Layout) -> None:
    there, back = one.difference(other), other.difference(one)
    assert bool(there) == bool(back)
    assert there.nodes == {cluster: -change for cluster, change in back.nodes.items()}
    assert there.parallelism == {name: (new, old) for name, (old, new) in back.parallelism.items()}
    assert there.moved == {name: (new, old) for name, (old, new) in back.moved.items()}
