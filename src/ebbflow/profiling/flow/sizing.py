"""Sizes for a pipeline whose rows flow from operator to operator: capacity over time, with its stops."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ebbflow.core.layout import Layout
from ebbflow.core.snapshot import ActionKind, Snapshot
from ebbflow.profiling.flow.model import FlowModel
from ebbflow.profiling.flow.outlook import FlowState, play_flow
from ebbflow.profiling.sizing import Size, Sizing, settle_s


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
