"""The sizes that rules change: current and original size, last changes, limits, and changes that were refused.

The subject of a size is an operator's name, or ``NODES``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ebbflow.core.backoff import Backoff
from ebbflow.core.decision import Constraint, LedgerEntry
from ebbflow.core.duration import format_duration
from ebbflow.core.layout import Layout
from ebbflow.core.snapshot import Snapshot
from ebbflow.policy.model import NODES, BoundsRule, Rule

MAX_PER_SLOT = 8
"""Instances per slot (or per instance of the original size) that no limit and no bounds may exceed. Spark's tuning
guide recommends two or three tasks per core."""
SETTLED_S = 30.0
"""Nodes join one by one when a job starts. Until their number has been stable for this long, or a rule changes it, it
counts as the original size, and its changes do not count as scaling."""
RETRY = Backoff(first_s=30.0, longest_s=1800.0)


class Sizes:
    """Tracks the planned sizes from cycle to cycle."""

    def __init__(self) -> None:
        self.original: dict[str, int] = {}
        self.last_out_s: dict[str, float] = {}
        self.last_in_s: dict[str, float] = {}
        self._previous: dict[str, int] = {}
        self._fused: set[str] = set()
        self._previous_s = 0.0
        """The time of the previous cycle; changes found now were decided then."""
        self.starting = True
        """Whether nodes that join are still original ones."""
        self._stable_since_s: float | None = None

    def recall(self, entry: LedgerEntry) -> None:
        """Take over an action of an earlier run, oldest first, so that its guard times continue."""
        if not entry.changed or entry.outcome is None:
            return
        before, after = (_sizes_of(layout) for layout in (entry.before, entry.outcome.requested))
        for subject in before.keys() & after.keys():
            if after[subject] != before[subject]:
                last_s = self.last_out_s if after[subject] > before[subject] else self.last_in_s
                last_s[subject] = entry.time_s

    def observe(self, snapshot: Snapshot) -> None:
        """Compare the plan with that of the previous cycle."""
        current = _sizes_of(snapshot.planned)
        for subject, size in current.items():
            self.original.setdefault(subject, size)
            previous = self._previous.get(subject, size)
            if subject == NODES and self.starting:
                self._observe_start(size, previous, snapshot.now_s)
            elif size > previous:
                self.last_out_s[subject] = self._previous_s
            elif size < previous:
                self.last_in_s[subject] = self._previous_s
        self._previous = current
        self._previous_s = snapshot.now_s

    def _observe_start(self, nodes: int, previous: int, now_s: float) -> None:
        if nodes != previous or self._stable_since_s is None:
            self._stable_since_s = now_s
        self.original[NODES] = nodes
        self.starting = now_s - self._stable_since_s < SETTLED_S

    def note_decision(self, wanted: Layout, snapshot: Snapshot) -> None:
        """End the start phase if the decision changes the number of nodes."""
        if wanted.main_nodes != snapshot.planned.main_nodes:
            self.starting = False

    @staticmethod
    def exists(operator: str, snapshot: Snapshot) -> bool:
        """Whether the pipeline has the operator; always true for the nodes."""
        return (
            operator == NODES
            or operator in snapshot.planned.parallelism
            or operator in snapshot.pipeline.order
        )

    def subject(self, operator: str, snapshot: Snapshot) -> str:
        """What to resize for an operator: itself, or the nodes if it has no parallelism of its own."""
        fused = operator != NODES and operator not in snapshot.planned.parallelism
        (self._fused.add if fused else self._fused.discard)(operator)
        return NODES if fused else operator

    def last_subject(self, operator: str) -> str:
        """The result of the latest ``subject`` call for this operator."""
        return NODES if operator in self._fused else operator

    @staticmethod
    def planned(subject: str, snapshot: Snapshot) -> int:
        """The planned size."""
        if subject == NODES:
            return snapshot.planned.main_nodes
        return snapshot.planned.parallelism.get(subject, 1)


def _sizes_of(layout: Layout) -> dict[str, int]:
    return {NODES: layout.main_nodes, **layout.parallelism}


# -- limits --------------------------------------------------------------------------------------------
#
# Without a limit in the policy an operator grows up to the slots of all allowed nodes. A limit may exceed that, because
# tasks can wait for a slot, but not ``MAX_PER_SLOT``.


class ActiveBounds(NamedTuple):
    """Bounds that apply now, and the subject they apply to."""

    bounds: BoundsRule
    subject: str


def _slots_allowed(snapshot: Snapshot) -> int:
    """The slots of all allowed nodes."""
    return max(1, snapshot.limits.max_nodes * snapshot.slots_per_node)


def _largest(subject: str, original: int, snapshot: Snapshot) -> int:
    """The largest size that any policy can reach."""
    if subject == NODES:
        return snapshot.limits.max_nodes
    return MAX_PER_SLOT * max(_slots_allowed(snapshot), original)


def within_limit(
    rule: Rule, stepped: int, subject: str, original: int, snapshot: Snapshot
) -> tuple[int, Constraint | None]:
    """The size within the rule's own limit, and the constraint if it was reduced."""
    if not rule.out:
        least = 1 if rule.never_below is None else rule.never_below.size(original, most=False)
        least = max(least, snapshot.limits.min_nodes if subject == NODES else 1)
        if stepped >= least:
            return stepped, None
        return least, Constraint(name="never below", why=f"limited to {least} instead of {stepped}")
    largest = _largest(subject, original, snapshot)
    if rule.never_above is not None:
        most = rule.never_above.size(original, most=True)
    else:
        most = largest if subject == NODES else _slots_allowed(snapshot)
    if stepped <= min(most, largest):
        return stepped, None
    if most > largest and subject != NODES:
        why = f"limited to {largest} instead of {stepped}: at most {MAX_PER_SLOT} instances per slot"
        return largest, Constraint(name="slots", why=why)
    most = min(most, largest)
    return most, Constraint(name="never above", why=f"limited to {most} instead of {stepped}")


def within_bounds(
    rule: Rule, size: int, subject: str, active: Iterable[ActiveBounds]
) -> tuple[int, Constraint | None]:
    """The size within all active bounds that the rule would exceed, and the tightest of them."""
    tightest: Constraint | None = None
    for bounds, bounded in active:
        edge = bounds.at_most if rule.out else bounds.at_least
        if bounded == subject and edge is not None and ((size > edge) if rule.out else (size < edge)):
            side = "allow at most" if rule.out else "require at least"
            size, tightest = edge, Constraint(name=bounds.name, why=f"bounds '{bounds.name}' {side} {edge}")
    return size, tightest


def enforced(bounds: BoundsRule, wanted: int, subject: str, original: int, snapshot: Snapshot) -> int:
    """The wanted size, moved into the bounds."""
    size = max(wanted, min(bounds.at_least or 1, _largest(subject, original, snapshot)))
    size = min(size, bounds.at_most) if bounds.at_most is not None else size
    return snapshot.limits.clamp(size) if subject == NODES else size


# -- refused changes -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Attempt:
    at_s: float
    times: int
    before: int

    @property
    def retry_s(self) -> float:
        return self.at_s + RETRY.delay_s(self.times)


class Attempts:
    """Changes that were requested but have not happened, by subject and size.

    Each attempt may stop a query (changing its parallelism restarts it), so the same change is retried with exponential
    back-off. An attempt is forgotten as soon as the size changes, whatever the cause.

    >>> attempts = Attempts()
    >>> for at_s in (0.0, 30.0, 90.0):
    ...     attempts.note("enrich", before=1, size=2, at_s=at_s)
    >>> attempts.wait_s("enrich", 2, now_s=100.0), attempts.wait_s("enrich", 3, now_s=100.0)
    (110.0, 0.0)
    >>> attempts.describe("enrich", 2, now_s=100.0)
    'the change 1 → 2 had no effect after 3 attempts; next attempt in 1m50s'
    """

    def __init__(self) -> None:
        self._attempts: dict[tuple[str, int], _Attempt] = {}
        self._added_nodes = (0, 0)
        """Nodes last requested for instances, and the number of nodes including them."""

    def note_all(self, snapshot: Snapshot, sizes: Mapping[str, int], wanted: Layout) -> None:
        """Note that sizes, and nodes for them, are requested."""
        for subject, size in sizes.items():
            self.note(subject, before=Sizes.planned(subject, snapshot), size=size, at_s=snapshot.now_s)
        planned = snapshot.planned.main_nodes
        self._added_nodes = (wanted.main_nodes - max(planned, sizes.get(NODES, planned)), wanted.main_nodes)

    def note(self, subject: str, *, before: int, size: int, at_s: float) -> None:
        """Note that a size is requested."""
        known = self._attempts.get((subject, size))
        times = 1 if known is None else known.times + 1
        self._attempts[subject, size] = _Attempt(at_s=at_s, times=times, before=before)

    def settle(self, snapshot: Snapshot) -> int:
        """Forget attempts on subjects whose size has changed.

        Returns the number of nodes that were added for instances that did not start.
        """
        pending = {
            key: attempt
            for key, attempt in self._attempts.items()
            if attempt.before == Sizes.planned(key[0], snapshot)
        }
        started = {subject for subject, _ in self._attempts.keys() - pending.keys() if subject != NODES}
        (added, nodes), self._added_nodes, self._attempts = self._added_nodes, (0, 0), pending
        return added if added > 0 and not started and snapshot.planned.main_nodes == nodes else 0

    def wait_s(self, subject: str, size: int, now_s: float) -> float:
        """Seconds until the same change may be requested again."""
        attempt = self._attempts.get((subject, size))
        return 0.0 if attempt is None else max(0.0, attempt.retry_s - now_s)

    def describe(self, subject: str, size: int, now_s: float) -> str:
        """Why a change is not requested again yet."""
        attempt = self._attempts[subject, size]
        attempts = "1 attempt" if attempt.times == 1 else f"{attempt.times} attempts"
        left = format_duration(self.wait_s(subject, size, now_s))
        return f"the change {attempt.before} → {size} had no effect after {attempts}; next attempt in {left}"
