"""The two operators as Spark runs them on executors: ``machine`` with its state, then ``cluster``.

The machine operator keeps the state of ``machine.py`` per bucket. The cluster operator computes total, mean and
quantiles of each quantity over all machines of a report. It has one instance, as in the thesis, because it needs every
machine of a report. It needs no state, because the mark that completes a report reaches every bucket in the same batch.

Reports travel as columns from the source to the sink, many in one row (``machine.Columns``); so do events, unless the
source sends rows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ebbflow.papers.rules.google_cluster.events import (
    REPORT_US,
    REQUESTS,
    UNITS,
    Ints,
    in_units,
    reports_until,
)
from ebbflow.papers.rules.google_cluster.machine import QUANTITIES, Events, MachineState, Reports
from ebbflow.papers.rules.google_cluster.source import MARK, PACKED, column_names
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
PERCENTS = {"median": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99}
STATISTICS = ("total", "mean", *PERCENTS)
CLUSTER_COLUMNS = tuple(f"{quantity}_{statistic}" for quantity in QUANTITIES for statistic in STATISTICS)
"""``tasks_total``, ``tasks_mean``, … ``disk_p99``."""
_MAX_ROWS = 200_000
"""Machine rows in one value."""
_ended_s: dict[int, float] = {}
"""When the task in this Python worker finished its last bucket, by the worker's CPU clock."""


def machine_step(key: Any, frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Process one bucket of a batch: update its state, return complete reports, and pass on notes."""
    import pandas as pd
    from pyspark import TaskContext

    del key
    # Spark's worker concatenates empty frames, and pandas warns about it in every batch.
    warnings.filterwarnings("ignore", "The behavior of DataFrame concatenation", FutureWarning)
    context: Any = TaskContext.get()
    attempt = 0 if context is None else context.taskAttemptId()
    # Measure from the end of the task's last bucket: the worker's own time between two belongs to the instance.
    began_s = _ended_s.get(attempt, time.process_time())
    received = list(frames)
    event, time_us, notes = (_column(received, name) for name in ("event", "time_us", "note"))
    events = _events(received, event)
    marks = time_us[event == MARK]
    before = MachineState.from_bytes(state.get[0]) if state.exists else MachineState()
    complete = reports_until(int(marks.max())) if len(marks) else None
    after, reports = before.advance(events, complete)
    if len(events) or complete is not None:
        state.update((after.to_bytes(),))
    rows: list[tuple[Any, ...]] = []
    for first in range(0, len(reports), _MAX_ROWS):
        piece = reports.take(slice(first, first + _MAX_ROWS))
        rows.append((MACHINE_ROWS, piece.to_bytes(), None, *IS_RESULT))
    for kind, note in zip(event[event < MARK], notes[event < MARK], strict=True):
        rows.append((int(kind), None, note, *IS_RESULT))
    ended_s = time.process_time()
    _ended_s.clear()
    _ended_s[attempt] = ended_s
    measured = measures(rows_in=len(events), rows_out=len(reports), cpu_s=ended_s - began_s)
    rows.append((MACHINE_ROWS, None, None, *measured))
    yield pd.DataFrame(rows, columns=column_names(MACHINE_OUT))


def _events(frames: list[pd.DataFrame], event: npt.NDArray[np.int64]) -> Events:
    """Return the events of a bucket, whether they arrive as columns or as rows."""
    if "events" in frames[0]:
        return Events.from_bytes(*_column(frames, "events")[event == PACKED])
    is_event = event > MARK
    columns = {each.name: _column(frames, each.name)[is_event] for each in fields(Events)}
    requests = {name: in_units(columns[name]) for name in REQUESTS}
    return Events(**columns | requests | {"event": columns["event"].astype(np.int64)})


def _column(frames: list[pd.DataFrame], name: str) -> npt.NDArray[Any]:
    return np.concatenate([frame[name].to_numpy() for frame in frames])


def cluster_step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass on the machines of the reports that a batch completes, and add the rows of the cluster."""
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
    for first in range(0, len(order), _MAX_ROWS):
        piece = reports.take(order[first : first + _MAX_ROWS]).to_bytes()
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


@dataclass(frozen=True, kw_only=True)
class ClusterReport:
    """The cluster at one report; ``values`` in the order of ``CLUSTER_COLUMNS``."""

    report: int
    machines: int
    values: tuple[float, ...]


def cluster_reports(rows: Reports) -> Iterator[ClusterReport]:
    """Return one row per report, earliest first."""
    order = np.argsort(rows.report, kind="stable")
    report = rows.report[order]
    edges = np.flatnonzero(np.diff(report)) + 1
    for first, end in pairwise((0, *edges.tolist(), len(report))):
        if end == first:
            return
        chosen = order[first:end]
        values: list[float] = []
        for name in QUANTITIES:
            values += over_machines(getattr(rows, name)[chosen], 1 if name == "tasks" else UNITS)
        yield ClusterReport(report=int(report[first]), machines=end - first, values=tuple(values))


def over_machines(values: Ints, units: int) -> tuple[float, ...]:
    """Return total, mean and quantiles."""
    ordered = np.sort(values)
    # In two halves: the sum over all machines may not fit into 64 bits.
    total = (int((ordered >> 32).sum()) << 32) + int((ordered & 0xFFFFFFFF).sum())
    quantiles = (quantile(ordered, percent, units) for percent in PERCENTS.values())
    return (total / units, total / (units * len(ordered)), *quantiles)


def quantile(ordered: Ints, percent: int, units: int) -> float:
    """Return a quantile of sorted whole numbers, divided by ``units``.

    The quantile of p percent of x_0 ≤ … ≤ x_{n−1} is x_i + f·(x_{i+1} − x_i) with i + f = p/100 · (n − 1), computed in
    whole numbers up to one division at the end, so that every machine gets the same bits.

    >>> quantile(np.array([1, 2, 3, 10]), 75, 1), quantile(np.array([5]), 99, 10)
    (4.75, 0.5)
    """
    whole, rest = divmod(percent * (len(ordered) - 1), 100)
    low = int(ordered[whole])
    high = int(ordered[min(whole + 1, len(ordered) - 1)])
    return (low * (100 - rest) + high * rest) / (100 * units)
