"""How well a proactive run forecast its load, in nodes.

At each assessment the strategy sizes for the highest load forecast until the next one. Counted in nodes of Algorithm 1,
with the thresholds of the paper and the true cost of rows:

    nodes(forecast) − nodes(arrived) = [nodes(forecast) − nodes(highest)] + [nodes(highest) − nodes(arrived)]

*arrived* is the mean load until the next assessment, *highest* that of its busiest 10 s as they arrived. The first
difference is the error of the forecast. The second is the cost of a perfect forecast: nodes that are ready before their
load arrives.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np

from ebbflow.core.run import Run
from ebbflow.forecasting.load_forecast import STEP_S
from ebbflow.papers.elysium.calibration import COSTED, LIMITS, MOST_PARALLEL, NODES
from ebbflow.strategies.symbiotic.algorithm_one import (
    Instances,
    UsageThresholds,
    fewest_instances,
    fewest_nodes,
)

_COSTED = {costed.pipeline.name: costed for costed in COSTED.values()}


def nodes_for(rates_per_s: Mapping[str, float], thresholds: UsageThresholds | None = None) -> int:
    """Nodes that Algorithm 1 takes for these loads (by pipeline) if it knows the true cost of rows; the maximum if no
    number of nodes is enough.

    >>> [nodes_for({"top-words": rate}) for rate in (100.0, 300.0, 580.0, 850.0, 2000.0)]
    [1, 2, 3, 4, 4]
    """
    limits = thresholds or UsageThresholds()
    instances = []
    for pipeline, rate_per_s in rates_per_s.items():
        costed = _COSTED[pipeline]
        (source,) = costed.pipeline.sources
        for name, rows_per_s in costed.pipeline.input_rates({source: rate_per_s}).items():
            cost_s = costed.row_cost_s[name]

            def cores(each_per_s: float, cost_s: float = cost_s) -> float:
                return each_per_s * cost_s

            most = costed.max_parallelism.get(name, MOST_PARALLEL)
            count = fewest_instances(cores, rows_per_s, most, limits)
            instances.append(Instances(name, count, rows_per_s * cost_s / count))
    fit = fewest_nodes(
        instances,
        share=NODES.cpu_share,
        cores_per_node=NODES.slots,
        cpu_max=limits.cpu_max,
        most=LIMITS.max_nodes,
    )
    return fit.nodes if fit.fits else LIMITS.max_nodes


@dataclass(frozen=True, kw_only=True)
class Foresight:
    """Figures of the assessments of one run, or means over several runs."""

    assessments: float
    forecast_per_s: float
    """Mean rate in rows per second that was sized for."""
    came_per_s: float
    """Mean rate in rows per second that arrived until the next assessment."""
    nodes_forecast: float
    nodes_highest: float
    nodes_came: float
    """Mean nodes for each of the three loads of the formula."""
    early: float
    """Assessments at which the busiest 10 s needed more nodes than the mean load."""
    too_high: float
    """Assessments at which the forecast needed more nodes than the highest."""
    too_low: float
    """Assessments at which the forecast needed fewer nodes than the highest."""

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Foresight | None:
        """From the pipelines of one run; None if there was no assessment."""
        names = [run.pipeline for run in runs]
        first = runs[0]
        assessments = [
            (entry.time_s, {name: float(entry.decision.inputs[f"{name} rate_per_s"]) for name in names})
            for entry in first.decisions
            if all(f"{name} rate_per_s" in entry.decision.inputs for name in names)
            and entry.time_s < first.ended_s
        ]
        if not assessments:
            return None
        rows = []
        times_s = [time_s for time_s, _ in assessments]
        for (time_s, forecast), (_, next_s) in zip(
            assessments, pairwise([*times_s, first.ended_s]), strict=True
        ):
            arrived = {run.pipeline: _rates_per_s(run, time_s, next_s, next_s - time_s)[0] for run in runs}
            ahead = {run.pipeline: _rates_per_s(run, time_s, next_s, STEP_S) for run in runs}
            highest = {name: max([arrived[name], *ahead[name]]) for name in names}
            rows.append(
                (sum(forecast.values()), sum(arrived.values()), *map(nodes_for, (forecast, highest, arrived)))
            )
        forecast_rates, arrived_rates, for_forecast, for_highest, for_arrived = zip(*rows, strict=True)
        return cls(
            assessments=float(len(rows)),
            forecast_per_s=statistics.fmean(forecast_rates),
            came_per_s=statistics.fmean(arrived_rates),
            nodes_forecast=statistics.fmean(for_forecast),
            nodes_highest=statistics.fmean(for_highest),
            nodes_came=statistics.fmean(for_arrived),
            early=float(sum(high > low for high, low in zip(for_highest, for_arrived, strict=True))),
            too_high=float(sum(ours > high for ours, high in zip(for_forecast, for_highest, strict=True))),
            too_low=float(sum(ours < high for ours, high in zip(for_forecast, for_highest, strict=True))),
        )

    @classmethod
    def mean(cls, each: Sequence[Foresight]) -> Foresight | None:
        """The mean of each figure."""
        if not each:
            return None
        return cls(
            **{
                one.name: statistics.fmean(getattr(foresight, one.name) for foresight in each)
                for one in fields(cls)
            }
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {name: round(value, 4) for name, value in asdict(self).items()}

    def __str__(self) -> str:
        error = f"{self.nodes_forecast - self.nodes_highest:+.2f}".replace("-", "\N{MINUS SIGN}")
        return (
            f"It sized for {self.forecast_per_s:.0f} rows/s on average while {self.came_per_s:.0f} arrived until the "
            f"next assessment, {self.nodes_forecast:.2f} nodes instead of {self.nodes_came:.2f}: "
            f"{self.nodes_highest - self.nodes_came:+.2f} for the busiest 10 s until then "
            f"({self.early:.0f} of {self.assessments:.0f} assessments), {error} from forecast errors "
            f"(too many nodes at {self.too_high:.0f}, too few at {self.too_low:.0f})."
        )


def _rates_per_s(run: Run, start_s: float, end_s: float, every_s: float) -> list[float]:
    """Arrival rates of the intervals of ``every_s`` between two times."""
    edges_s = np.arange(start_s, end_s + 1e-9, every_s)
    return [float(rows) / every_s for rows in np.diff(run.arrived.interpolated(edges_s))]
