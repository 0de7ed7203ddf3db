"""Reads a run back from its store, to score it and to draw it.

A live run and a simulated one are read alike. What the store knows exactly (a simulated run, a generated load) is
taken from its curves. Otherwise rows are counted as the monitor saw them: those that had arrived by the start of each
batch, and those processed by its end. Rows that a query began with count as arrived when its first batch started,
because nothing says how long they had waited by then.

Rows leave in order of arrival within a query, but not across queries, so each query is scored by its own rows.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ebbflow.control.ledger import ACT
from ebbflow.core.batches import Batch
from ebbflow.core.curve import Curve, Floats
from ebbflow.core.decision import LedgerEntry
from ebbflow.core.layout import MAIN
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.run import Run
from ebbflow.core.slo import Slo
from ebbflow.errors import InputError, NoStoreError
from ebbflow.monitoring.store import PRUNE_EVERY_S, Store
from ebbflow.profiling.batch.model import BatchModel
from ebbflow.profiling.profile import SIMULATOR
from ebbflow.runs.scaling_points import ScalingPoints, scaling_points
from ebbflow.runs.score import Scores, score, score_together
from ebbflow.workloads import Arrivals, Load

WHOLE_BATCHES = 1_000
"""The newest batches are kept with their stages and operators; of older ones only what the curves need."""
NEWEST_DECISIONS = 1_000
"""Holds are read only if they are among the newest entries of the ledger; acts are read in full."""
CLOCK_TOLERANCE_S = 5.0
"""An end time that lies further than this before the last reading was taken from a clock that was set back."""

ARRIVED, PROCESSED, LOST = "rows-arrived", "rows-processed", "rows-lost"
NODES, WORKING = "nodes-held", "nodes-working"
CAPACITY = "rows-per-second-of-nodes"
"""Quantities of the curves in a store. CAPACITY has numbers of nodes in place of times."""

TITLE, NOTES = "title", "notes"
"""Terms of a store: the title of the page, and notes on the run, one per line."""

_NODE_METRICS = (Metric.NODES, Metric.NODES_REQUESTED, Metric.NODES_HELD)


class _BatchRows(NamedTuple):
    """What the curves need of a batch."""

    started_s: float
    ended_s: float
    rows: int
    backlog_rows: float
    """0 where the source does not report it."""
    oldest_arrival_s: float


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredRun:
    """The last run of a store, or a simulated run as its store would have it."""

    run: Run
    """The run with the rows of all queries; of a simulation in which pipelines share nodes, those of the first."""
    queries: Sequence[Run]
    """The same run with the rows of each query, or of each simulated pipeline."""
    target: str
    title: str = ""
    """Title of its page; empty for the usual one."""
    notes: Sequence[str] = ()
    """What readers of its page must know about the run, besides what follows from the data."""
    oracle_node_seconds: float | None = None
    audited: bool = False
    """Whether the sink was compared with the source, so that repeated rows are known."""
    holds_left_out: int = 0
    damaged_batches: int = 0
    pruned_s: float = 0.0
    """Seconds at the beginning of the run that are no longer in the store."""
    ended: bool = True
    """False while the run is in progress, or if its process was killed."""

    def scores(self) -> Scores:
        """Scores over the rows of all queries."""
        if len(self.queries) > 1:
            return score_together(self.queries)
        (run,) = self.queries or [self.run]
        return score(run, oracle_node_seconds=self.oracle_node_seconds)

    def scaling_points(self) -> list[ScalingPoints]:
        """The points of every act."""
        return scaling_points(self.queries or [self.run])

    def score_values(self) -> dict[str, Any]:
        """Scores by name; None where unknown."""
        unknown: dict[str, Any] = {} if self.audited else {"rows_repeated": None}
        return {**self.scores().to_json(), **unknown}

    def query_scores(self) -> list[dict[str, Any]]:
        """The scores of each query that depend on its own rows."""
        keys = ("rows_in", "rows_out", "violation", "latency_p50_s", "latency_p95_s", "latency_max_s")
        found = []
        for run in self.queries:
            scores = score(run, oracle_node_seconds=None).to_json()
            found.append({"query": run.pipeline, **{key: scores[key] for key in keys}})
        return found


def read_run(path: Path) -> StoredRun:
    """The last run in a store. ``NoStoreError`` if the file is not one, ``InputError`` if it lacks SLO or limits."""
    terms = Store.read_terms(path)
    if "slo" not in terms or "nodes" not in terms:
        raise InputError(f"{path} does not say which SLO and limits its run had; it is from an older version")
    given_start_s = _number(terms, "started_s")
    since_s = -np.inf if given_start_s is None else given_start_s
    series = Store.read_readings(path, [*_NODE_METRICS, Metric.ARRIVAL_RATE], since_s).series
    rows, newest, damaged = _read_batches(path, since_s)
    times = [points[edge][0] for points in series.values() for edge in (0, -1)]
    times += [time_s for batches in rows.values() for b in batches for time_s in (b.started_s, b.ended_s)]
    first_s, last_s = min(times, default=0.0), max(times, default=0.0)
    started_s, pruned_s = first_s if given_start_s is None else given_start_s, 0.0
    if times and first_s - started_s > PRUNE_EVERY_S:
        started_s, pruned_s = first_s, first_s - started_s
    ended_s = _number(terms, "ended_s")
    ended = ended_s is not None
    if ended_s is None or last_s - ended_s > CLOCK_TOLERANCE_S:
        ended_s = last_s
    ended_s = max(ended_s, started_s)
    decisions = read_decisions(path, started_s, newest=NEWEST_DECISIONS)
    curves = Store.read_curves(path)
    working = curves.get((WORKING, MAIN)) or _nodes(series.get((MAIN, Metric.NODES), ()), started_s)
    held = curves.get((NODES, MAIN)) or _nodes(nodes_held(series), started_s)
    run = Run(
        strategy=terms.get("strategy") or (decisions[-1].strategy if decisions else "unknown"),
        pipeline=terms.get("name") or _only_subject(series) or path.stem,
        slo=Slo.parse(terms["slo"]),
        limits=Limits.parse(terms["nodes"]),
        started_s=started_s,
        ended_s=ended_s,
        arrived=_arrived(_merged(rows), started_s, ended_s),
        processed=_processed(_merged(rows), started_s),
        nodes=held,
        nodes_working=working,
        batches=newest,
        decisions=decisions,
        reconfigurations=sum(entry.verdict == ACT and entry.changed for entry in decisions),
        rows_repeated=round(_number(terms, "rows_repeated") or 0),
    )
    known = _known(run, curves)
    queries = known or [
        replace(
            run,
            pipeline=query,
            arrived=_arrived(batches, started_s, ended_s),
            processed=_processed(batches, started_s),
            batches=(own := [batch for batch in newest if batch.query == query]),
            capacity_rows_per_s=learned_capacity(own, working, run.limits, run.slo),
        )
        for query, batches in rows.items()
    ]
    return StoredRun(
        run=known[0] if known else run,
        queries=queries,
        target=terms.get("target", ""),
        title=terms.get(TITLE, ""),
        notes=terms.get(NOTES, "").splitlines(),
        oracle_node_seconds=_number(terms, "oracle_node_seconds"),
        audited="rows_repeated" in terms,
        holds_left_out=max(0, Store.count_ledger(path, started_s) - len(decisions)),
        damaged_batches=damaged,
        pruned_s=pruned_s,
        ended=ended,
    )


def simulated_run(runs: Sequence[Run], *, oracle_node_seconds: float | None) -> StoredRun:
    """A simulated run, with the rows of each pipeline, as ``read_run`` would read it."""
    run = runs[0]
    newest = max(0, len(run.decisions) - NEWEST_DECISIONS)
    decisions = [
        entry for place, entry in enumerate(run.decisions) if place >= newest or entry.verdict == ACT
    ]
    ends_s = sorted(batch.ended_s for each in runs for batch in each.batches)[-WHOLE_BATCHES:]
    queries = [
        replace(
            each,
            decisions=decisions,
            batches=[batch for batch in each.batches if batch.ended_s >= ends_s[0]],
        )
        for each in runs
    ]
    return StoredRun(
        run=queries[0],
        queries=queries,
        target=SIMULATOR,
        oracle_node_seconds=oracle_node_seconds,
        audited=True,
        holds_left_out=len(run.decisions) - len(decisions),
    )


def arrivals(load: Load, started_s: float, ended_s: float) -> Curve:
    """Rows that a generated load has brought, cumulative, every half second."""
    times_s = np.arange(0.0, ended_s - started_s + 1.0, 0.5)
    return Curve(times_s + started_s, Arrivals(load).rows_by_each(times_s).astype(np.float64))


def learned_capacity(batches: Sequence[Batch], working: Curve, limits: Limits, slo: Slo) -> Floats | None:
    """Rows per second that 0 … max nodes sustain, by the batch model of these batches; None if they do not show it.

    The model is fitted to all of them alike. The slots of a node are the median over the batches.
    """
    with_rows = [batch for batch in batches if batch.rows > 0 and batch.stages]
    model = BatchModel(fade=1.0)
    for batch in with_rows:
        model.learn(batch)
    if not model.ready or not len(working):
        return None
    nodes = working.stepped(np.array([batch.ended_s for batch in with_rows]))
    slots = np.array([float(batch.slots) for batch in with_rows])
    if not np.any(nodes > 0):
        return None
    per_node = max(1, round(float(np.median(slots[nodes > 0] / nodes[nodes > 0]))))
    trigger_s = float(np.median([batch.trigger_interval_s for batch in with_rows]))
    return np.array(
        [
            model.on(n * per_node).sustained_rows_per_s(trigger_s, slo.freshness_s) if n else 0.0
            for n in range(limits.max_nodes + 1)
        ]
    )


def without_lost_rows(arrived: Curve, processed: Curve, lost_rows: Sequence[int]) -> tuple[Curve, Curve]:
    """Processed and lost rows where the source counts lost rows as processed and an audit found their numbers.

    Numbers ascend, in order of arrival from 0.

    >>> arrived, processed = Curve.of([(0, 0), (10, 10)]), Curve.of([(0, 0), (10, 10)])
    >>> processed, lost = without_lost_rows(arrived, processed, [3, 7])
    >>> processed.values.tolist(), lost.values.tolist()
    ([0.0, 8.0], [0.0, 2.0])
    """
    numbers = np.asarray(lost_rows, dtype=np.float64)

    def lost(rows: Floats) -> Floats:
        return np.searchsorted(numbers, rows).astype(np.float64)

    return (
        Curve(processed.times_s, processed.values - lost(processed.values)),
        Curve(arrived.times_s, lost(arrived.values)),
    )


def node_changes(run: Run) -> list[list[float]]:
    """[seconds since the start, working nodes] at the start and at every change."""
    return [
        [round(max(0.0, float(time_s) - run.started_s), 1), float(count)]
        for time_s, count in zip(run.nodes_working.times_s, run.nodes_working.values, strict=True)
    ]


def _number(terms: Mapping[str, str], name: str) -> float | None:
    try:
        return float(terms[name]) if name in terms else None
    except ValueError:
        raise NoStoreError(
            f"the store has {name} = {terms[name]!r} among its terms, which is not a number"
        ) from None


def _read_batches(path: Path, since_s: float) -> tuple[dict[str, list[_BatchRows]], list[Batch], int]:
    """Batches by query in order of their start, the newest in full, and how many could not be read."""
    rows: dict[str, list[_BatchRows]] = {}
    newest: deque[Batch] = deque(maxlen=WHOLE_BATCHES)
    damaged = 0
    for first in (True, False):
        for batch in Store.each_batch(path, since_s, first=first):
            if batch is None:
                damaged += 1
                continue
            if not first:
                newest.append(batch)
            rows.setdefault(batch.query, []).append(
                _BatchRows(
                    batch.started_s,
                    batch.ended_s,
                    batch.rows,
                    batch.backlog_rows or 0.0,
                    batch.oldest_arrival_s,
                )
            )
    for batches in rows.values():
        batches.sort()
    return rows, list(newest), damaged


def _merged(rows: Mapping[str, Sequence[_BatchRows]]) -> list[_BatchRows]:
    return sorted(batch for batches in rows.values() for batch in batches)


def read_decisions(path: Path, since_s: float = -np.inf, *, newest: int | None = None) -> list[LedgerEntry]:
    """Every act in a store and the holds among its newest entries, or all holds, oldest first.

    Entries of another version are skipped.
    """
    documents = {each["id"]: each for each in Store.read_ledger(path, verdict=ACT)}
    documents |= {each["id"]: each for each in Store.read_ledger(path, last=newest)}
    entries = []
    for number in sorted(documents):
        with contextlib.suppress(KeyError, TypeError, InputError):
            entries.append(LedgerEntry.from_json(documents[number]))
    return [entry for entry in entries if entry.time_s >= since_s]


def _known(run: Run, curves: Mapping[tuple[str, str], Curve]) -> list[Run]:
    """The run with the rows of each subject whose arrivals are known exactly."""
    return [
        replace(
            run,
            pipeline=subject,
            arrived=curve,
            processed=curves.get((PROCESSED, subject), run.processed),
            lost=curves.get((LOST, subject)),
            batches=(own := _own(run.batches, subject)),
            capacity_rows_per_s=(
                curves[CAPACITY, subject].values
                if (CAPACITY, subject) in curves
                else learned_capacity(own, run.nodes_working, run.limits, run.slo)
            ),
        )
        for (quantity, subject), curve in curves.items()
        if quantity == ARRIVED
    ]


def _own(batches: Sequence[Batch], subject: str) -> Sequence[Batch]:
    """The batches of a subject, or all of them if it is not a query but the pipeline."""
    return [batch for batch in batches if batch.query == subject] or batches


def _only_subject(series: Mapping[tuple[str, Metric], object]) -> str:
    names = {subject for subject, metric in series if metric is Metric.ARRIVAL_RATE}
    return names.pop() if len(names) == 1 else ""


def _arrived(batches: Iterable[_BatchRows], started_s: float, ended_s: float) -> Curve:
    total, points = 0.0, [(started_s, 0.0)]
    for batch in batches:
        if batch.oldest_arrival_s > points[-1][0]:  # nothing arrived before the oldest of its rows
            points.append((batch.oldest_arrival_s, points[-1][1]))
        total += batch.rows
        at_s = max(batch.started_s, points[-1][0])
        points.append((at_s, max(points[-1][1], total + batch.backlog_rows)))
    points.append((max(ended_s, points[-1][0]), points[-1][1]))
    return Curve.of(points)


def _processed(batches: Iterable[_BatchRows], started_s: float) -> Curve:
    total, points = 0.0, [(started_s, 0.0)]
    for batch in sorted(batches, key=lambda b: b.ended_s):
        total += batch.rows
        points.append((max(batch.ended_s, points[-1][0]), total))
    return Curve.of(points)


def nodes_held(
    series: Mapping[tuple[str, Metric], Sequence[tuple[float, float]]],
) -> Sequence[tuple[float, float]]:
    """Nodes held; in older stores, which do not have them, the larger of those working and those requested.

    A node costs from its request.
    """
    if held := series.get((MAIN, Metric.NODES_HELD)):
        return held
    working, requested = (series.get((MAIN, m), ()) for m in (Metric.NODES, Metric.NODES_REQUESTED))
    if not working or not requested:
        return working
    times_s = np.unique([time_s for time_s, _ in (*working, *requested)])
    most = np.maximum(Curve.of(working).stepped(times_s), Curve.of(requested).stepped(times_s))
    return list(zip(times_s.tolist(), most.tolist(), strict=True))


def changes(points: Sequence[tuple[float, float]]) -> Curve:
    """The points at which the value changes; a size is read every second."""
    return Curve.of([p for i, p in enumerate(points) if i == 0 or p[1] != points[i - 1][1]])


def _nodes(points: Sequence[tuple[float, float]], started_s: float) -> Curve:
    """The changes from the start on. The nodes of the first observation are taken to have been there before it."""
    if not points:
        return Curve.of([])
    before = [value for time_s, value in points if time_s <= started_s]
    after = [(time_s, value) for time_s, value in points if time_s > started_s]
    return changes([(started_s, before[-1] if before else after[0][1]), *after])
