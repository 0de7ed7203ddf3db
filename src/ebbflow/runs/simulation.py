"""Any strategy on any scenario, through the same loop as on Spark, as fast as the machine can."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import msgspec

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
from ebbflow.runs.stored_run import ARRIVED, LOST, NODES, PROCESSED
from ebbflow.strategies import make_strategy, read_strategy, takes_profiles
from ebbflow.strategies.static import StaticMean
from ebbflow.targets.simulator.engine import Inflow, Work
from ebbflow.targets.simulator.faults import LateMetrics, MissingMetrics
from ebbflow.targets.simulator.scenario import Scenario
from ebbflow.targets.simulator.target import SimulatorTarget

# The pipeline among the terms of a store: operators and streams, where they are known before a run begins.
#
# In the simulator they are. On Spark only the batches of a job show what operators it has, so that no store
# of ``attach``
# has this term.


PIPELINE = "pipeline"


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    operators: tuple[Operator, ...]
    streams: tuple[Stream, ...]


def pipeline_term(pipeline: Pipeline) -> str:
    """A pipeline as JSON.

    >>> pipeline_term(Pipeline(name="p", operators=(Operator(name="read", query="p"),)))
    '{"name":"p","operators":[{"name":"read","stateful":false,"boundary":false,"query":"p"}],"streams":[]}'
    """
    kept = _Kept(name=pipeline.name, operators=pipeline.operators, streams=pipeline.streams)
    return msgspec.json.encode(kept).decode()


def pipeline_of(terms: Mapping[str, str]) -> Pipeline | None:
    """The pipeline in the terms of a store; None where it is not there, or as another version writes it.

    >>> words = Pipeline.chain("words", "read", "split")
    >>> pipeline_of({"pipeline": pipeline_term(words)}) == words
    True
    """
    if PIPELINE not in terms:
        return None
    try:
        kept = msgspec.json.decode(terms[PIPELINE], type=_Kept)
        return Pipeline(name=kept.name, operators=kept.operators, streams=kept.streams)
    except ValueError:  # PipelineError and msgspec's are both
        return None


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulation:
    """A simulated run, and what only a simulator knows of it."""

    run: Run
    runs: Sequence[Run]
    """One for each pipeline that shares the nodes, ``run`` first (see ``bench.together``)."""
    work: Work
    """Where the rows of all pipelines are at the end."""


def strategy_for(
    name: str, scenario: Scenario, estimators: Mapping[str, Estimator] | None = None
) -> Strategy:
    """A fresh strategy from its expression, with the ``estimators`` of given profiles where it can use them.

    ``static-mean`` gets the nodes that the mean rate needs, unless they are given.

    >>> from ebbflow.targets.simulator import built_in_engine
    >>> from ebbflow.workloads import parse_load
    >>> scenario = Scenario(engine=built_in_engine("top-words"), load=parse_load("constant(300)"), seconds=120)
    >>> strategy_for("static-mean", scenario)._nodes  # one holds 169 rows/s, two 336
    2
    """
    call = read_strategy(name)
    if call.name != StaticMean.name or call.arguments:
        return make_strategy(name, estimators if takes_profiles(name) else None)
    return StaticMean(nodes=scenario.nodes_for(scenario.duration_s))


def simulate(scenario: Scenario, strategy: Strategy) -> Run:
    """The record of a strategy on a scenario; the same seed gives the same record.

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
    """As ``simulate``, with what only a simulator knows. ``guards`` replaces those of ``guards_for``; ``on_cycle``
    is told of each cycle, as by ``attach``. ``store``: an SQLite file that keeps readings, batches and ledger, as
    that of ``attach`` does, for `ebbflow profile --store` and `ebbflow replay`; without one nothing is kept."""
    clock = ManualClock(0.0)
    target = scenario.target(clock)
    if store is None:
        return _play(scenario, strategy, guards, clock, target, MemoryStore(), on_cycle)
    with closing(Store(store, clock)) as kept:
        kept.begin_run(
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
        simulation = _play(scenario, strategy, guards, clock, target, kept, on_cycle)
        kept.set_curves(_exact_curves(simulation))
        kept.set_terms({"ended_s": repr(scenario.duration_s), "rows_repeated": "0"})
        return simulation


def _exact_curves(simulation: Simulation) -> dict[tuple[str, str], Curve]:
    """What a simulation knows exactly and a monitor would only see at its cycles."""
    curves = {(NODES, MAIN): simulation.run.nodes}
    for run in simulation.runs:
        curves[ARRIVED, run.pipeline] = run.arrived
        curves[PROCESSED, run.pipeline] = run.processed
        if run.lost is not None:
            curves[LOST, run.pipeline] = run.lost
    return curves


def _play(
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
    blind_on_purpose = any(isinstance(fault, MissingMetrics | LateMetrics) for fault in scenario.faults)
    with _silenced() if blind_on_purpose else nullcontext():
        while True:
            report = loop.cycle()
            if on_cycle is not None:
                on_cycle(report)
            seen = report.observation
            if seen is not None and seen.time_s > last_s:
                batches += seen.batches
                last_s = seen.time_s
            cycle += 1
            if cycle * scenario.cycle_s > end_s:
                break
            clock.advance(cycle * scenario.cycle_s - clock.now_s())
    clock.advance(end_s - clock.now_s())
    return recorded(scenario, strategy.name, target, loop, batches)


@contextmanager
def _silenced() -> Iterator[None]:
    """While it lasts, the loop does not warn that it sees nothing: someone wanted it to."""

    def passes(record: logging.LogRecord) -> bool:
        return record.levelno != logging.WARNING

    log = logging.getLogger(ControlLoop.__module__)
    log.addFilter(passes)
    try:
        yield
    finally:
        log.removeFilter(passes)


def recorded(
    scenario: Scenario, strategy: str, target: SimulatorTarget, loop: ControlLoop, batches: Sequence[Batch]
) -> Simulation:
    """What a loop made of a scenario, once its time is over."""
    end_s = scenario.duration_s
    work = target.work()  # first: it lets time pass up to the end
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
        )
        for name in target.pipelines
    ]
    return Simulation(run=runs[0], runs=runs, work=work)


def oracle_of(scenario: Scenario, run: Run | None = None, *, step_s: float = 1.0) -> Oracle | None:
    """The cheapest schedule with hindsight for what arrives, which is the same under every strategy.

    ``run`` saves counting the arrivals anew. The lead time is 0 where lead times are noisy: the shortest that
    a node may take. Service times are at their mean where they are noisy: a lucky run may beat it by its luck (see
    docs/leaderboard.md). With pipelines that share the nodes it is that of the first alone. None where there are
    clusters beside the main one: their nodes may be faster, and their number has no limits.
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
