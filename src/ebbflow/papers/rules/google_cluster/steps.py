"""What runs on executors: the machine operator around its state, and the cluster operator around its arrays.

From the source to the sink reports travel as columns, many in one row (``machine.Columns``); so do events, unless the
source is asked for rows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ebbflow.papers.rules.google_cluster.cluster import cluster_reports
from ebbflow.papers.rules.google_cluster.events import REPORT_US, reports_until
from ebbflow.papers.rules.google_cluster.machine import Events, MachineState, Reports, in_units
from ebbflow.papers.rules.google_cluster.source_rows import MARK, PACKED, names
from ebbflow.targets.spark.operators.keyed_step import IS_RESULT, MEASURES, measures

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
    event, time_us, notes = (_column(came, name) for name in ("event", "time_us", "note"))
    events = _events(came, event)
    marks = time_us[event == MARK]
    before = MachineState.from_bytes(state.get[0]) if state.exists else MachineState()
    reports = reports_until(int(marks.max())) if len(marks) else None
    after, told = before.advance(events, reports)
    if len(events) or reports is not None:
        state.update((after.to_bytes(),))
    rows: list[tuple[Any, ...]] = []
    for first in range(0, len(told), _MOST_ROWS):
        piece = told.take(slice(first, first + _MOST_ROWS))
        rows.append((MACHINE_ROWS, piece.to_bytes(), None, *IS_RESULT))
    for kind, note in zip(event[event < MARK], notes[event < MARK], strict=True):
        rows.append((int(kind), None, note, *IS_RESULT))
    ended_s = time.process_time()
    _ended_s.clear()
    _ended_s[attempt] = ended_s
    took = measures(rows_in=len(events), rows_out=len(told), cpu_s=ended_s - began_s)
    rows.append((MACHINE_ROWS, None, None, *took))
    yield pd.DataFrame(rows, columns=names(MACHINE_OUT))


def _events(frames: list[pd.DataFrame], event: npt.NDArray[np.int64]) -> Events:
    """The events of a bucket, whether they come as columns or as rows."""
    if "events" in frames[0]:
        return Events.from_bytes(*_column(frames, "events")[event == PACKED])
    is_event = event > MARK
    columns = {each.name: _column(frames, each.name)[is_event] for each in fields(Events)}
    requests = {name: in_units(columns[name]) for name in ("cpu", "memory", "disk")}
    return Events(**columns | requests | {"event": columns["event"].astype(np.int64)})


def _column(frames: list[pd.DataFrame], name: str) -> npt.NDArray[Any]:
    return np.concatenate([frame[name].to_numpy() for frame in frames])


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
