"""Reads a recorded run from the store that ``attach`` and ``submit`` write."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ebbflow.control.ledger import ACT
from ebbflow.core.curve import Curve
from ebbflow.core.decision import LedgerEntry
from ebbflow.core.layout import MAIN
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.slo import Slo
from ebbflow.errors import InputError, UnknownNameError
from ebbflow.monitoring.store import Store
from ebbflow.runs.replay.recording import RecordedBatch, Recording

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
