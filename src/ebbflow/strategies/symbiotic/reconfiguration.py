"""Whether a reconfiguration is worthwhile: what it costs, whether the target carries it out, whether the load returns.

The cost follows Elysium §2 and §5.2 (R_state + R_restart + R_queue). For ``stop_s`` nothing is processed. The rows that
arrive meanwhile are worked off with the capacity that is left over afterwards:

    drain = stop · b / (1 − b)                 b: how busy the new layout is
    cost  = stop · nodes afterwards            node-seconds that are paid for and idle
    saved = (nodes before − after) · (until the next assessment − stop)

A smaller layout is taken only if it saves more than it costs and has drained the queue by the next assessment.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ebbflow.core.backoff import Backoff
from ebbflow.core.duration import format_duration
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.snapshot import Snapshot
from ebbflow.profiling.estimator import Estimator

# -- cost and benefit ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CostBenefit:
    """What a reconfiguration costs and saves until the next assessment."""

    stop_s: float
    drain_s: float
    late_rows: float
    """Rows that arrive while processing is stopped or drains the queue."""
    cost_node_s: float
    saved_node_s: float
    until_s: float

    @property
    def pays_off(self) -> bool:
        """Whether it saves more than it costs and drains in time."""
        return self.saved_node_s > self.cost_node_s and self.stop_s + self.drain_s <= self.until_s

    def __str__(self) -> str:
        saved = self.saved_node_s
        return (
            f"costs {self.cost_node_s:.0f} node-seconds and delays {self.late_rows:.0f} rows "
            f"({self.stop_s:.1f} s stop, {self.drain_s:.1f} s drain), "
            f"{f'saves {saved:.0f}' if saved >= 0 else f'uses {-saved:.0f} more'} node-seconds "
            f"in the next {self.until_s:g} s"
        )


def weigh(
    before: int, after: int, *, stop_s: float, busy: float, rate_per_s: float, until_s: float
) -> CostBenefit:
    """What going from one number of nodes to another costs and saves.

    >>> change = weigh(4, 3, stop_s=6.0, busy=0.75, rate_per_s=100.0, until_s=60.0)
    >>> str(change)
    'costs 18 node-seconds and delays 2400 rows (6.0 s stop, 18.0 s drain), saves 54 node-seconds in the next 60 s'
    >>> change.pays_off, weigh(30, 29, stop_s=6.0, busy=0.75, rate_per_s=1.0, until_s=60.0).pays_off
    (True, False)
    """
    drain_s = 0.0 if not stop_s else stop_s * busy / (1 - busy) if busy < 1 else math.inf
    return CostBenefit(
        stop_s=stop_s,
        drain_s=drain_s,
        late_rows=rate_per_s * (stop_s + min(drain_s, until_s)),
        cost_node_s=stop_s * after,
        saved_node_s=(before - after) * max(0.0, until_s - stop_s),
        until_s=until_s,
    )


@dataclass(frozen=True, kw_only=True)
class Wait:
    """How long rows wait over some time."""

    row_s: float
    """Time that all rows together wait, in row-seconds."""
    longest_s: float
    """Longest time in which the queue would be worked off."""


def wait_of(
    loads_per_s: Sequence[float],
    step_s: float,
    capacities: Sequence[tuple[float, float]],
    queued: float = 0.0,
) -> Wait:
    """The wait under a load given by steps, on capacities given as (from, rows per second), the first from 0 on.

    What is left in the queue at the end is worked off with the last capacity and the last load.

    >>> burst = [300.0, 100.0, 100.0]
    >>> wait_of(burst, 10.0, [(0.0, 200.0)]), wait_of(burst, 10.0, [(0.0, 0.0), (5.0, 400.0)])
    (Wait(row_s=10000.0, longest_s=5.0), Wait(row_s=11666.666666666666, longest_s=3.75))
    """
    changes_s = [at_s for at_s, _ in capacities]
    ends_s = sorted({*(step_s * (at + 1) for at in range(len(loads_per_s))), *changes_s[1:]})
    best = max(capacity for _, capacity in capacities)
    queue, row_s, longest_s, start_s = queued, 0.0, queued / (capacities[0][1] or best), 0.0
    for end_s in ends_s:
        load = loads_per_s[min(int(start_s / step_s + 1e-9), len(loads_per_s) - 1)]
        capacity = capacities[bisect_right(changes_s, start_s) - 1][1]
        left = queue + (load - capacity) * (end_s - start_s)
        if left >= 0:
            row_s += (queue + left) / 2 * (end_s - start_s)
        elif queue:
            row_s += queue * queue / (capacity - load) / 2
        queue, start_s = max(0.0, left), end_s
        longest_s = max(longest_s, queue / (capacity or best))
    if queue:
        spare = capacities[-1][1] - loads_per_s[-1]
        row_s += queue * queue / spare / 2 if spare > 0 else math.inf
    return Wait(row_s=row_s, longest_s=longest_s)


USUAL_STOP_S = 6.5
"""Assumed until a restart was measured: the middle of Storm's 5 to 8 s (Elysium §5.2)."""
FADE = 0.5
"""Weight of the previous value when another restart was measured."""


class LearnedStop:
    """How long a reconfiguration stops processing: by a profile, then by measured restarts (stop, state, start)."""

    def __init__(self, known_s: float | None = None) -> None:
        self.stop_s = USUAL_STOP_S if known_s is None else known_s
        self._seen_s: dict[str, float] = {}

    @classmethod
    def of(cls, estimators: Iterable[Estimator]) -> LearnedStop:
        """Start with the longest restart that the profiles know."""
        costs = [each.profile.costs for each in estimators if each.profile.costs is not None]
        return cls(max((cost.restart_s for cost in costs if cost.restart_s is not None), default=None))

    def learn(self, snapshot: Snapshot, names: Iterable[str]) -> None:
        """Learn from restarts of these pipelines or queries that ended since the last call."""
        windows = snapshot.windows
        for name in names:
            for time_s, start_s in windows.of(name, Metric.RESTART_START).after(
                self._seen_s.get(name, -math.inf)
            ):
                self._seen_s[name] = time_s
                parts = (Metric.RESTART_STOP, Metric.RESTART_STATE)
                others_s = [s for part in parts for t, s in windows.of(name, part) if t == time_s]
                self.stop_s = FADE * self.stop_s + (1 - FADE) * (start_s + sum(others_s))


# -- changes that are not carried out --------------------------------------------------------------

RETRY = Backoff(first_s=300.0, longest_s=3600.0)
"""Each attempt may stop a query."""
FAILED_RESTARTS = 2
"""Restarts in a row that fail before an operator is suspected: a single one may be an accident."""
IGNORED_REQUESTS = 3
"""Requests in a row of which nothing is carried out, before an operator is suspected."""


@dataclass(frozen=True, kw_only=True)
class _Refusal:
    at_s: float
    times: int
    count: int
    """Instances that the operator has."""

    @property
    def until_s(self) -> float:
        return self.at_s + RETRY.delay_s(self.times)


class Refusals:
    """Operators that cannot be resized. They keep their parallelism until a retry is due.

    A strategy gets no feedback about its decisions. It sees the plan in the next snapshot:

        some operators changed, others did not  → the others cannot be resized, for now
        nodes changed, but no operator          → the restart failed; after the second time an operator is suspected
        nothing changed                         → a dry run or a guard, which means nothing; unless changes were carried
                                                  out before, and three in a row are not

    If a restart fails, the operator at fault is found by bisection: one half is requested, the other waits. An operator
    that cannot be resized is retried after 5 minutes, then 10, 20, up to an hour; at once if its parallelism changes.

    >>> refusals, before = Refusals(), Layout.of(1, split=1, count=1)
    >>> refusals.request(before, Layout.of(2, split=2, count=2))
    >>> refusals.check(Layout.of(2, split=2, count=1), now_s=60.0)
    >>> sorted(refusals.fixed(60.0)), sorted(refusals.fixed(60.0 + RETRY.first_s))
    (['count'], [])
    """

    def __init__(self) -> None:
        self._requested: tuple[Layout, Layout] | None = None
        """Layout before and layout wanted, of the last decision."""
        self._refused: dict[str, _Refusal] = {}
        self._carries_out = False
        """Whether any request was ever carried out."""
        self._last: tuple[tuple[str, ...], int] = ((), 0)
        """Operators of the last failed restart, and how often it failed in a row."""
        self._groups: list[tuple[str, ...]] = []
        """Suspects: the first group is requested, the others wait for their turn."""
        self._grouped_s = 0.0

    def request(self, before: Layout, wanted: Layout) -> None:
        """Note that a layout is requested."""
        self._requested = (before, wanted)
        changes = wanted.difference(before).parallelism
        if self._groups and not any(name in changes for name in self._groups[0]):
            self._groups.append(self._groups.pop(0))

    def check(self, planned: Layout, now_s: float) -> None:
        """Compare the plan with the last request."""
        for name in [n for n, each in self._refused.items() if planned.parallelism.get(n) != each.count]:
            del self._refused[name]
        if self._groups and now_s - self._grouped_s > RETRY.first_s:
            self._groups = []
        if self._requested is None:
            return
        (before, wanted), self._requested = self._requested, None
        change = wanted.difference(before)
        changed = {n for n, (old, _) in change.parallelism.items() if planned.parallelism.get(n, 1) != old}
        nodes_changed = planned.main_nodes == wanted.main_nodes != before.main_nodes
        self._carries_out = self._carries_out or nodes_changed or bool(changed)
        missing = tuple(name for name in change.parallelism if name not in changed)
        if changed:
            self._last = ((), 0)
            self._groups = [g for g in self._groups if not changed.issuperset(g)]
            short = {n for n in changed if planned.parallelism.get(n, 1) != wanted.parallelism.get(n, 1)}
            for name in (*missing, *sorted(short)):
                self._refuse(name, planned, now_s)
        elif missing and self._carries_out:
            self._suspect(
                missing, planned, now_s, failures=FAILED_RESTARTS if nodes_changed else IGNORED_REQUESTS
            )

    def _suspect(self, names: tuple[str, ...], planned: Layout, now_s: float, *, failures: int) -> None:
        if self._groups and set(names) & set(self._groups[0]):
            names = self._groups[0]
        else:
            known, times = self._last
            self._last = (names, times + 1 if names == known else 1)
            if self._last[1] < failures:
                return
            self._last = ((), 0)
        self._groups = [group for group in self._groups if group != names]
        self._grouped_s = now_s
        if len(names) == 1:
            self._refuse(names[0], planned, now_s)
        else:
            half = len(names) // 2
            self._groups = [names[:half], names[half:], *self._groups]

    def _refuse(self, name: str, planned: Layout, now_s: float) -> None:
        known, count = self._refused.get(name), planned.parallelism.get(name, 1)
        self._refused[name] = _Refusal(at_s=now_s, times=known.times + 1 if known else 1, count=count)

    def fixed(self, now_s: float) -> frozenset[str]:
        """Operators that must keep their parallelism now."""
        waiting = {name for group in self._groups[1:] for name in group}
        return frozenset(waiting | {name for name, each in self._refused.items() if now_s < each.until_s})

    def describe(self, now_s: float) -> str:
        """These operators, for the ledger; empty if there are none."""
        parts = []
        for name in sorted(self.fixed(now_s)):
            refusal = self._refused.get(name)
            left_s = 0.0 if refusal is None else refusal.until_s - now_s
            retry = f"in {format_duration(left_s)}" if left_s > 0 else "after others"
            parts.append(f"{name}: resize not carried out, retry {retry}")
        return "; ".join(parts)


# -- loads that return -----------------------------------------------------------------------------

DIP_LENGTH = 3
DIP_WAIT = 2
DIP_MEMORY = 10
"""All three in assessments."""


class Dips:
    """Remembers dips of the load: while there was one lately, nodes are released later.

    Releasing nodes costs a stop, and if the load returns, a second one, with a queue until then. A *dip* is an
    assessment that needed fewer nodes than the one before and was followed by one that needed more, within
    ``DIP_LENGTH``. While one of the last ``DIP_MEMORY`` assessments was a dip, a smaller layout must suffice for the
    highest load of the last ``DIP_WAIT`` assessments. Elysium has no such rule. It changes nothing for a load that
    rises and falls slowly. docs/symbiotic.md has its effect on five days of Twitter's load.

    >>> dips = Dips()
    >>> for nodes in (1, 4, 4, 2, 1):
    ...     dips.add(nodes)
    >>> dips.recent  # it has only fallen so far
    False
    >>> dips.add(3)
    >>> dips.recent
    True
    """

    def __init__(self) -> None:
        self._needed: deque[int] = deque(maxlen=DIP_MEMORY)

    def add(self, nodes: int) -> None:
        """Add the number of nodes that an assessment needed."""
        self._needed.append(nodes)

    def drop_last(self) -> None:
        """Forget the last assessment, which is repeated."""
        self._needed.pop()

    @property
    def recent(self) -> bool:
        """Whether there was a dip lately."""
        needed = list(self._needed)
        return any(
            after < before and max(needed[at + 1 : at + 1 + DIP_LENGTH], default=0) > after
            for at, (before, after) in enumerate(pairwise(needed), start=1)
        )
