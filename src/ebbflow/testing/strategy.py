"""The contract of a strategy, as checks that raise ``AssertionError`` with what is wrong."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from functools import cache

from ebbflow.core.layout import Layout
from ebbflow.core.plural import counted
from ebbflow.core.ports import Strategy
from ebbflow.core.snapshot import Snapshot
from ebbflow.testing.purity import no_side_effects
from ebbflow.testing.snapshots import OperatorReadings, make_batch, make_snapshot, make_stage

Factory = Callable[[], Strategy]


def check_strategy(make: Factory, *, needs_data: bool = True) -> None:
    """Check that a strategy is deterministic and pure, decides completely, and holds without data.

    ``make`` is the class, or a function that returns a fresh strategy. Set ``needs_data`` to False for a strategy that
    ignores measurements, such as one of constant size.

    >>> from ebbflow.strategies.static import Static
    >>> check_strategy(Static, needs_data=False)
    """
    check_name(make)
    check_decisions_are_deterministic(make)
    check_decisions_are_pure(make)
    check_decisions_are_complete(make)
    if needs_data:
        check_holds_without_data(make)


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
    """Deciding reads no clock, opens no file and no socket."""
    with no_side_effects():
        strategy = make()
        for snapshot in (*micro_batch_run(1)[:100], *continuous_run(1)[:100]):
            strategy.decide(snapshot)


def check_decisions_are_deterministic(make: Factory) -> None:
    """The same snapshots lead to the same decisions."""
    for seed in (1, 2):
        one, other = make(), make()
        for snapshot in micro_batch_run(seed):
            first, second = one.decide(snapshot), other.decide(snapshot)
            assert first == second, f"two decisions at {snapshot.now_s:g} s: {first} and {second}"


def check_decisions_are_complete(make: Factory) -> None:
    """Every decision is within the limits and has a reason and a formula."""
    for run in (micro_batch_run(3), continuous_run(3)):
        strategy = make()
        for snapshot in run:
            decision, limits = strategy.decide(snapshot), snapshot.limits
            nodes = decision.wanted.main_nodes
            assert limits.clamp(nodes) == nodes, f"{counted(nodes, 'node')} wanted, {limits} allowed"
            for operator, instances in decision.wanted.parallelism.items():
                assert instances >= 1, f"{instances} instances of {operator} wanted"
            assert decision.reason, f"no reason at {snapshot.now_s:g} s; pass reason=… to every Decision"
            assert decision.formula, f"no formula at {snapshot.now_s:g} s; pass formula=… to every Decision"


def check_holds_without_data(make: Factory) -> None:
    """Nothing changes while the data to decide on is missing, and the reason says so."""
    for missing, run in runs_without_data().items():
        strategy = make()
        for snapshot in run:
            decision = strategy.decide(snapshot)
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
        most = max(most, strategy.decide(make_snapshot(25.0 * k, 4, [one])).wanted.main_nodes)
    assert most > 4, "an hour of overload, and never more than 4 nodes wanted"


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
    times_s = [10.0 * k for k in range(720)]
    return {
        "a batch that never ends": [make_snapshot(now_s, 4) for now_s in times_s],
        "no query": [make_snapshot(now_s, 4, queries={}) for now_s in times_s],
        "no readings of operators": [
            OperatorReadings().snapshot(now_s, Layout.of(4, read=2)) for now_s in times_s
        ],
    }
