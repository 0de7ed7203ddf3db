"""What each number of nodes would bring: the question a strategy asks, whatever the engine."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import msgspec

from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.readings import Window
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import ActionKind, Snapshot
from ebbflow.forecasting.line import MOST_GROWTH
from ebbflow.profiling.batch.model import BatchModel
from ebbflow.profiling.batch.outlook import QueryState, look_ahead
from ebbflow.profiling.flow import FlowModel, FlowState, play_flow

# The arrival rate to size for, and how fast it surely rises.


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


# Sizes for queries that run in batches: the next batches played forward on any number of nodes.


class BatchSizing(Sizing):
    """The queries of one application at one moment.

    Queries share the slots: one that leaves them free 60 % of the time makes the others' stages take
    1/0.6 as long. ``busy`` is batch(λ·B) / B for the longest batch B that the budget allows: two of them, one
    to wait for and one to be in, so B = max(T, (budget − reserve) / 2). Below 1 batches get no longer than
    that. The reserve is how long the next growth would hold a batch up.
    """

    def __init__(
        self,
        models: Mapping[str, BatchModel],
        states: Mapping[str, QueryState],
        snapshot: Snapshot,
        *,
        budget: float,
        busy_limit: float,
        reserve_s: float = 0.0,
    ) -> None:
        interval_s = max(state.trigger_interval_s for state in states.values())
        super().__init__(
            snapshot,
            wait_s=interval_s,
            budget=budget,
            busy_limit=busy_limit,
            judge_from_s=snapshot.now_s + snapshot.lead_time_s + settle_s(interval_s, snapshot.slo),
        )
        self.models = models
        self._reserve_s = min(reserve_s, self.budget_s / 2)
        self._half_s = (self.budget_s - self._reserve_s) / 2
        self.states = states
        self._per_node = max(1, snapshot.slots_per_node)
        self._sizes: list[int] | None = None
        self._until_s = self.judge_from_s + max(snapshot.slo.freshness_s, 2 * interval_s)

    @property
    def rate_per_s(self) -> float:
        """Rows that arrive per second at all queries."""
        return sum(state.rate_per_s for state in self.states.values())

    def sizes(self) -> list[int]:
        """Numbers of nodes at which a stage of some query saves a wave."""
        if self._sizes is None:
            self._sizes = self._worth_looking_at()
        return self._sizes

    def _worth_looking_at(self) -> list[int]:
        limits, models = self.snapshot.limits, list(self.models.values())
        most_slots = limits.max_nodes * self._per_node
        if len(models) == 1:
            return list(_nodes_for(models[0].useful_slots(most_slots), self._per_node, limits))
        # Queries fill each other's gaps, so sizes between their edges count too.
        together = range(1, min(most_slots, sum(model.most_tasks for model in models)) + 1)
        return list(_nodes_for(tuple(together), self._per_node, limits))

    def busy(self, nodes: int) -> float:
        """The busiest of the queries; of several, no less than all of them together."""
        slots = nodes * self._per_node
        in_stages = self._in_stages(slots)
        busy = sum(in_stages.values())
        for name, model in self.models.items():
            state = self.states[name]
            longest_s = max(state.trigger_interval_s, self._half_s)
            time = model.on(slots, _left_by_others(name, in_stages))
            busy = max(busy, time.of(state.rate_ahead_per_s * longest_s) / longest_s)
        return busy

    def _play(self, nodes: int, busy: float) -> Size:
        """The worst freshness of all queries, and the busiest of them."""
        in_stages = self._in_stages(nodes * self._per_node)
        slots_over_time = self._slots_over_time(nodes)
        worst_s = final_s = 0.0
        for name, model in self.models.items():
            share = _left_by_others(name, in_stages)
            phases = [(from_s, model.on(count, share)) for from_s, count in slots_over_time]
            seen = look_ahead(
                self.states[name], phases, judge_from_s=self.judge_from_s, until_s=self._until_s
            )
            worst_s = max(worst_s, seen.worst_freshness_s)
            final_s = max(final_s, seen.final_freshness_s)
        return Size(nodes, worst_s, final_s, busy, self._reserve_s)

    def _in_stages(self, slots: int) -> dict[str, float]:
        """Part of the time in which the stages of each query hold the slots; not asked of one that is alone."""
        if len(self.models) == 1:
            return {}
        return {
            name: model.busy_share(
                slots,
                self.states[name].rate_ahead_per_s,
                max(self.states[name].trigger_interval_s, self._half_s),
            )
            for name, model in self.models.items()
        }

    def _slots_over_time(self, nodes: int) -> list[tuple[float, int]]:
        """(from, slots): those there now, then those under way, then those of the size."""
        snapshot, per_node = self.snapshot, self._per_node
        there, coming = max(1, snapshot.observed.main_nodes), snapshot.requested.main_nodes
        if nodes <= there:
            return [(-math.inf, nodes * per_node)]
        phases = [(-math.inf, there * per_node)]
        asked = [a.since_s for a in snapshot.under_way if a.kind is ActionKind.GROW]
        if asked and coming > there:
            ready_s = max(snapshot.now_s, max(asked) + snapshot.lead_time_s)
            phases.append((ready_s, min(coming, nodes) * per_node))
        if nodes > coming or not asked:
            phases.append((snapshot.now_s + snapshot.lead_time_s, nodes * per_node))
        return phases


def _left_by_others(name: str, in_stages: Mapping[str, float]) -> float:
    """Part of the slots' time that the other queries leave to one."""
    return 1.0 - min(0.95, sum(in_stages.values()) - in_stages[name]) if in_stages else 1.0


@lru_cache(maxsize=256)
def _nodes_for(slots: tuple[int, ...], per_node: int, limits: Limits) -> tuple[int, ...]:
    """The sizes that bring so many slots; asked at every decision, and seldom about others."""
    return tuple(sorted({limits.clamp(-(-count // per_node)) for count in slots} | {limits.min_nodes}))


# Sizes for a pipeline whose rows flow from operator to operator: capacity over time, with its stops.


class FlowSizing(Sizing):
    """A flow at one moment.

    Every change of its layout stops it for the pause that was learned: that is what any row may have to wait.
    Leaving stops it now, so a smaller size is judged from now on, stop included; for one that takes no change
    as much is kept in reserve, because the next change will need it.
    """

    def __init__(
        self,
        model: FlowModel,
        state: FlowState,
        instances: Mapping[str, int],
        snapshot: Snapshot,
        *,
        budget: float,
        busy_limit: float,
    ) -> None:
        super().__init__(
            snapshot,
            wait_s=model.pause_s,
            budget=budget,
            busy_limit=busy_limit,
            judge_from_s=snapshot.now_s + snapshot.lead_time_s + model.pause_s + settle_s(0.0, snapshot.slo),
        )
        self.model = model
        self.state = state
        self._until_s = self.judge_from_s + snapshot.slo.freshness_s
        self._per_node = max(1, snapshot.slots_per_node)
        self._there, self._coming = snapshot.observed.main_nodes, snapshot.requested.main_nodes
        self._rate_ahead_per_s = state.rate_ahead_per_s
        self.present = model.slowest(instances)
        """(operator, source rows per second): which one limits the flow whatever the nodes, and at what rate."""
        self._here_per_s = min(model.nodes_per_s(max(1, self._there) * self._per_node), self.present[1])
        self.raised = self._raised(instances)
        """Instances wanted of operators that have too few and may have more."""
        self.limit = model.slowest({**instances, **self.raised}) if self.raised else self.present
        """As ``present``, with the instances that are wanted."""
        self._grown_s: float | None = None
        self._stopped_s: float | None = None
        if snapshot.under_way:
            grows = [action.since_s for action in snapshot.under_way if action.kind is ActionKind.GROW]
            stops = [action.since_s for action in snapshot.under_way if action.kind is ActionKind.RESTART]
            self._grown_s, self._stopped_s = max(grows, default=None), min(stops, default=None)

    @property
    def rate_per_s(self) -> float:
        """Source rows that arrive per second."""
        return self.state.rate_per_s

    def capacity_per_s(self, nodes: int) -> float:
        """Source rows a second that so many nodes take in, with the instances that are wanted."""
        return min(self.model.nodes_per_s(nodes * self._per_node), self.limit[1])

    def sizes(self) -> list[int]:
        """Every number of nodes up to the one at which instances are the limit."""
        limits = self.snapshot.limits
        useful = math.ceil(self.limit[1] / self.model.nodes_per_s(self._per_node) - 1e-6)
        return list(range(limits.min_nodes, max(limits.min_nodes, min(limits.max_nodes, useful)) + 1))

    def layout(self, nodes: int) -> Layout:
        """That many nodes, and more instances of the operators that would limit them."""
        if not self.raised:
            return super().layout(nodes)
        planned = self.snapshot.planned
        return Layout(
            nodes=planned.with_nodes(nodes).nodes,
            parallelism={**planned.parallelism, **self.raised},
            placement=planned.placement,
        )

    def _raised(self, instances: Mapping[str, int]) -> dict[str, int]:
        """An operator that cannot take in what is ahead gets half as many instances again as it needs for it,
        up to one on each slot. A stateful one with a single instance keeps it: it sees all rows for a reason
        (a ranking, a total)."""
        wanted_per_s = self._rate_ahead_per_s / self.busy_limit
        if self.present[1] >= wanted_per_s:
            return {}
        most = self.snapshot.limits.max_nodes * self._per_node
        stateful = {operator.name for operator in self.snapshot.pipeline.operators if operator.stateful}
        raised = {}
        for name in self.model.operators:
            planned = self.snapshot.planned.parallelism.get(name)
            if planned is None or name not in instances:
                continue
            count = max(planned, instances[name])  # what was asked for is on its way
            needed = wanted_per_s / self.model.operator_per_s(name, 1)
            if needed > count and not (count == 1 and name in stateful):
                more = min(math.ceil(1.5 * needed), most)
                if more > count:
                    raised[name] = more
            elif planned > instances[name]:
                raised[name] = planned
        return raised

    def busy(self, nodes: int) -> float:
        """The rate ahead ÷ what nodes and instances can take in."""
        return self._rate_ahead_per_s / max(self.capacity_per_s(nodes), 1e-9)

    def _play(self, nodes: int, busy: float) -> Size:
        phases, stops = self._phases(nodes)
        from_s = self.snapshot.now_s if nodes < self._there else self.judge_from_s
        worst_s, final_s = play_flow(self.state, phases, judge_from_s=from_s, until_s=self._until_s)
        return Size(nodes, worst_s, final_s, busy, 0.0 if stops else self.model.pause_s)

    def _phases(self, nodes: int) -> tuple[list[tuple[float, float]], bool]:
        """((from, rows per second) …, whether a stop is in it): those there, those under way, those wanted."""
        snapshot, pause_s = self.snapshot, self.model.pause_s
        now_s, there, coming = snapshot.now_s, max(1, self._there), self._coming
        phases = [(now_s, self._here_per_s)]
        if self._stopped_s is not None:
            phases = [(now_s, 0.0), (max(now_s + 1.0, self._stopped_s + pause_s), self._here_per_s)]
        if nodes == there and nodes == coming and not self.raised:
            return phases, self._stopped_s is not None
        if nodes <= there:
            stop_s = phases[-1][0] if self._stopped_s is not None else now_s
        elif nodes <= coming and self._grown_s is not None:
            stop_s = max(now_s, self._grown_s + snapshot.lead_time_s)
        else:  # nodes that come earlier are put to work with the last ones
            stop_s = now_s + snapshot.lead_time_s
        stop_s = max(stop_s, phases[-1][0])
        return [*phases, (stop_s, 0.0), (stop_s + pause_s, self.capacity_per_s(nodes))], True

    def smallest(self) -> Size:
        """As for any engine, but while nodes that suffice for the present rate are under way, no more."""
        best = super().smallest()
        waits = self._grown_s is not None and self._there < self._coming < best.nodes
        if waits and self.capacity_per_s(self._coming) > self.state.rate_per_s:
            return self.judge(self._coming)
        return best
