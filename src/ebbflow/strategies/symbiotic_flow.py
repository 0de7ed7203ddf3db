"""The symbiotic strategy where rows flow from operator to operator: Algorithm 1 by estimators, given or learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from ebbflow.core.layout import Layout, LayoutDifference
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.snapshot import Snapshot
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.models import Proportional
from ebbflow.profiling.profile import CpuProfile, NodeProfile, Profile
from ebbflow.strategies.algorithm_one import (
    Fit,
    Instances,
    Thresholds,
    fewest_instances,
    fewest_nodes,
    fullest,
)  # fmt: skip
from ebbflow.strategies.capacity_flow import LearnedFlow
from ebbflow.strategies.kept_profiles import name_in
from ebbflow.strategies.symbiotic_view import Dimensions, Judged

LEARNED_ERROR = 0.05
"""Claimed of costs learned in operation, which were not cross-validated."""


class LearnedEstimator:
    """An estimator made of what snapshots show: CPU of each operator per source row, as ``flow_model`` has it."""

    def __init__(self, *, window_s: float) -> None:
        self._flow = LearnedFlow(rate_window_s=window_s)

    def learn(self, snapshot: Snapshot) -> None:
        """Take in what was read since the last look."""
        self._flow.learn(snapshot)

    def estimator(self, part: Pipeline, node: NodeProfile) -> Estimator | None:
        """None while nothing is known. Costs are per source row, so its streams are left out; an operator that was
        never seen to use CPU costs nothing."""
        model = self._flow.model
        if not model.ready:
            return None
        flat = Pipeline(name=part.name, operators=part.operators)
        cpu = {
            name: CpuProfile(
                model=Proportional(per_unit=cost_s), low=0.0, high=float("inf"), slope=cost_s,
                error=LEARNED_ERROR, samples=1,
            )
            for name in model.operators
            if (cost_s := model.cost_s(name)) > 0
        }  # fmt: skip
        return Estimator(flat, Profile(pipeline=part.name, cpu=cpu, node=node))


class Overhead:
    """CPU of the nodes ÷ CPU of the instances on them, as both are read: what the engine itself takes."""

    def __init__(self, *, window_s: float) -> None:
        self._window_s = window_s
        self._factor: float | None = None

    def look(self, snapshot: Snapshot) -> None:
        """Compare the means of the last window, while nothing changes."""
        windows, since_s = snapshot.windows, snapshot.now_s - self._window_s
        if snapshot.under_way:
            return
        nodes = [
            _mean(windows.of(subject, metric).after(since_s))
            for subject, metric in windows.series()
            if metric is Metric.NODE_CPU
        ]
        instances = 0.0
        for name in snapshot.pipeline.order:
            used = _mean(windows.of(name, Metric.INSTANCE_CPU).after(since_s))
            instances += (used or 0.0) * (windows.of(name, Metric.INSTANCES).last or 1.0)
        read = [share for share in nodes if share is not None]
        if not read or instances < 0.1 or max(read) > 0.98 or len(read) != snapshot.observed.main_nodes:
            return  # a node that is full shows no more, whatever is asked of it
        seen = max(1.0, sum(read) * max(1, snapshot.slots_per_node) / instances)
        self._factor = seen if self._factor is None else 0.5 * (self._factor + seen)

    def profile(self, cores: int) -> NodeProfile:
        """As a profile of nodes with so many cores."""
        per_unit = (self._factor or 1.0) / max(1, cores)
        return NodeProfile(
            model=Proportional(per_unit=per_unit), low=0.0, high=float("inf"), slope=per_unit,
            error=LEARNED_ERROR, samples=1, cores=max(1, cores),
        )  # fmt: skip


def _mean(points: Sequence[tuple[float, float]]) -> float | None:
    return sum(value for _, value in points) / len(points) if points else None


class FlowView:
    """Applications on an engine without batches, at one moment and one load."""

    def __init__(
        self,
        snapshot: Snapshot,
        parts: Sequence[Pipeline],
        estimators: Mapping[str, Estimator],
        loads_per_s: Mapping[str, float],
        *,
        thresholds: Thresholds,
        dimensions: Dimensions,
    ) -> None:
        self._snapshot, self._thresholds, self._dimensions = snapshot, thresholds, dimensions
        self._estimators = estimators
        self._cores_per_node = max(1, snapshot.slots_per_node)
        self._operators: list[tuple[str, Estimator, str, float]] = []
        """In the order in which they are dealt out: name, its estimator, its name there, its input rate."""
        for part in parts:
            estimator = estimators[part.name]
            rates = estimator.input_rates({estimator.pipeline.name: loads_per_s[part.name]})
            for name in part.order:
                there = name_in(estimator, part, name)
                self._operators.append((name, estimator, there, rates.get(there, 0.0)))

    # -- asking the estimators -------------------------------------------------------------------

    def _instances(self, parallelism: Mapping[str, int]) -> list[Instances]:
        found = []
        for name, estimator, there, rate in self._operators:
            count = max(1, parallelism.get(name, 1))
            found.append(Instances(name, count, estimator.instance_cpu(there, rate / count).value))
        return found

    def _share(self, cores: float) -> float:
        """Of its cores that a node uses: by the most pessimistic profile, and never less than its instances do."""
        most = cores / self._cores_per_node
        for estimator in self._estimators.values():
            node = estimator.profile.node
            most = max(most, node.estimate(cores).value * node.cores / self._cores_per_node)
        return most

    # -- Algorithm 1 -----------------------------------------------------------------------------

    @cached_property
    def parallelism(self) -> dict[str, int]:
        """Instances of each operator (lines 2 to 9)."""
        planned = self._snapshot.planned.parallelism
        found = {}
        for name, estimator, there, rate in self._operators:

            def cores(each_per_s: float, estimator: Estimator = estimator, there: str = there) -> float:
                return estimator.instance_cpu(there, each_per_s).value

            most = self._dimensions.most(name, self._snapshot)
            found[name] = fewest_instances(cores, rate, most, self._thresholds)
        if not self._dimensions.operators:
            return {name: planned.get(name, 1) for name in found}
        return found

    @cached_property
    def fit(self) -> Fit:
        """Nodes for them (lines 10 to 16)."""
        return fewest_nodes(
            self._instances(self.parallelism),
            share=self._share,
            cores_per_node=self._cores_per_node,
            cpu_max=self._thresholds.cpu_max,
            most=self._snapshot.limits.max_nodes,
        )

    # -- the view --------------------------------------------------------------------------------

    def judge(self, layout: Layout) -> Judged:
        """The worst instance that could be relieved, and the fullest node."""
        instances = self._instances(layout.parallelism)
        counts = np.asarray([each.count for each in instances])
        cores = np.asarray([each.cores for each in instances])
        share = self._share(fullest(counts, cores, max(1, layout.main_nodes)))
        thresholds = self._thresholds
        worst = max(instances, key=lambda each: each.cores)
        over, where = share / thresholds.cpu_max, f"the fullest node at {share:.2f} of its cores"
        for each in instances:
            can_grow = self._dimensions.operators and each.count < self._dimensions.most(
                each.operator, self._snapshot
            )
            if can_grow and each.cores / thresholds.core_max > over:
                over = each.cores / thresholds.core_max
                where = f"an instance of {each.operator} at {each.cores:.2f} of a core"
        return Judged(busy=max(share, min(1.0, worst.cores)), over=over, where=where)

    def layouts(self) -> Sequence[Layout]:
        """The one that Algorithm 1 finds."""
        planned = self._snapshot.planned
        nodes = self._snapshot.limits.clamp(self.fit.nodes) if self._dimensions.nodes else planned.main_nodes
        parallelism = {**planned.parallelism, **self.parallelism}
        return [
            Layout(nodes=planned.nodes, parallelism=parallelism, placement=planned.placement).with_nodes(
                nodes
            )
        ]

    def stops(self, change: LayoutDifference) -> bool:
        """Every change does, on such an engine."""
        return bool(change)

    def inputs(self) -> Mapping[str, float | str]:
        """Input rates are told by the loads; here what was made of them."""
        return {
            "instances": sum(self.parallelism.values()),
            "cores_wanted": round(sum(i.count * i.cores for i in self._instances(self.parallelism)), 3),
        }
