"""A recorded run of one query: its batches, and what else the record tells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ebbflow.core.curve import Curve, Floats
from ebbflow.core.decision import LedgerEntry
from ebbflow.core.limits import Limits
from ebbflow.core.slo import Slo
from ebbflow.errors import InputError

FEWEST_BATCHES = 5
_WAITED_S = 0.03
"""A batch that starts later than this after the one before has waited for its trigger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBatch:
    """One batch, or one look at an idle source (no rows, no time)."""

    started_s: float
    duration_s: float
    rows: int
    left_rows: float | None = None
    """Rows that it left at the source; None where the source does not tell."""
    work_s: float | None = None
    """Of its duration, the part in which its stages ran; None where the record does not tell."""
    first: bool = False
    """Whether it is the first since its query was started; it warms up the machinery."""

    @property
    def ended_s(self) -> float:
        """When its results were committed."""
        return self.started_s + self.duration_s


@dataclass(frozen=True, kw_only=True, eq=False)
class Recording:
    """What a file tells of a run. None is not known."""

    file: str
    form: str
    """What kind of file it was."""
    query: str
    batches: tuple[RecordedBatch, ...]
    """In the order of time; the first only says when the record begins."""
    other_queries: tuple[str, ...] = ()
    starts: int = 1
    rows_repeated: int = 0
    missing_batches: int = 0
    """Batches that ran in between and are not in the file."""
    nodes: Curve | None = None
    """Nodes held, at times since the epoch."""
    nodes_working: Curve | None = None
    slots_per_node: int | None = None
    tasks: int | None = None
    lead_time_s: float | None = None
    reconfigurations: int | None = None
    decisions: tuple[LedgerEntry, ...] = ()
    """What a strategy decided then, at times since the epoch."""
    slo: Slo | None = None
    limits: Limits | None = None
    """What the run was held to."""

    def __post_init__(self) -> None:
        worked = sum(batch.rows > 0 for batch in self.batches[1:])
        if not any(batch.rows for batch in self.batches):
            raise InputError(f"{self.file} tells of no rows: none of its {len(self.batches)} batches had any")
        if worked < FEWEST_BATCHES:
            raise InputError(
                f"{self.file} has {worked} batches with rows after its first; a replay needs {FEWEST_BATCHES} or more"
            )

    @property
    def worked(self) -> list[RecordedBatch]:
        """Batches with rows, but the first of all: nothing says over what time its rows came."""
        return [batch for batch in self.batches[1:] if batch.rows > 0]

    @cached_property
    def trigger_interval_s(self) -> float | None:
        """As far as the starts of the batches show it; None where they show none."""
        return trigger_interval_s(self.batches)

    @property
    def tells_backlog(self) -> bool:
        """Whether the sources said how far they had got."""
        return any(batch.left_rows is not None for batch in self.batches)

    @cached_property
    def read_limit_rows(self) -> int | None:
        """The most rows a batch takes, where batches that left some behind all took as many."""
        full = [batch.rows for batch in self.worked if (batch.left_rows or 0.0) > 0.5]
        if len(full) < FEWEST_BATCHES:
            return None
        low, high = np.quantile(full, (0.1, 0.9))
        return max(full) if high - low <= 0.02 * high else None


def trigger_interval_s(batches: tuple[RecordedBatch, ...]) -> float | None:
    """The distance of starts that waited for their trigger: a quarter of them are that close, most a multiple.

    >>> on_time = [RecordedBatch(started_s=t, duration_s=2.0, rows=9) for t in (10, 15, 20, 30, 35, 40)]
    >>> trigger_interval_s(tuple(on_time))
    5.0
    >>> at_once = [RecordedBatch(started_s=2.0 * t, duration_s=2.0, rows=9) for t in range(9)]
    >>> trigger_interval_s(tuple(at_once)) is None
    True
    """
    starts = np.array([batch.started_s for batch in batches])
    ends = np.array([batch.ended_s for batch in batches])
    waited = np.concatenate(([False], starts[1:] - ends[:-1] > _WAITED_S))
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
class Flow:
    """Rows in and out of a recorded run, at seconds since ``origin_s``."""

    origin_s: float
    end_s: float
    arrived: Curve
    processed: Curve


def flow_of(recording: Recording, trigger_s: float) -> Flow:
    """The curves of a recording.

    By the start of batch k there had come what the batches before took, what it took, and what it left. Between two
    starts rows came evenly: they come between triggers, not at them. A query that runs and lets a trigger pass found
    nothing, so the rows of its next batch came since the last trigger that passed. The rows of the first batch came
    before the record begins and are left out; those that it left behind come in the first second. The last rows known
    of came by the start of the last batch, so that is the end.
    """
    first, *later = recording.batches
    origin_s = first.started_s
    if trigger_s > 0:
        origin_s -= first.started_s % trigger_s  # triggers are multiples of their interval, here as there
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
    return Flow(
        origin_s=origin_s,
        end_s=times[-1],
        arrived=Curve(np.array(times), np.array(counts)),
        processed=Curve.of(commits),
    )


def slots_during(recording: Recording, nodes: Curve, slots_per_node: int) -> tuple[Floats, Floats]:
    """Slots at the end of each batch that worked, and whether they were the same since its start."""
    starts = np.array([batch.started_s for batch in recording.worked])
    ends = np.array([batch.ended_s for batch in recording.worked])
    at_start, at_end = nodes.stepped(starts), nodes.stepped(ends)
    return np.maximum(at_end, 1.0) * slots_per_node, np.asarray(at_start == at_end, dtype=np.float64)
