"""The contract of a guard, as a check that raises ``AssertionError`` with what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ebbflow.core.decision import Constraint, Decision
from ebbflow.core.layout import Layout
from ebbflow.core.ports import Guard
from ebbflow.core.snapshot import Snapshot
from ebbflow.testing.purity import clock_calls_of, no_side_effects
from ebbflow.testing.strategy import continuous_run, micro_batch_run


def check_guard(make: Callable[[], Guard]) -> None:
    """Check that a guard only restrains, names what it did, and is deterministic and pure.

    ``make`` is the class, or a function that returns a fresh guard: ``lambda: BusinessHours(opens=8)``. The guard sees
    two hours of snapshots, and for each a scale-out, a scale-in, a hold and a change of parallelism. Its result must
    lie between the planned and the wanted size, or at the nearest limit. It keeps the reason, the formula, the inputs
    and the earlier constraints, and if it changes the layout, it adds a constraint with its name and a reason.

    >>> from ebbflow.guards import CoolDown
    >>> check_guard(CoolDown)
    """
    one, other = _made(make), _made(make)
    assert isinstance(one, Guard), f"{one!r} is not an ebbflow.Guard; derive from it"
    assert getattr(one, "name", ""), "the guard has no name; set the class attribute"
    calls = clock_calls_of(type(one))
    assert not calls, f"{calls[0]} reads the clock; a guard may use only the snapshot"
    with no_side_effects():
        for snapshot in (*micro_batch_run(1), *continuous_run(1)):
            for decision in _decisions(snapshot):
                result = _restrained(one, snapshot, decision)
                assert isinstance(result, Decision), f"restrain returned {result!r}, not a Decision"
                again = _restrained(other, snapshot, decision)
                assert result == again, f"two results at {snapshot.now_s:g} s"
                _check_keeps(decision, result)
                _check_only_restrains(one.name, snapshot, decision, result)


def _made(make: Callable[[], Guard]) -> Guard:
    try:
        return make()
    except Exception as error:
        raise AssertionError(
            f"the guard cannot be created: {type(error).__name__}: {error}; if it needs arguments, pass a function: "
            "check_guard(lambda: MyGuard(…))"
        ) from error


def _decisions(snapshot: Snapshot) -> Iterator[Decision]:
    planned = snapshot.planned
    more = {name: count + 1 for name, count in planned.parallelism.items()}
    layouts = [
        *(planned.with_nodes(nodes) for nodes in sorted({1, planned.main_nodes, 2 * planned.main_nodes + 3})),
        Layout(nodes=planned.nodes, parallelism=more, placement=planned.placement),
    ]
    for wanted in layouts:
        yield Decision(
            wanted=wanted,
            reason="test",
            formula="n = a",
            inputs={"a": 1.0},
            bound_by=(Constraint(name="before", why="a guard before this one"),),
        )


def _restrained(guard: Guard, snapshot: Snapshot, decision: Decision) -> Decision:
    try:
        return guard.restrain(snapshot, decision)
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(
            f"restrain raised {type(error).__name__} at {snapshot.now_s:g} s: {error}; a guard must not fail"
        ) from error


def _check_keeps(decision: Decision, result: Decision) -> None:
    """A guard restrains; what the strategy said stays."""
    for name in ("reason", "formula", "inputs"):
        before, after = getattr(decision, name), getattr(result, name)
        assert after == before, (
            f"the guard changed the {name} from {before!r} to {after!r}; use decision.bound(…)"
        )
    kept = result.bound_by[: len(decision.bound_by)]
    assert kept == decision.bound_by, "the guard removed a constraint of another guard; use decision.bound(…)"


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
    for operator in {*before.parallelism, *after.parallelism}:
        choices = [layout.parallelism.get(operator, 0) for layout in (planned, before)]
        count = after.parallelism.get(operator, 0)
        assert min(choices) <= count <= max(choices), (
            f"{count} instances of {operator} from a plan of {choices[0]} and a wish of {choices[1]}; "
            "a guard may only reduce a change"
        )
    if after == before:
        return
    new = result.bound_by[len(decision.bound_by) :]
    assert new, "the guard changed the decision without naming a constraint; use decision.bound(…)"
    assert new[-1].name == name, f"the constraint is named {new[-1].name!r}, the guard {name!r}"
    assert new[-1].why, "the constraint has no reason"


def _nodes(layout: Layout, cluster: str) -> int:
    return layout.nodes.get(cluster, 0)
