"""A recorded run of one query: its batches, and whatever else the file contains."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ebbflow.core.curve import Curve, Floats
from ebbflow.core.decision import LedgerEntry
from ebbflow.core.limits import Limits
from ebbflow.core.slo import Slo
from ebbflow.errors import InputError

MIN_BATCHES = 5
_TRIGGER_WAIT_S = 0.03
"""A batch that starts later than this after the previous one has waited for its trigger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBatch:
    """One batch, or one progress of an idle query (no rows, no duration)."""

    started_s: float
    duration_s: float
    rows: int
    left_rows: float | None = None
    """Rows left at the source; None if the source does not report them."""
    work_s: float | None = None
    """The part of its duration in which its stages ran; None if unknown."""
    first: bool = False
    """Whether it is the first since its query started, which is slower."""

    @property
    def ended_s(self) -> float:
        """When its results were committed."""
        return self.started_s + self.duration_s


@dataclass(frozen=True, kw_only=True, eq=False)
class Recording:
    """The contents of a recording. None means unknown."""

    file: str
    form: str
    """The kind of file."""
    query: str
    batches: tuple[RecordedBatch, ...]
    """In order of time; the first only marks the start of the recording."""
    other_queries: tuple[str, ...] = ()
    starts: int = 1
    rows_repeated: int = 0
    missing_batches: int = 0
    """Batches missing from the file."""
    nodes: Curve | None = None
    """Nodes held, at times since the epoch."""
    nodes_working: Curve | None = None
    slots_per_node: int | None = None
    tasks: int | None = None
    lead_time_s: float | None = None
    reconfigurations: int | None = None
    decisions: tuple[LedgerEntry, ...] = ()
    """The decisions of the run, at times since the epoch."""
    slo: Slo | None = None
    limits: Limits | None = None
    """The limits of the run."""

    def __post_init__(self) -> None:
        with_rows = sum(batch.rows > 0 for batch in self.batches[1:])
        if not any(batch.rows for batch in self.batches):
            raise InputError(f"{self.file} has no rows: all of its {len(self.batches)} batches are empty")
        if with_rows < MIN_BATCHES:
            raise InputError(
                f"{self.file} has {with_rows} batches with rows after its first; a replay needs {MIN_BATCHES} or more"
            )

    @property
    def batches_with_rows(self) -> list[RecordedBatch]:
        """Batches with rows, except the very first: it is unknown when its rows arrived."""
        return [batch for batch in self.batches[1:] if batch.rows > 0]

    @cached_property
    def trigger_interval_s(self) -> float | None:
        """Estimated from the starts of the batches; None if they are irregular."""
        return trigger_interval_s(self.batches)

    @property
    def has_backlog(self) -> bool:
        """Whether the sources reported their backlog."""
        return any(batch.left_rows is not None for batch in self.batches)

    @cached_property
    def read_limit_rows(self) -> int | None:
        """The maximum of rows per batch, if all batches that left rows behind had the same size."""
        full = [batch.rows for batch in self.batches_with_rows if (batch.left_rows or 0.0) > 0.5]
        if len(full) < MIN_BATCHES:
            return None
        low, high = np.quantile(full, (0.1, 0.9))
        return max(full) if high - low <= 0.02 * high else None


def trigger_interval_s(batches: tuple[RecordedBatch, ...]) -> float | None:
    """The trigger interval: the lower quartile of the gaps between triggered starts, if most gaps are multiples of it.

    >>> on_time = [RecordedBatch(started_s=t, duration_s=2.0, rows=9) for t in (10, 15, 20, 30, 35, 40)]
    >>> trigger_interval_s(tuple(on_time))
    5.0
    >>> at_once = [RecordedBatch(started_s=2.0 * t, duration_s=2.0, rows=9) for t in range(9)]
    >>> trigger_interval_s(tuple(at_once)) is None
    True
    """
    starts = np.array([batch.started_s for batch in batches])
    ends = np.array([batch.ended_s for batch in batches])
    waited = np.concatenate(([False], starts[1:] - ends[:-1] > _TRIGGER_WAIT_S))
    gaps = np.diff(starts)[waited[1:] & waited[:-1]]
    if len(gaps) < 3:
        return None
    interval_s = float(np.quantile(gaps, 0.25))
    interval_s = round(interval_s, 1 if interval_s >= 1 else 2)
    if interval_s <= 0:
        return None
    times = gaps / interval_s
    regular = np.abs(times - np.maximum(np.rint(times), 1.0)) < 0.1
    return interval_s if float(np.mean(regular)) >= 0.6 else None


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordedFlow:
    """Rows in and out of a recorded run, at seconds since ``origin_s``."""

    origin_s: float
    end_s: float
    arrived: Curve
    processed: Curve


def flow_of(recording: Recording, trigger_s: float) -> RecordedFlow:
    """The curves of a recording.

    By the start of batch k, the rows of the previous batches, its own rows and those it left behind have arrived.
    Between two starts rows arrive evenly. A running query that skips a trigger found no rows, so the rows of its next
    batch arrived after the last skipped trigger. The rows of the first batch arrived before the recording and are left
    out; those that it left behind arrive in the first second. The recording ends with the start of the last batch,
    because later arrivals are unknown.
    """
    first, *later = recording.batches
    origin_s = first.started_s
    if trigger_s > 0:
        origin_s -= (
            first.started_s % trigger_s
        )  # triggers are at multiples of the interval, as in the simulator
    times: list[float] = [0.0]
    counts: list[float] = [0.0]
    done, behind = 0.0, first.left_rows or 0.0
    if behind:
        times.append(min(1.0, (later[0].started_s - origin_s) / 2))
        counts.append(behind)
    commits: list[tuple[float, float]] = [(0.0, 0.0)]
    quiet_s, idle_since_s = max(trigger_s, 1.0), first.ended_s - origin_s
    for batch in later:
        at_s = batch.started_s - origin_s
        if at_s - idle_since_s > quiet_s * 1.1 and not batch.first and at_s - quiet_s > times[-1]:
            times.append(at_s - quiet_s)
            counts.append(counts[-1])
        idle_since_s = batch.ended_s - origin_s
        done += batch.rows
        arrived = max(done + (batch.left_rows or 0.0), counts[-1])
        if at_s > times[-1]:
            times.append(at_s)
            counts.append(arrived)
        else:
            counts[-1] = arrived
        if batch.rows:
            commits.append((max(batch.ended_s - origin_s, commits[-1][0]), done))
    return RecordedFlow(
        origin_s=origin_s,
        end_s=times[-1],
        arrived=Curve(np.array(times), np.array(counts)),
        processed=Curve.of(commits),
    )


def slots_during(recording: Recording, nodes: Curve, slots_per_node: int) -> tuple[Floats, Floats]:
    """Slots at the end of each batch with rows, and whether they were the same at its start."""
    starts = np.array([batch.started_s for batch in recording.batches_with_rows])
    ends = np.array([batch.ended_s for batch in recording.batches_with_rows])
    at_start, at_end = nodes.stepped(starts), nodes.stepped(ends)
    return np.maximum(at_end, 1.0) * slots_per_node, np.asarray(at_start == at_end, dtype=np.float64)
