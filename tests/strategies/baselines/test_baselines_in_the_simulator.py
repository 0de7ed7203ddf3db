"""Flink's autoscaler and DS2 on the continuous engine: known costs and a known rate lead to a known size."""

from __future__ import annotations

import pytest

from ebbflow.core.decision import LedgerEntry
from ebbflow.core.limits import Limits
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.ports import Strategy
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies.baselines.ds2 import Ds2
from ebbflow.strategies.baselines.flink import Flink
from ebbflow.targets.simulator import Continuous, NodeKind, Scenario, built_in_engine
from ebbflow.workloads import parse_load

TWO = Continuous(
    pipeline=Pipeline.chain("p", "a", "b"),
    row_cost_s={"a": 0.002, "b": 0.006},
    parallelism={"a": 16, "b": 16},  # as in the catalogue
    max_pending_rows=1000.0,
    pause_s=(5.0, 5.0),
)
"""A core holds 1 / 8 ms = 125 rows/s."""


def acts(
    strategy: Strategy, rate: int, seconds: float, nodes: int = 1, engine: object = TWO
) -> list[LedgerEntry]:
    """The ledger entries of its changes, on nodes of one core."""
    scenario = Scenario(
        engine=engine, load=parse_load(f"constant({rate})"), seconds=seconds, initial_nodes=nodes,
        nodes=NodeKind(slots=1, lead_time_s=12.0), limits=Limits(min_nodes=1, max_nodes=40),
    )  # fmt: skip
    return [entry for entry in run_simulation(scenario, strategy).run.decisions if entry.changed]


def layouts(entries: list[LedgerEntry]) -> list[tuple[int, dict[str, int]]]:
    return [(e.decision.wanted.main_nodes, dict(e.decision.wanted.parallelism)) for e in entries]


def test_flink_on_a_full_node_worked_out_by_hand() -> None:
    made = acts(Flink(), 180, 1500.0)
    # 16 instances on a slot: a slot holds one of each operator.
    # Then 125 of 180 rows/s are done, and both are busy throughout: true rates 125, lag grows by 55 rows/s.
    # 20 min after the change, at 1220 s, it is about 180 · 1220 − 125 · 1205 = 69,000 rows.
    #   a: (69000 / 1800 + 180 · 300 / 1800 + 180 / 0.7) / 125 = (38 + 30 + 257) / 125 = 2.6: 3
    #   b:                                      (30 + 257) / 125 = 2.3: 3
    assert layouts(made) == [(1, {"a": 1, "b": 1}), (3, {"a": 3, "b": 3})]
    grown = made[1]
    assert grown.time_s == pytest.approx(1220.0, abs=20.0)
    assert grown.decision.inputs["a true_rate_per_s"] == pytest.approx(125.0, rel=0.01)
    assert grown.decision.inputs["b true_rate_per_s"] == pytest.approx(125.0, rel=0.01)
    assert grown.decision.inputs["lag_growth_per_s"] == pytest.approx(55.0, rel=0.02)


def test_flink_on_nodes_that_idle_worked_out_by_hand() -> None:
    made = acts(Flink(), 100, 7000.0, nodes=4)
    # On 4 nodes a has 100 · 2 ms / 4 = 0.05 of a core, b 0.15: busy 0.05 / 0.85 and 0.15 / 0.95 = 0.158, true rates
    # 1700 and 633. Both are above 100 / 0.4, so that after an hour both shrink: b by 159.5 / 633 = 0.25, but not below
    # 0.4: ceil(4 · 0.4) = 2.
    assert layouts(made) == [(4, {"a": 4, "b": 4}), (2, {"a": 2, "b": 2})]
    assert made[1].time_s == pytest.approx(20 + 1200 + 3600, abs=30.0)
    assert made[1].decision.inputs["a true_rate_per_s"] == pytest.approx(1700.0, rel=0.01)
    assert made[1].decision.inputs["b true_rate_per_s"] == pytest.approx(633.3, rel=0.01)


def test_ds2_reaches_the_optimum_in_the_steps_it_claims() -> None:
    made = acts(Ds2(), 180, 600.0)
    # 16 of each on a slot: one of each, with a slot of its own. The true rates are 500 and 166.7 an instance, whatever
    # they have to catch up with: a ceil(180 / 500) = 1, b ceil(180 / 166.7) = 2. Nothing is left to do after that.
    assert layouts(made) == [(2, {"a": 1, "b": 1}), (3, {"a": 1, "b": 2})]
    assert made[1].decision.inputs["a true_rate_per_s"] == pytest.approx(500.0)
    assert made[1].decision.inputs["b true_rate_per_s"] == pytest.approx(166.7, abs=0.1)


@pytest.mark.parametrize(("strategy", "nodes"), [(Flink(), [1, 6]), (Ds2(), [6])])
def test_the_initial_parallelism_does_not_inflate_the_nodes(strategy: Strategy, nodes: list[int]) -> None:
    made = acts(strategy, 480, 3600.0, engine=built_in_engine("top-words", "continuous"))
    # 480 rows/s are 2.8 cores' work. On one, which holds 169, Flink wants 1.6 · 480 / 169 = 4.5 times as much, and 1.25
    # for the lag of 20 min: 6. On a core each, one of each operator is enough for DS2: words has 480 · 2 ms = 0.96.
    assert [entry.decision.wanted.main_nodes for entry in made] == nodes
