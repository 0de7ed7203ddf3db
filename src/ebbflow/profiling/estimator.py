"""The estimator: the four questions a strategy asks of a profile (Elysium §3.2, Figure 4)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ebbflow.core.pipeline import Pipeline
from ebbflow.errors import InputError, UnknownNameError
from ebbflow.profiling.profile import Estimate, Profile

if TYPE_CHECKING:
    from ebbflow.core.placement import Placement
    from ebbflow.forecasting.forecast import Forecast

UNKNOWN = Estimate(value=0.0, error=1.0, inside=False)
"""Of an operator whose CPU nobody measured: it is fused with one that was, or costs nothing worth measuring."""


class Estimator:
    """What an application would do, asked before it is made to.

    >>> from ebbflow.profiling.models import Proportional
    >>> from ebbflow.profiling.profile import CpuProfile, NodeProfile, Spread
    >>> cpu = CpuProfile(model=Proportional(per_unit=0.002), low=10.0, high=400.0, slope=0.002, error=0.01, samples=90)
    >>> profile = Profile(pipeline="words", cpu={"read": cpu, "split": cpu}, node=NodeProfile.assumed(cores=4),
    ...                   selectivity={("read", "split"): Spread(mean=3.0)})
    >>> ask = Estimator(Pipeline.chain("words", "read", "split"), profile)
    >>> rates = ask.input_rates({"read": 100.0})
    >>> rates, round(ask.instance_cpu("split", rates["split"] / 2).value, 3)
    ({'read': 100.0, 'split': 300.0}, 0.3)
    >>> nodes = ask.node_cpu(((1, 0), (1, 1)), rates, {"read": 1, "split": 2})
    >>> [round(node.value, 3) for node in nodes]  # (0.2 + 0.3) / 4, 0.3 / 4
    [0.125, 0.075]
    """

    def __init__(self, pipeline: Pipeline, profile: Profile, *, forecast: Forecast | None = None) -> None:
        self.pipeline, self.profile = pipeline, profile
        self.forecast = forecast
        learned = profile.selectivity
        self._streams: dict[str, list[tuple[str, float]]] = {name: [] for name in pipeline.order}
        for stream in pipeline.streams:
            known = learned.get((stream.source, stream.target))
            selectivity = stream.selectivity if known is None else known.mean
            self._streams[stream.source].append((stream.target, selectivity))
        self._from_source = {
            name: learned[pipeline.name, name].mean if (pipeline.name, name) in learned else 1.0
            for name in pipeline.sources
        }

    def input_rates(self, source_rates: Mapping[str, float]) -> dict[str, float]:
        """Question 1: rows/s that enter each operator, by walking the graph with the learned selectivities.

        ``source_rates`` by source operator; or by the name of the pipeline, for what arrives at all of its sources.
        """
        for name, rate in source_rates.items():
            if name != self.pipeline.name and name not in self._from_source:
                raise UnknownNameError("source", name, (self.pipeline.name, *self._from_source))
            _check_rate(rate, name)
        everywhere = source_rates.get(self.pipeline.name, 0.0)
        rates = dict.fromkeys(self.pipeline.order, 0.0)
        for name, share in self._from_source.items():
            rates[name] = float(source_rates.get(name, everywhere * share))
        for name in self.pipeline.order:
            for target, selectivity in self._streams[name]:
                rates[target] += rates[name] * selectivity
        return rates

    def instance_cpu(self, operator: str, rate_per_s: float) -> Estimate:
        """Question 2: cores that one instance of an operator uses at its own input rate."""
        _check_rate(rate_per_s, operator)
        profile = self.profile.cpu.get(operator)
        return UNKNOWN if profile is None else profile.estimate(rate_per_s)

    def node_cpu(
        self, placement: Placement, rates: Mapping[str, float], parallelism: Mapping[str, int]
    ) -> tuple[Estimate, ...]:
        """Question 3: share of its cores that each node uses, given where the instances are.

        ``placement`` has a row for each operator in the order of the pipeline; ``rates`` are of whole operators.
        """
        cores = [
            self.instance_cpu(name, rates.get(name, 0.0) / max(1, parallelism.get(name, 1)))
            for name in self.pipeline.order
        ]
        on_nodes = np.asarray(placement, dtype=np.float64)
        if on_nodes.ndim != 2 or len(on_nodes) != len(cores):
            raise InputError(
                f"a placement of {len(on_nodes)} rows; {self.pipeline.name} has {len(cores)} operators, and each needs "
                "a row with its instances on every node"
            )
        sums, which = np.unique(np.asarray([each.value for each in cores]) @ on_nodes, return_inverse=True)
        inside = all(each.inside for each in cores if each is not UNKNOWN)
        kinds = []
        for total in sums.tolist():
            found = self.profile.node.estimate(total)
            kinds.append(found if inside else Estimate(value=found.value, error=found.error, inside=False))
        return tuple([kinds[kind] for kind in which.tolist()])

    def predicted_load(self, loads: Sequence[tuple[float, float]], now_s: float) -> float:
        """Question 4: the highest load of the forecast horizon; the last one where nobody forecasts."""
        if self.forecast is not None and loads:
            ahead = self.forecast.predict(loads, now_s)
            if len(ahead):
                return max(0.0, *ahead)
        return loads[-1][1] if loads else 0.0


def _check_rate(rate_per_s: float, name: str) -> None:
    if not 0 <= rate_per_s < math.inf:
        raise InputError(f"{rate_per_s:g} rows/s into {name}; a rate is a number of 0 or more")
