"""Decodes the progress of a streaming query, and counts rows from offsets.

The form of offsets depends on the source: a number (socket, rate), a number for each partition (Kafka), a document
(ours). In all of them the numbers grow with the rows. So the distance between two offsets is the sum of the
differences of their numbers, and each batch reports how many rows a unit of distance is worth:
``numInputRows / distance(startOffset, endOffset)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from ebbflow.core.batches import OperatorRun

OBSERVED = "ebbflow:"
"""Prefix of the counts of ``operator()``: ``ebbflow:<name>:in`` and ``:out`` are marks in the plan, ``:both`` is an
observed metric."""
MEASURES = "measures"
"""Observed metric of a Python step: rows in, rows out and CPU seconds of one instance, then those of the next."""


class SourceProgress(msgspec.Struct, frozen=True, rename="camel"):
    """One source's part of a batch."""

    description: str = ""
    start_offset: Any = None
    end_offset: Any = None
    latest_offset: Any = None
    num_input_rows: int = 0


class StateProgress(msgspec.Struct, frozen=True, rename="camel"):
    """The state of one stateful operator."""

    num_rows_total: int = 0
    memory_used_bytes: int = 0
    num_shuffle_partitions: int = 0


class Progress(msgspec.Struct, frozen=True, rename="camel"):
    """The progress of one batch."""

    id: str
    run_id: str
    batch_id: int
    timestamp: str
    num_input_rows: int
    name: str | None = None
    batch_duration: int = 0
    duration_ms: dict[str, int] = {}
    sources: list[SourceProgress] = []
    state_operators: list[StateProgress] = []
    observed_metrics: dict[str, dict[str, Any]] = {}

    @property
    def query(self) -> str:
        """Name of the query, or the start of its id if it has none."""
        return self.name or self.id[:8]

    @property
    def started_s(self) -> float:
        """When the trigger fired."""
        return datetime.fromisoformat(self.timestamp).timestamp()

    @property
    def duration_s(self) -> float:
        """From the trigger to the commit."""
        return self.duration_ms.get("triggerExecution", self.batch_duration) / 1000


def distance(start: Any, end: Any) -> float:
    """Sum of the differences of all numbers in two offsets; a number missing in one counts as 0.

    >>> distance({"t": {"0": 5, "1": 7}}, {"t": {"0": 9, "1": 7, "2": 3}})
    7.0
    >>> distance(None, 12)
    12.0
    >>> distance(None, '{"startMs": "1794777451135", "row": 7}')  # strings inside are names, not counts
    7.0
    """
    return _total(_document(end)) - _total(_document(start))


def _document(offset: Any) -> Any:
    """Some sources report their offset as a JSON string."""
    try:
        return msgspec.json.decode(offset) if isinstance(offset, str) else offset
    except msgspec.DecodeError:
        return None


def _total(offset: Any) -> float:
    if isinstance(offset, bool):
        return 0.0
    if isinstance(offset, int | float):
        return float(offset)
    if isinstance(offset, dict):
        return sum(_total(value) for value in offset.values())
    if isinstance(offset, list):
        return sum(_total(value) for value in offset)
    return 0.0


def rows_left_behind(progress: Progress) -> float | None:
    """Rows that were at the sources when the batch started and that it did not take.

    None if any source does not report its latest offset. A unit of distance counts as one row for a source without rows
    in this batch, and in the first batch of a query: that has no start offset, and offsets of an old topic do not begin
    at 0.

    >>> source = SourceProgress(start_offset=0, end_offset=100, latest_offset=250, num_input_rows=1000)
    >>> rows_left_behind(Progress("i", "r", 1, "2026-01-01T00:00:00Z", 1000, sources=[source]))
    1500.0
    >>> end, latest = {"t": {"0": 3_901_000}}, {"t": {"0": 3_905_000}}
    >>> old = SourceProgress(end_offset=end, latest_offset=latest, num_input_rows=1000)
    >>> rows_left_behind(Progress("i", "r", 0, "2026-01-01T00:00:00Z", 1000, sources=[old]))
    4000.0
    """
    if not progress.sources or any(_document(source.latest_offset) is None for source in progress.sources):
        return None
    left = 0.0
    for source in progress.sources:
        if _document(source.end_offset) is None:
            continue  # nothing was read yet, so where it will begin is not known
        begun = _document(source.start_offset) is not None
        taken = distance(source.start_offset, source.end_offset) if begun else 0.0
        rows_per_unit = source.num_input_rows / taken if taken > 0 and source.num_input_rows else 1.0
        left += max(0.0, distance(source.end_offset, source.latest_offset)) * rows_per_unit
    return left


def operator_runs(
    progress: Progress,
    marked_rows: Mapping[str, int],
    stage_cpu_s: Callable[[int], float | None] = lambda _: None,
) -> tuple[OperatorRun, ...]:
    """Rows and CPU of the named operators, from the batch's observed metrics and the marks in its plan.

    An operator that was counted on one side only is left out. An operator that reports its stage is the whole of that
    stage: the CPU that the JVM spent there (``stage_cpu_s``) is added to its own, and without it its CPU is unknown.

    >>> p = Progress("i", "r", 1, "2026-01-01T00:00:00Z", 5, observed_metrics={
    ...     "ebbflow:look:both": {"measures": [30.0, 3.0, 0.125, 10.0, 1.0, 0.375]}})
    >>> runs = operator_runs(p, {"ebbflow:split:in": 5, "ebbflow:split:out": 40, "ebbflow:half:in": 7})
    >>> [(run.name, run.rows_in, run.rows_out, run.cpu_s, run.busiest_instance_cpu_s) for run in runs]
    [('look', 40, 4, 0.5, 0.375), ('split', 5, 40, None, None)]
    """
    counts: dict[str, dict[str, Any]] = {}
    for key, values in progress.observed_metrics.items():
        if key.startswith(OBSERVED) and key.endswith(":both"):
            counts[key.removeprefix(OBSERVED).removesuffix(":both")] = _summed(values)
    for mark, rows in marked_rows.items():
        name, side = mark.removeprefix(OBSERVED).split(":")
        counts.setdefault(name, {})[f"rows_{side}"] = rows
    return tuple(
        _run(name, values, stage_cpu_s)
        for name, values in counts.items()
        if values.keys() >= {"rows_in", "rows_out"}
    )


def _summed(observed: Mapping[str, Any]) -> dict[str, Any]:
    """Sums over the instances of a Python step. Spark appends the three measures of each task in order."""
    if MEASURES not in observed:
        return dict(observed)
    measures = observed[MEASURES]
    rows_in, rows_out, cpu_s = measures[0::3], measures[1::3], measures[2::3]
    return {
        "rows_in": sum(rows_in),
        "rows_out": sum(rows_out),
        "cpu_s": sum(cpu_s),
        "busiest_cpu_s": max(cpu_s, default=0.0),
        "instances": len(cpu_s),
    }


def _run(name: str, counted: dict[str, Any], stage_cpu_s: Callable[[int], float | None]) -> OperatorRun:
    counts = {side: int(counted[side] or 0) for side in ("rows_in", "rows_out")}
    if counted.get("instances") is None:
        return OperatorRun(name=name, **counts)
    instances, stage = int(counted["instances"]), counted.get("stage")
    in_jvm_s = 0.0 if stage is None else stage_cpu_s(int(stage))
    if in_jvm_s is None:
        return OperatorRun(name=name, instances=instances, **counts)
    return OperatorRun(
        name=name,
        cpu_s=float(counted.get("cpu_s") or 0.0) + in_jvm_s,
        busiest_instance_cpu_s=float(counted.get("busiest_cpu_s") or 0.0) + in_jvm_s / max(1, instances),
        instances=instances,
        **counts,
    )
