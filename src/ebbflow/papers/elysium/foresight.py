"""What a proactive run sized for, against what came: how many of its nodes stood ready, and for what.

At each assessment the strategy sizes for the highest load that is forecast for the next five minutes. In nodes of
Algorithm 1, with the seed's thresholds and what rows cost in truth:

    nodes(forecast) − nodes(came) = [nodes(forecast) − nodes(highest)] + [nodes(highest) − nodes(came)]

*came* is the load until the next assessment, *highest* that of the busiest of the next five minutes, both as they
arrived. The first difference is the forecast's error; the second is what looking ahead costs by itself, were the
forecast always right: nodes that are there before their load is.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np

from ebbflow.core.run import Run
from ebbflow.forecasting.forecast import HORIZON_MINUTES, MINUTE_S
from ebbflow.papers.elysium.calibration import COSTED, LIMITS, MOST_PARALLEL, NODES
from ebbflow.strategies.symbiotic.algorithm_one import Instances, Thresholds, fewest_instances, fewest_nodes

_COSTED = {costed.pipeline.name: costed for costed in COSTED.values()}


def nodes_for(rates_per_s: Mapping[str, float], thresholds: Thresholds | None = None) -> int:
    """Nodes that Algorithm 1 takes for these loads, by the name of the pipeline, knowing what rows cost; all that there
    are where no size is enough.

    >>> [nodes_for({"top-words": rate}) for rate in (100.0, 300.0, 580.0, 850.0, 2000.0)]
    [1, 2, 3, 4, 4]
    """
    limits = thresholds or Thresholds()
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
    """Of the assessments of one run, or means over several."""

    assessments: float
    forecast_per_s: float
    """Rows per second that were sized for, in the mean."""
    came_per_s: float
    """Rows per second until the next assessment, in the mean."""
    nodes_forecast: float
    nodes_highest: float
    nodes_came: float
    """Means of the nodes for each of the three loads of the module's formula."""
    early: float
    """Assessments at which the highest of the next five minutes needed more nodes than what came at once."""
    too_high: float
    """Assessments at which the forecast asked for more nodes than even that needed."""
    too_low: float
    """Assessments at which it asked for fewer."""

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Foresight | None:
        """Of the pipelines of one run; None where nothing was assessed."""
        names = [run.pipeline for run in runs]
        first = runs[0]
        assessed = [
            (entry.time_s, {name: float(entry.decision.inputs[f"{name} rate_per_s"]) for name in names})
            for entry in first.decisions
            if all(f"{name} rate_per_s" in entry.decision.inputs for name in names)
            and entry.time_s < first.ended_s
        ]
        if not assessed:
            return None
        found = []
        times_s = [time_s for time_s, _ in assessed]
        for (time_s, forecast), (_, next_s) in zip(
            assessed, pairwise([*times_s, first.ended_s]), strict=True
        ):
            came = {run.pipeline: _minutes_per_s(run, time_s, next_s, next_s - time_s)[0] for run in runs}
            until_s = min(first.ended_s, time_s + HORIZON_MINUTES * MINUTE_S)
            ahead = {run.pipeline: _minutes_per_s(run, time_s, until_s, MINUTE_S) for run in runs}
            highest = {name: max([came[name], *ahead[name]]) for name in names}
            found.append(
                (sum(forecast.values()), sum(came.values()), *map(nodes_for, (forecast, highest, came)))
            )
        forecasts, cames, asked, needed, at_once = zip(*found, strict=True)
        return cls(
            assessments=float(len(found)),
            forecast_per_s=statistics.fmean(forecasts),
            came_per_s=statistics.fmean(cames),
            nodes_forecast=statistics.fmean(asked),
            nodes_highest=statistics.fmean(needed),
            nodes_came=statistics.fmean(at_once),
            early=float(sum(high > low for high, low in zip(needed, at_once, strict=True))),
            too_high=float(sum(ours > high for ours, high in zip(asked, needed, strict=True))),
            too_low=float(sum(ours < high for ours, high in zip(asked, needed, strict=True))),
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
        """As plain values."""
        return {name: round(value, 4) for name, value in asdict(self).items()}

    def __str__(self) -> str:
        off = f"{self.nodes_forecast - self.nodes_highest:+.2f}".replace("-", "\N{MINUS SIGN}")
        return (
            f"It sized for {self.forecast_per_s:.0f} rows/s in the mean where {self.came_per_s:.0f} came until the "
            f"next assessment, {self.nodes_forecast:.2f} nodes in place of {self.nodes_came:.2f}: "
            f"{self.nodes_highest - self.nodes_came:+.2f} for load that came later within {HORIZON_MINUTES} minutes "
            f"({self.early:.0f} of {self.assessments:.0f} assessments), {off} by forecasts that were off "
            f"(too many nodes at {self.too_high:.0f}, too few at {self.too_low:.0f})."
        )


def _minutes_per_s(run: Run, start_s: float, end_s: float, every_s: float) -> list[float]:
    """Rates of the whole pieces between two times."""
    edges_s = np.arange(start_s, end_s + 1e-9, every_s)
    return [float(rows) / every_s for rows in np.diff(run.arrived.interpolated(edges_s))]
