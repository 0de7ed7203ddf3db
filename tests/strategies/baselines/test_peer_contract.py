"""What every strategy keeps: deterministic, still on missing data, at least one node, always with a reason."""

from __future__ import annotations

import random

import pytest
from peer_worlds import Operators, batch, stage, world

from ebbflow.core.layout import Layout
from ebbflow.core.snapshot import Snapshot
from ebbflow.strategies import STRATEGIES, make_strategy

SIZED_BLIND = ("static", "static-mean")
"""They look at nothing, so that nothing can be missing to them."""
LOOKING = [name for name in STRATEGIES if name not in SIZED_BLIND]
PEERS = [name for name in STRATEGIES if name != "capacity"]


def micro_batch_run(seed: int) -> list[Snapshot]:
    """Two hours of a query whose load, size and luck change; sometimes it idles."""
    rng, seen = random.Random(seed), []
    for k in range(720):
        now_s, nodes = 10.0 * k, 1 + (k // 150) % 9
        rows = rng.choice([0, 100, 1000, 5000])
        stages = (stage(12, rng.uniform(0.1, 12.0) * nodes, rng.uniform(0.1, 6.0)), stage(4, 0.5, 0.3, 1))
        one = batch(
            now_s,
            rng.uniform(0.5, 25.0),
            *(stages if rng.random() < 0.95 else ()),
            rows=rows,
            slots=nodes,
            backlog_rows=rng.choice([0.0, 0.0, 2000.0, 1e5]),
        )
        seen.append(
            world(
                now_s,
                nodes,
                [one] if rng.random() < 0.9 else [],
                queries={"q": rng.choice([None, now_s - 2.0])},
            )
        )
    return seen


def continuous_run(seed: int) -> list[Snapshot]:
    """The last look of an hour of readings; what came before is in the windows it shares."""
    rng, target, seen = random.Random(seed), Operators(), []
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
        seen.append(target.world(10.0 * k, layout, slots_per_node=2))
    return seen


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_snapshots_lead_to_the_same_decisions(name: str, seed: int) -> None:
    one, other = make_strategy(name), make_strategy(name)
    for snapshot in micro_batch_run(seed):
        assert one.decide(snapshot) == other.decide(snapshot)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("run", [micro_batch_run(3), continuous_run(3)], ids=["micro-batch", "continuous"])
def test_every_decision_has_a_size_a_reason_and_a_formula(name: str, run: list[Snapshot]) -> None:
    strategy = make_strategy(name)
    for snapshot in run:
        decision = strategy.decide(snapshot)
        assert 1 <= decision.wanted.main_nodes <= 50
        assert all(p >= 1 for p in decision.wanted.parallelism.values())
        assert decision.reason
        assert decision.formula


@pytest.mark.parametrize("name", LOOKING)
@pytest.mark.parametrize(
    "run",
    [
        [world(10.0 * k, 4) for k in range(720)],
        [world(10.0 * k, 4, queries={}) for k in range(720)],
        [Operators().world(10.0 * k, Layout.of(4, read=2)) for k in range(720)],
    ],
    ids=["a batch that never ends", "no query", "operators never read"],
)
def test_nothing_moves_on_missing_data(name: str, run: list[Snapshot]) -> None:
    strategy = make_strategy(name)
    for snapshot in run:
        decision = strategy.decide(snapshot)
        assert decision.wanted == snapshot.planned
        assert decision.reason


@pytest.mark.parametrize("name", [n for n in LOOKING if n != "rules"])  # it looks at readings, not at batches
def test_who_cannot_keep_up_for_an_hour_is_given_more(name: str) -> None:
    strategy, most = make_strategy(name), 0
    for k in range(144):
        # 5000 rows in 25 s while 7500 arrive, on slots that are busy throughout; ever more is left behind
        one = batch(
            25.0 * k,
            25.0,
            stage(12, 96.0, 24.0),
            rows=5000,
            arrival_rate_per_s=300.0,
            backlog_rows=2500.0 * k,
        )
        most = max(most, strategy.decide(world(25.0 * k, 4, [one])).wanted.main_nodes)
    assert most > 4


@pytest.mark.parametrize("name", PEERS)
def test_baselines_bring_their_own_guards(name: str) -> None:
    assert make_strategy(name).brings_own_guards


def test_ours_is_restrained_by_the_guards() -> None:
    assert not make_strategy("capacity").brings_own_guards
