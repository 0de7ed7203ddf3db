"""What each number of nodes would bring: the question a strategy asks, whatever the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence

import msgspec

from ebbflow.core.layout import Layout
from ebbflow.core.readings import Window
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import Snapshot

# The arrival rate to size for, and how fast it surely rises.


MOST_GROWTH = 3.0
"""A rise is not believed beyond this many times the rate."""


class Rates:
    """The recent arrival rates of a query or pipeline.

    >>> rates = Rates(window_s=30.0)
    >>> for t in (0.0, 10.0, 20.0):
    ...     rates.add(t, 100.0 + t)
    >>> rates.level, rates.rise_per_s(ahead_s=60.0)
    (120.0, 1.0)
    """

    def __init__(self, *, window_s: float) -> None:
        self._window = Window(span_s=window_s)
        self.level = 0.0
        """The higher of the last rate and the mean of the last three: a fall is believed when it has happened."""

    def add(self, time_s: float, rate_per_s: float) -> None:
        """Take in a rate."""
        self._window.add(time_s, rate_per_s)
        points = self._window.points
        recent = [points[k][1] for k in range(-min(3, len(points)), 0)]
        self.level = max(recent[-1], sum(recent) / len(recent))

    @property
    def last_time_s(self) -> float | None:
        """When the newest rate was read."""
        return self._window.last_time_s

    def rise_per_s(self, ahead_s: float) -> float:
        """The slope less its standard error; in the seconds ahead to no more than three times the rate."""
        return min(self._window.rise_per_s(), (MOST_GROWTH - 1.0) * self.level / ahead_s)


NEARLY = 1.15
"""A size does nearly as well as the largest if what it ends up with is no more than this many times as much."""
SAME = 1.01
"""Closer than this, two sizes do equally well."""
WORTH_OF_NODES = 0.1
"""Beyond the objective, so much of a share of freshness is given up for a share of the nodes: 1 % for 10 %."""


class Size(msgspec.Struct, frozen=True, gc=False):
    """A number of nodes, and what is predicted on it."""

    nodes: int
    freshness_s: float
    """The worst in the time that is judged."""
    final_s: float
    """Freshness at the end of that time: whether a backlog is worked off by then."""
    busy: float
    reserve_s: float = 0.0
    """What must be left of the budget for the next change, where a change stops the flow."""


def settle_s(trigger_interval_s: float, slo: Slo) -> float:
    """How long after a change its effect may be judged: the rows that waited before are through."""
    return max(trigger_interval_s, slo.freshness_s / 3)


class Sizing(ABC):
    """A pipeline at one moment, and what it would do on any number of nodes.

    A size fits when its worst freshness stays within the budget and it is not too busy to keep up:

        freshness(n) ≤ budget = wait + β·(SLO − wait)   and   busy(n) ≤ ρ

    ``wait`` is what every row may have to wait whatever the size. All sizes are judged over the same stretch
    of time, from ``judge_from_s`` on: what happens before, no decision can change.
    """

    def __init__(
        self, snapshot: Snapshot, *, wait_s: float, budget: float, busy_limit: float, judge_from_s: float
    ) -> None:
        self.snapshot = snapshot
        slo_s = snapshot.slo.freshness_s
        wait_s = min(wait_s, slo_s)
        self.budget_s = wait_s + budget * (slo_s - wait_s)
        self.judge_from_s = judge_from_s
        self.busy_limit = busy_limit
        self._judged: dict[int, Size] = {}

    @property
    @abstractmethod
    def rate_per_s(self) -> float:
        """Source rows that arrive per second, as sized for."""

    @abstractmethod
    def sizes(self) -> list[int]:
        """Numbers of nodes worth looking at, ascending."""

    @abstractmethod
    def busy(self, nodes: int) -> float:
        """What is asked of a number of nodes ÷ what they can do."""

    @abstractmethod
    def _play(self, nodes: int, busy: float) -> Size:
        """What a number of nodes would bring, which would be so busy."""

    def layout(self, nodes: int) -> Layout:
        """The planned layout with that many nodes."""
        return self.snapshot.planned.with_nodes(nodes)

    def judge(self, nodes: int) -> Size:
        """What freshness and how busy, on a number of nodes."""
        size = self._judged.get(nodes)
        if size is None:
            size = self._judged[nodes] = self._play(nodes, self.busy(nodes))
        return size

    def fits(self, size: Size) -> bool:
        """Whether a size keeps within the budget and is not too busy to keep up."""
        return size.freshness_s + size.reserve_s <= self.budget_s and size.busy <= self.busy_limit

    def keeps(self, nodes: int) -> bool:
        """Whether a number of nodes fits; one that is too busy need not be played forward to know."""
        size = self._judged.get(nodes)
        if size is None:
            busy = self.busy(nodes)
            if busy > self.busy_limit:
                return False
            size = self._judged[nodes] = self._play(nodes, busy)
        return self.fits(size)

    def smallest(self) -> Size:
        """The smallest size that fits, by halving, below the planned one if that fits.

        Where none fits, rows are late already or will be. Then it is the smallest that ends up within the
        budget, or else nearly as well as the best: within the objective, or at a price in freshness that the
        nodes it spares are worth. Whoever works off a backlog with few nodes pays for them the longer.
        """
        sizes = self.sizes()
        here = bisect_right(sizes, self.snapshot.planned.main_nodes) - 1
        if here >= 0 and self.keeps(sizes[here]):
            # Mostly the next smaller one is too small already, and nothing else needs to be looked at.
            if here == 0 or not self.keeps(sizes[here - 1]):
                return self.judge(sizes[here])
            return self._halve(sizes[:here], self.keeps)
        if self.keeps(sizes[-1]):
            return self._halve(sizes[here + 1 :] or sizes, self.keeps)
        return self._nearly_best(sizes, self.judge(sizes[-1]))

    def _nearly_best(self, sizes: Sequence[int], largest: Size) -> Size:
        busy = max(self.busy_limit, NEARLY * largest.busy)

        def as_good(nodes: int) -> bool:
            size = self.judge(nodes)
            return size.final_s <= SAME * largest.final_s and size.busy <= SAME * largest.busy

        best = self._halve(sizes, as_good)
        kept_s = max(self.budget_s, min(NEARLY * best.final_s, self.snapshot.slo.freshness_s))

        def enough(nodes: int) -> bool:
            size = self.judge(nodes)
            spared = max(0.0, best.nodes / size.nodes - 1)
            price = SAME + min(NEARLY - 1, WORTH_OF_NODES * spared)
            return size.final_s <= max(kept_s, price * best.final_s) and size.busy <= busy

        return self._halve(sizes, enough)

    def _halve(self, sizes: Sequence[int], enough: Callable[[int], bool]) -> Size:
        """The first size that is enough, where the last one is."""
        low, high = 0, len(sizes) - 1
        while low < high:
            middle = (low + high) // 2
            if enough(sizes[middle]):
                high = middle
            else:
                low = middle + 1
        return self.judge(sizes[high])
