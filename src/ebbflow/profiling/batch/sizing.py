"""Sizes for queries that run in batches: the next batches played forward on any number of nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from ebbflow.core.limits import Limits
from ebbflow.core.snapshot import ActionKind, Snapshot
from ebbflow.profiling.batch.model import BatchModel
from ebbflow.profiling.batch.outlook import QueryState, look_ahead
from ebbflow.profiling.sizing import Size, Sizing, settle_s


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
