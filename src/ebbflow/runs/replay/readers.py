"""Reads what Spark says of its streaming queries: one progress a line, as ``progress.json`` prints it.

Each line is a progress, or an event that holds one (``{"progress": {…}}``, as in Spark's event logs, whose other lines
are passed over but for executors that come and go). A file that is one JSON list of progresses, as of
``query.recentProgress``, is read too. A progress that was written twice, as one who polls does, counts once.
"""

from __future__ import annotations

import contextlib
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
from ebbflow.core.decision import LedgerEntry
from ebbflow.core.duration import format_duration
from ebbflow.core.layout import MAIN
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.slo import Slo
from ebbflow.errors import InputError, UnknownNameError
from ebbflow.monitoring.store import Store
from ebbflow.runs.replay.recording import RecordedBatch, Recording
from ebbflow.targets.spark.observe.progress import Progress, rows_left_behind

# The JSON objects of a recorded run: in lines, plain or packed; in one list; in the folder of a rolled event log.


log = logging.getLogger("ebbflow")

FORM = "write one progress.json of a query a line, or name a store of Ebbflow"

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ROLLED = re.compile(r"events_(\d+)_.*")
"""Spark 4 writes its event log so unless told otherwise: ``eventlog_v2_<application>/events_1_<application>.zstd``."""


class Told(NamedTuple):
    """One JSON object, and where it stands."""

    file: Path
    place: str
    """``line 7``, or ``entry 7`` of a list."""
    document: dict[str, Any]


def documents(path: Path) -> Iterator[Told]:
    """Every JSON object of a file, or of all files of a rolled event log, in their order."""
    empty = True
    for file in files_of(path):
        for number, line in enumerate(_lines(file), start=1):
            text = line.strip().removeprefix(b"\xef\xbb\xbf")
            if not text:
                continue
            try:
                document = msgspec.json.decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError):
                if not empty and not line.endswith(b"\n"):  # the last, as a driver that was killed leaves it
                    log.warning("%s, line %d was not written to its end and is left out", file, number)
                    continue
                shown = text[:40].decode(errors="replace")
                raise InputError(f"{file}, line {number} is not JSON: '{shown}'; {FORM}") from None
            empty = False
            if isinstance(document, list):
                yield from (_told(file, f"entry {i}", entry) for i, entry in enumerate(document, 1))
            else:
                yield _told(file, f"line {number}", document)
    if empty:
        raise InputError(f"{path} is empty; {FORM}")


def files_of(path: Path) -> list[Path]:
    """The file itself, or those of a rolled event log in their order."""
    if not path.is_dir():
        return [path]
    rolled = {int(found[1]): each for each in path.iterdir() if (found := _ROLLED.fullmatch(each.name))}
    if not rolled:
        raise InputError(f"{path} is a folder and no event log of Spark; name a file")
    return [rolled[index] for index in sorted(rolled)]


def _told(file: Path, place: str, document: Any) -> Told:
    if not isinstance(document, dict):
        raise InputError(f"{file}, {place} is JSON but no object; {FORM}")
    return Told(file, place, document)


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a file; how it is packed shows in its first bytes."""
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
        raise InputError(f"{path} is not a whole gzip file: {error}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


@dataclass
class _Query:
    """What was read of one query so far."""

    batches: list[RecordedBatch] = field(default_factory=list)
    runs: set[str] = field(default_factory=set)
    written: set[tuple[str, str, int, str]] = field(default_factory=set)
    """(query, run, batch, time) of every progress."""
    done: dict[str, set[int]] = field(default_factory=dict)
    """Batches by the id of the query; a query of the same name with another checkpoint has another."""
    rows: int = 0
    rows_repeated: int = 0
    tasks: int = 0
    last: tuple[float, str] = (float("-inf"), "")

    @property
    def missing(self) -> int:
        """Batches between the first and the last that nobody wrote down."""
        return sum(max(ids) - min(ids) + 1 - len(ids) for ids in self.done.values())


def read_progress(path: Path, query: str | None = None) -> Recording:
    """The record of one query: the one named, or the one with the most rows."""
    queries: dict[str, _Query] = {}
    executors = _Executors()
    for file, place, document in documents(path):
        if "Event" in document:
            executors.take(document)
        progress = _progress(f"{file}, {place}", document)
        if progress is not None:
            _take(queries.setdefault(progress.query, _Query()), progress, f"{file}, {place}", place)
    if not queries:
        raise InputError(f"{path} has no query progress in it; {FORM}")
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
    """The progress that a document is or holds; None where an event log tells of something else."""
    inner = document.get("progress", document)
    if not isinstance(inner, dict) or "batchId" not in inner:
        if "Event" in document:
            return None
        raise InputError(f"{where} is JSON but no query progress (it has no batchId); {FORM}")
    try:
        progress = msgspec.convert({"numInputRows": 0, **inner}, Progress)
        _ = progress.started_s
    except msgspec.ValidationError as error:
        raise InputError(f"{where} is no whole query progress: {error}") from None
    except (ValueError, OverflowError):
        raise InputError(
            f"{where}: timestamp '{inner['timestamp']}' is none; Spark writes 2026-01-31T23:59:59.000Z"
        ) from None
    if "numInputRows" not in inner:  # event logs have it for each source only
        rows = sum(source.num_input_rows for source in progress.sources)
        progress = msgspec.structs.replace(progress, num_input_rows=rows)
    if progress.num_input_rows < 0 or progress.duration_s < 0:
        raise InputError(f"{where} has fewer than 0 rows or seconds")
    return progress


def _take(query: _Query, progress: Progress, where: str, place: str) -> None:
    line = (progress.id, progress.run_id, progress.batch_id, progress.timestamp)
    if line in query.written:
        return
    query.written.add(line)
    started_s = progress.started_s
    last_s, last_place = query.last
    if started_s < last_s:
        raise InputError(
            f"{where} goes back in time: batch {progress.batch_id} of '{progress.query}' started "
            f"{format_duration(last_s - started_s)} before the one of {last_place}; put the lines in the order of time"
        )
    query.last = (started_s, place)
    first = progress.run_id not in query.runs
    query.runs.add(progress.run_id)
    query.tasks = max(query.tasks, _tasks(progress))
    worked = progress.duration_ms.get("addBatch")
    left = rows_left_behind(progress)
    if worked is None and progress.num_input_rows == 0:
        # nothing to do: Spark says so now and then, and that is a count of the arrivals too
        query.batches.append(
            RecordedBatch(started_s=started_s, duration_s=0.0, rows=0, left_rows=left, first=first)
        )
        return
    done = query.done.setdefault(progress.id, set())
    if progress.batch_id in done:  # done again after a failure: no new rows
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
    """As many as there are partitions: of the state, or of a source whose offsets name them (Kafka).

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
        self._own: tuple[float, int] | None = None

    def take(self, event: dict[str, Any]) -> None:
        """One line of the log; most tell of something else."""
        if event["Event"] not in ("SparkListenerExecutorAdded", "SparkListenerExecutorRemoved"):
            return
        try:
            told = msgspec.convert(event, _ExecutorEvent)
        except msgspec.ValidationError:
            return
        if told.executor == "driver" and told.info is not None:  # in one process with it: local[2]
            self._own = (told.time_ms / 1000, told.info.cores)
        if told.executor == "driver":
            return
        at_ms = told.time_ms
        if told.info is None:
            self._cores.pop(told.executor, None)
        else:
            self._cores[told.executor] = told.info.cores
            self._most_cores = max(self._most_cores, told.info.cores)
        count = float(len(self._cores))
        if self._points and self._points[-1][0] >= at_ms / 1000:
            self._points[-1] = (self._points[-1][0], count)
        else:
            self._points.append((at_ms / 1000, count))

    @property
    def curve(self) -> Curve | None:
        """Executors that were there; None where no event told of any."""
        if not self._points and self._own is not None:
            return Curve.of([(self._own[0], 1.0)])
        return Curve.of(self._points) if self._points else None

    @property
    def slots_per_node(self) -> int | None:
        """Cores of the largest; tasks are taken to need one each."""
        if not self._points and self._own is not None:
            return self._own[1]
        return self._most_cores or None


def format_utc(time_s: float) -> str:
    """A time for people.

    >>> format_utc(0.0)
    '1970-01-01 00:00:00 UTC'
    """
    return f"{datetime.fromtimestamp(time_s, UTC):%Y-%m-%d %H:%M:%S} UTC"


SQLITE_MAGIC = b"SQLite format 3\0"
_NEEDED = (
    Metric.BATCH_ROWS,
    Metric.BATCH_TIME,
    Metric.BACKLOG,
    Metric.NODES,
    Metric.NODES_REQUESTED,
    Metric.SLOTS,
    Metric.LEAD_TIME,
)


def is_store(path: Path) -> bool:
    """Whether a file is an SQLite one; its name does not matter."""
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


def read_store(path: Path, query: str | None = None) -> Recording:
    """The record of one query: the one named, or the one with the most rows."""
    series = Store.read_readings(path, _NEEDED).series
    ledger, terms = _ledger(path), Store.read_terms(path)
    rows = {
        subject: sum(v for _, v in points)
        for (subject, m), points in series.items()
        if m is Metric.BATCH_ROWS
    }
    if not rows:
        raise InputError(f"{path} has no batches in it; was a query running while it was written?")
    if query is not None and query not in rows:
        raise UnknownNameError("query", query, rows)
    # the pipeline's own readings sum up its queries: with one query they are the same, and with several no batches
    queries = [name for name in rows if name not in Store.read_subjects(path, Metric.ARRIVAL_RATE)] or list(
        rows
    )
    chosen = query or max(queries, key=lambda name: rows[name])
    nodes = _curve(series.get((MAIN, Metric.NODES)))
    requested = _curve(series.get((MAIN, Metric.NODES_REQUESTED)))
    leads = [
        value for (_, metric), points in series.items() if metric is Metric.LEAD_TIME for _, value in points
    ]
    return Recording(
        file=str(path),
        form="store of Ebbflow",
        query=chosen,
        other_queries=tuple(sorted(name for name in queries if name != chosen)),
        batches=_batches(series, chosen),
        nodes=_most_of(nodes, requested),
        nodes_working=nodes,
        slots_per_node=_slots_per_node(nodes, _curve(series.get((MAIN, Metric.SLOTS)))),
        lead_time_s=float(np.median(leads)) if leads else None,
        reconfigurations=sum(entry.verdict == ACT and entry.changed for entry in ledger),
        decisions=tuple(ledger),
        slo=Slo.parse(terms["slo"]) if "slo" in terms else None,
        limits=Limits.parse(terms["nodes"]) if "nodes" in terms else None,
    )


def _ledger(path: Path) -> list[LedgerEntry]:
    """What was decided. An entry that another version wrote, with other fields, is no reason to refuse the rest."""
    entries = []
    for document in Store.read_ledger(path):
        with contextlib.suppress(KeyError, TypeError, InputError):
            entries.append(LedgerEntry.from_json(document))
    return entries


def _batches(
    series: Mapping[tuple[str, Metric], list[tuple[float, float]]], query: str
) -> tuple[RecordedBatch, ...]:
    """Readings of a batch carry the time of its end; a batch without a time or rows was not kept whole."""
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


def _curve(points: list[tuple[float, float]] | None) -> Curve | None:
    """Where a series changes; it is read every second."""
    if not points:
        return None
    whole = Curve.of(points)
    changed = np.concatenate(([True], np.diff(whole.values) != 0))
    return Curve(whole.times_s[changed], whole.values[changed])


def _most_of(nodes: Curve | None, requested: Curve | None) -> Curve | None:
    """Nodes are paid for from asking until they are gone."""
    if nodes is None or requested is None:
        return nodes
    times_s = np.unique(np.concatenate((nodes.times_s, requested.times_s)))
    return Curve(times_s, np.maximum(nodes.stepped(times_s), requested.stepped(times_s)))


def _slots_per_node(nodes: Curve | None, slots: Curve | None) -> int | None:
    if nodes is None or slots is None:
        return None
    there = nodes.stepped(slots.times_s)
    ratios = slots.values[there > 0] / there[there > 0]
    return max(1, round(float(np.median(ratios)))) if len(ratios) else None
