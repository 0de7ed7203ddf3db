"""Changes that were asked for and did not come about: wanted again later, and later each time.

Each try may stop a query (another parallelism is a restart), so the same change waits 30 s after the first, then
1 min, 2 min, … up to half an hour. Once the size is another one, whoever changed it, nothing is held against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ebbflow.core.backoff import Backoff
from ebbflow.core.duration import format_duration
from ebbflow.core.layout import Layout
from ebbflow.core.snapshot import Snapshot
from ebbflow.policy.model import NODES
from ebbflow.strategies.rules.sizes import Sizes

RETRY = Backoff(first_s=30.0, longest_s=1800.0)


@dataclass(frozen=True, kw_only=True)
class _Tried:
    at_s: float
    times: int
    before: int

    @property
    def until_s(self) -> float:
        return self.at_s + RETRY.delay_s(self.times)


class Attempts:
    """What was tried, by what was to change and to which size.

    >>> attempts = Attempts()
    >>> for at_s in (0.0, 30.0, 90.0):
    ...     attempts.note("enrich", before=1, size=2, at_s=at_s)
    >>> attempts.waits_s("enrich", 2, now_s=100.0), attempts.waits_s("enrich", 3, now_s=100.0)
    (110.0, 0.0)
    >>> attempts.told("enrich", 2, now_s=100.0)
    '1 → 2 did not come about in 3 tries; it is tried again in 1m50s'
    """

    def __init__(self) -> None:
        self._tried: dict[tuple[str, int], _Tried] = {}
        self._brought = (0, 0)
        """Nodes that were last asked for with instances, and how many there are with them."""

    def note_all(self, snapshot: Snapshot, sizes: Mapping[str, int], wanted: Layout) -> None:
        """Sizes are asked for, and nodes for those that need them."""
        for subject, size in sizes.items():
            self.note(subject, before=Sizes.now(subject, snapshot), size=size, at_s=snapshot.now_s)
        planned = snapshot.planned.main_nodes
        self._brought = (wanted.main_nodes - max(planned, sizes.get(NODES, planned)), wanted.main_nodes)

    def note(self, subject: str, *, before: int, size: int, at_s: float) -> None:
        """A size is asked for."""
        known = self._tried.get((subject, size))
        times = 1 if known is None else known.times + 1
        self._tried[subject, size] = _Tried(at_s=at_s, times=times, before=before)

    def settle(self, snapshot: Snapshot) -> int:
        """Forget about what has another size now. How many nodes came for instances that did not."""
        kept = {key: t for key, t in self._tried.items() if t.before == Sizes.now(key[0], snapshot)}
        came = {subject for subject, _ in self._tried.keys() - kept.keys() if subject != NODES}
        (brought, nodes), self._brought, self._tried = self._brought, (0, 0), kept
        return brought if brought > 0 and not came and snapshot.planned.main_nodes == nodes else 0

    def start_over(self, now_s: float) -> None:
        """The clock was set back: nothing was tried later than now."""
        self._tried = {key: replace(t, at_s=min(t.at_s, now_s)) for key, t in self._tried.items()}

    def waits_s(self, subject: str, size: int, now_s: float) -> float:
        """How long the same change is not asked for again."""
        tried = self._tried.get((subject, size))
        return 0.0 if tried is None else max(0.0, tried.until_s - now_s)

    def told(self, subject: str, size: int, now_s: float) -> str:
        """Why it waits, for people."""
        tried = self._tried[subject, size]
        often = "" if tried.times == 1 else f" in {tried.times} tries"
        left = format_duration(self.waits_s(subject, size, now_s))
        return f"{tried.before} → {size} did not come about{often}; it is tried again in {left}"
