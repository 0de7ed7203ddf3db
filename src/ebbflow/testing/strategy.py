"""The contract of a strategy, as checks that raise ``AssertionError`` with what is wrong."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from functools import cache

from ebbflow.core.decision import Decision
from ebbflow.core.layout import Layout
from ebbflow.core.plural import counted
from ebbflow.core.ports import DecidesOn, Strategy
from ebbflow.core.snapshot import Snapshot
from ebbflow.testing.purity import clock_calls_of, no_side_effects
from ebbflow.testing.snapshots import OperatorReadings, make_batch, make_snapshot, make_stage

Factory = Callable[[], Strategy]


def check_strategy(make: Factory) -> None:
    """Check that a strategy is deterministic and pure, decides completely, holds without data and scales out.

    ``make`` is the class, or a function that returns a fresh strategy. The last two checks follow what the strategy
    declares in ``decides_on``: one that ignores measurements need not hold without them, and an overload of batches is
    for strategies that decide on batches.

    >>> from ebbflow.strategies.static import Static
    >>> check_strategy(Static)
    """
    check_name(make)
    check_decisions_are_pure(make)
    check_decisions_are_complete_and_deterministic(make)
    decides_on = make().decides_on
    if decides_on is not DecidesOn.NOTHING:
        check_holds_without_data(make)
    if decides_on is DecidesOn.BATCHES:
        check_scales_out_under_overload(make)


def check_name(make: Factory) -> None:
    """The strategy can be made without arguments and has a name that fits into a command line."""
    try:
        strategy = make()
    except TypeError as error:
        raise AssertionError(f"the strategy cannot be made without arguments: {error}") from error
    assert isinstance(strategy, Strategy), f"{strategy!r} is not an ebbflow.Strategy; derive from it"
    name = getattr(strategy, "name", "")
    assert re.fullmatch(r"[a-z][a-z0-9-]*", name), f"the name {name!r} is not lower-case-with-hyphens"


def check_decisions_are_pure(make: Factory) -> None:
    """Deciding reads no clock, no environment and no global random numbers, and touches no file, process or socket."""
    strategy = make()  # which may read files, such as its state
    calls = clock_calls_of(type(strategy))
    assert not calls, f"{calls[0]} reads the clock; a decision may use only the snapshot"
    with no_side_effects():
        for what, run in (("batches", micro_batch_run(1)), ("readings", continuous_run(1))):
            for snapshot in run[:100]:
                _decide(strategy, snapshot, what)


def check_decisions_are_complete_and_deterministic(make: Factory) -> None:
    """The same snapshots lead to the same decisions, within the limits, with a reason and a formula."""
    for what, run in (("batches", micro_batch_run(1)), ("readings", continuous_run(1))):
        one, other = make(), make()
        for snapshot in run:
            decision, again = _decide(one, snapshot, what), _decide(other, snapshot, what)
            at = f"at {snapshot.now_s:g} s of {what}"
            assert decision == again, f"two decisions {at}: {_difference(decision, again)}"
            nodes, limits = decision.wanted.main_nodes, snapshot.limits
            assert limits.clamp(nodes) == nodes, f"{counted(nodes, 'node')} wanted, {limits} allowed, {at}"
            for operator, instances in decision.wanted.parallelism.items():
                assert instances >= 1, f"{counted(instances, 'instance')} of {operator} wanted {at}"
            assert decision.reason, f"no reason {at}; pass reason=… to every Decision"
            assert decision.formula, f"no formula {at}; pass formula=… to every Decision"


def check_holds_without_data(make: Factory) -> None:
    """Nothing changes while the data to decide on is missing, and the reason says so."""
    for missing, run in runs_without_data().items():
        strategy = make()
        for snapshot in run:
            decision = _decide(strategy, snapshot, missing)
            change = decision.wanted.difference(snapshot.planned)
            assert not change, f"{missing}: {change} at {snapshot.now_s:g} s, because {decision.reason}"
            assert decision.reason, f"{missing}: no reason at {snapshot.now_s:g} s"


def check_scales_out_under_overload(make: Factory) -> None:
    """A query that falls behind for an hour gets more nodes. For strategies that decide on batches."""
    strategy, most = make(), 0
    for k in range(144):
        # A batch takes 25 s for 5000 rows while 7500 arrive, its slots are always busy, and the backlog grows.
        one = make_batch(
            25.0 * k,
            25.0,
            make_stage(12, 96.0, 24.0),
            rows=5000,
            arrival_rate_per_s=300.0,
            backlog_rows=2500.0 * k,
        )
        decision = _decide(strategy, make_snapshot(25.0 * k, 4, [one]), "overload")
        most = max(most, decision.wanted.main_nodes)
    assert most > 4, "an hour of overload, and never more than 4 nodes wanted"


def _decide(strategy: Strategy, snapshot: Snapshot, what: str) -> Decision:
    """Decide; a failure says on which run and when."""
    try:
        decision = strategy.decide(snapshot)
    except AssertionError:  # of no_side_effects, which says what is wrong
        raise
    except Exception as error:
        raise AssertionError(
            f"{type(error).__name__} at {snapshot.now_s:g} s of {what}, "
            f"with {counted(len(snapshot.batches), 'batch', 'batches')} in the snapshot: {error}"
        ) from error
    assert isinstance(decision, Decision), f"decide returned {decision!r}, not a Decision"
    return decision


def _difference(one: Decision, other: Decision) -> str:
    """The fields that differ, with both values."""
    pairs = ((name, getattr(one, name), getattr(other, name)) for name in one.__struct_fields__)
    return "; ".join(f"{name} is {a!r} and {b!r}" for name, a, b in pairs if a != b)


@cache
def micro_batch_run(seed: int) -> Sequence[Snapshot]:
    """Two hours of a query with a random load and a changing size, idle at times."""
    rng, snapshots = random.Random(seed), []
    for k in range(720):
        now_s, nodes = 10.0 * k, 1 + (k // 150) % 9
        rows = rng.choice([0, 100, 1000, 5000])
        stages = (
            make_stage(12, rng.uniform(0.1, 12.0) * nodes, rng.uniform(0.1, 6.0)),
            make_stage(4, 0.5, 0.3, 1),
        )
        one = make_batch(
            now_s,
            rng.uniform(0.5, 25.0),
            *(stages if rng.random() < 0.95 else ()),
            rows=rows,
            slots=nodes,
            backlog_rows=rng.choice([0.0, 0.0, 2000.0, 1e5]),
        )
        batches = [one] if rng.random() < 0.9 else []
        snapshots.append(make_snapshot(now_s, nodes, batches, queries={"q": rng.choice([None, now_s - 2.0])}))
    return snapshots


@cache
def continuous_run(seed: int) -> Sequence[Snapshot]:
    """An hour of readings of two operators with a random load. All snapshots share the same windows."""
    rng, target, snapshots = random.Random(seed), OperatorReadings(), []
    layout = Layout.of(3, read=2, count=4)
    for k in range(360):
        rows = rng.choice([0, 500, 2000])
        target.read(
            10.0 * k,
            rate_per_s=rng.uniform(0, 400),
            lag_rows=rng.choice([0.0, 50.0, 1e5]),
            read=(rows, 2 * rows, rng.uniform(0, 20), 2),
            count=(2 * rows, 0, rng.uniform(0, 40), 4),
        )
        snapshots.append(target.snapshot(10.0 * k, layout, slots_per_node=2))
    return snapshots


@cache
def runs_without_data() -> dict[str, Sequence[Snapshot]]:
    """Two hours each, by what is wrong."""
    times_s = [20.0 * k for k in range(360)]
    return {
        "a batch that never ends": [make_snapshot(now_s, 4) for now_s in times_s],
        "no query": [make_snapshot(now_s, 4, queries={}) for now_s in times_s],
        "no readings of operators": [
            OperatorReadings().snapshot(now_s, Layout.of(4, read=2)) for now_s in times_s
        ],
    }
