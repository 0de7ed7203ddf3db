"""The symbiotic strategy where rows flow from operator to operator: Algorithm 1 by estimators, given or learned."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

import numpy as np

from ebbflow.core.layout import Layout, LayoutDifference
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.snapshot import Snapshot
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.profile import Range
from ebbflow.strategies.symbiotic.algorithm_one import (
    Dimensions,
    Fit,
    Instances,
    Thresholds,
    fewest_instances,
    fewest_nodes,
    fullest,
)  # fmt: skip
from ebbflow.strategies.symbiotic.profiles import name_in
from ebbflow.strategies.symbiotic.view import Judged


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
        kept: Collection[str] = (),
    ) -> None:
        """``kept``: operators that are to stay as they are."""
        self._snapshot, self._thresholds, self._dimensions = snapshot, thresholds, dimensions
        self._kept = kept
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
        return {
            name: count if self._may_change(name) else planned.get(name, 1) for name, count in found.items()
        }

    def _may_change(self, name: str) -> bool:
        return self._dimensions.operators and name not in self._kept

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
            most = self._dimensions.most(each.operator, self._snapshot)
            can_grow = each.count < most and self._may_change(each.operator)
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

    def guessed(self, layout: Layout) -> str:
        """Operators whose instances would have another rate than their profile has seen."""
        found = []
        for name, estimator, there, rate in self._operators:
            profile = estimator.profile.cpu.get(there)
            each_per_s = rate / max(1, layout.parallelism.get(name, 1))
            if profile is not None:
                seen = Range(low=profile.low, high=profile.high)
                if not seen.holds(each_per_s):
                    found.append(f"{name} at {each_per_s:.0f} rows/s ({seen} seen)")
        return ", ".join(found)

    def inputs(self) -> Mapping[str, float | str]:
        """Input rates are told by the loads; here what was made of them."""
        return {
            "instances": sum(self.parallelism.values()),
            "cores_wanted": round(sum(i.count * i.cores for i in self._instances(self.parallelism)), 3),
        }
