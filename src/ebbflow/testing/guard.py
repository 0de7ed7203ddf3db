"""The contract of a guard, as a check that raises ``AssertionError`` with what is wrong."""

from __future__ import annotations

from collections.abc import Callable

from ebbflow.core.decision import Decision
from ebbflow.core.layout import Layout
from ebbflow.core.ports import Guard
from ebbflow.core.snapshot import Snapshot
from ebbflow.testing.purity import clock_calls_of, no_side_effects
from ebbflow.testing.strategy import continuous_run, micro_batch_run


def check_guard(make: Callable[[], Guard]) -> None:
    """Check that a guard only restrains, names what it did, and is deterministic and pure.

    ``make`` is the class, or a function that returns a fresh guard. The guard sees two hours of snapshots, and for each
    a scale-out, a scale-in and a hold. Its result must lie between the planned and the wanted size, or at the nearest
    limit, and a changed decision must carry one more constraint, with the guard's name and a reason.

    >>> from ebbflow.guards import CoolDown
    >>> check_guard(CoolDown)
    """
    one, other = make(), make()
    assert isinstance(one, Guard), f"{one!r} is not an ebbflow.Guard; derive from it"
    assert getattr(one, "name", ""), "the guard has no name; set the class attribute"
    calls = clock_calls_of(type(one))
    assert not calls, f"{calls[0]} reads the clock; a guard may use only the snapshot"
    with no_side_effects():
        for snapshot in (*micro_batch_run(1), *continuous_run(1)):
            for nodes in {1, snapshot.planned.main_nodes, 2 * snapshot.planned.main_nodes + 3}:
                wanted = snapshot.planned.with_nodes(nodes)
                decision = Decision(wanted=wanted, reason="test", formula="n")
                result = one.restrain(snapshot, decision)
                assert isinstance(result, Decision), f"restrain returned {result!r}, not a Decision"
                assert result == other.restrain(snapshot, decision), f"two results at {snapshot.now_s:g} s"
                _check_only_restrains(one.name, snapshot, decision, result)


def _check_only_restrains(name: str, snapshot: Snapshot, decision: Decision, result: Decision) -> None:
    before, after = decision.wanted, result.wanted
    planned, limits = snapshot.planned, snapshot.limits
    for cluster in {*before.nodes, *after.nodes}:
        low, high = sorted((_nodes(planned, cluster), _nodes(before, cluster)))
        allowed = min(low, limits.max_nodes), max(high, limits.min_nodes)
        size = _nodes(after, cluster)
        assert allowed[0] <= size <= allowed[1], (
            f"{size} nodes from a plan of {_nodes(planned, cluster)} and a wish of {_nodes(before, cluster)}; "
            f"a guard may only reduce a change"
        )
    new = result.bound_by[len(decision.bound_by) :]
    if after == before:
        return
    assert new, "the guard changed the decision without naming a constraint; use decision.bound(…)"
    assert new[-1].name == name, f"the constraint is named {new[-1].name!r}, the guard {name!r}"
    assert new[-1].why, "the constraint has no reason"


def _nodes(layout: Layout, cluster: str) -> int:
    return layout.nodes.get(cluster, 0)
