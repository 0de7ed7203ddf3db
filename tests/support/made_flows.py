"""Estimators and snapshots of applications on a continuous engine with known costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Operator, Pipeline, Stream
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import Snapshot
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.models import Proportional
from ebbflow.profiling.profile import CpuProfile, NodeProfile, Profile

MS = 0.001


def chain(name: str, *selectivities: float) -> Pipeline:
    """Operators a, b, c, … with these selectivities between them."""
    names = [chr(ord("a") + k) for k in range(len(selectivities) + 1)]
    return Pipeline(
        name=name,
        operators=tuple(Operator(name=each) for each in names),
        streams=tuple(
            Stream(source=one, target=other, selectivity=selectivity)
            for one, other, selectivity in zip(names, names[1:], selectivities, strict=False)
        ),
    )


def estimator(
    pipeline: Pipeline, costs_s: Mapping[str, float], *, cores: int = 4, overhead: float = 1.0
) -> Estimator:
    """CPU in proportion to the rate; a node uses ``overhead`` times what its instances do."""
    cpu = {name: CpuProfile(**_line(cost_s, 1.0 / cost_s)) for name, cost_s in costs_s.items()}
    node = NodeProfile(**_line(overhead / cores, float(cores)), cores=cores)
    return Estimator(pipeline, Profile(pipeline=pipeline.name, cpu=cpu, node=node))


def _line(slope: float, high: float) -> dict[str, Any]:
    model = Proportional(per_unit=slope)
    return {"model": model, "low": 0.0, "high": high, "slope": slope, "error": 0.0, "samples": 9}


def flow_snapshot(
    now_s: float, pipeline: Pipeline, layout: Layout, rates_per_s: Mapping[str, float], **changes: Any
) -> Snapshot:
    """A snapshot after a minute of steady rates, on nodes of four cores, without queues or actions under way."""
    windows = Windows()
    for k in range(7):
        at_s = now_s - 60.0 + 10.0 * k
        windows.add(Reading(at_s, name, Metric.ARRIVAL_RATE, rate) for name, rate in rates_per_s.items())
        windows.add(Reading(at_s, name, Metric.INSTANCE_CPU, 0.5) for name in pipeline.order)
    usual: dict[str, Any] = {
        "now_s": now_s,
        "pipeline": pipeline,
        "planned": layout,
        "requested": layout,
        "observed": layout,
        "windows": windows,
        "batches": (),
        "under_way": (),
        "limits": Limits(min_nodes=1, max_nodes=20),
        "slo": Slo(freshness_s=30.0),
        "slots_per_node": 4,
        "lead_time_s": 0.0,
        "data_age_s": 0.0,
        "queries": dict.fromkeys(rates_per_s),
    }
    return Snapshot(**{**usual, **changes})
