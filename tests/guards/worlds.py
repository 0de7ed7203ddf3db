"""Snapshots for tests of guards; each test changes the fields it is about."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ebbflow.core.decision import Decision
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import Snapshot

NOW_S = 1000.0


def world(nodes: int = 4, **changes: Any) -> Snapshot:
    """A pipeline without backlog on ``nodes`` nodes, limits 1:100, objective 30 s."""
    snapshot = Snapshot(
        now_s=NOW_S,
        pipeline=Pipeline.chain("words", "read", "count"),
        planned=Layout.of(nodes),
        requested=Layout.of(nodes),
        observed=Layout.of(nodes),
        windows=Windows(),
        batches=(),
        under_way=(),
        limits=Limits(min_nodes=1, max_nodes=100),
        slo=Slo(freshness_s=30.0),
        slots_per_node=2,
        lead_time_s=15.0,
        data_age_s=0.0,
    )
    return replace(snapshot, **changes)


def measured(**values: float) -> Windows:
    """Windows in which the pipeline's metrics were read just now: ``measured(backlog=5)``."""
    windows = Windows()
    windows.add(Reading(NOW_S, "words", Metric[name.upper()], value) for name, value in values.items())
    return windows


def wish(nodes: int, **parallelism: int) -> Decision:
    """A decision for a number of nodes."""
    return Decision(wanted=Layout.of(nodes, **parallelism), reason="wanted", inputs={"rate_per_s": 1.0})


def names(decision: Decision) -> list[str]:
    """The names of its constraints, in order."""
    return [constraint.name for constraint in decision.bound_by]
