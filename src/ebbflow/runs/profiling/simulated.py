"""Profiling in the simulator: two stairs of loads, and a sine to check the result, in a few seconds.

On the first stair every operator has one instance, so the most expensive one limits the others. With what was learned,
each operator gets enough instances for three times the load, and the second stair goes up to it, so that all of them
are measured over most of a core. At its top, instances and a node are added to measure restarts, moved state, draining
and new nodes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from ebbflow.control.loop import CycleReport
from ebbflow.core.batches import Batch
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.ports import Observation
from ebbflow.core.readings import Reading
from ebbflow.core.slo import Slo
from ebbflow.errors import UnknownNameError
from ebbflow.profiling.estimator import Estimator, accuracy
from ebbflow.profiling.fitting import ALL, QUICK
from ebbflow.profiling.profile_learner import ProfileLearner
from ebbflow.runs.profiling import (
    MOST_INSTANCE_CPU,
    LayoutSchedule,
    ProfilingResult,
    ProfilingStair,
    Progress,
)
from ebbflow.runs.simulation import run_simulation
from ebbflow.targets.simulator import Continuous, MicroBatch, NodeKind, Scenario
from ebbflow.targets.simulator.catalogue import costed_pipeline
from ebbflow.targets.simulator.scenario import CONTINUOUS, MICRO_BATCH
from ebbflow.workloads import parse_load

TARGET = "simulator"
GROWTH = 3.0
"""Peak of the second stair relative to the first."""
FIRST_SHARE = 0.95
"""Peak of the first stair, as a share of the capacity of one instance of each operator."""
_CYCLE_S = 1.0


@dataclass(frozen=True, kw_only=True)
class SimulatedProfiling:
    """A profiling run; the same values give the same profile."""

    pipeline: str
    engine: str = CONTINUOUS
    cores: int = 4
    steps: int = 8
    hold_s: float = 60.0
    noise: float = 0.05
    """Relative spread of the cost of rows from second to second, and of CPU readings."""
    seed: int = 1
    kinds: tuple[str, ...] = ALL
    """Models to try."""

    def run(
        self,
        *,
        learned_at: datetime = datetime(1970, 1, 1, tzinfo=UTC),
        on_progress: Progress = lambda _, __: None,
    ) -> ProfilingResult:
        """Run the stairs, learn the profile, and check it on a sine."""
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
        first = ProfilingStair(
            peak_per_s=FIRST_SHARE * _single_instance_rate_per_s(one), steps=self.steps, hold_s=self.hold_s
        )
        on_progress(0.0, "first stair: one instance of each operator")
        self._simulate(
            one,
            first.load,
            first.seconds,
            [learner.learn],
            changes=(),
            nodes=self._nodes(one, first.peak_per_s),
        )
        second = replace(first, peak_per_s=GROWTH * first.peak_per_s)
        on_progress(0.35, f"second stair: {GROWTH:g} times the load, with enough instances for it")
        sizes = balanced(learner, costed.pipeline, second.peak_per_s, costed.max_parallelism)
        more = {n: p if n in costed.max_parallelism else p + 1 for n, p in sizes.items()}
        large = replace(one, parallelism=sizes)
        nodes = self._nodes(large, second.peak_per_s)
        changes = [(second.top_s + self.hold_s / 2, more, nodes + 1)]
        self._simulate(
            large,
            second.load,
            second.seconds,
            [learner.learn],
            changes=changes,
            nodes=nodes,
            after_s=first.seconds,
        )
        on_progress(0.7, "fitting the models")
        began_s = time.process_time()
        profile = learner.profile(learned_at)
        training_s = time.process_time() - began_s
        on_progress(0.85, "checking on a sine")
        checked: list[Reading] = []
        sine = second.sine(second.seconds)
        self._simulate(
            large,
            sine,
            second.seconds,
            [lambda new, _: checked.extend(new)],
            changes=(),
            nodes=nodes,
            seed=self.seed + 1,
        )
        on_progress(1.0, "done")
        return ProfilingResult(
            profile=profile,
            accuracy=accuracy(profile, costed.pipeline, checked),
            seconds=first.seconds + second.seconds,
            training_s=training_s,
        )

    def _batches(
        self, learner: ProfileLearner, query: MicroBatch, learned_at: datetime, on_progress: Progress
    ) -> ProfilingResult:
        """One stair: the stages of a query are fixed, and the CPU of its operators is not measured."""
        nodes = 4
        peak_per_s = 0.7 * float(query.capacity_rows_per_s(self._kind, nodes)[nodes])
        stair = ProfilingStair(peak_per_s=peak_per_s, steps=self.steps, hold_s=self.hold_s)
        halves = {s.operator: max(1, s.tasks // 2) for s in query.stages if s.operator}
        on_progress(0.0, "a stair of batches")
        changes = [(stair.top_s + self.hold_s / 2, halves, nodes + 1)]
        self._simulate(query, stair.load, stair.seconds, [learner.learn], changes=changes, nodes=nodes)
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
        """Nodes that are half busy at a rate, so that instances are the limit and not nodes."""
        per_node = float(engine.capacity_rows_per_s(self._kind, 1)[1])
        return max(1, math.ceil(2 * rate_per_s / per_node))

    def _simulate(
        self,
        engine: Continuous | MicroBatch,
        load: str,
        seconds: float,
        listeners: Sequence[Callable[[Sequence[Reading], Sequence[Batch]], None]],
        *,
        changes: Sequence[tuple[float, Mapping[str, int], int]],
        nodes: int,
        after_s: float = 0.0,
        seed: int | None = None,
    ) -> None:
        """``after_s`` is added to the times of all readings."""
        last_s = -1.0
        rng = np.random.default_rng(self.seed if seed is None else seed)

        def learn(report: CycleReport) -> None:
            nonlocal last_s
            observation = report.observation
            if observation is not None and observation.time_s > last_s:
                last_s = observation.time_s
                readings = _noisy_readings(observation, after_s, self.noise, rng)
                for listener in listeners:
                    listener(readings, observation.batches)

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
        run_simulation(scenario, LayoutSchedule(changes), guards=(), on_cycle=learn)


def balanced(
    learner: ProfileLearner, pipeline: Pipeline, rate_per_s: float, most: Mapping[str, int]
) -> dict[str, int]:
    """Instances of each operator so that each uses at most ``MOST_INSTANCE_CPU`` at a rate, by the profile so far."""
    estimator = Estimator(pipeline, learner.profile(kinds=QUICK))
    rates = estimator.input_rates(dict.fromkeys(pipeline.sources, rate_per_s))
    return {
        name: min(
            most.get(name, 10_000),
            max(1, math.ceil(estimator.instance_cpu(name, rates[name]).value / MOST_INSTANCE_CPU)),
        )
        for name in pipeline.order
    }


def _single_instance_rate_per_s(engine: Continuous) -> float:
    """Source rows per second that one instance of each operator can process: the slowest limits."""
    return 1.0 / max(engine.row_cost_s[name] * rows for name, rows in engine.per_source_row.items())


def _noisy_readings(
    observation: Observation, later_s: float, noise: float, rng: np.random.Generator
) -> Sequence[Reading]:
    """The readings with later times, and with measurement noise on the CPU, which simulated CPU lacks."""
    factors = np.exp(rng.normal(-noise * noise / 2, noise, len(observation.readings))).tolist()
    return [
        Reading(r.time_s + later_s, r.subject, r.metric, r.value * factor if r.metric in _NOISY else r.value)
        for r, factor in zip(observation.readings, factors, strict=True)
    ]


_NOISY = (Metric.INSTANCE_CPU, Metric.NODE_CPU)
