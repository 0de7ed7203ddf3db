"""What runs on executors: the machine operator around its state, and the cluster operator around its arrays."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from ebbflow.pipelines.google_cluster.cluster import cluster_reports
from ebbflow.pipelines.google_cluster.machine import Events, MachineState, Reports, in_units
from ebbflow.pipelines.google_cluster.source import COUNTED, MARK, REJECTED
from ebbflow.targets.spark.keyed_step import MEASURES
from ebbflow.workloads.google_cluster.events import REPORT_US, UNITS, reports_until

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql.streaming.state import GroupState

MACHINE_ROW, CLUSTER_ROW = 0, 1
"""Kinds of rows that reach the sink, beside REJECTED and COUNTED of the source."""
MACHINE_STATE = "machines binary"
_TOLD = "kind int, report long, machine long, tasks long, cpu long, memory long, disk long, note string"
MACHINE_OUT = f"{_TOLD}, {MEASURES}"
CLUSTER_OUT = (
    "kind int, trace_s long, machine long, tasks long, cpu double, memory double, disk double, "
    "over_machines array<double>, note string"
)
_EVENT_COLUMNS = tuple(each.name for each in fields(Events))
_REPORT_COLUMNS = tuple(each.name for each in fields(Reports))


def machine_step(key: Any, frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """The rows of one bucket in a batch: state moved on, reports told, notes passed on."""
    import pandas as pd
    from pyspark import TaskContext

    del key
    began_s = time.process_time()
    came = list(frames)
    columns = {
        name: np.concatenate([frame[name].to_numpy() for frame in came]) for name in (*_EVENT_COLUMNS, "note")
    }
    event = columns["event"]
    is_event = event >= 0
    marks = columns["time_us"][event == MARK]
    chosen = {name: columns[name][is_event] for name in _EVENT_COLUMNS}
    requests = {name: in_units(chosen.pop(name)) for name in ("cpu", "memory", "disk")}
    before = MachineState.from_bytes(state.get[0]) if state.exists else MachineState()
    reports = reports_until(int(marks.max())) if len(marks) else None
    after, told = before.advance(Events(**chosen, **requests), reports)
    if len(chosen["event"]) or reports is not None:
        state.update((after.to_bytes(),))
    noted = (event == REJECTED) | (event == COUNTED)
    size, notes = len(told.report), int(noted.sum())
    rows = size + notes + 1
    out: dict[str, Any] = {name: _padded(getattr(told, name), rows) for name in _REPORT_COLUMNS}
    out["kind"] = np.zeros(rows, np.int32)
    out["kind"][size:-1] = event[noted]
    out["note"] = np.full(rows, None, object)
    out["note"][size:-1] = columns["note"][noted]
    out["instance"] = np.full(rows, -1, np.int32)
    context: Any = TaskContext.get()
    out["instance"][-1] = context.partitionId() if context is not None else 0
    out["rows_in"] = _padded(np.empty(0, np.int64), rows)
    out["rows_in"][-1] = int(is_event.sum())
    out["cpu_s"] = np.zeros(rows)
    out["cpu_s"][-1] = time.process_time() - began_s
    yield pd.DataFrame({name: out[name] for name in _names(MACHINE_OUT)})


def cluster_step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All machines of the reports that a batch completes: passed on, with what they say of the cluster."""
    import pyarrow as pa

    table = pa.Table.from_batches(list(batches)) if (batches := _nonempty(batches)) else None
    if table is None:
        return
    kind = table.column("kind").to_numpy()
    rows = table.filter(pa.array(kind == MACHINE_ROW)).select(_REPORT_COLUMNS)
    reports = Reports(**{name: rows.column(name).to_numpy() for name in _REPORT_COLUMNS})
    yield from _machine_rows(reports)
    for each in cluster_reports(reports):
        yield _row(
            kind=CLUSTER_ROW,
            trace_s=each.report * REPORT_US // 1_000_000,
            machine=each.machines,
            over_machines=list(each.values),
        )
    notes = table.filter(pa.array(kind != MACHINE_ROW))
    for other, note in zip(notes.column("kind").to_pylist(), notes.column("note").to_pylist(), strict=True):
        yield _row(kind=other, note=note)


def _nonempty(batches: Iterable[pa.RecordBatch]) -> Any:
    return [batch for batch in batches if batch.num_rows]


def _machine_rows(reports: Reports) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    size = len(reports.report)
    if not size:
        return
    order = np.lexsort((reports.machine, reports.report))
    schema = cluster_schema()
    columns = [
        pa.array(np.zeros(size, np.int32)),
        pa.array(reports.report[order] * (REPORT_US // 1_000_000)),
        pa.array(reports.machine[order]),
        pa.array(reports.tasks[order]),
        *(pa.array(getattr(reports, name)[order] / UNITS) for name in ("cpu", "memory", "disk")),
        pa.nulls(size, schema.field("over_machines").type),
        pa.nulls(size, pa.string()),
    ]
    yield pa.RecordBatch.from_arrays(columns, schema.names)


def _row(**values: Any) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([values], cluster_schema())


def cluster_schema() -> pa.Schema:
    """``CLUSTER_OUT`` for Arrow."""
    import pyarrow as pa

    types = {"int": pa.int32(), "long": pa.int64(), "double": pa.float64(), "string": pa.string()}
    types["array<double>"] = pa.list_(pa.float64())
    return pa.schema([(name, types[kind]) for name, kind in (f.split() for f in CLUSTER_OUT.split(", "))])


def _padded(values: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    out = np.zeros(size, np.int64)
    out[: len(values)] = values
    return out


def _names(schema: str) -> list[str]:
    return [field.split()[0] for field in schema.split(", ")]
