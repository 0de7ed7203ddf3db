"""How layouts would cope with a load, and which layouts to choose from.

An evaluator holds the applications at one moment and one load. ``FlowEvaluator`` is Algorithm 1 on an engine where
rows flow from operator to operator. ``BatchEvaluator`` has the same two dimensions on queries that run in batches
(Spark). There, stages take turns on all slots. An instance does not hold a core as on Storm, so thresholds of a core
say nothing. The slots and the trigger interval T must not be stressed instead. For the rows that arrive in T

    Σ_i p_i · (o_i + c_i · rows / p_i)                  ≤  cpu_max · S · T
    d + Σ_i ceil(p_i / S) · (o_i + c_i · rows / p_i)    ≤  0.9 · T

on S slots (``profiling.batch.model``). For given p_i this yields the fewest nodes; if no number suffices, the smallest
that is as good as any. p_i = S, one full wave, needs the fewest of all. So there are two layouts to choose from: the
present instances, which needs no restart, and one wave, which needs a restart and may need fewer nodes. Operators
change only where that shortens the batch. Stateful operators of a query change together, since Spark gives a query one
number of state partitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from ebbflow.core.layout import Layout, LayoutDifference
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.snapshot import Snapshot
from ebbflow.core.waves import waves
from ebbflow.profiling.batch.stage_match import ObservedStage, StageMatch
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.profile import Range
from ebbflow.strategies.capacity.batches import KnownQuery
from ebbflow.strategies.symbiotic.algorithm_one import (
    SLACK,
    Dimensions,
    Fit,
    Instances,
    UsageThresholds,
    fewest_instances,
    fewest_nodes,
    fullest,
)
from ebbflow.strategies.symbiotic.costs import name_in

EQUALLY_GOOD = 0.05
"""If no layout suffices, one that is worse than the best by no more than this share is equally good."""
BATCH_MAX = 0.9
"""Share of its trigger interval above which a batch is stressed. Above 1 it delays the next batch."""
WORTH_RESIZING = 0.01
"""Share of the trigger interval that resizing operators must save."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How a layout would cope with the load."""

    busy: float
    """Utilisation of what limits it first: the cores of a node, the core of an instance, the interval of a batch."""
    stress: float
    """Utilisation ÷ threshold of the worst of these. Above 1 the layout is stressed."""
    bottleneck: str
    """The worst of these, for the ledger."""
    freshness_s: float = 0.0
    """Freshness once the queue is worked off; about 0 without batches."""


class Evaluator(Protocol):
    """Applications at one moment and one load."""

    def evaluate(self, layout: Layout) -> Evaluation:
        """How a layout would cope."""
        ...

    def candidates(self) -> Sequence[Layout]:
        """Layouts to choose from, each with the fewest nodes for its parallelism."""
        ...

    def needs_stop(self, change: LayoutDifference) -> bool:
        """Whether processing stops for a change."""
        ...

    def extrapolated(self, layout: Layout) -> str:
        """The inputs of an evaluation outside the measured range, for the ledger; empty if there are none."""
        ...

    def inputs(self) -> Mapping[str, float | str]:
        """Numbers behind a decision that only this engine has."""
        ...


# -- continuous engines ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _OperatorLoad:
    """An operator, its estimator, its name there, and its input rate."""

    name: str
    estimator: Estimator
    profiled_name: str
    rate_per_s: float

    def cores(self, rate_per_s: float) -> float:
        """CPU of one instance at its input rate."""
        return self.estimator.instance_cpu(self.profiled_name, rate_per_s).value


class FlowEvaluator:
    """Algorithm 1 on an engine without batches. ``fixed``: operators that keep their parallelism."""

    def __init__(
        self,
        snapshot: Snapshot,
        parts: Sequence[Pipeline],
        estimators: Mapping[str, Estimator],
        loads_per_s: Mapping[str, float],
        *,
        thresholds: UsageThresholds,
        dimensions: Dimensions,
        fixed: Collection[str] = (),
    ) -> None:
        self._snapshot, self._thresholds, self._dimensions = snapshot, thresholds, dimensions
        self._fixed = fixed
        self._estimators = estimators
        self._cores_per_node = max(1, snapshot.slots_per_node)
        self._operators: list[_OperatorLoad] = []
        """In the order in which the scheduler assigns them."""
        for part in parts:
            estimator = estimators[part.name]
            rates = estimator.input_rates({estimator.pipeline.name: loads_per_s[part.name]})
            for name in part.order:
                profiled_name = name_in(estimator, part, name)
                rate = rates.get(profiled_name, 0.0)
                self._operators.append(_OperatorLoad(name, estimator, profiled_name, rate))

    @cached_property
    def parallelism(self) -> dict[str, int]:
        """Instances of each operator (lines 2 to 9)."""
        planned = self._snapshot.planned.parallelism
        found = {}
        for operator in self._operators:
            if self._may_change(operator.name):
                most = self._dimensions.most(operator.name, self._snapshot)
                count = fewest_instances(operator.cores, operator.rate_per_s, most, self._thresholds)
            else:
                count = planned.get(operator.name, 1)
            found[operator.name] = count
        return found

    @cached_property
    def fit(self) -> Fit:
        """Nodes for these instances (lines 10 to 16)."""
        return fewest_nodes(
            self._instances(self.parallelism),
            share=self._share,
            cores_per_node=self._cores_per_node,
            cpu_max=self._thresholds.cpu_max,
            most=self._snapshot.limits.max_nodes,
        )

    def candidates(self) -> Sequence[Layout]:
        """The layout that Algorithm 1 finds."""
        planned = self._snapshot.planned
        nodes = self._snapshot.limits.clamp(self.fit.nodes) if self._dimensions.nodes else planned.main_nodes
        return [_layout(planned, nodes, self.parallelism)]

    def evaluate(self, layout: Layout) -> Evaluation:
        """The fullest node, or the busiest instance that could be relieved."""
        instances = self._instances(layout.parallelism)
        counts = np.asarray([each.count for each in instances])
        cores = np.asarray([each.cores for each in instances])
        share = self._share(fullest(counts, cores, max(1, layout.main_nodes)))
        thresholds = self._thresholds
        busiest = max(instances, key=lambda each: each.cores)
        stress, bottleneck = share / thresholds.cpu_max, f"the fullest node at {share:.0%} of its cores"
        for each in instances:
            most = self._dimensions.most(each.operator, self._snapshot)
            can_grow = each.count < most and self._may_change(each.operator)
            if can_grow and each.cores / thresholds.core_max > stress:
                stress = each.cores / thresholds.core_max
                bottleneck = f"an instance of {each.operator} at {each.cores:.0%} of a core"
        return Evaluation(busy=max(share, min(1.0, busiest.cores)), stress=stress, bottleneck=bottleneck)

    def needs_stop(self, change: LayoutDifference) -> bool:
        """Every change stops such an engine."""
        return bool(change)

    def extrapolated(self, layout: Layout) -> str:
        """Operators whose instances would have a rate outside the range of their profile."""
        found = []
        for operator in self._operators:
            profile = operator.estimator.profile.cpu.get(operator.profiled_name)
            each_per_s = operator.rate_per_s / max(1, layout.parallelism.get(operator.name, 1))
            if profile is not None:
                measured = Range(low=profile.low, high=profile.high)
                if not measured.holds(each_per_s):
                    found.append(f"{operator.name} at {each_per_s:.0f} rows/s (measured: {measured})")
        return ", ".join(found)

    def inputs(self) -> Mapping[str, float | str]:
        """Instances and CPU that the load needs."""
        return {
            "instances": sum(self.parallelism.values()),
            "cores_wanted": round(sum(i.count * i.cores for i in self._instances(self.parallelism)), 3),
        }

    def _may_change(self, name: str) -> bool:
        return self._dimensions.operators and name not in self._fixed

    def _instances(self, parallelism: Mapping[str, int]) -> list[Instances]:
        found = []
        for operator in self._operators:
            count = max(1, parallelism.get(operator.name, 1))
            found.append(Instances(operator.name, count, operator.cores(operator.rate_per_s / count)))
        return found

    def _share(self, cores: float) -> float:
        """Share of its cores that a node uses: by the most pessimistic profile, and at least that of its instances."""
        most = cores / self._cores_per_node
        for estimator in self._estimators.values():
            node = estimator.profile.node
            most = max(most, node.estimate(cores).value * node.cores / self._cores_per_node)
        return most


# -- queries that run in batches -------------------------------------------------------------------


@dataclass(frozen=True)
class _StageLoad:
    """One stage of a query. ``operator``: the one whose parallelism is its number of tasks, if any."""

    tasks: int
    per_task_s: float
    per_row_s: float
    skew: float
    operator: str = ""

    def seconds(self, rows: float, slots: int) -> float:
        rounds = max(float(waves(self.tasks, slots)), self.skew)
        return rounds * (self.per_task_s + self.per_row_s * rows / self.tasks)


@dataclass(frozen=True)
class _QueryLoad:
    """A query at the load to size for. ``rows``: of one batch."""

    name: str
    driver_s: float
    stages: tuple[_StageLoad, ...]
    rows: float
    interval_s: float
    measured_rows: Range | None
    """Rows of the batches from which its costs were learned."""

    def busy(self, slots: int, stages: Sequence[_StageLoad]) -> float:
        """Share of its interval that a batch takes."""
        took_s = self.driver_s + sum(stage.seconds(self.rows, slots) for stage in stages)
        return took_s / self.interval_s

    def work(self, stages: Sequence[_StageLoad]) -> float:
        """Slots kept busy on average: task time ÷ interval."""
        task_s = sum(s.tasks * s.per_task_s + s.per_row_s * self.rows for s in stages)
        return task_s / self.interval_s

    def in_stages(self, slots: int, stages: Sequence[_StageLoad]) -> float:
        """Share of the time in which it holds the slots."""
        return sum(stage.seconds(self.rows, slots) for stage in stages) / self.interval_s


class BatchEvaluator:
    """Queries that run in batches.

    ``known``: the queries by name. ``match``: which stages run which operators.
    ``fixed``: operators that keep their parallelism.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        known: Mapping[str, KnownQuery],
        loads_per_s: Mapping[str, float],
        *,
        thresholds: UsageThresholds,
        dimensions: Dimensions,
        fixed: Collection[str] = (),
        match: StageMatch,
    ) -> None:
        self._snapshot, self._dimensions, self._fixed = snapshot, dimensions, fixed
        self._cpu_max = thresholds.cpu_max
        self._slots_per_node = max(1, snapshot.slots_per_node)
        planned = snapshot.planned.parallelism
        by_query: dict[str, list[str]] = {}
        for operator in snapshot.pipeline.operators:
            if operator.name in planned:
                by_query.setdefault(operator.query or snapshot.pipeline.name, []).append(operator.name)
        self._queries = []
        for name, query in known.items():
            model = query.model
            # Without a trigger, batches follow each other at once: half of the SLO is left for the next one.
            interval_s = query.trigger_interval_s or snapshot.slo.freshness_s / 2
            observed = [ObservedStage(stage.tasks, stage.costs[1]) for stage in model.stages]
            operators = match.of(name, observed, {each: planned[each] for each in by_query.get(name, ())})
            stages = tuple(
                _StageLoad(s.tasks, *s.costs, s.skew, operators.get(at, ""))
                for at, s in enumerate(model.stages)
            )
            rows = loads_per_s[name] * interval_s
            self._queries.append(_QueryLoad(name, model.driver_s, stages, rows, interval_s, model.seen_rows))

    def candidates(self) -> Sequence[Layout]:
        """The fewest nodes for the present instances; and for one wave, if that needs fewer or relieves more."""
        planned = self._snapshot.planned
        if not self._dimensions.nodes:
            if not self._dimensions.operators:
                return [planned]
            return [_layout(planned, planned.main_nodes, self._one_wave(planned.main_nodes))]
        unchanged = self._fewest(lambda _: {})
        found = [_layout(planned, unchanged, {})]
        if self._dimensions.operators:
            nodes = self._fewest(self._one_wave)
            one_wave = _layout(planned, nodes, self._one_wave(nodes))
            if nodes < unchanged or self.evaluate(one_wave).stress < self.evaluate(found[0]).stress - SLACK:
                found.append(one_wave)
        return found

    def evaluate(self, layout: Layout) -> Evaluation:
        """How busy the slots are, and how much of its interval the longest batch takes."""
        return self._evaluate(layout.main_nodes, layout.parallelism)

    def _evaluate(self, nodes: int, parallelism: Mapping[str, int]) -> Evaluation:
        slots = max(1, nodes * self._slots_per_node)
        pairs = [
            (
                query,
                [
                    replace(s, tasks=parallelism.get(s.operator, s.tasks)) if s.operator else s
                    for s in query.stages
                ],
            )
            for query in self._queries
        ]
        # A batch that outlasts its interval spreads its work over that longer time.
        share = sum(q.work(own) / max(1.0, q.busy(slots, own)) for q, own in pairs) / slots
        stress, bottleneck, longest = share / self._cpu_max, f"slots {share:.0%} busy", 0.0
        for query, own in pairs:
            longest = max(longest, busy := query.busy(slots, own))
            if busy / BATCH_MAX > stress:
                stress = busy / BATCH_MAX
                bottleneck = f"a batch of {query.name} at {busy:.0%} of its interval"
        if len(pairs) > 1:
            together = sum(query.in_stages(slots, own) for query, own in pairs)
            if together / BATCH_MAX > stress:
                stress = together / BATCH_MAX
                bottleneck = f"stages of all queries at {together:.0%} of the time"
        freshness_s = max((q.interval_s for q in self._queries), default=0.0) * (1 + longest)
        return Evaluation(
            busy=max(share, longest), stress=stress, bottleneck=bottleneck, freshness_s=freshness_s
        )

    def _fewest(self, shape: Callable[[int], Mapping[str, int]]) -> int:
        """The fewest nodes that are not stressed, with the parallelism that ``shape`` has on them."""
        limits = self._snapshot.limits
        # Lower bound: the work of all rows on all slots without a gap.
        work = sum(s.per_row_s * q.rows / q.interval_s for q in self._queries for s in q.stages)
        least = limits.clamp(math.ceil(work / (self._cpu_max * self._slots_per_node) - SLACK))
        stress = {}
        for nodes in range(least, limits.max_nodes + 1):
            stress[nodes] = self._evaluate(nodes, shape(nodes)).stress
            if stress[nodes] <= 1 + SLACK:
                return nodes
        # None suffices, so something other than nodes is missing: take the smallest that is as good as the best.
        best, best_stress = limits.min_nodes, math.inf
        for nodes in range(max(1, limits.min_nodes), limits.max_nodes + 1):
            found = stress[nodes] if nodes in stress else self._evaluate(nodes, shape(nodes)).stress
            if found < (1 - EQUALLY_GOOD) * best_stress:
                best, best_stress = nodes, found
        return best

    def _one_wave(self, nodes: int) -> dict[str, int]:
        """As many instances as slots, for the operators of queries that gain by it."""
        slots = nodes * self._slots_per_node
        wanted: dict[str, int] = {}
        for query in self._queries:
            saved_s, changed = 0.0, {}
            for stage in query.stages:
                if stage.operator and stage.operator not in self._fixed:
                    count = min(slots, self._dimensions.most(stage.operator, self._snapshot))
                    saved_s += stage.seconds(query.rows, slots)
                    saved_s -= replace(stage, tasks=count).seconds(query.rows, slots)
                    changed[stage.operator] = count
            if saved_s > WORTH_RESIZING * query.interval_s:
                wanted.update(changed)
        return wanted

    def needs_stop(self, change: LayoutDifference) -> bool:
        """Executors come and go while queries run. Only a change of parallelism needs a restart."""
        return change.restarts

    def extrapolated(self, layout: Layout) -> str:  # noqa: ARG002
        """Queries whose batches would have more or fewer rows than those their costs were learned from."""
        return ", ".join(
            f"a batch of {query.name} of {query.rows:.0f} rows (measured: {query.measured_rows})"
            for query in self._queries
            if query.measured_rows is not None and not query.measured_rows.holds(query.rows)
        )

    def inputs(self) -> Mapping[str, float | str]:
        """Rows of a batch of each query."""
        return {f"{query.name} batch_rows": round(query.rows) for query in self._queries}


def _layout(planned: Layout, nodes: int, parallelism: Mapping[str, int]) -> Layout:
    changed = {**planned.parallelism, **parallelism}
    return Layout(nodes=planned.nodes, parallelism=changed, placement=planned.placement).with_nodes(nodes)
