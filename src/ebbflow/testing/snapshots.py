"""Snapshots for tests of strategies and guards: calm defaults, and each test states the numbers it is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ebbflow.core.batches import Batch, StageRun
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import Snapshot


def make_stage(tasks: int, task_time_s: float, wall_s: float = 1.0, index: int = 0) -> StageRun:
    """A stage with this many slot-seconds of work."""
    return StageRun(
        index=index,
        tasks=tasks,
        task_time_s=task_time_s,
        cpu_time_s=task_time_s,
        wall_s=wall_s,
        longest_task_s=task_time_s / tasks,
    )


def make_batch(
    ended_s: float, duration_s: float, *stages: StageRun, rows: int = 1000, **changes: Any
) -> Batch:
    """A batch of a query with a trigger of 10 s."""
    defaults: dict[str, Any] = {
        "query": "q",
        "batch_id": round(ended_s),
        "started_s": ended_s - duration_s,
        "duration_s": duration_s,
        "rows": rows,
        "slots": 4,
        "trigger_interval_s": 10.0,
        "arrival_rate_per_s": rows / 10,
        "backlog_rows": 0.0,
        "oldest_arrival_s": ended_s - duration_s - 10,
        "stages": stages,
    }
    return Batch(**{**defaults, **changes})


def make_snapshot(now_s: float, nodes: int, batches: Sequence[Batch] = (), **changes: Any) -> Snapshot:
    """A snapshot; by default of nodes with one slot, limited to 1 to 50."""
    defaults: dict[str, Any] = {
        "now_s": now_s,
        "pipeline": Pipeline.chain("words", "read", "count"),
        "planned": Layout.of(nodes),
        "requested": Layout.of(nodes),
        "observed": Layout.of(nodes),
        "windows": Windows(3600.0),
        "batches": tuple(batches),
        "under_way": (),
        "limits": Limits(min_nodes=1, max_nodes=50),
        "slo": Slo(freshness_s=30.0),
        "slots_per_node": 1,
        "lead_time_s": 12.0,
        "data_age_s": 0.0,
        "queries": {"q": now_s},
    }
    return Snapshot(**{**defaults, **changes})


class OperatorReadings:
    """A continuous target: readings of operators and of the source."""

    def __init__(self) -> None:
        self.windows = Windows(3600.0)

    def read(
        self,
        now_s: float,
        *,
        rate_per_s: float,
        lag_rows: float,
        **operators: tuple[float, float, float, float],
    ) -> None:
        """Add readings. Each operator: rows in, rows out, busy seconds (all since the last reading), instances."""
        metrics = (Metric.ROWS_IN, Metric.ROWS_OUT, Metric.OPERATOR_CPU, Metric.INSTANCES)
        readings = [
            Reading(now_s, name, metric, float(value))
            for name, values in operators.items()
            for metric, value in zip(metrics, values, strict=True)
        ]
        readings.append(Reading(now_s, "words", Metric.ARRIVAL_RATE, rate_per_s))
        readings.append(Reading(now_s, "words", Metric.QUEUE_LENGTH, lag_rows))
        self.windows.add(readings)

    def snapshot(self, now_s: float, layout: Layout, **changes: Any) -> Snapshot:
        """A snapshot with these readings."""
        layouts = {"planned": layout, "requested": layout, "observed": layout}
        return make_snapshot(
            now_s, layout.main_nodes, windows=self.windows, **{**layouts, "queries": {}, **changes}
        )
