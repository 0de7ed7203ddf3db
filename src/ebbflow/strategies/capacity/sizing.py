"""Predict what each number of nodes would bring, and find the smallest that is enough.

``Sizing`` is the search. ``BatchSizing`` and ``FlowSizing`` predict freshness and load for one kind of engine, and
explain what limits it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import msgspec

from ebbflow.core.decision import Constraint
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.plural import counted
from ebbflow.core.readings import Window
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import ActionKind, Snapshot
from ebbflow.profiling.batch.model import BatchModel
from ebbflow.profiling.batch.outlook import QueryState, simulate_batches
from ebbflow.profiling.flow import FlowModel, FlowState, simulate_flow
from ebbflow.strategies.capacity.diagnosis import why_more_cannot_help

MOST_GROWTH = 3.0
"""A rising rate is extrapolated to this many times itself at most."""
NEARLY = 1.15
"""A size does nearly as well as the largest if its final freshness is at most this many times as long."""
SAME = 1.01
"""Two sizes closer than this do equally well."""
WORTH_OF_NODES = 0.1
"""Beyond the objective, the share of freshness to give up for a share of the nodes: 1 % for 10 %."""


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
        """The rate to size for: the last one, or the mean of the last three if that is higher."""

    def add(self, time_s: float, rate_per_s: float) -> None:
        """Add a rate."""
        self._window.add(time_s, rate_per_s)
        points = self._window.points
        recent = [points[k][1] for k in range(-min(3, len(points)), 0)]
        self.level = max(recent[-1], sum(recent) / len(recent))

    @property
    def last_time_s(self) -> float | None:
        """When the newest rate was read."""
        return self._window.last_time_s

    def rise_per_s(self, ahead_s: float) -> float:
        """The slope less its standard error, capped so that the rate reaches ``MOST_GROWTH`` times itself at most."""
        return min(self._window.rise_per_s(), (MOST_GROWTH - 1.0) * self.level / ahead_s)


class Size(msgspec.Struct, frozen=True, gc=False):
    """A number of nodes, and what is predicted for it."""

    nodes: int
    freshness_s: float
    """The worst in the period that counts."""
    final_s: float
    """Freshness at the end of that period: shows whether a backlog is worked off by then."""
    busy: float
    reserve_s: float = 0.0
    """Part of the budget to keep for the next change, where a change stops the flow."""


def settle_s(trigger_interval_s: float, slo: Slo) -> float:
    """How long after a change its effect shows: by then, rows that waited before it are processed."""
    return max(trigger_interval_s, slo.freshness_s / 3)


class Sizing(ABC):
    """A pipeline at one moment, and predictions for any number of nodes.

    A size fits if its worst freshness stays within the budget and it is not too busy to keep up:

        freshness(n) ≤ budget = wait + β·(SLO − wait)   and   busy(n) ≤ ρ

    ``wait`` is how long every row may have to wait whatever the size. All sizes are compared over the same period, from
    ``judge_from_s`` on: no decision can change what happens before.
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
        self._predicted: dict[int, Size] = {}

    @property
    @abstractmethod
    def rate_per_s(self) -> float:
        """Source rows that arrive per second, as sized for."""

    @abstractmethod
    def sizes(self) -> list[int]:
        """Numbers of nodes that make a difference, ascending."""

    @abstractmethod
    def busy(self, nodes: int) -> float:
        """The load ÷ the capacity of a number of nodes."""

    @abstractmethod
    def _simulate(self, nodes: int, busy: float) -> Size:
        """Simulate the near future on a number of nodes."""

    @abstractmethod
    def bottleneck(self, size: Size) -> Constraint | None:
        """What keeps more nodes from helping; None if more would help."""

    @abstractmethod
    def inputs(self, size: Size) -> Mapping[str, float | str]:
        """The numbers behind a decision that are particular to the engine."""

    def layout(self, nodes: int) -> Layout:
        """The planned layout with that many nodes."""
        return self.snapshot.planned.with_nodes(nodes)

    def predict(self, nodes: int) -> Size:
        """Freshness and load on a number of nodes."""
        size = self._predicted.get(nodes)
        if size is None:
            size = self._predicted[nodes] = self._simulate(nodes, self.busy(nodes))
        return size

    def fits(self, size: Size) -> bool:
        """Whether a size stays within the budget and is not too busy to keep up."""
        return size.freshness_s + size.reserve_s <= self.budget_s and size.busy <= self.busy_limit

    def is_enough(self, nodes: int) -> bool:
        """Whether a number of nodes fits. One that is too busy is not simulated."""
        size = self._predicted.get(nodes)
        if size is None:
            busy = self.busy(nodes)
            if busy > self.busy_limit:
                return False
            size = self._predicted[nodes] = self._simulate(nodes, busy)
        return self.fits(size)

    def smallest(self) -> Size:
        """The smallest size that fits, by bisection, below the planned one if that fits.

        If none fits, rows are late already or will be. Then it is the smallest whose final freshness is within the
        budget, or nearly as good as the best: within the objective, or at a price in freshness that the saved nodes are
        worth. Few nodes take longer to work off a backlog, and so cost more.
        """
        sizes = self.sizes()
        here = bisect_right(sizes, self.snapshot.planned.main_nodes) - 1
        if here >= 0 and self.is_enough(sizes[here]):
            # Usually the next smaller one is too small, and no other need be tried.
            if here == 0 or not self.is_enough(sizes[here - 1]):
                return self.predict(sizes[here])
            return self._first(sizes[:here], self.is_enough)
        if self.is_enough(sizes[-1]):
            return self._first(sizes[here + 1 :] or sizes, self.is_enough)
        return self._nearly_best(sizes, self.predict(sizes[-1]))

    def _nearly_best(self, sizes: Sequence[int], largest: Size) -> Size:
        busy = max(self.busy_limit, NEARLY * largest.busy)

        def as_good(nodes: int) -> bool:
            size = self.predict(nodes)
            return size.final_s <= SAME * largest.final_s and size.busy <= SAME * largest.busy

        best = self._first(sizes, as_good)
        acceptable_s = max(self.budget_s, min(NEARLY * best.final_s, self.snapshot.slo.freshness_s))

        def good_enough(nodes: int) -> bool:
            size = self.predict(nodes)
            saved = max(0.0, best.nodes / size.nodes - 1)
            price = SAME + min(NEARLY - 1, WORTH_OF_NODES * saved)
            return size.final_s <= max(acceptable_s, price * best.final_s) and size.busy <= busy

        return self._first(sizes, good_enough)

    def _first(self, sizes: Sequence[int], enough: Callable[[int], bool]) -> Size:
        """The first size that is enough, by bisection; the last one is taken to be."""
        low, high = 0, len(sizes) - 1
        while low < high:
            middle = (low + high) // 2
            if enough(sizes[middle]):
                high = middle
            else:
                low = middle + 1
        return self.predict(sizes[high])


# -- batches -------------------------------------------------------------------------------------------


class BatchSizing(Sizing):
    """The queries of one application.

    Queries share the slots: if one leaves them free 60 % of the time, the stages of the others take 1/0.6 as long.
    ``busy`` is batch(λ·B) / B for the longest batch B that the budget allows: a row waits for one and is in another, so
    B = max(T, (budget − reserve) / 2). Below 1, batches get no longer than that. The reserve is how long the next
    growth would hold up a batch.
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
        backlog_known: bool = True,
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
        self.states = states
        self._backlog_known = backlog_known
        self._reserve_s = min(reserve_s, self.budget_s / 2)
        self._half_s = (self.budget_s - self._reserve_s) / 2
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
            limits, models = self.snapshot.limits, list(self.models.values())
            most_slots = limits.max_nodes * self._per_node
            if len(models) == 1:
                slots = models[0].useful_slots(most_slots)
            else:  # queries fill each other's gaps, so every size counts
                slots = tuple(range(1, min(most_slots, sum(model.most_tasks for model in models)) + 1))
            self._sizes = list(_nodes_for(slots, self._per_node, limits))
        return self._sizes

    def busy(self, nodes: int) -> float:
        """The load of the busiest query; of several, at least that of all of them together."""
        slots = nodes * self._per_node
        in_stages = self._in_stages(slots)
        busy = sum(in_stages.values())
        for name, model in self.models.items():
            state = self.states[name]
            longest_s = max(state.trigger_interval_s, self._half_s)
            time = model.on(slots, _left_by_others(name, in_stages))
            busy = max(busy, time.of(state.rate_ahead_per_s * longest_s) / longest_s)
        return busy

    def _simulate(self, nodes: int, busy: float) -> Size:
        """The worst freshness of all queries."""
        in_stages = self._in_stages(nodes * self._per_node)
        slots_over_time = self._slots_over_time(nodes)
        worst_s = final_s = 0.0
        for name, model in self.models.items():
            share = _left_by_others(name, in_stages)
            phases = [(from_s, model.on(count, share)) for from_s, count in slots_over_time]
            ahead = simulate_batches(
                self.states[name], phases, judge_from_s=self.judge_from_s, until_s=self._until_s
            )
            worst_s = max(worst_s, ahead.worst_freshness_s)
            final_s = max(final_s, ahead.final_freshness_s)
        return Size(nodes, worst_s, final_s, busy, self._reserve_s)

    def _in_stages(self, slots: int) -> dict[str, float]:
        """Share of the time in which the stages of each query hold the slots; empty for a single query."""
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
        """(from, slots): first those running, then those under way, then those of the size."""
        snapshot, per_node = self.snapshot, self._per_node
        running, coming = max(1, snapshot.observed.main_nodes), snapshot.requested.main_nodes
        if nodes <= running:
            return [(-math.inf, nodes * per_node)]
        phases = [(-math.inf, running * per_node)]
        grown_s = [a.since_s for a in snapshot.under_way if a.kind is ActionKind.GROW]
        if grown_s and coming > running:
            ready_s = max(snapshot.now_s, max(grown_s) + snapshot.lead_time_s)
            phases.append((ready_s, min(coming, nodes) * per_node))
        if nodes > coming or not grown_s:
            phases.append((snapshot.now_s + snapshot.lead_time_s, nodes * per_node))
        return phases

    def bottleneck(self, size: Size) -> Constraint | None:
        """What keeps more nodes from helping the slowest query."""
        snapshot = self.snapshot
        slots = size.nodes * snapshot.slots_per_node
        name = max(self.models, key=lambda n: self.models[n].on(slots).of(self.states[n].rate_per_s))
        return why_more_cannot_help(
            self.models[name],
            self.states[name],
            slots=slots,
            most_slots=snapshot.limits.max_nodes * snapshot.slots_per_node,
            slo_s=snapshot.slo.freshness_s,
        )

    def inputs(self, size: Size) -> Mapping[str, float | str]:
        """Backlog, slope, and the batch time of the query with the most expensive rows."""
        states = self.states.values()
        slots = size.nodes * self.snapshot.slots_per_node
        model = max(self.models.values(), key=lambda m: m.on(slots).per_row_s)
        time = model.on(slots)
        return {
            "slope_per_s2": sum([state.slope_per_s2 for state in states]),
            "backlog_rows": sum([s.backlog_rows for s in states]) if self._backlog_known else "unknown",
            "ahead_s": max([state.slope_for_s for state in states]),
            "driver_s": model.driver_s,
            "batch_fixed_s": time.fixed_s,
            "batch_per_row_ms": time.per_row_s * 1000,
            "reserve_s": size.reserve_s,
        }


def _left_by_others(name: str, in_stages: Mapping[str, float]) -> float:
    """Share of the slots' time that the other queries leave to one."""
    return 1.0 - min(0.95, sum(in_stages.values()) - in_stages[name]) if in_stages else 1.0


@lru_cache(maxsize=256)
def _nodes_for(slots: tuple[int, ...], per_node: int, limits: Limits) -> tuple[int, ...]:
    """The sizes that provide this many slots. Cached: the slots are the same in most decisions."""
    return tuple(sorted({limits.clamp(-(-count // per_node)) for count in slots} | {limits.min_nodes}))


# -- flow ----------------------------------------------------------------------------------------------


class FlowSizing(Sizing):
    """A pipeline whose rows flow from operator to operator.

    Every change of the layout stops the flow for the learned pause: that is how long any row may have to wait.
    Releasing nodes stops it now, so a smaller size is judged from now on, pause included. A size without a change keeps
    the pause in reserve for the next one.
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
        self._instances = instances
        self._until_s = self.judge_from_s + snapshot.slo.freshness_s
        self._per_node = max(1, snapshot.slots_per_node)
        self._running, self._coming = snapshot.observed.main_nodes, snapshot.requested.main_nodes
        self._rate_ahead_per_s = state.rate_ahead_per_s
        self.present = model.slowest(instances)
        """(operator, source rows per second): the operator that limits the flow whatever the nodes, and its rate."""
        self._here_per_s = min(model.nodes_per_s(max(1, self._running) * self._per_node), self.present[1])
        self.raised = self._raised(instances)
        """Instances wanted of operators that have too few and may have more."""
        self.limit = model.slowest({**instances, **self.raised}) if self.raised else self.present
        """As ``present``, with the wanted instances."""
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
        """Source rows per second that this many nodes can process, with the wanted instances."""
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
        """An operator that cannot process the rate ahead gets 1.5 times the instances it needs, up to one on each slot.

        A stateful operator with a single instance keeps it: it needs to see all rows (a ranking, a total).
        """
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
            count = max(planned, instances[name])  # planned ones are on their way
            needed = wanted_per_s / self.model.operator_per_s(name, 1)
            if needed > count and not (count == 1 and name in stateful):
                more = min(math.ceil(1.5 * needed), most)
                if more > count:
                    raised[name] = more
            elif planned > instances[name]:
                raised[name] = planned
        return raised

    def busy(self, nodes: int) -> float:
        """The rate ahead ÷ the capacity of nodes and instances."""
        return self._rate_ahead_per_s / max(self.capacity_per_s(nodes), 1e-9)

    def _simulate(self, nodes: int, busy: float) -> Size:
        phases, stops = self._phases(nodes)
        from_s = self.snapshot.now_s if nodes < self._running else self.judge_from_s
        worst_s, final_s = simulate_flow(self.state, phases, judge_from_s=from_s, until_s=self._until_s)
        return Size(nodes, worst_s, final_s, busy, 0.0 if stops else self.model.pause_s)

    def _phases(self, nodes: int) -> tuple[list[tuple[float, float]], bool]:
        """((from, rows per second) …, whether one is a stop): running nodes, nodes under way, wanted nodes."""
        snapshot, pause_s = self.snapshot, self.model.pause_s
        now_s, running, coming = snapshot.now_s, max(1, self._running), self._coming
        phases = [(now_s, self._here_per_s)]
        if self._stopped_s is not None:
            phases = [(now_s, 0.0), (max(now_s + 1.0, self._stopped_s + pause_s), self._here_per_s)]
        if nodes == running and nodes == coming and not self.raised:
            return phases, self._stopped_s is not None
        if nodes <= running:
            stop_s = phases[-1][0] if self._stopped_s is not None else now_s
        elif nodes <= coming and self._grown_s is not None:
            stop_s = max(now_s, self._grown_s + snapshot.lead_time_s)
        else:  # nodes that come earlier start work together with the last ones
            stop_s = now_s + snapshot.lead_time_s
        stop_s = max(stop_s, phases[-1][0])
        return [*phases, (stop_s, 0.0), (stop_s + pause_s, self.capacity_per_s(nodes))], True

    def smallest(self) -> Size:
        """As for any engine, but no more than the nodes under way while these suffice for the present rate."""
        best = super().smallest()
        waits = self._grown_s is not None and self._running < self._coming < best.nodes
        if waits and self.capacity_per_s(self._coming) > self.state.rate_per_s:
            return self.predict(self._coming)
        return best

    def bottleneck(self, size: Size) -> Constraint | None:
        """Instances that limit the flow whatever the nodes, or the limits."""
        name, per_s = self.limit
        if per_s <= self.model.nodes_per_s(size.nodes * self._per_node):
            count = {**self._instances, **self.raised}[name]
            which = f"one instance of {name} is" if count == 1 else f"{count} instances of {name} are"
            return Constraint(
                name="instances",
                why=f"{which} the limit, at {per_s:.0f} rows/s: more nodes cannot help; "
                "a cheaper step would, or one that can be split",
            )
        if size.nodes >= self.snapshot.limits.max_nodes:
            most = counted(size.nodes, "node")
            return Constraint(name="limit", why=f"the limits allow no more than {most}")
        return None

    def inputs(self, size: Size) -> Mapping[str, float | str]:
        """Queue, slope, and the costs of the flow model."""
        state, model = self.state, self.model
        return {
            "slope_per_s2": state.slope_per_s2,
            "queue_rows": state.queue_rows,
            "freshness_s": state.freshness_s,
            "ahead_s": state.slope_for_s,
            "row_cpu_ms": 1000 * model.row_cpu_s,
            "slot_cpu": model.slot_cpu,
            "capacity_per_s": self.capacity_per_s(size.nodes),
            "pause_s": model.pause_s,
            "reserve_s": size.reserve_s,
        }
