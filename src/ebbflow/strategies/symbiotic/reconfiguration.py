"""What a reconfiguration costs, and whether it is worth that (Elysium §2 and §5.2: R_state + R_restart + R_queue).

For ``stop_s`` nothing is processed, and what comes in that time has to be worked off by what is left over then:

    drain = stop · b / (1 − b)                 b: how busy the new layout is
    cost  = stop · nodes afterwards            node-seconds that are paid for and do nothing
    saved = (nodes before − after) · (until the next assessment − stop)

A smaller layout is taken only if it saves more than it costs and no row waits any more at the next assessment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ebbflow.core.backoff import Backoff
from ebbflow.core.duration import format_duration
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.snapshot import Snapshot

# Instances that were asked for and did not come about: who cannot have them is kept as it is, for a time.
#
# A strategy is not told what became of a decision; it sees the plan at its next look:
#
#     some operators changed, others did not  → those others cannot, for now
#     nodes changed, and no operator          → the restart was not made; asked once more, then one of them cannot
#     nothing changed                         → nobody acted on it (a dry run, a guard): nothing is known; only who was
#                                               seen to act before, and does not three times in a row, cannot
#
# Which of several it is that kept a restart from being made is found by halving: one half is asked for, the
# other waits.
# Who cannot is asked again after 5 minutes, then 10, 20, up to an hour, for each try may stop a query; and at once when
# its number was seen to change, whoever did that.


RETRY = Backoff(first_s=300.0, longest_s=3600.0)
IN_A_ROW = 2
"""Restarts not made until someone is taken not to be able to: once may be an accident."""
UNANSWERED = 3
"""The same where nothing at all came about."""


@dataclass(frozen=True, kw_only=True)
class _Kept:
    at_s: float
    times: int
    count: int
    """Instances that it has."""

    @property
    def until_s(self) -> float:
        return self.at_s + RETRY.delay_s(self.times)


class Refusals:
    """What came of the changes that were asked for.

    >>> refusals, before = Refusals(), Layout.of(1, split=1, count=1)
    >>> refusals.asked(before, Layout.of(2, split=2, count=2))
    >>> refusals.look(Layout.of(2, split=2, count=1), now_s=60.0)
    >>> sorted(refusals.kept(60.0)), sorted(refusals.kept(60.0 + RETRY.first_s))
    (['count'], [])
    """

    def __init__(self) -> None:
        self._asked: tuple[Layout, Layout] | None = None
        self._kept: dict[str, _Kept] = {}
        self._acts = False
        """Whether anything that was asked for ever came about."""
        self._last: tuple[tuple[str, ...], int] = ((), 0)
        """Operators of the last restart that was not made, and how often that was in a row."""
        self._groups: list[tuple[str, ...]] = []
        """Some of these cannot: the first are asked for, the others wait for their turn."""
        self._grouped_s = 0.0

    def asked(self, before: Layout, wanted: Layout) -> None:
        """A layout is asked for."""
        self._asked = (before, wanted)
        changes = wanted.difference(before).parallelism
        if self._groups and not any(name in changes for name in self._groups[0]):
            self._groups.append(self._groups.pop(0))

    def look(self, planned: Layout, now_s: float) -> None:
        """See what came of it."""
        for name in [n for n, kept in self._kept.items() if planned.parallelism.get(n) != kept.count]:
            del self._kept[name]
        if self._groups and now_s - self._grouped_s > RETRY.first_s:
            self._groups = []
        if self._asked is None:
            return
        (before, wanted), self._asked = self._asked, None
        change = wanted.difference(before)
        came = {n for n, (old, _) in change.parallelism.items() if planned.parallelism.get(n, 1) != old}
        grown = planned.main_nodes == wanted.main_nodes != before.main_nodes
        self._acts = self._acts or grown or bool(came)
        missing = tuple(name for name in change.parallelism if name not in came)
        if came:
            self._last = ((), 0)
            self._groups = [g for g in self._groups if not came.issuperset(g)]
            short = {n for n in came if planned.parallelism.get(n, 1) != wanted.parallelism.get(n, 1)}
            for name in (*missing, *sorted(short)):
                self._keep(name, planned, now_s)
        elif missing and self._acts:
            self._not_made(missing, planned, now_s, enough=IN_A_ROW if grown else UNANSWERED)

    def _not_made(self, names: tuple[str, ...], planned: Layout, now_s: float, *, enough: int) -> None:
        if self._groups and set(names) & set(self._groups[0]):
            names = self._groups[0]  # the others are not under suspicion
        else:
            known, times = self._last
            self._last = (names, times + 1 if names == known else 1)
            if self._last[1] < enough:
                return
            self._last = ((), 0)
        self._groups = [group for group in self._groups if group != names]
        self._grouped_s = now_s
        if len(names) == 1:
            self._keep(names[0], planned, now_s)
        else:
            half = len(names) // 2
            self._groups = [names[:half], names[half:], *self._groups]

    def _keep(self, name: str, planned: Layout, now_s: float) -> None:
        known, count = self._kept.get(name), planned.parallelism.get(name, 1)
        self._kept[name] = _Kept(at_s=now_s, times=known.times + 1 if known else 1, count=count)

    def kept(self, now_s: float) -> frozenset[str]:
        """Operators that are not asked to change now."""
        waiting = {name for group in self._groups[1:] for name in group}
        return frozenset(waiting | {name for name, kept in self._kept.items() if now_s < kept.until_s})

    def told(self, now_s: float) -> str:
        """Who is kept, for people; empty where nobody is."""
        parts = []
        for name in sorted(self.kept(now_s)):
            kept = self._kept.get(name)
            left_s = 0.0 if kept is None else kept.until_s - now_s
            again = f"in {format_duration(left_s)}" if left_s > 0 else "after others"
            parts.append(f"{name}: did not come about, asked again {again}")
        return "; ".join(parts)

    def start_over(self, now_s: float) -> None:
        """The clock was set back: nothing was tried later than now."""
        self._kept = {name: replace(k, at_s=min(k.at_s, now_s)) for name, k in self._kept.items()}
        self._grouped_s = min(self._grouped_s, now_s)


USUAL_STOP_S = 6.5
"""Assumed until one was seen: the middle of Storm's 5 to 8 s (Elysium §5.2)."""
FADE = 0.5
"""Weight of what was known when another stop has been seen."""


@dataclass(frozen=True, kw_only=True)
class Worth:
    """What a reconfiguration costs and saves until the next assessment."""

    stop_s: float
    drain_s: float
    late_rows: float
    """Rows that come while it stands still or works off what waits."""
    cost_node_s: float
    saved_node_s: float
    until_s: float

    @property
    def worth_it(self) -> bool:
        """Whether it saves more than it costs, and is through with it in time."""
        return self.saved_node_s > self.cost_node_s and self.stop_s + self.drain_s <= self.until_s

    def __str__(self) -> str:
        saved = self.saved_node_s
        brings = f"saves {saved:.0f}" if saved >= 0 else f"takes {-saved:.0f} more"
        return (
            f"costs {self.cost_node_s:.0f} node-seconds and makes {self.late_rows:.0f} rows late "
            f"({self.stop_s:.1f} s stop, {self.drain_s:.1f} s drain), "
            f"{brings} node-seconds in the next {self.until_s:g} s"
        )


def weigh(before: int, after: int, *, stop_s: float, busy: float, rate_per_s: float, until_s: float) -> Worth:
    """What going from one number of nodes to another costs and saves.

    >>> worth = weigh(4, 3, stop_s=6.0, busy=0.75, rate_per_s=100.0, until_s=60.0)
    >>> str(worth)
    'costs 18 node-seconds and makes 2400 rows late (6.0 s stop, 18.0 s drain), saves 54 node-seconds in the next 60 s'
    >>> worth.worth_it, weigh(30, 29, stop_s=6.0, busy=0.75, rate_per_s=1.0, until_s=60.0).worth_it
    (True, False)
    """
    drain_s = 0.0 if not stop_s else stop_s * busy / (1 - busy) if busy < 1 else math.inf
    return Worth(
        stop_s=stop_s,
        drain_s=drain_s,
        late_rows=rate_per_s * (stop_s + min(drain_s, until_s)),
        cost_node_s=stop_s * after,
        saved_node_s=(before - after) * max(0.0, until_s - stop_s),
        until_s=until_s,
    )


class Stops:
    """How long changes stand still: by a profile, then by the restarts that are read (stop, state, start)."""

    def __init__(self, known_s: float | None = None) -> None:
        self.stop_s = USUAL_STOP_S if known_s is None else known_s
        self._seen_s: dict[str, float] = {}

    def start_over(self) -> None:
        """The clock was set back: restarts are new again."""
        self._seen_s.clear()

    def look(self, snapshot: Snapshot, names: Iterable[str]) -> None:
        """Learn from restarts of some pipelines or queries that are over since the last look."""
        windows = snapshot.windows
        for name in names:
            for time_s, start_s in windows.of(name, Metric.RESTART_START).after(
                self._seen_s.get(name, -math.inf)
            ):
                self._seen_s[name] = time_s
                parts = (Metric.RESTART_STOP, Metric.RESTART_STATE)
                others_s = [s for part in parts for t, s in windows.of(name, part) if t == time_s]
                self.stop_s = FADE * self.stop_s + (1 - FADE) * (start_s + sum(others_s))
