"""Run any strategy on any scenario, through the same loop as on Spark, without waiting."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from ebbflow.control.loop import ControlLoop, CycleReport, LoopStore
from ebbflow.core.batches import Batch
from ebbflow.core.clock import ManualClock
from ebbflow.core.curve import Curve
from ebbflow.core.layout import MAIN
from ebbflow.core.pipeline import Operator, Pipeline, Stream
from ebbflow.core.ports import Guard, Strategy
from ebbflow.core.run import Run
from ebbflow.guards import guards_for
from ebbflow.monitoring.store import MemoryStore, Store
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.profile import SIMULATOR
from ebbflow.runs.oracle import Oracle, cheapest_schedule
from ebbflow.runs.stored_run import ARRIVED, CAPACITY, LOST, NODES, PROCESSED, WORKING
from ebbflow.strategies import make_strategy, read_strategy, takes_profiles
from ebbflow.strategies.static import StaticMean
from ebbflow.targets.simulator.engine import Inflow, PipelineRows
from ebbflow.targets.simulator.faults import LateMetrics, MissingMetrics
from ebbflow.targets.simulator.scenario import Scenario
from ebbflow.targets.simulator.target import SimulatorTarget

PIPELINE = "pipeline"
"""The term of a store with the operators and streams. Stores of ``attach`` lack it: on Spark only the batches of a job
show its operators."""


class _StoredPipeline(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    operators: tuple[Operator, ...]
    streams: tuple[Stream, ...]


def pipeline_term(pipeline: Pipeline) -> str:
    """Encode a pipeline as JSON.

    >>> pipeline_term(Pipeline(name="p", operators=(Operator(name="read", query="p"),)))
    '{"name":"p","operators":[{"name":"read","stateful":false,"boundary":false,"query":"p","may_move":true}],"streams":[]}'
    """
    stored = _StoredPipeline(name=pipeline.name, operators=pipeline.operators, streams=pipeline.streams)
    return msgspec.json.encode(stored).decode()


def pipeline_of(terms: Mapping[str, str]) -> Pipeline | None:
    """The pipeline in the terms of a store; None if it is missing or written by an incompatible version.

    >>> words = Pipeline.chain("words", "read", "split")
    >>> pipeline_of({"pipeline": pipeline_term(words)}) == words
    True
    """
    if PIPELINE not in terms:
        return None
    try:
        stored = msgspec.json.decode(terms[PIPELINE], type=_StoredPipeline)
        return Pipeline(name=stored.name, operators=stored.operators, streams=stored.streams)
    except ValueError:  # base class of PipelineError and of msgspec's errors
        return None


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulation:
    """A simulated run, and what only the simulator knows about it."""

    run: Run
    runs: Sequence[Run]
    """One run for each pipeline on the nodes, ``run`` first; ``score_together`` scores them."""
    work: PipelineRows
    """Where the rows of all pipelines are at the end."""


def strategy_for(
    name: str, scenario: Scenario, estimators: Mapping[str, Estimator] | None = None
) -> Strategy:
    """A new strategy from its expression, with the ``estimators`` of profiles if it can use them.

    ``static-mean`` gets the nodes that the mean rate needs, unless they are given.

    >>> from ebbflow.targets.simulator import built_in_engine
    >>> from ebbflow.workloads import parse_load
    >>> scenario = Scenario(engine=built_in_engine("top-words"), load=parse_load("constant(300)"), seconds=120)
    >>> strategy_for("static-mean", scenario)._nodes  # one node processes 169 rows/s, two 336
    2
    """
    call = read_strategy(name)
    if call.name != StaticMean.name or call.arguments:
        return make_strategy(name, estimators if takes_profiles(name) else None)
    return StaticMean(nodes=scenario.nodes_for(scenario.duration_s))


def simulate(scenario: Scenario, strategy: Strategy) -> Run:
    """Run a strategy on a scenario; the same seed gives the same run.

    >>> from ebbflow.strategies import make_strategy
    >>> from ebbflow.targets.simulator import Scenario, built_in_engine
    >>> from ebbflow.workloads import parse_load
    >>> scenario = Scenario(engine=built_in_engine("top-words"), load=parse_load("constant(300)"), seconds=120)
    >>> run = simulate(scenario, make_strategy("capacity"))
    >>> run.reconfigurations > 0, run.arrived.values[-1].item()
    (True, 36000.0)
    """
    return run_simulation(scenario, strategy).run


def run_simulation(
    scenario: Scenario,
    strategy: Strategy,
    guards: Sequence[Guard] | None = None,
    *,
    on_cycle: Callable[[CycleReport], None] | None = None,
    store: Path | None = None,
) -> Simulation:
    """Like ``simulate``, with what only the simulator knows.

    ``guards`` replaces those of ``guards_for``. ``on_cycle`` is called after each cycle. ``store`` is an SQLite file
    for readings, batches and ledger, as ``attach`` writes it, for `ebbflow profile --store`, `ebbflow replay` and
    `ebbflow report`.
    """
    clock = ManualClock(0.0)
    target = scenario.target(clock)
    if store is None:
        return _run_loop(scenario, strategy, guards, clock, target, MemoryStore(), on_cycle)
    with closing(Store(store, clock, survives_power_loss=False)) as opened:
        opened.begin_run(
            {
                "slo": str(scenario.slo),
                "nodes": str(scenario.limits),
                "target": SIMULATOR,
                "strategy": strategy.name,
                "name": target.pipeline.name,
                "started_s": "0.0",
                PIPELINE: pipeline_term(target.pipeline),
            }
        )
        simulation = _run_loop(scenario, strategy, guards, clock, target, opened, on_cycle)
        opened.set_curves(_exact_curves(simulation))
        opened.set_terms({"ended_s": repr(scenario.duration_s), "rows_repeated": "0"})
        return simulation


def _exact_curves(simulation: Simulation) -> dict[tuple[str, str], Curve]:
    """The curves that a simulation knows exactly and a monitor only samples."""
    curves = {(NODES, MAIN): simulation.run.nodes, (WORKING, MAIN): simulation.run.nodes_working}
    for run in simulation.runs:
        curves[ARRIVED, run.pipeline] = run.arrived
        curves[PROCESSED, run.pipeline] = run.processed
        if run.lost is not None:
            curves[LOST, run.pipeline] = run.lost
        if run.capacity_rows_per_s is not None:
            rates = run.capacity_rows_per_s
            curves[CAPACITY, run.pipeline] = Curve(np.arange(len(rates), dtype=np.float64), rates)
    return curves


def _run_loop(
    scenario: Scenario,
    strategy: Strategy,
    guards: Sequence[Guard] | None,
    clock: ManualClock,
    target: SimulatorTarget,
    store: LoopStore,
    on_cycle: Callable[[CycleReport], None] | None,
) -> Simulation:
    loop = ControlLoop(
        remember_decisions=10_000_000,
        target=target,
        strategy=strategy,
        guards=guards_for(strategy) if guards is None else guards,
        store=store,
        clock=clock,
        limits=scenario.limits,
        slo=scenario.slo,
        cycle_s=scenario.cycle_s,
        decide_at_least_every_s=scenario.cycle_s,
    )
    end_s = scenario.duration_s
    batches: list[Batch] = []
    last_s = -1.0
    cycle = 0
    metrics_fail = any(isinstance(fault, MissingMetrics | LateMetrics) for fault in scenario.faults)
    with _without_warnings() if metrics_fail else nullcontext():
        while True:
            report = loop.cycle()
            if on_cycle is not None:
                on_cycle(report)
            observation = report.observation
            if observation is not None and observation.time_s > last_s:
                batches += observation.batches
                last_s = observation.time_s
            cycle += 1
            if cycle * scenario.cycle_s > end_s:
                break
            clock.advance(cycle * scenario.cycle_s - clock.now_s())
    clock.advance(end_s - clock.now_s())
    return finished_simulation(scenario, strategy.name, target, loop, batches)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence the loop's warnings about missing metrics, which the scenario asks for."""

    def passes(record: logging.LogRecord) -> bool:
        return record.levelno != logging.WARNING

    log = logging.getLogger(ControlLoop.__module__)
    log.addFilter(passes)
    try:
        yield
    finally:
        log.removeFilter(passes)


def finished_simulation(
    scenario: Scenario, strategy: str, target: SimulatorTarget, loop: ControlLoop, batches: Sequence[Batch]
) -> Simulation:
    """The result of a loop whose scenario has ended."""
    end_s = scenario.duration_s
    work = target.work()  # first: it advances the target to the end
    engines = [scenario.engine, *(tenant.engine for tenant in scenario.others)]
    runs = [
        Run(
            strategy=strategy,
            pipeline=name,
            slo=scenario.slo,
            limits=scenario.limits,
            started_s=0.0,
            ended_s=end_s,
            arrived=target.arrived(end_s, name),
            processed=target.processed(name),
            lost=target.lost(end_s, name),
            nodes=target.held(),
            nodes_working=target.at_work(),
            batches=[batch for batch in batches if batch.query == name],
            decisions=loop.ledger.entries,
            reconfigurations=loop.ledger.reconfigurations,
            capacity_rows_per_s=None if scenario.clusters else scenario.sustained_rows_per_s(engine),
        )
        for name, engine in zip(target.pipelines, engines, strict=True)
    ]
    return Simulation(run=runs[0], runs=runs, work=work)


def oracle_of(scenario: Scenario, run: Run | None = None, *, step_s: float = 1.0) -> Oracle | None:
    """The cheapest schedule with hindsight for the arrivals, which do not depend on the strategy.

    ``run`` saves computing the arrivals again. With noisy lead times, hindsight has a lead time of 0, the shortest
    possible. With noisy service times it uses their mean, which a lucky run may beat (see docs/leaderboard.md). If
    pipelines share the nodes, it covers the first alone. None with clusters beside the main one: their nodes may be
    faster, and their number is unlimited.
    """
    if scenario.clusters:
        return None
    arrived = run.arrived if run is not None else Inflow(scenario.arrivals).curve(scenario.duration_s)
    lead_s = 0.0 if scenario.nodes.lead_noise else scenario.nodes.lead_time_s
    return cheapest_schedule(
        arrived,
        scenario.stages_rows_per_s,
        limits=scenario.limits,
        slo=scenario.slo,
        lead_time_s=lead_s,
        step_s=step_s,
    )
