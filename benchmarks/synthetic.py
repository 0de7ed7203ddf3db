"""Synthetic snapshots and observations of any size, for measurements without Spark."""

from __future__ import annotations

from ebbflow.core.batches import Batch, OperatorRun, StageRun
from ebbflow.core.decision import Outcome
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Operator, Pipeline
from ebbflow.core.ports import Observation
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import Snapshot


def pipeline(operators: int) -> Pipeline:
    return Pipeline(name="bench", operators=tuple(Operator(name=f"op-{i}") for i in range(operators)))


def batch(number: int, *, stages: int, slots: int, rate_per_s: float = 1000.0) -> Batch:
    """A batch of 5 s of rows, of varying size, so that its costs can be separated."""
    rows = int(rate_per_s * 5 * (1 + 0.2 * (number % 5)))
    runs = []
    for index in range(stages):
        tasks = 4 + (index * 37) % 997
        task_time_s = tasks * 0.02 + rows * 0.0005
        runs.append(
            StageRun(
                index=index,
                tasks=tasks,
                task_time_s=task_time_s,
                cpu_time_s=task_time_s / 2,
                wall_s=task_time_s / slots,
                longest_task_s=1.2 * task_time_s / tasks,
            )
        )
    return Batch(
        query="q",
        batch_id=number,
        started_s=5.0 * number,
        duration_s=3.0,
        rows=rows,
        slots=slots,
        trigger_interval_s=5.0,
        arrival_rate_per_s=rows / 5,
        backlog_rows=0.0,
        oldest_arrival_s=5.0 * number - 5,
        stages=tuple(runs),
        operators=tuple(OperatorRun(name=f"op-{i}", rows_in=rows, rows_out=rows) for i in range(stages)),
    )


def snapshot(number: int, *, stages: int, nodes: int, windows: Windows, max_nodes: int) -> Snapshot:
    layout = Layout.of(nodes)
    return Snapshot(
        now_s=5.0 * number + 3.5,
        pipeline=pipeline(stages),
        planned=layout,
        requested=layout,
        observed=layout,
        windows=windows,
        batches=(batch(number, stages=stages, slots=nodes),),
        under_way=(),
        limits=Limits(min_nodes=1, max_nodes=max_nodes),
        slo=Slo(freshness_s=30.0, quantile=0.95),
        slots_per_node=1,
        lead_time_s=15.0,
        data_age_s=0.0,
        queries={"q": None},
    )


class SteadyTarget:
    """A target with ten operators and eight nodes, a batch every five observations, and instant changes."""

    def __init__(self, clock: object, *, operators: int = 10, nodes: int = 8) -> None:
        self._clock = clock
        self._operators = operators
        self._nodes = nodes
        self._looks = 0
        self._pipeline = pipeline(operators)

    def observe(self) -> Observation:
        now_s = self._clock.now_s()  # type: ignore[attr-defined]
        self._looks += 1
        readings = [Reading(now_s, MAIN, Metric.NODES, float(self._nodes))]
        for node in range(self._nodes):
            readings.append(Reading(now_s, f"executor-{node}", Metric.ACTIVE_TASKS, 1.0))
            readings.append(Reading(now_s, f"executor-{node}", Metric.TASK_TIME, now_s))
        batches = []
        if self._looks % 5 == 0:
            batches.append(batch(self._looks // 5, stages=4, slots=self._nodes))
            for name in range(self._operators):
                readings.append(Reading(now_s, f"op-{name}", Metric.ROWS_IN, 5000.0))
                readings.append(Reading(now_s, f"op-{name}", Metric.ROWS_OUT, 5000.0))
        return Observation(
            time_s=now_s,
            pipeline=self._pipeline,
            layout=Layout.of(self._nodes),
            requested=Layout.of(self._nodes),
            slots_per_node=1,
            lead_time_s=15.0,
            readings=readings,
            batches=batches,
            queries={"q": None},
        )

    def apply(self, planned: Layout) -> Outcome:
        self._nodes = planned.main_nodes
        return Outcome(requested=planned)

    def close(self) -> None:
        """Nothing to close."""
