"""``spark.readStream.format("google-task-events")``: replays a folder of the trace, with the same rows after a restart.

::

    register(spark)
    events = (spark.readStream.format("google-task-events")
              .option("path", "task_events").option("speed", 1000).load())

==================  ========  ==========================================================================
option              default   meaning
==================  ========  ==========================================================================
path                required  a folder of parts (.csv, .csv.gz or .parquet, 13 columns), or one file
speed               max       trace seconds per second: 1 is real time; max: as fast as possible
maxPartsPerTrigger  none      read limit in files
maxTracePerTrigger  none      read limit in trace time: ``15m``, ``6h``
packed              false     the events of a part and bucket as columns in one row (``machine.Events``),
                              for a query that computes on columns and saves the cost of rows
==================  ========  ==========================================================================

Rows are events that name a machine, with the times of the trace. Events without a machine are dropped. A row with an
event below 0 is not an event; it has a ``bucket`` like all others:

==========  ========================================================================================
MARK        every event before ``time_us`` of all machines has been sent; one row per bucket, sent
            whenever a report is complete
REJECTED    an invalid row of the file; the note has its part, line, reason and text
COUNTED     what a batch read of a part; the note has events, without_machine and rejected
==========  ========================================================================================

An offset is a position in the folder (``folder.py``) and the time at which the replay began. Planning a batch needs no
row counts. An offset names the folder by a fingerprint: under the same checkpoint, another folder, or one that has
changed, is refused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from ebbflow.core.duration import parse_duration_s
from ebbflow.errors import InputError
from ebbflow.papers.rules.google_cluster.events import REQUESTS, START_US, Ints, in_units
from ebbflow.papers.rules.google_cluster.folder import Slice, TraceFolder, TracePart, TracePosition, read_part
from ebbflow.papers.rules.google_cluster.machine import Events

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

FORMAT = "google-task-events"
FOLDER = "folder"
"""Offset key of the folder's fingerprint."""
SCHEMA = (
    "bucket int, position long, time_us long, machine long, job long, task long, event int, "
    "cpu double, memory double, disk double, note string"
)
PACKED_SCHEMA = "bucket int, event int, time_us long, events binary, note string"
PACKED = 0
"""The event of a row that holds many events."""
MARK, REJECTED, COUNTED = -1, -2, -3
BUCKETS = 48
"""Divisible by 1, 2, 3, 4, 6, 8, 12 and 16 instances; with 12,000 machines, a bucket has 250."""
_ARROW_ROWS = 50_000
_PACKED_ROWS = 20_000
_PART_SHIFT = 40
"""A position has the part in its upper bits and the row of the part in its lower ones."""
_BALANCED_AMONG = (3, 5, 6, 7, 16)  # 16 includes 1, 2, 4 and 8
_HASH_SEED = 42


def register(spark: SparkSession) -> None:
    """Register the format in a session."""
    spark.dataSource.register(TaskEventSource)


class PartSlice(InputPartition):
    """What one task reads; the first task of a batch also sends the mark."""

    def __init__(self, piece: Slice, mark_us: int | None) -> None:
        super().__init__((piece, mark_us))
        self.piece = piece
        self.mark_us = mark_us


class TaskEventSource(DataSource):
    """The format ``google-task-events``."""

    @classmethod
    def name(cls) -> str:
        """Return the name that ``format()`` takes."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of events, and a note for other rows."""
        return PACKED_SCHEMA if self._packed() else SCHEMA

    def streamReader(self, schema: StructType) -> TaskEventReader:  # noqa: ARG002, N802
        """Return the reader of one query."""
        options = self.options
        if "path" not in options:
            raise InputError(f"format '{FORMAT}' needs .option('path', FOLDER) with task-event files")
        span = options.get("maxTracePerTrigger")
        return TaskEventReader(
            path=options["path"],
            speed=read_speed(options.get("speed", "max")),
            max_parts=_max_parts(options.get("maxPartsPerTrigger")),
            max_trace_us=None if span is None else round(parse_duration_s(span) * 1e6),
            packed=self._packed(),
        )

    def _packed(self) -> bool:
        text = self.options.get("packed", "false").lower()
        if text not in ("true", "false"):
            raise InputError(f"packed must be true or false, not '{text}'")
        return text == "true"


class TaskEventReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets from the folder and the clock, rows from the files."""

    def __init__(
        self,
        *,
        path: str,
        speed: float | None,
        max_parts: int | None,
        max_trace_us: int | None,
        packed: bool = False,
    ) -> None:
        self._path = path
        self._folder = TraceFolder(Path(path).resolve())
        self._speed = speed
        self._max_parts = max_parts
        self._max_trace_us = max_trace_us
        self._packed = packed
        self._newest: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the beginning of the folder and the current time."""
        return self._offset(self._folder.start, int(time.time() * 1000))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return no limit: ``latestOffset`` applies the limits of this source's options."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable

        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Do nothing: the folder does not grow."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        """Return what the replay has reached, within the limits of the options."""
        position, start_ms = self._position(start), int(start["startMs"])
        if self._speed is None:
            reached = self._folder.end
        else:
            elapsed_us = max(0.0, time.time() - start_ms / 1000) * 1e6 * self._speed
            reached = self._folder.at(START_US + int(elapsed_us))
        self._newest = self._offset(max(position, reached), start_ms)
        if self._max_parts is not None:
            reached = min(reached, self._folder.parts_on(position, self._max_parts))
        if self._max_trace_us is not None:
            from_us = max(position.time_us, START_US)
            reached = min(reached, self._folder.at(from_us + self._max_trace_us))
        return self._offset(max(position, reached), start_ms)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return what the replay had reached when the last batch was planned, without limits."""
        return self._newest

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[PartSlice]:
        """Return one task per part of the batch."""
        first, last = self._position(start), self._position(end)
        mark_us = last.time_us if last.reports > first.reports else None
        pieces = self._folder.slices(first, last)
        return [PartSlice(piece, mark_us if i == 0 else None) for i, piece in enumerate(pieces)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the events of a slice, then its marks, rejected rows and counts."""
        assert isinstance(partition, PartSlice)
        piece = partition.piece
        part = _part(piece).between(piece.from_us, piece.until_us)
        yield from (_packed_rows if self._packed else _event_rows)(part, piece.part)
        yield _other_rows(part, piece, partition.mark_us, PACKED_SCHEMA if self._packed else SCHEMA)

    def _offset(self, position: TracePosition, start_ms: int) -> dict[str, Any]:
        """Write only the time as a number, so that a backlog computed from offsets is in trace time."""
        return {
            "startMs": str(start_ms),
            "part": str(position.part),
            "us": position.time_us,
            FOLDER: self._folder.fingerprint,
        }

    def _position(self, offset: dict[str, Any]) -> TracePosition:
        if offset.get(FOLDER) != self._folder.fingerprint:
            raise folder_changed(self._path)
        return TracePosition(int(offset["part"]), int(offset["us"]))


def folder_changed(path: str) -> InputError:
    """Return the error for a folder that is not the one the checkpoint was started with."""
    return InputError(
        f"cannot resume: the run started with other parts than {path} has now (names, sizes or contents differ); "
        "restore that folder, or start again with a new output and checkpoint"
    )


def _part(piece: Slice) -> TracePart:
    """Read the part of a slice. Spark's Python workers outlive a query, and the file may have changed since."""
    try:
        file = Path(piece.path).stat()
    except OSError as error:
        raise InputError(f"cannot read {piece.path}: {error.strerror}") from None
    version = (file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns)
    return _cached_part(piece.path, version, piece.floor_us, piece.ceiling_us, piece.next_us)


@lru_cache(maxsize=1)
def _cached_part(
    path: str, version: tuple[int, ...], floor_us: int, ceiling_us: int, next_us: int | None
) -> TracePart:
    """Cache the part in the Python worker: a slow replay reads it in many small slices."""
    del version
    return read_part(Path(path), floor_us, ceiling_us, next_us)


def read_speed(text: str) -> float | None:
    """Return trace seconds per second, or None for as fast as possible.

    >>> read_speed("1000"), read_speed("x2.5"), read_speed("max")
    (1000.0, 2.5, None)
    """
    if text == "max":
        return None
    try:
        speed = float(text.removeprefix("x").removeprefix("×"))
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise InputError(f"speed '{text}' is not a factor above 0; use 1 for real time, 1000, or max")
    return speed


def _max_parts(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"maxPartsPerTrigger must be a whole number of at least 1, not '{text}'")
    return int(text)


# -- rows --------------------------------------------------------------------------------------------


def _event_rows(part: TracePart, number: int) -> Iterator[pa.RecordBatch]:
    """Return one row per event."""
    import pyarrow as pa

    for first in range(0, len(part.row), _ARROW_ROWS):
        cut = slice(first, first + _ARROW_ROWS)
        machine = part.machine[cut]
        columns = [
            pa.array(bucket_of(machine)),
            pa.array(part.row[cut] + (number << _PART_SHIFT)),
            *(pa.array(each[cut]) for each in (part.time_us, part.machine, part.job, part.task)),
            pa.array(part.event[cut].astype(np.int32)),
            *(pa.array(each[cut]) for each in (part.cpu, part.memory, part.disk)),
            pa.nulls(len(machine), pa.string()),
        ]
        yield pa.RecordBatch.from_arrays(columns, column_names(SCHEMA))


def _packed_rows(part: TracePart, number: int) -> Iterator[pa.RecordBatch]:
    """Return one row per bucket with the columns of its events."""
    import pyarrow as pa

    bucket = bucket_of(part.machine)
    order = np.argsort(bucket, kind="stable")
    events = Events(
        position=part.row + (number << _PART_SHIFT),
        **{name: getattr(part, name) for name in ("time_us", "machine", "job", "task", "event")},
        **{name: in_units(getattr(part, name)) for name in REQUESTS},
    ).take(order)
    bucket = bucket[order]
    edges = np.flatnonzero(np.diff(bucket)) + 1
    rows = []
    for first, end in pairwise((0, *edges.tolist(), len(bucket))):
        for cut in range(first, end, _PACKED_ROWS):
            piece = events.take(slice(cut, min(cut + _PACKED_ROWS, end)))
            rows.append((int(bucket[first]), PACKED, int(piece.time_us[0]), piece.to_bytes(), None))
    if rows:
        types = (pa.int32(), pa.int32(), pa.int64(), pa.binary(), pa.string())
        columns = [pa.array(c, t) for c, t in zip(zip(*rows, strict=True), types, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, column_names(PACKED_SCHEMA))


def _other_rows(part: TracePart, piece: Slice, mark_us: int | None, schema: str) -> pa.RecordBatch:
    """Return marks, rejected rows and counts."""
    import pyarrow as pa

    name = Path(piece.path).name
    rows: list[tuple[int, int, int, str | None]] = []
    if mark_us is not None:
        rows += [(int(label), MARK, mark_us, None) for label in bucket_labels()]
    own = int(bucket_of(np.array([piece.part]))[0])
    for bad in part.rejected:
        note = {"part": name, "line": bad.line, "reason": bad.reason, "text": bad.text}
        rows.append((own, REJECTED, bad.time_us, json.dumps(note)))
    counts = {
        "part": name,
        "from_us": piece.from_us,
        "events": len(part.row) + len(part.without_machine_us),
        "without_machine": len(part.without_machine_us),
        "rejected": len(part.rejected),
    }
    rows.append((own, COUNTED, piece.from_us, json.dumps(counts)))
    bucket, event, time_us, notes = zip(*rows, strict=True)
    filled = {
        "bucket": pa.array(bucket, pa.int32()),
        "event": pa.array(event, pa.int32()),
        "time_us": pa.array(time_us, pa.int64()),
        "events": pa.nulls(len(rows), pa.binary()),
        "note": pa.array(notes, pa.string()),
    }
    zero, zero_request = pa.array(np.zeros(len(rows), np.int64)), pa.array(np.zeros(len(rows)))
    columns = [filled.get(each, zero_request if each in REQUESTS else zero) for each in column_names(schema)]
    return pa.RecordBatch.from_arrays(columns, column_names(schema))


def column_names(schema: str) -> list[str]:
    """Return the columns of a schema as written here."""
    return [field.split()[0] for field in schema.split(", ")]


# -- buckets -----------------------------------------------------------------------------------------


def bucket_of(machine: Ints) -> npt.NDArray[np.int32]:
    """Return the key of each machine's bucket; neighbouring ids get different buckets.

    >>> len(set(bucket_of(np.arange(1000)).tolist())) == BUCKETS
    True
    """
    with np.errstate(over="ignore"):
        mixed = machine.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    index = ((mixed >> np.uint64(33)) % np.uint64(BUCKETS)).astype(np.int64)
    return bucket_labels()[index]


@lru_cache(maxsize=1)
def bucket_labels() -> npt.NDArray[np.int32]:
    """Return the key of each bucket, chosen so that 1 to 8 or 16 instances get equal shares, as far as possible.

    State is keyed by bucket, and Spark puts key k into partition ``pmod(murmur3(k), n)``. With keys 0, 1, 2 … some of
    eight instances would get twice as many buckets as others.
    """
    candidates = np.arange(1 << 17)
    hashed = spark_hash(candidates)
    shares = {n: hashed % n for n in _BALANCED_AMONG}
    free = {n: np.full(n, -(-BUCKETS // n)) for n in _BALANCED_AMONG}
    chosen: list[int] = []
    for candidate in candidates.tolist():
        if all(free[n][shares[n][candidate]] > 0 for n in _BALANCED_AMONG):
            chosen.append(candidate)
            for n in _BALANCED_AMONG:
                free[n][shares[n][candidate]] -= 1
            if len(chosen) == BUCKETS:
                break
    return np.array(chosen, np.int32)


def spark_hash(values: Ints) -> Ints:
    """Return Spark's ``hash`` of an int column: Murmur3, 32 bits, seed 42.

    >>> spark_hash(np.array([0, 1]))
    array([ 933211791, -559580957])
    """
    with np.errstate(over="ignore"):
        mixed = values.astype(np.uint32) * np.uint32(0xCC9E2D51)
        mixed = _rotated(mixed, 15) * np.uint32(0x1B873593)
        hashed = _rotated(np.uint32(_HASH_SEED) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        hashed ^= np.uint32(4)
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
            hashed = (hashed ^ (hashed >> np.uint32(shift))) * np.uint32(factor)
        hashed ^= hashed >> np.uint32(16)
    return hashed.astype(np.int32).astype(np.int64)


def _rotated(values: npt.NDArray[np.uint32], by: int) -> npt.NDArray[np.uint32]:
    return (values << np.uint32(by)) | (values >> np.uint32(32 - by))
