"""The profiling phase in the simulator: two stairs of loads in a few seconds, and a sine to check on.

On the first stair every operator has one instance, so the one that costs most holds the others back. From what that
taught each operator gets as many instances as three times the load needs, and the second stair goes up to it: so
all of them are seen over most of a core. At its top instances and a node are added: what a restart, moved
state, draining and a new node take is measured on the way.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from ebbflow.control.loop import CycleReport
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.ports import Observation
from ebbflow.core.readings import Reading
from ebbflow.core.slo import Slo
from ebbflow.errors import UnknownNameError
from ebbflow.profiling.estimator import Estimator, accuracy
from ebbflow.profiling.fitting import ALL, QUICK
from ebbflow.profiling.learner import ProfileLearner
from ebbflow.runs.profiling import MOST_INSTANCE_CPU, LayoutSchedule, ProfilingResult, Progress, Stair
from ebbflow.runs.simulation import run_simulation
from ebbflow.targets.simulator import Continuous, MicroBatch, NodeKind, Scenario
from ebbflow.targets.simulator.catalogue import costed_pipeline
from ebbflow.targets.simulator.scenario import CONTINUOUS, MICRO_BATCH
from ebbflow.workloads import parse_load

TARGET = "simulator"
GROWTH = 3.0
"""The second stair goes up to so many times the first."""
FIRST_SHARE = 0.95
"""Of what one instance of each operator can take in: the peak of the first stair."""
_CYCLE_S = 1.0


@dataclass(frozen=True, kw_only=True)
class SimulatedProfiling:
    """What is run; the same values give the same profile."""

    pipeline: str
    engine: str = CONTINUOUS
    cores: int = 4
    steps: int = 8
    hold_s: float = 60.0
    noise: float = 0.05
    """Spread of what rows cost from second to second, and of what is read of the CPU at each look, as a share."""
    seed: int = 1
    kinds: tuple[str, ...] = ALL
    """Models to try."""

    def run(
        self,
        *,
        learned_at: datetime = datetime(1970, 1, 1, tzinfo=UTC),
        on_progress: Progress = lambda _, __: None,
    ) -> ProfilingResult:
        """Run the stairs, learn, and check on a sine."""
        costed = costed_pipeline(self.pipeline)
        learner = ProfileLearner(costed.pipeline, kinds=self.kinds, target=TARGET)
        if self.engine == MICRO_BATCH:
            return self._batches(learner, costed.micro_batch(noise=self.noise), learned_at, on_progress)
        if self.engine != CONTINUOUS:
            raise UnknownNameError("engine", self.engine, (CONTINUOUS, MICRO_BATCH))
        one = replace(
            costed.continuous(instances=1, noise=self.noise),
            parallelism=dict.fromkeys(costed.pipeline.order, 1),
        )
        first = Stair(peak_per_s=FIRST_SHARE * _alone_per_s(one), steps=self.steps, hold_s=self.hold_s)
        on_progress(0.0, "first stair: one instance of each operator")
        self._play(
            one, first.load, first.seconds, [learner], changes=(), nodes=self._nodes(one, first.peak_per_s)
        )
        second = replace(first, peak_per_s=GROWTH * first.peak_per_s)
        on_progress(0.35, f"second stair: {GROWTH:g} times the load, with as many instances as that needs")
        sizes = balanced(learner, costed.pipeline, second.peak_per_s, costed.max_parallelism)
        more = {n: p if n in costed.max_parallelism else p + 1 for n, p in sizes.items()}
        large = replace(one, parallelism=sizes)
        nodes = self._nodes(large, second.peak_per_s)
        changes = [(second.top_s + self.hold_s / 2, more, nodes + 1)]
        self._play(
            large, second.load, second.seconds, [learner], changes=changes, nodes=nodes, after_s=first.seconds
        )
        on_progress(0.7, "finding the models")
        began_s = time.process_time()
        profile = learner.profile(learned_at)
        training_s = time.process_time() - began_s
        on_progress(0.85, "a sine, to check on")
        read = _Kept()
        sine = second.sine(second.seconds)
        self._play(large, sine, second.seconds, [read], changes=(), nodes=nodes, seed=self.seed + 1)
        on_progress(1.0, "done")
        return ProfilingResult(
            profile=profile,
            accuracy=accuracy(profile, costed.pipeline, read.readings),
            seconds=first.seconds + second.seconds,
            training_s=training_s,
        )

    def _batches(
        self, learner: ProfileLearner, query: MicroBatch, learned_at: datetime, on_progress: Progress
    ) -> ProfilingResult:
        """One stair: a query's stages are what they are, and nobody reads the CPU of its operators."""
        nodes = 4
        peak_per_s = 0.7 * float(query.capacity_rows_per_s(self._kind, nodes)[nodes])
        stair = Stair(peak_per_s=peak_per_s, steps=self.steps, hold_s=self.hold_s)
        halves = {s.operator: max(1, s.tasks // 2) for s in query.stages if s.operator}
        on_progress(0.0, "a stair of batches")
        changes = [(stair.top_s + self.hold_s / 2, halves, nodes + 1)]
        self._play(query, stair.load, stair.seconds, [learner], changes=changes, nodes=nodes)
        began_s = time.process_time()
        profile = learner.profile(learned_at)
        on_progress(1.0, "done")
        return ProfilingResult(
            profile=profile, accuracy=None, seconds=stair.seconds, training_s=time.process_time() - began_s
        )

    @property
    def _kind(self) -> NodeKind:
        return NodeKind(slots=self.cores)

    def _nodes(self, engine: Continuous, rate_per_s: float) -> int:
        """Nodes that are half busy at a rate: instances are to be the limit, not nodes."""
        per_node = float(engine.capacity_rows_per_s(self._kind, 1)[1])
        return max(1, math.ceil(2 * rate_per_s / per_node))

    def _play(
        self,
        engine: Continuous | MicroBatch,
        load: str,
        seconds: float,
        listeners: Sequence[ProfileLearner | _Kept],
        *,
        changes: Sequence[tuple[float, Mapping[str, int], int]],
        nodes: int,
        after_s: float = 0.0,
        seed: int | None = None,
    ) -> None:
        """``after_s``: what is read is told as if it had begun so much later."""
        last_s = -1.0
        rng = np.random.default_rng(self.seed if seed is None else seed)

        def heard(report: CycleReport) -> None:
            nonlocal last_s
            seen = report.observation
            if seen is not None and seen.time_s > last_s:
                last_s = seen.time_s
                readings = _as_read(seen, after_s, self.noise, rng)
                for listener in listeners:
                    listener.learn(readings, seen.batches)

        scenario = Scenario(
            engine=engine,
            load=parse_load(load),
            seconds=seconds,
            limits=Limits(min_nodes=1, max_nodes=nodes + 1),
            slo=Slo(freshness_s=3600.0, quantile=0.95),
            nodes=self._kind,
            initial_nodes=nodes,
            cycle_s=_CYCLE_S,
            seed=self.seed if seed is None else seed,
        )
        run_simulation(scenario, LayoutSchedule(changes), guards=(), on_cycle=heard)


def balanced(
    learner: ProfileLearner, pipeline: Pipeline, rate_per_s: float, most: Mapping[str, int]
) -> dict[str, int]:
    """Instances of each operator that are at most ``MOST_INSTANCE_CPU`` busy at a rate, by what was learned so far."""
    ask = Estimator(pipeline, learner.profile(kinds=QUICK))
    rates = ask.input_rates(dict.fromkeys(pipeline.sources, rate_per_s))
    return {
        name: min(
            most.get(name, 10_000),
            max(1, math.ceil(ask.instance_cpu(name, rates[name]).value / MOST_INSTANCE_CPU)),
        )
        for name in pipeline.order
    }


class _Kept:
    """Readings as they came."""

    def __init__(self) -> None:
        self.readings: list[Reading] = []

    def learn(self, readings: Sequence[Reading], _batches: object = ()) -> None:
        """Keep them."""
        self.readings += readings


def _alone_per_s(engine: Continuous) -> float:
    """Source rows a second that one instance of each operator can take in: the slowest decides."""
    return 1.0 / max(engine.row_cost_s[name] * rows for name, rows in engine.per_source_row.items())


def _as_read(seen: Observation, later_s: float, noise: float, rng: np.random.Generator) -> Sequence[Reading]:
    """Told as if it had been later, and CPU with the noise that reading it has on a machine; simulated CPU has none."""
    factors = np.exp(rng.normal(-noise * noise / 2, noise, len(seen.readings))).tolist()
    return [
        Reading(r.time_s + later_s, r.subject, r.metric, r.value * factor if r.metric in _NOISY else r.value)
        for r, factor in zip(seen.readings, factors, strict=True)
    ]


_NOISY = (Metric.INSTANCE_CPU, Metric.NODE_CPU)
