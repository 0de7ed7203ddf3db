"""What runs on executors: the machine operator around its state, and the cluster operator around its arrays.

From the source to the sink events and reports travel as columns, many in one row (``machine.Columns``).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ebbflow.pipelines.google_cluster.cluster import cluster_reports
from ebbflow.pipelines.google_cluster.machine import Events, MachineState, Reports
from ebbflow.pipelines.google_cluster.source import MARK, PACKED, names
from ebbflow.targets.spark.keyed_step import MEASURES
from ebbflow.workloads.google_cluster.events import REPORT_US, reports_until

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql.streaming.state import GroupState

MACHINE_ROWS, CLUSTER_ROW = 0, 1
"""Kinds of rows that reach the sink, beside REJECTED and COUNTED of the source."""
MACHINE_STATE = "machines binary"
MACHINE_OUT = f"kind int, reports binary, note string, {MEASURES}"
CLUSTER_OUT = (
    "kind int, trace_s long, machines long, over_machines array<double>, reports binary, note string"
)
_MOST_ROWS = 200_000
"""Of machines in one value."""
_ended_s: dict[int, float] = {}
"""When the task that runs in this Python worker last ended a bucket, by the worker's CPU clock."""


def machine_step(key: Any, frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """The rows of one bucket in a batch: state moved on, reports told, notes passed on."""
    import pandas as pd
    from pyspark import TaskContext

    del key
    # Spark's worker adds empty frames to what it is given, and pandas tells it so at every batch.
    warnings.filterwarnings("ignore", "The behavior of DataFrame concatenation", FutureWarning)
    context: Any = TaskContext.get()
    attempt = 0 if context is None else context.taskAttemptId()
    # From the end of the task's last bucket: what Spark's worker does between two is the instance's work as well.
    began_s = _ended_s.get(attempt, time.process_time())
    came = list(frames)
    event, time_us, packed, notes = (
        np.concatenate([frame[name].to_numpy() for frame in came])
        for name in ("event", "time_us", "events", "note")
    )
    events = Events.from_bytes(*packed[event == PACKED])
    marks = time_us[event == MARK]
    before = MachineState.from_bytes(state.get[0]) if state.exists else MachineState()
    reports = reports_until(int(marks.max())) if len(marks) else None
    after, told = before.advance(events, reports)
    if len(events) or reports is not None:
        state.update((after.to_bytes(),))
    rows: list[tuple[Any, ...]] = []
    for first in range(0, len(told), _MOST_ROWS):
        piece = told.take(slice(first, first + _MOST_ROWS))
        rows.append((MACHINE_ROWS, piece.to_bytes(), None, 0, 0, 0.0, -1))
    for kind, note in zip(event[event < MARK], notes[event < MARK], strict=True):
        rows.append((int(kind), None, note, 0, 0, 0.0, -1))
    instance = 0 if context is None else context.partitionId()
    ended_s = time.process_time()
    _ended_s.clear()
    _ended_s[attempt] = ended_s
    rows.append((MACHINE_ROWS, None, None, len(events), len(told), ended_s - began_s, instance))
    yield pd.DataFrame(rows, columns=names(MACHINE_OUT))


def cluster_step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All machines of the reports that a batch completes: passed on, with what they say of the cluster."""
    pieces: list[bytes] = []
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("kind", "reports", "note"))
        for kind, piece, note in zip(*columns, strict=True):
            if kind == MACHINE_ROWS:
                pieces.append(piece)
            else:
                yield _row(kind=kind, note=note)
    reports = Reports.from_bytes(*pieces)
    order = np.lexsort((reports.machine, reports.report))
    for first in range(0, len(order), _MOST_ROWS):
        piece = reports.take(order[first : first + _MOST_ROWS]).to_bytes()
        yield _row(kind=MACHINE_ROWS, reports=piece)
    for each in cluster_reports(reports):
        yield _row(
            kind=CLUSTER_ROW,
            trace_s=each.report * (REPORT_US // 1_000_000),
            machines=each.machines,
            over_machines=list(each.values),
        )


def _row(**values: Any) -> pa.RecordBatch:
    import pyarrow as pa

    types = {"int": pa.int32(), "long": pa.int64(), "string": pa.string(), "binary": pa.binary()}
    types["array<double>"] = pa.list_(pa.float64())
    schema = pa.schema([(name, types[kind]) for name, kind in (f.split() for f in CLUSTER_OUT.split(", "))])
    return pa.RecordBatch.from_pylist([values], schema)
