"""What each number of nodes would bring: the question a strategy asks, answered for any size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import ActionKind, Snapshot
from ebbflow.profiling.batch_model import BatchModel
from ebbflow.profiling.outlook import QueryState, look_ahead


@dataclass(frozen=True, kw_only=True)
class Size:
    """A number of nodes, the worst freshness predicted on it, and how busy it would be."""

    nodes: int
    freshness_s: float
    busy: float


def settle_s(trigger_interval_s: float, slo: Slo) -> float:
    """How long after a change its effect may be judged: the rows that waited before are through."""
    return max(trigger_interval_s, slo.freshness_s / 3)


class Sizing:
    """The queries of one application at one moment, and what they would do on any number of nodes.

    Queries share the slots: one that leaves them free 60 % of the time makes the others' stages take
    1/0.6 as long. All sizes are judged over the same stretch of time, the one after a node asked for now
    would have come and the rows that wait today are through.
    """

    def __init__(
        self,
        models: Mapping[str, BatchModel],
        states: Mapping[str, QueryState],
        snapshot: Snapshot,
        *,
        busy_limit: float,
    ) -> None:
        self.models = models
        self.states = states
        self._snapshot = snapshot
        self._busy_limit = busy_limit
        self._per_node = max(1, snapshot.slots_per_node)
        interval_s = self._interval_s = max(state.trigger_interval_s for state in states.values())
        self.judge_from_s = snapshot.now_s + snapshot.lead_time_s + settle_s(interval_s, snapshot.slo)
        # Without a trigger a batch may last as long as two of them fit into half of the objective.
        self._patience_s = snapshot.slo.freshness_s / 4
        self._judged: dict[int, Size] = {}
        self._until_s = self.judge_from_s + max(snapshot.slo.freshness_s, 2 * interval_s)

    def sizes(self) -> list[int]:
        """Numbers of nodes worth looking at: those at which a stage of some query saves a wave."""
        limits = self._snapshot.limits
        most_slots = limits.max_nodes * self._per_node
        slots: set[int] = set()
        for model in self.models.values():
            slots.update(model.useful_slots(most_slots))
        if len(self.models) > 1:  # queries fill each other's gaps, so sizes between their edges count too
            slots.update(range(1, min(most_slots, sum(m.most_tasks for m in self.models.values())) + 1))
        return sorted(
            {limits.clamp(math.ceil(count / self._per_node)) for count in slots} | {limits.min_nodes}
        )

    def budget_s(self, share: float) -> float:
        """The wait for the trigger, and a share of what it leaves of the objective: T + β·(SLO − T)."""
        slo_s = self._snapshot.slo.freshness_s
        wait_s = min(self._interval_s, slo_s)
        return wait_s + share * (slo_s - wait_s)

    def fits(self, size: Size, budget_s: float) -> bool:
        """Whether a size keeps within the budget and is not too busy to keep up."""
        return size.freshness_s <= budget_s and size.busy <= self._busy_limit

    def smallest(self, sizes: Sequence[int], budget_s: float) -> Size:
        """The smallest size that fits, by halving; where none does, the smallest that does nearly as
        well as the largest."""
        best = self.judge(sizes[-1])
        reached = self.fits(best, budget_s)
        freshness_s = budget_s if reached else 1.1 * best.freshness_s
        busy = self._busy_limit if reached else max(self._busy_limit, best.busy + 0.05)
        low, high = 0, len(sizes) - 1
        while low < high:
            middle = (low + high) // 2
            size = self.judge(sizes[middle])
            if size.freshness_s <= freshness_s and size.busy <= busy:
                high, best = middle, size
            else:
                low = middle + 1
        return best

    def judge(self, nodes: int) -> Size:
        """What freshness and how busy, on a number of nodes; the worst of all queries."""
        if nodes not in self._judged:
            self._judged[nodes] = self._play(nodes)
        return self._judged[nodes]

    def _play(self, nodes: int) -> Size:
        slots = nodes * self._per_node
        busy = {
            name: model.busy_share(
                slots,
                self.states[name].rate_ahead_per_s,
                self.states[name].trigger_interval_s or self._patience_s,
            )
            for name, model in self.models.items()
        }
        total = sum(busy.values())
        worst_s = 0.0
        for name, model in self.models.items():
            share = 1.0 - min(0.95, total - busy[name])
            phases = [(from_s, model.on(count, share)) for from_s, count in self._slots_over_time(nodes)]
            seen = look_ahead(
                self.states[name], phases, judge_from_s=self.judge_from_s, until_s=self._until_s
            )
            worst_s = max(worst_s, seen.worst_freshness_s)
        return Size(nodes=nodes, freshness_s=worst_s, busy=total)

    def _slots_over_time(self, nodes: int) -> list[tuple[float, int]]:
        """(from, slots): those there now, then those under way, then those of the size."""
        snapshot, per_node = self._snapshot, self._per_node
        there, coming = max(1, snapshot.observed.main_nodes), snapshot.requested.main_nodes
        if nodes <= there:
            return [(float("-inf"), nodes * per_node)]
        phases = [(float("-inf"), there * per_node)]
        asked = [a.since_s for a in snapshot.under_way if a.kind is ActionKind.GROW]
        if asked and coming > there:
            ready_s = max(snapshot.now_s, max(asked) + snapshot.lead_time_s)
            phases.append((ready_s, min(coming, nodes) * per_node))
        if nodes > coming or not asked:
            phases.append((snapshot.now_s + snapshot.lead_time_s, nodes * per_node))
        return phases
