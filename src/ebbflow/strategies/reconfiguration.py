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
from dataclasses import dataclass

from ebbflow.core.metrics import Metric
from ebbflow.core.snapshot import Snapshot

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
