"""No strategy on any scenario beats the oracle: random scenarios, every strategy, both engines.

The promise, exactly: a run that loses no row costs at least what the oracle does for an SLO that the run
keeps. So a run that was late is held to the oracle of the quantile it did reach, and no run proves nothing.
Service times must be as told (no noise): with it a lucky run may be faster than the rate the oracle is given.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ebbflow.bench.score import score
from ebbflow.bench.simulation import oracle_of, play, strategy_for
from ebbflow.core.limits import Limits
from ebbflow.core.pipeline import Operator, Pipeline
from ebbflow.core.slo import Slo
from ebbflow.strategies import STRATEGIES
from ebbflow.targets.simulator import (
    Continuous,
    LateMetrics,
    MicroBatch,
    MissingMetrics,
    NodeDies,
    NodeKind,
    Scenario,
    SlowNode,
    Stage,
)
from ebbflow.workloads import parse_load

SECONDS = 400.0
PIPELINE = Pipeline.chain("p", "read", Operator(name="work", boundary=True))


@st.composite
def loads(draw: st.DrawFn) -> str:
    base, more = draw(st.integers(0, 300)), draw(st.integers(1, 900))
    between = f"base={base}, peak={base + more}"
    return draw(
        st.sampled_from(
            [
                f"constant({base + 1})",
                f"sine({between}, period=3m)",
                f"square({between}, period=2m, duty=0.3)",
                f"step({between}, at=150s)",
                f"sawtooth({between}, period=100s)",
            ]
        )
    )


@st.composite
def micro_batch(draw: st.DrawFn) -> MicroBatch:
    stages = tuple(
        Stage(
            tasks=draw(st.integers(1, 20)),
            per_task_s=draw(st.sampled_from([0.0, 0.05])),
            per_row_s=draw(st.sampled_from([0.001, 0.004, 0.01])),
            skew=draw(st.sampled_from([1.0, 1.0, 2.0])),
            operator=operator,
        )
        for operator in ("", "work")[: draw(st.integers(1, 2))]
    )
    return MicroBatch(
        pipeline=PIPELINE,
        stages=stages,
        trigger_interval_s=draw(st.sampled_from([0.0, 1.0, 5.0])),
        driver_s=draw(st.sampled_from([0.05, 0.5])),
        read_limit_rows=draw(st.sampled_from([None, None, 2000])),
    )


@st.composite
def continuous(draw: st.DrawFn) -> Continuous:
    return Continuous(
        pipeline=PIPELINE,
        row_cost_s={"read": 0.001, "work": draw(st.sampled_from([0.002, 0.01]))},
        parallelism={"read": draw(st.integers(1, 8)), "work": draw(st.integers(1, 12))},
        max_pending_rows=draw(st.sampled_from([None, 5_000.0])),
        queue_bound_rows=draw(st.sampled_from([None, 20_000.0])),
        pause_s=draw(st.sampled_from([(0.0, 0.0), (5.0, 8.0)])),
        state_mb={"work": draw(st.sampled_from([0.0, 100.0]))},
    )


FAULTS = st.lists(
    st.sampled_from(
        [
            NodeDies(at_s=120.0),
            NodeDies(at_s=121.0, node=1),
            SlowNode(from_s=80.0, until_s=200.0, factor=0.3),
            MissingMetrics(from_s=100.0, until_s=160.0),
            LateMetrics(from_s=100.0, until_s=200.0, delay_s=20.0),
        ]
    ),
    max_size=2,
    unique=True,
).map(tuple)


@st.composite
def scenarios(draw: st.DrawFn, engine: str) -> Scenario:
    fewest = draw(st.integers(1, 3))
    limits = Limits(min_nodes=fewest, max_nodes=draw(st.integers(fewest, 12)))
    return Scenario(
        engine=draw(micro_batch() if engine == "micro-batch" else continuous()),
        load=parse_load(draw(loads())),
        limits=limits,
        slo=Slo(
            freshness_s=draw(st.sampled_from([5.0, 30.0, 90.0])), quantile=draw(st.sampled_from([0.9, 1.0]))
        ),
        nodes=NodeKind(
            slots=draw(st.integers(1, 3)),
            lead_time_s=draw(st.sampled_from([0.0, 10.0, 60.0])),
            lead_noise=draw(st.sampled_from([0.0, 0.0, 0.3])),
            speeds=draw(st.sampled_from([(1.0,), (1.0, 0.5), (2.0, 1.0, 0.7)])),
        ),
        initial_nodes=draw(st.integers(fewest, limits.max_nodes)),
        faults=draw(FAULTS),
        seconds=SECONDS,
        cycle_s=draw(st.sampled_from([2.0, 10.0])),
        seed=draw(st.integers(1, 3)),
    )


@pytest.mark.parametrize("engine", ["micro-batch", "continuous"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_run_is_cheaper_than_the_oracle_of_an_objective_it_keeps(strategy: str, engine: str) -> None:
    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
    @given(scenario=scenarios(engine))
    def holds(scenario: Scenario) -> None:
        played = play(scenario, strategy_for(strategy, scenario))
        run = played.run
        late = score(run, oracle_node_seconds=None).violation or 0.0
        if played.work.failed >= 1 or late >= 1.0:
            return  # rows that are given up cost nothing, and what is all late keeps no objective
        kept = min(scenario.slo.quantile, 1.0 - late)
        oracle = oracle_of(
            replace(scenario, slo=Slo(freshness_s=scenario.slo.freshness_s, quantile=kept)), run
        )
        assert run.nodes.integral(0.0, SECONDS) >= oracle.node_seconds * (1 - 1e-6)

    holds()
