"""Read a recorded run: Spark's query progress, a Spark event log, or a store of Ebbflow.

Query progress has one JSON object per line, as ``progress.json`` prints it, or is one JSON list of them, as of
``query.recentProgress``; a repeated progress counts once. In event logs, plain, compressed or rolled, a progress is
inside an event (``{"progress": {…}}``); of the other events only those of executors are read.
"""

from __future__ import annotations

import gzip
import io
import logging
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ebbflow.control.ledger import ACT
from ebbflow.core.curve import Curve
from ebbflow.core.duration import format_duration
from ebbflow.core.layout import MAIN
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.slo import Slo
from ebbflow.errors import InputError, UnknownNameError
from ebbflow.monitoring.store import Store
from ebbflow.runs.replay.recording import RecordedBatch, Recording
from ebbflow.runs.stored_run import changes, nodes_held, read_decisions
from ebbflow.targets.spark.observe.progress import Progress, rows_left_behind

log = logging.getLogger(__name__)

EXPECTED = "expected one progress.json of a query per line, or a store of Ebbflow"

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ROLLED = re.compile(r"events_(\d+)_.*")
"""Spark 4 writes rolled event logs by default: ``eventlog_v2_<application>/events_1_<application>.zstd``."""


def read_recording(path: Path, query: str | None = None) -> Recording:
    """Read a recorded run; the kind of file is recognised by its content, not its name."""
    if not path.exists():
        raise InputError(f"there is no file {path}")
    if path.is_file() and is_store(path):
        return read_store(path, query)
    return read_progress(path, query)


class JsonEntry(NamedTuple):
    """One JSON object, and its place in the file."""

    file: Path
    place: str
    """``line 7``, or ``entry 7`` of a list."""
    document: dict[str, Any]


def documents(path: Path) -> Iterator[JsonEntry]:
    """Every JSON object of a file, or of all files of a rolled event log, in order."""
    empty = True
    for file in files_of(path):
        for number, line in enumerate(_lines(file), start=1):
            text = line.strip().removeprefix(b"\xef\xbb\xbf")
            if not text:
                continue
            try:
                document = msgspec.json.decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError):
                if not empty and not line.endswith(
                    b"\n"
                ):  # the last line, cut off when the driver was killed
                    log.warning("%s, line %d is incomplete and left out", file, number)
                    continue
                shown = text[:40].decode(errors="replace")
                raise InputError(f"{file}, line {number} is not JSON: '{shown}'; {EXPECTED}") from None
            empty = False
            if isinstance(document, list):
                yield from (_entry(file, f"entry {i}", entry) for i, entry in enumerate(document, 1))
            else:
                yield _entry(file, f"line {number}", document)
    if empty:
        raise InputError(f"{path} is empty; {EXPECTED}")


def files_of(path: Path) -> list[Path]:
    """The file itself, or the files of a rolled event log in order."""
    if not path.is_dir():
        return [path]
    rolled = {int(found[1]): each for each in path.iterdir() if (found := _ROLLED.fullmatch(each.name))}
    if not rolled:
        raise InputError(f"{path} is a folder but not an event log of Spark; pass a file")
    return [rolled[index] for index in sorted(rolled)]


def _entry(file: Path, place: str, document: Any) -> JsonEntry:
    if not isinstance(document, dict):
        raise InputError(f"{file}, {place} is JSON but not an object; {EXPECTED}")
    return JsonEntry(file, place, document)


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a file; its first bytes show the compression."""
    try:
        with ExitStack() as stack:
            file = stack.enter_context(path.open("rb"))
            magic = file.read(4)
            file.seek(0)
            if magic.startswith(_GZIP_MAGIC):
                yield from io.BufferedReader(gzip.GzipFile(fileobj=file))
            elif magic == _ZSTD_MAGIC:
                import pyarrow as pa

                yield from io.BufferedReader(pa.CompressedInputStream(file, "zstd"))
            else:
                yield from file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is not a complete gzip file: {error}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


@dataclass
class _RecordedQuery:
    """What was read about one query so far."""

    batches: list[RecordedBatch] = field(default_factory=list)
    runs: set[str] = field(default_factory=set)
    progress_keys: set[tuple[str, str, int, str]] = field(default_factory=set)
    """(query, run, batch, time) of every progress."""
    batch_ids: dict[str, set[int]] = field(default_factory=dict)
    """By query id; a query of the same name with another checkpoint has another id."""
    rows: int = 0
    rows_repeated: int = 0
    tasks: int = 0
    last: tuple[float, str] = (float("-inf"), "")

    @property
    def missing(self) -> int:
        """Batches between the first and the last that are not in the file."""
        return sum(max(ids) - min(ids) + 1 - len(ids) for ids in self.batch_ids.values())


def read_progress(path: Path, query: str | None = None) -> Recording:
    """The recording of one query: ``query``, or the one with the most rows."""
    queries: dict[str, _RecordedQuery] = {}
    executors = _Executors()
    for file, place, document in documents(path):
        if "Event" in document:
            executors.add(document)
        progress = _progress(f"{file}, {place}", document)
        if progress is not None:
            _add_progress(
                queries.setdefault(progress.query, _RecordedQuery()), progress, f"{file}, {place}", place
            )
    if not queries:
        raise InputError(f"{path} has no query progress; {EXPECTED}")
    if query is not None and query not in queries:
        raise UnknownNameError("query", query, queries)
    chosen = query or max(queries, key=lambda name: queries[name].rows)
    read = queries[chosen]
    return Recording(
        file=str(path),
        form="Spark query progress",
        query=chosen,
        other_queries=tuple(sorted(name for name in queries if name != chosen)),
        batches=tuple(read.batches),
        starts=len(read.runs),
        rows_repeated=read.rows_repeated,
        missing_batches=read.missing,
        tasks=read.tasks or None,
        nodes=executors.curve,
        nodes_working=executors.curve,
        slots_per_node=executors.slots_per_node,
        reconfigurations=None if executors.curve is None else max(0, len(executors.curve) - 1),
    )


def _progress(where: str, document: dict[str, Any]) -> Progress | None:
    """The progress that a document is or contains; None for other events of an event log."""
    inner = document.get("progress", document)
    if not isinstance(inner, dict) or "batchId" not in inner:
        if "Event" in document:
            return None
        raise InputError(f"{where} is JSON but not a query progress (it has no batchId); {EXPECTED}")
    try:
        progress = msgspec.convert({"numInputRows": 0, **inner}, Progress)
        _ = progress.started_s
    except msgspec.ValidationError as error:
        raise InputError(f"{where} is not a complete query progress: {error}") from None
    except (ValueError, OverflowError):
        raise InputError(
            f"{where}: '{inner['timestamp']}' is not a timestamp; Spark writes 2026-01-31T23:59:59.000Z"
        ) from None
    if "numInputRows" not in inner:  # event logs have it per source only
        rows = sum(source.num_input_rows for source in progress.sources)
        progress = msgspec.structs.replace(progress, num_input_rows=rows)
    if progress.num_input_rows < 0 or progress.duration_s < 0:
        raise InputError(f"{where} has negative rows or a negative duration")
    return progress


def _add_progress(query: _RecordedQuery, progress: Progress, where: str, place: str) -> None:
    line = (progress.id, progress.run_id, progress.batch_id, progress.timestamp)
    if line in query.progress_keys:
        return
    query.progress_keys.add(line)
    started_s = progress.started_s
    last_s, last_place = query.last
    if started_s < last_s:
        raise InputError(
            f"{where} is out of order: batch {progress.batch_id} of '{progress.query}' started "
            f"{format_duration(last_s - started_s)} before the one of {last_place}; sort the lines by time"
        )
    query.last = (started_s, place)
    first = progress.run_id not in query.runs
    query.runs.add(progress.run_id)
    query.tasks = max(query.tasks, _tasks(progress))
    worked = progress.duration_ms.get("addBatch")
    left = rows_left_behind(progress)
    if worked is None and progress.num_input_rows == 0:
        # progress of an idle query: it still reports the arrivals
        query.batches.append(
            RecordedBatch(started_s=started_s, duration_s=0.0, rows=0, left_rows=left, first=first)
        )
        return
    done = query.batch_ids.setdefault(progress.id, set())
    if progress.batch_id in done:  # repeated after a failure: no new rows
        query.rows_repeated += progress.num_input_rows
        return
    done.add(progress.batch_id)
    query.rows += progress.num_input_rows
    query.batches.append(
        RecordedBatch(
            started_s=started_s,
            duration_s=progress.duration_s,
            rows=progress.num_input_rows,
            left_rows=left,
            work_s=None if worked is None else min(worked / 1000, progress.duration_s),
            first=first,
        )
    )


def _tasks(progress: Progress) -> int:
    """The number of partitions: of the state, or of a source whose offsets list them (Kafka).

    >>> from ebbflow.targets.spark.observe.progress import SourceProgress
    >>> source = SourceProgress(end_offset={"clicks": {"0": 5, "1": 7, "2": 4}})
    >>> _tasks(Progress("i", "r", 1, "2026-01-01T00:00:00Z", 5, sources=[source]))
    3
    """
    most = max((state.num_shuffle_partitions for state in progress.state_operators), default=0)
    for source in progress.sources:
        offset = source.end_offset
        if isinstance(offset, str):
            try:
                offset = msgspec.json.decode(offset)
            except msgspec.DecodeError:
                continue
        if isinstance(offset, dict):
            topics = [part for part in offset.values() if isinstance(part, dict)]
            most = max(most, sum(len(part) for part in topics))
    return most


class _ExecutorInfo(msgspec.Struct, frozen=True):
    cores: int = msgspec.field(default=1, name="Total Cores")


class _ExecutorEvent(msgspec.Struct, frozen=True):
    """``SparkListenerExecutorAdded``, or without ``info`` ``SparkListenerExecutorRemoved``."""

    time_ms: float = msgspec.field(name="Timestamp")
    executor: str = msgspec.field(name="Executor ID")
    info: _ExecutorInfo | None = msgspec.field(default=None, name="Executor Info")


class _Executors:
    """Executors over time, from the events of an event log."""

    def __init__(self) -> None:
        self._cores: dict[str, int] = {}
        self._points: list[tuple[float, float]] = []
        self._most_cores = 0
        self._driver: tuple[float, int] | None = None

    def add(self, event: dict[str, Any]) -> None:
        """Add an event; most are not about executors."""
        if event["Event"] not in ("SparkListenerExecutorAdded", "SparkListenerExecutorRemoved"):
            return
        try:
            executor_event = msgspec.convert(event, _ExecutorEvent)
        except msgspec.ValidationError:
            return
        if (
            executor_event.executor == "driver" and executor_event.info is not None
        ):  # local mode: the driver is the only executor
            self._driver = (executor_event.time_ms / 1000, executor_event.info.cores)
        if executor_event.executor == "driver":
            return
        at_ms = executor_event.time_ms
        if executor_event.info is None:
            self._cores.pop(executor_event.executor, None)
        else:
            self._cores[executor_event.executor] = executor_event.info.cores
            self._most_cores = max(self._most_cores, executor_event.info.cores)
        count = float(len(self._cores))
        if self._points and self._points[-1][0] >= at_ms / 1000:
            self._points[-1] = (self._points[-1][0], count)
        else:
            self._points.append((at_ms / 1000, count))

    @property
    def curve(self) -> Curve | None:
        """Number of executors; None without events."""
        if not self._points and self._driver is not None:
            return Curve.of([(self._driver[0], 1.0)])
        return Curve.of(self._points) if self._points else None

    @property
    def slots_per_node(self) -> int | None:
        """Cores of the largest executor; each task is assumed to need one."""
        if not self._points and self._driver is not None:
            return self._driver[1]
        return self._most_cores or None


def format_utc(time_s: float) -> str:
    """Format a time as UTC.

    >>> format_utc(0.0)
    '1970-01-01 00:00:00 UTC'
    """
    return f"{datetime.fromtimestamp(time_s, UTC):%Y-%m-%d %H:%M:%S} UTC"


SQLITE_MAGIC = b"SQLite format 3\0"
_STORE_METRICS = (
    Metric.BATCH_ROWS,
    Metric.BATCH_TIME,
    Metric.BACKLOG,
    Metric.NODES,
    Metric.NODES_REQUESTED,
    Metric.NODES_HELD,
    Metric.SLOTS,
    Metric.LEAD_TIME,
)


def is_store(path: Path) -> bool:
    """Whether a file is an SQLite database, whatever its name."""
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


def read_store(path: Path, query: str | None = None) -> Recording:
    """The recording of one query: ``query``, or the one with the most rows."""
    series = Store.read_readings(path, _STORE_METRICS).series
    ledger, terms = read_decisions(path), Store.read_terms(path)
    rows = {
        subject: sum(v for _, v in points)
        for (subject, m), points in series.items()
        if m is Metric.BATCH_ROWS
    }
    if not rows:
        raise InputError(f"{path} has no batches; was a query running while it was written?")
    if query is not None and query not in rows:
        raise UnknownNameError("query", query, rows)
    # the readings of the pipeline are sums over its queries; it has no batches of its own if there are several
    queries = [name for name in rows if name not in Store.read_subjects(path, Metric.ARRIVAL_RATE)] or list(
        rows
    )
    chosen = query or max(queries, key=lambda name: rows[name])
    nodes = changes(series.get((MAIN, Metric.NODES), ()))
    leads = [
        value for (_, metric), points in series.items() if metric is Metric.LEAD_TIME for _, value in points
    ]
    return Recording(
        file=str(path),
        form="store of Ebbflow",
        query=chosen,
        other_queries=tuple(sorted(name for name in queries if name != chosen)),
        batches=_batches(series, chosen),
        nodes=changes(nodes_held(series)) or None,
        nodes_working=nodes or None,
        slots_per_node=_slots_per_node(nodes, changes(series.get((MAIN, Metric.SLOTS), ()))),
        lead_time_s=float(np.median(leads)) if leads else None,
        reconfigurations=sum(entry.verdict == ACT and entry.changed for entry in ledger),
        decisions=tuple(ledger),
        slo=Slo.parse(terms["slo"]) if "slo" in terms else None,
        limits=Limits.parse(terms["nodes"]) if "nodes" in terms else None,
    )


def _batches(
    series: Mapping[tuple[str, Metric], list[tuple[float, float]]], query: str
) -> tuple[RecordedBatch, ...]:
    """The batches of a query. Readings of a batch have the time of its end; incomplete batches are skipped."""
    took_s = dict(series.get((query, Metric.BATCH_TIME), ()))
    left = dict(series.get((query, Metric.BACKLOG), ()))
    batches = [
        RecordedBatch(
            started_s=ended_s - took_s[ended_s],
            duration_s=took_s[ended_s],
            rows=round(rows),
            left_rows=left.get(ended_s),
        )
        for ended_s, rows in series[query, Metric.BATCH_ROWS]
        if ended_s in took_s
    ]
    return tuple(sorted(batches, key=lambda batch: batch.started_s))


def _slots_per_node(nodes: Curve, slots: Curve) -> int | None:
    if not len(nodes) or not len(slots):
        return None
    count = nodes.stepped(slots.times_s)
    ratios = slots.values[count > 0] / count[count > 0]
    return max(1, round(float(np.median(ratios)))) if len(ratios) else None
