"""Vertices as Flink's autoscaler and DS2 define them: rate, busy fraction and parallelism over a window of work.

    true rate = rate / busy fraction,      demand(B) = Σ over streams (A, B) of demand(A) · ratio(A, B)

A micro-batch target is one vertex: the tasks of every stage use all its slots in turn, so its parallelism is the number
of slots and its busy fraction the share of their time. On a continuous target every operator with readings is one. It
is busy while it has rows in hand, whether on a core or waiting for one (CPU time if only that is measured). The ratio
of a stream is rows out ÷ rows in of its operator, if measured and only one stream leaves it; else the selectivity that
the pipeline declares.

In both systems a slot runs one instance of every operator (slot sharing) or of one. A layout with more instances than
slots cannot be deployed there. So they first reduce it to the available slots, or to one instance of each operator and
the slots for them (``deployable``). After that an operator that is not resized asks for no more slots than there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ebbflow.core.layout import Layout
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.signals import Work
from ebbflow.core.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True)
class Vertex:
    """Means over a window."""

    name: str
    parallelism: int
    rate_per_s: float
    busy: float | None
    ratio: float | None = None
    """Rows out per row in."""

    @property
    def true_rate_per_s(self) -> float | None:
        """Rows per second if it were busy all the time; ∞ if it never was; None if unknown."""
        if self.busy is None:
            return None
        return self.rate_per_s / self.busy if self.busy > 0 else math.inf


def vertices(works: Iterable[Work], snapshot: Snapshot, *, micro_batch: bool) -> dict[str, Vertex]:
    """The vertices of a window of work."""
    by_name: dict[str, list[Work]] = {}
    for work in works:
        by_name.setdefault(work.vertex, []).append(work)
    parts = {
        name: _mean(name, own, snapshot.planned.parallelism.get(name) or round(own[-1].slots))
        for name, own in by_name.items()
    }
    if not micro_batch or not parts:
        return parts
    shares = [part.busy for part in parts.values()]
    known = [share for share in shares if share is not None]
    name = snapshot.pipeline.name
    whole = Vertex(
        name=name,
        parallelism=snapshot.slots,
        rate_per_s=sum(part.rate_per_s for part in parts.values()),
        busy=sum(known) if len(known) == len(shares) else None,
    )
    return {name: whole}


def demands(pipeline: Pipeline, found: Mapping[str, Vertex], source_demand_per_s: float) -> dict[str, float]:
    """Rows per second that each vertex should process. Sources share the demand as they share the present rate."""
    if pipeline.name in found:
        return {pipeline.name: source_demand_per_s}
    sources = [name for name in pipeline.sources if name in found]
    total = sum(found[name].rate_per_s for name in sources)
    demand = dict.fromkeys(pipeline.order, 0.0)
    for name in sources:
        share = found[name].rate_per_s / total if total > 0 else 1 / len(sources)
        demand[name] = source_demand_per_s * share
    for name in pipeline.order:
        leaving = [stream for stream in pipeline.streams if stream.source == name]
        for stream in leaving:
            measured = found[name].ratio if name in found and len(leaving) == 1 else None
            demand[stream.target] += demand[name] * (stream.selectivity if measured is None else measured)
    return demand


def layout_for(
    parallelism: Mapping[str, int], snapshot: Snapshot, *, slot_sharing: bool
) -> tuple[int, Layout]:
    """The nodes whose slots hold these instances, and the layout with these sizes.

    With slot sharing the largest operator counts, else the sum. If the limits allow fewer slots, Flink runs with those
    it gets.
    """
    planned = snapshot.planned
    most = max(1, snapshot.limits.max_nodes * snapshot.slots_per_node)
    capped = {name: min(wanted, most) if slot_sharing else wanted for name, wanted in parallelism.items()}
    sized = {name: capped.get(name, old) for name, old in planned.parallelism.items()}
    apart = not slot_sharing and any(name in planned.parallelism for name in parallelism)
    slots = sum(parallelism.values()) if apart else max(parallelism.values())
    nodes = max(1, math.ceil(slots / snapshot.slots_per_node))
    return nodes, Layout(nodes=planned.nodes, parallelism=sized, placement=planned.placement)


def deployable(snapshot: Snapshot, *, slot_sharing: bool) -> Layout | None:
    """The layout with no more instances than slots; None if the planned one has no more.

    Without slot sharing the operators get equal shares of the slots, at least one each.
    """
    planned = snapshot.planned
    first = planned.parallelism
    if not first:
        return None
    slots = max(1, planned.main_nodes * snapshot.slots_per_node)
    each = slots if slot_sharing else max(1, slots // len(first))
    if (max(first.values()) if slot_sharing else sum(first.values())) <= slots:
        return None
    fewer = {name: min(instances, each) for name, instances in first.items()}
    nodes, layout = layout_for(fewer, snapshot, slot_sharing=slot_sharing)
    return layout.with_nodes(max(nodes, planned.main_nodes))


def readable(rate_per_s: float) -> float | str:
    """A rate for the ledger, which has no infinity."""
    return round(rate_per_s, 3) if math.isfinite(rate_per_s) else "unbounded"


def _mean(name: str, works: list[Work], parallelism: int) -> Vertex:
    span_s = sum(work.span_s for work in works)
    rows = sum(work.rows for work in works)
    used_s = [work.busy_s if work.in_hand_s is None else work.in_hand_s for work in works]
    busy_s = [seconds for seconds in used_s if seconds is not None]
    available_s = sum(work.slots * work.span_s for work in works)
    out = [work.rows_out for work in works if work.rows_out is not None]
    return Vertex(
        name=name,
        parallelism=max(1, parallelism),
        rate_per_s=rows / span_s,
        busy=sum(busy_s) / available_s if len(busy_s) == len(works) else None,
        ratio=sum(out) / rows if rows > 0 and len(out) == len(works) else None,
    )
