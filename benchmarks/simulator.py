"""How long the simulator takes: a day of each engine, alone, and how that grows with operators, steps and nodes.

Times are CPU seconds of the process (one thread), the best of some runs. Growth is time(10×) ÷ time(1×). For the
continuous engine it is told for seconds done one by one (a load above what the nodes hold), for the micro-batch
engine with a look every 10 s, where batches are done one by one: that is where the time goes.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.figures import Figure
from ebbflow.bench.simulation import simulate
from ebbflow.core.clock import ManualClock
from ebbflow.core.pipeline import Operator, Pipeline
from ebbflow.strategies import make_strategy
from ebbflow.targets.simulator import (
    Continuous,
    MicroBatch,
    NodeKind,
    Scenario,
    Stage,
    Tenant,
    built_in_engine,
)
from ebbflow.targets.simulator.catalogue import costed_pipeline
from ebbflow.targets.simulator.engine import Engine
from ebbflow.workloads import parse_load

DAY_S = 86_400.0
LOAD = "sine(base=100, peak=2000, period=1h)"
MOST_GROWTH = 12.0


def measure() -> list[Figure]:
    words = costed_pipeline("top-words")
    days = {
        "micro-batch, trigger 5 s": words.micro_batch(),
        "micro-batch, trigger 1 s": words.micro_batch(trigger_interval_s=1.0, driver_s=0.1),
        "micro-batch, trigger 5 s, noise": words.micro_batch(noise=0.1),
        "continuous, steps of 1 s": words.continuous(),
        "continuous, noise": words.continuous(noise=0.1),
    }
    figures = [
        Figure(what=f"a day of 6 operators on 16 nodes: {name}", value=_engine_s(_day(e)), unit="s", bar=1.0)
        for name, e in days.items()
    ]
    for name, engine in (("micro-batch", words.micro_batch()), ("continuous", words.continuous())):
        crowded = _day(engine, nodes=8)
        what = f"  the same on 8 nodes, too few half of the time: {name}"
        figures.append(Figure(what=what, value=_engine_s(crowded), unit="s", bar=1.0))
    for name in ("micro-batch", "continuous"):
        shared = _day(
            built_in_engine("top-words", name),
            others=(Tenant(engine=built_in_engine("sentiment", name), load=parse_load("constant(400)")),),
        )
        figures.append(
            Figure(what=f"  two pipelines on the same nodes: {name}", value=_engine_s(shared), unit="s")
        )
    looks = _best_s(lambda: _looking(words.micro_batch()))
    figures.append(Figure(what="  looked at every 10 s: micro-batch", value=looks, unit="s"))
    for name, engine in (("micro-batch", words.micro_batch()), ("continuous", words.continuous())):
        what = f"a day under capacity, every 10 s: {name}"
        figures.append(Figure(what=what, value=_capacity_s(_day(engine, nodes=1)), unit="s", bar=3.0))
    return figures + _growth()


def _growth() -> list[Figure]:
    span_s, slow = 7200.0, "constant(6000)"

    def batches(operators: int = 6, seconds: float = DAY_S, nodes: int = 16) -> float:
        world = _day(_stages(operators), nodes=nodes, seconds=seconds, load="constant(1000)")
        return _best_s(lambda: _looking_at(world, 10.0), 5)

    def seconds_each(operators: int = 6, seconds: float = span_s, nodes: int = 16) -> float:
        return _engine_s(_day(_chain(operators), nodes=nodes, seconds=seconds, load=slow))

    return [
        _grown("10× operators: micro-batch", batches(seconds=span_s), batches(operators=60, seconds=span_s)),
        _grown("10× operators: continuous", seconds_each(), seconds_each(operators=60)),
        _grown("10× steps: micro-batch", batches(seconds=span_s), batches(seconds=10 * span_s)),
        _grown("10× steps: continuous", seconds_each(), seconds_each(seconds=10 * span_s)),
        _grown("10× nodes: micro-batch", batches(seconds=span_s), batches(seconds=span_s, nodes=160)),
        _grown("10× nodes: continuous", seconds_each(), seconds_each(nodes=160)),
    ]


def _grown(what: str, one_s: float, ten_s: float) -> Figure:
    return Figure(what=f"time at {what}", value=ten_s / one_s, unit="×", bar=MOST_GROWTH)


def _chain(operators: int) -> Continuous:
    names = [f"op-{n}" for n in range(operators)]
    return Continuous(
        pipeline=Pipeline.chain("chain", *names),
        row_cost_s=dict.fromkeys(names, 0.02 / operators),
        parallelism=dict.fromkeys(names, 16),
        max_pending_rows=5000.0,
    )


def _stages(operators: int) -> MicroBatch:
    steps = [Operator(name=f"op-{n}", boundary=True) for n in range(operators)]
    stages = [
        Stage(tasks=48, per_task_s=0.0004, per_row_s=0.006 / operators, operator=step.name) for step in steps
    ]
    return MicroBatch(pipeline=Pipeline.chain("chain", *steps), stages=tuple(stages))


def _day(
    engine: Engine,
    *,
    nodes: int = 16,
    seconds: float = DAY_S,
    load: str = LOAD,
    others: tuple[Tenant, ...] = (),
) -> Scenario:
    return Scenario(
        engine=engine,
        load=parse_load(load),
        nodes=NodeKind(),
        initial_nodes=nodes,
        seconds=seconds,
        others=others,
    )


def _engine_s(scenario: Scenario) -> float:
    """The engine alone, from start to end."""
    return _best_s(lambda: _run_through(scenario), 5)


def _capacity_s(scenario: Scenario) -> float:
    """The engine under the loop, with the default strategy."""
    return _best_s(lambda: simulate(scenario, make_strategy("capacity")))


def _run_through(scenario: Scenario) -> None:
    clock = ManualClock()
    target = scenario.target(clock)
    clock.advance(scenario.duration_s)
    target.advance()


def _looking(engine: Engine) -> None:
    _looking_at(_day(engine), 10.0)


def _looking_at(scenario: Scenario, every_s: float) -> None:
    clock = ManualClock()
    target = scenario.target(clock)
    while clock.now_s() < scenario.duration_s:
        clock.advance(every_s)
        target.observe()


def _best_s(work: Callable[[], object], times: int = 3) -> float:
    took = []
    for _ in range(times):
        began_s = time.process_time()
        work()
        took.append(time.process_time() - began_s)
    return min(took)
