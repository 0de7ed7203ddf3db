"""``spark.readStream.format("google-task-events")``: a folder of the trace, replayed, the same after every restart.

::

    register(spark)
    events = (spark.readStream.format("google-task-events")
              .option("path", "task_events").option("speed", 1000).load())

==================  =======  ==========================================================================
option              default  meaning
==================  =======  ==========================================================================
path                needed   a folder of parts (.csv, .csv.gz or .parquet, 13 columns), or one file
speed               max      trace seconds a second: 1 is real time, 1000 faster; max: as fast as possible
maxPartsPerTrigger  none     read limit, in files
maxTracePerTrigger  none     read limit, in time of the trace: ``15m``, ``6h``
packed              false    the events of a part and bucket as columns in one row (``machine.Events``):
                             for who computes on columns anyway, and would pay for rows on the way
==================  =======  ==========================================================================

Rows are events that name a machine, with the trace's own times; those without one are dropped. Rows with an event
below 0 are no events, and have a ``bucket`` like all others:

==========  ========================================================================================
MARK        every event before ``time_us`` is out, of all machines: one for each bucket, whenever
            that completes a report
REJECTED    a row of the file that is no event; the note tells part, line, reason and text
COUNTED     what was read of a part in this batch; the note tells events, without_machine, rejected
==========  ========================================================================================

An offset is a place in the folder (``folder.py``) with the moment at which the replay began. It says nothing of rows,
so none have to be counted before they are read. It names the folder by a fingerprint: another one, or one that has
changed, is refused under the same checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from ebbflow.core.duration import parse_duration_s
from ebbflow.errors import InputError
from ebbflow.papers.rules.google_cluster.events import START_US
from ebbflow.papers.rules.google_cluster.folder import Place, Slice, TraceFolder
from ebbflow.papers.rules.google_cluster.part import Part, read_part
from ebbflow.papers.rules.google_cluster.source_rows import PACKED_SCHEMA, SCHEMA, as_columns, as_rows, beside

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

FORMAT = "google-task-events"
FOLDER = "folder"
"""The key of an offset under which the fingerprint stands."""


def register(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.dataSource.register(TaskEventSource)


class PartSlice(InputPartition):
    """What one task reads; the first of a batch also tells which reports it completes."""

    def __init__(self, piece: Slice, mark_us: int | None) -> None:
        super().__init__((piece, mark_us))
        self.piece = piece
        self.mark_us = mark_us


class TaskEventSource(DataSource):
    """The format ``google-task-events``."""

    @classmethod
    def name(cls) -> str:
        """What ``format()`` takes."""
        return FORMAT

    def schema(self) -> str:
        """Columns of events, and a note for rows that are none."""
        return PACKED_SCHEMA if self._packed() else SCHEMA

    def streamReader(self, schema: StructType) -> TaskEventReader:  # noqa: ARG002, N802
        """The reader of one query."""
        options = self.options
        if "path" not in options:
            raise InputError(f"format '{FORMAT}' needs .option('path', FOLDER) with task-event files")
        span = options.get("maxTracePerTrigger")
        return TaskEventReader(
            path=options["path"],
            speed=read_speed(options.get("speed", "max")),
            max_parts=_whole(options.get("maxPartsPerTrigger")),
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
        """The beginning of the folder, and of the replay."""
        return self._offset(self._folder.start, int(time.time() * 1000))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """All there is: the options of this source are looked at in ``latestOffset``."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable

        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Nothing to remember: the folder is what it is, and ends where it ends."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        """What the replay has reached, as far as the options let."""
        place, start_ms = self._place(start), int(start["startMs"])
        if self._speed is None:
            reached = self._folder.end
        else:
            elapsed_us = max(0.0, time.time() - start_ms / 1000) * 1e6 * self._speed
            reached = self._folder.at(START_US + int(elapsed_us))
        self._newest = self._offset(max(place, reached), start_ms)
        if self._max_parts is not None:
            reached = min(reached, self._folder.parts_on(place, self._max_parts))
        if self._max_trace_us is not None:
            from_us = max(place.time_us, START_US)
            reached = min(reached, self._folder.at(from_us + self._max_trace_us))
        return self._offset(max(place, reached), start_ms)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """What the replay had reached when the last batch was planned, whatever the limits."""
        return self._newest

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[PartSlice]:
        """A task for each part that the batch touches."""
        first, last = self._place(start), self._place(end)
        mark_us = last.time_us if last.reports > first.reports else None
        pieces = self._folder.slices(first, last)
        return [PartSlice(piece, mark_us if i == 0 else None) for i, piece in enumerate(pieces)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The events of a slice, and what is to be said beside them."""
        assert isinstance(partition, PartSlice)
        piece = partition.piece
        part = _part(piece).between(piece.from_us, piece.until_us)
        yield from (as_columns if self._packed else as_rows)(part, piece.part)
        yield beside(part, piece, partition.mark_us, PACKED_SCHEMA if self._packed else SCHEMA)

    def _offset(self, place: Place, start_ms: int) -> dict[str, Any]:
        """Only the time is a number: who measures a backlog by offsets then measures it in time of the trace."""
        told = {"startMs": str(start_ms), "part": str(place.part), "us": place.time_us}
        return {**told, FOLDER: self._folder.fingerprint}

    def _place(self, offset: dict[str, Any]) -> Place:
        if offset.get(FOLDER) != self._folder.fingerprint:
            raise another_folder(self._path)
        return Place(int(offset["part"]), int(offset["us"]))


def another_folder(path: str) -> InputError:
    """What is said of a folder that a checkpoint was not begun with."""
    return InputError(
        f"the run that is to go on was begun with other parts than {path} has now (names, sizes or bytes differ); "
        "give it that folder as it was, or begin anew with a new output and checkpoint"
    )


def _part(piece: Slice) -> Part:
    """The part of a slice, as the file is now: Spark's Python workers outlive a query, and the file may not."""
    try:
        file = Path(piece.path).stat()
    except OSError as error:
        raise InputError(f"cannot read {piece.path}: {error.strerror}") from None
    version = (file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns)
    return _read(piece.path, version, piece.floor_us, piece.ceiling_us, piece.next_us)


@lru_cache(maxsize=1)
def _read(path: str, version: tuple[int, ...], floor_us: int, ceiling_us: int, next_us: int | None) -> Part:
    """Kept in the Python worker: a slow replay takes a part in many small slices."""
    del version
    return read_part(Path(path), floor_us, ceiling_us, next_us)


def read_speed(text: str) -> float | None:
    """Trace seconds a second, None for as fast as possible.

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
        raise InputError(f"speed '{text}' is not a factor above 0; write 1 for real time, 1000, or max")
    return speed


def _whole(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"maxPartsPerTrigger must be a whole number of at least 1, not '{text}'")
    return int(text)
