"""The time of the simulator: a day of each engine, and how it grows with operators, steps and nodes.

Times are CPU seconds of the process (one thread), the best of three runs. Because the speed of a shared machine
varies, a million turns of a plain loop are measured first, for comparison. Growth is time(10×) ÷ time(1×). It is
measured where the time goes: in the continuous engine with seconds simulated one by one (a load above the
capacity), in the micro-batch engine with batches simulated one by one (an observation every 10 s). Each is measured
on equal nodes, with noise, with three pipelines on the same nodes, and on nodes of two speeds, so that shortcuts of
the simplest case do not count. Times with three pipelines are per pipeline.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmarks.figures import Figure
from ebbflow.core.clock import ManualClock
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.pipeline import Operator, Pipeline
from ebbflow.runs.simulation import simulate
from ebbflow.strategies import make_strategy
from ebbflow.targets.simulator import Continuous, MicroBatch, NodeKind, Scenario, Stage, Tenant
from ebbflow.targets.simulator.catalogue import costed_pipeline
from ebbflow.workloads import parse_load

DAY_S, HOURS_S = 86_400.0, 7200.0
LOAD = "sine(base=100, peak=2000, period=1h)"
MOST_GROWTH = 12.0


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A variation of the scenario: noise, several pipelines, unequal nodes."""

    name: str
    noise: float = 0.0
    pipelines: int = 1
    speeds: tuple[float, ...] = (1.0,)

    @property
    def label(self) -> str:
        """The name in figures; with several pipelines, times are per pipeline."""
        return self.name if self.pipelines == 1 else f"each of {self.name}"


EVEN = Kind(name="equal nodes")
KINDS = (
    EVEN,
    Kind(name="noise", noise=0.1),
    Kind(name="three pipelines", pipelines=3),
    Kind(name="nodes of two speeds", speeds=(1.0, 0.7)),
)


def measure() -> list[Figure]:
    words = costed_pipeline("top-words")
    engines = {
        "micro-batch": words.micro_batch(),
        "micro-batch, trigger 1 s": words.micro_batch(trigger_interval_s=1.0, driver_s=0.1),
        "continuous": words.continuous(),
    }
    figures = [
        Figure(
            what="this machine: a million iterations of a plain loop", value=_best_s(_plain_loop), unit="s"
        )
    ]
    for name, engine in engines.items():
        for kind in KINDS:
            figures.append(
                Figure(
                    what=f"a day of 6 operators on 16 nodes: {name}, {kind.label}",
                    value=_engine_s(_world(engine, kind)) / kind.pipelines,
                    unit="s",
                    bar=1.0 if kind.pipelines == 1 else None,
                )
            )
    for name in ("micro-batch", "continuous"):
        crowded = _world(engines[name], nodes=8)
        what = f"  the same on 8 nodes, too few half of the time: {name}"
        figures.append(Figure(what=what, value=_engine_s(crowded), unit="s", bar=1.0))
    observed_s = _best_s(lambda: _observe_every(_world(engines["micro-batch"]), 10.0))
    figures.append(Figure(what="  observed every 10 s: micro-batch", value=observed_s, unit="s"))
    for name in ("micro-batch", "continuous"):
        for kind in KINDS:
            what = f"a day under capacity, every 10 s: {name}, {kind.label}"
            took_s = _capacity_s(_world(engines[name], kind, nodes=1)) / kind.pipelines
            figures.append(Figure(what=what, value=took_s, unit="s", bar=3.0 if kind is EVEN else None))
    figures += [figure for kind in KINDS for figure in _growth(kind)]
    resized = Figure(
        what="time at 10× nodes that come and go: micro-batch",
        value=_resizing_s(1600) / _resizing_s(160),
        unit="×",
        bar=MOST_GROWTH,
    )
    return [*figures, resized]


def _growth(kind: Kind) -> list[Figure]:
    def batches(operators: int = 6, seconds: float = HOURS_S, nodes: int = 16) -> float:
        world = _world(_stages(operators), kind, nodes=nodes, seconds=seconds, load="constant(1000)")
        return _best_s(lambda: _observe_every(world, 10.0))

    def seconds_each(operators: int = 6, seconds: float = HOURS_S, nodes: int = 16) -> float:
        world = _world(_chain(operators), kind, nodes=nodes, seconds=seconds, load="constant(6000)")
        return _engine_s(world)

    ways = {"operators": {"operators": 60}, "steps": {"seconds": 10 * HOURS_S}, "nodes": {"nodes": 160}}
    figures = []
    for name, timed in (("micro-batch", batches), ("continuous", seconds_each)):
        one_s = timed()
        for what, more in ways.items():
            what_grows = f"time at 10× {what}: {name}, {kind.name}"
            figures.append(Figure(what=what_grows, value=timed(**more) / one_s, unit="×", bar=MOST_GROWTH))
    return figures


def _resizing_s(nodes: int) -> float:
    """All nodes but one leave and return, twenty times."""
    world = _world(costed_pipeline("top-words").micro_batch(), nodes=nodes)

    def resize() -> None:
        clock = ManualClock()
        target = world.target(clock)
        for _ in range(20):
            for size in (1, nodes):
                target.apply(Layout.of(size))
                clock.advance(60.0)
                target.observe()

    return _best_s(resize)


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


def _world(
    engine: MicroBatch | Continuous,
    kind: Kind = EVEN,
    *,
    nodes: int = 16,
    seconds: float = DAY_S,
    load: str = LOAD,
) -> Scenario:
    """A scenario; additional pipelines are copies of the first with a third of its load."""
    noisy = replace(engine, noise=kind.noise)
    pipeline = engine.pipeline
    others = [
        Tenant(
            engine=replace(noisy, pipeline=replace(pipeline, name=f"{pipeline.name}-{number}")),
            load=parse_load(f"0.33 * {load}"),
        )
        for number in range(1, kind.pipelines)
    ]
    return Scenario(
        engine=noisy,
        load=parse_load(load),
        nodes=NodeKind(speeds=kind.speeds),
        limits=Limits(min_nodes=1, max_nodes=max(16, nodes)),
        initial_nodes=nodes,
        seconds=seconds,
        others=tuple(others),
    )


def _engine_s(scenario: Scenario) -> float:
    """The engine alone, from start to end."""
    return _best_s(lambda: _run_through(scenario))


def _capacity_s(scenario: Scenario) -> float:
    """The engine under the loop, with the default strategy."""
    return _best_s(lambda: simulate(scenario, make_strategy("capacity")))


def _run_through(scenario: Scenario) -> None:
    clock = ManualClock()
    target = scenario.target(clock)
    clock.advance(scenario.duration_s)
    target.advance()


def _observe_every(scenario: Scenario, every_s: float) -> None:
    clock = ManualClock()
    target = scenario.target(clock)
    while clock.now_s() < scenario.duration_s:
        clock.advance(every_s)
        target.observe()


def _plain_loop() -> int:
    total = 0
    for number in range(1_000_000):
        total += number * number % 7
    return total


def _best_s(work: Callable[[], object], times: int = 3) -> float:
    took_s = []
    for _ in range(times):
        began_s = time.process_time()
        work()
        took_s.append(time.process_time() - began_s)
    return min(took_s)
