"""Batches with known costs, and snapshots of their query."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ebbflow.core.batches import Batch, StageRun
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Windows
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import Snapshot


def made_batch(
    number: int, rate_per_s: float, tasks: Sequence[int], *, slots: int = 4, query: str = "q", **changes: Any
) -> Batch:
    """Batch ``number`` of a query with a trigger of 5 s: 50 ms a task and 10 ms a row in every stage."""
    rows = round(rate_per_s * 5)
    stages = tuple(
        StageRun(
            index=i,
            tasks=p,
            task_time_s=p * 0.05 + 0.01 * rows,
            cpu_time_s=0.0,
            wall_s=math.ceil(p / slots) * (0.05 + 0.01 * rows / p),
            longest_task_s=0.05 + 0.01 * rows / p,
        )
        for i, p in enumerate(tasks)
    )
    usual: dict[str, Any] = {
        "query": query,
        "batch_id": number,
        "started_s": 5.0 * number,
        "duration_s": 0.3 + sum(stage.wall_s for stage in stages),
        "rows": rows,
        "slots": slots,
        "trigger_interval_s": 5.0,
        "arrival_rate_per_s": rate_per_s,
        "backlog_rows": 0.0,
        "oldest_arrival_s": 5.0 * number - 5.0,
        "stages": stages,
    }
    return Batch(**{**usual, **changes})


def made_snapshot(batches: Sequence[Batch], *, nodes: int = 4, **changes: Any) -> Snapshot:
    """A snapshot just after the last of these batches."""
    usual: dict[str, Any] = {
        "now_s": max((batch.ended_s for batch in batches), default=0.0) + 0.1,
        "pipeline": Pipeline.chain("words", "read", "count"),
        "planned": Layout.of(nodes),
        "requested": Layout.of(nodes),
        "observed": Layout.of(nodes),
        "windows": Windows(),
        "batches": tuple(batches),
        "under_way": (),
        "limits": Limits(min_nodes=1, max_nodes=50),
        "slo": Slo(freshness_s=30.0),
        "slots_per_node": 1,
        "lead_time_s": 12.0,
        "data_age_s": 0.0,
        "queries": {batch.query: None for batch in batches},
    }
    return Snapshot(**{**usual, **changes})
