"""The symbiotic strategy on queries that run in batches (Spark): the same two dimensions under another scheduler.

Stages take turns on all slots, so an instance does not hold a core as it does on Storm, and the thresholds of a core
say nothing. What must not be stressed are the slots, and the trigger interval T. Of the rows that come in it

    Σ_i p_i · (o_i + c_i · rows / p_i)                  ≤  cpu_max · S · T
    d + Σ_i ceil(p_i / S) · (o_i + c_i · rows / p_i)    ≤  0.9 · T

on S slots (``batch_model``; allocation by the target's own scheduler, simulated). For given p_i that gives the fewest
nodes; where no number is enough, it is the smallest that is as good as any. Of all p_i those with p_i = S need the
fewest: one full wave. So there are two layouts to choose from: the instances as they are, which needs no restart, and
as many as there are slots, which needs one and may need fewer nodes. Operators are only changed where that shortens the
batch. Stateful ones of a query go together, since Spark gives a query one number of state partitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ebbflow.core.layout import Layout, LayoutDifference
from ebbflow.core.snapshot import Snapshot
from ebbflow.core.waves import waves
from ebbflow.profiling.batch.model import BatchModel
from ebbflow.profiling.batch.stage_match import ObservedStage, StageMatch
from ebbflow.profiling.profile import Range
from ebbflow.strategies.symbiotic.algorithm_one import SLACK, Dimensions, Thresholds
from ebbflow.strategies.symbiotic.view import AS_GOOD, Judged

BATCH_MAX = 0.9
"""Part of its interval above which a batch is stressed: what is over 1 is late, and the next one later."""
WORTH = 0.01
"""Part of the interval that another number of instances must spare to be set."""


@dataclass(frozen=True)
class _Stage:
    """One stage of a query; ``operator`` where its tasks can be set."""

    tasks: int
    per_task_s: float
    per_row_s: float
    skew: float
    operator: str = ""

    def seconds(self, rows: float, slots: int) -> float:
        rounds = max(float(waves(self.tasks, slots)), self.skew)
        return rounds * (self.per_task_s + self.per_row_s * rows / self.tasks)


@dataclass(frozen=True)
class _Query:
    """A query at the load that is sized for."""

    name: str
    driver_s: float
    stages: tuple[_Stage, ...]
    rows: float
    interval_s: float
    seen: Range | None
    """Rows of the batches from which its costs are known."""

    def busy(self, slots: int, stages: Sequence[_Stage]) -> float:
        """Part of its interval that a batch takes."""
        took_s = self.driver_s + sum(stage.seconds(self.rows, slots) for stage in stages)
        return took_s / self.interval_s

    def work(self, stages: Sequence[_Stage]) -> float:
        """Slots' worth of work: task time ÷ interval."""
        task_s = sum(s.tasks * s.per_task_s + s.per_row_s * self.rows for s in stages)
        return task_s / self.interval_s

    def in_stages(self, slots: int, stages: Sequence[_Stage]) -> float:
        """Part of the time in which it holds the slots."""
        return sum(stage.seconds(self.rows, slots) for stage in stages) / self.interval_s


class BatchView:
    """Queries at one moment and one load."""

    def __init__(
        self,
        snapshot: Snapshot,
        known: Mapping[str, tuple[BatchModel, float, float]],
        loads_per_s: Mapping[str, float],
        *,
        thresholds: Thresholds,
        dimensions: Dimensions,
        kept: Collection[str] = (),
        match: StageMatch,
    ) -> None:
        """``known``: model, rate and trigger interval of each query. ``kept``: operators that stay as they are.
        ``match`` tells which stages run operators."""
        self._snapshot, self._dimensions, self._kept = snapshot, dimensions, kept
        self._cpu_max = thresholds.cpu_max
        self._slots_per_node = max(1, snapshot.slots_per_node)
        planned = snapshot.planned.parallelism
        by_query: dict[str, list[str]] = {}
        for operator in snapshot.pipeline.operators:
            if operator.name in planned:
                by_query.setdefault(operator.query or snapshot.pipeline.name, []).append(operator.name)
        self._queries = []
        for name, (model, _, trigger_s) in known.items():
            # Without a trigger batches follow each other at once; half of the objective is for the next one then.
            interval_s = trigger_s or snapshot.slo.freshness_s / 2
            ran = [ObservedStage(stage.tasks, stage.costs[1]) for stage in model.stages]
            found = match.of(name, ran, {operator: planned[operator] for operator in by_query.get(name, ())})
            stages = _stages(model, found)
            rows = loads_per_s[name] * interval_s
            self._queries.append(_Query(name, model.driver_s, stages, rows, interval_s, model.seen_rows))

    def _with(self, parallelism: Mapping[str, int]) -> list[list[_Stage]]:
        return [
            [
                replace(s, tasks=parallelism.get(s.operator, s.tasks)) if s.operator else s
                for s in query.stages
            ]
            for query in self._queries
        ]

    def _judge(self, nodes: int, stages: Sequence[Sequence[_Stage]]) -> Judged:
        """The slots, and the fullest query, or all of them together."""
        slots = max(1, nodes * self._slots_per_node)
        pairs = list(zip(self._queries, stages, strict=True))
        # A batch that outlasts its interval has no tasks for some slots, for as long as it runs.
        share = sum(q.work(own) / max(1.0, q.busy(slots, own)) for q, own in pairs) / slots
        over, where, longest = share / self._cpu_max, f"slots at {share:.2f} of their time", 0.0
        for query, own in pairs:
            longest = max(longest, busy := query.busy(slots, own))
            if busy / BATCH_MAX > over:
                over, where = busy / BATCH_MAX, f"a batch of {query.name} at {busy:.2f} of its interval"
        if len(pairs) > 1:
            together = sum(query.in_stages(slots, own) for query, own in pairs)
            if together / BATCH_MAX > over:
                over, where = together / BATCH_MAX, f"the queries take turns for {together:.2f} of the time"
        freshness_s = max((q.interval_s for q in self._queries), default=0.0) * (1 + longest)
        return Judged(busy=max(share, longest), over=over, where=where, freshness_s=freshness_s)

    def judge(self, layout: Layout) -> Judged:
        """How busy the slots are, and how much of its interval the longest batch takes."""
        return self._judge(layout.main_nodes, self._with(layout.parallelism))

    def layouts(self) -> Sequence[Layout]:
        """The fewest nodes for the instances there are; and, where that is fewer, for one wave of them."""
        planned = self._snapshot.planned
        if not self._dimensions.nodes:
            waves = self._one_wave(planned.main_nodes)
            return [_layout(planned, planned.main_nodes, waves)] if self._dimensions.operators else [planned]
        kept = self._fewest(lambda _: {})
        found = [_layout(planned, kept, {})]
        if self._dimensions.operators:
            nodes = self._fewest(self._one_wave)
            one_wave = _layout(planned, nodes, self._one_wave(nodes))
            if nodes < kept or self.judge(one_wave).over < self.judge(found[0]).over - SLACK:
                found.append(one_wave)
        return found

    def _fewest(self, shape: Callable[[int], Mapping[str, int]]) -> int:
        limits = self._snapshot.limits
        # All rows' work on all slots without a gap: no fewer can be enough, however many instances there are.
        work = sum(s.per_row_s * q.rows / q.interval_s for q in self._queries for s in q.stages)
        least = limits.clamp(math.ceil(work / (self._cpu_max * self._slots_per_node) - SLACK))
        overs = {}
        for nodes in range(least, limits.max_nodes + 1):
            overs[nodes] = self._judge(nodes, self._with(shape(nodes))).over
            if overs[nodes] <= 1 + SLACK:
                return nodes
        # None is: the smallest that is as good as the best. Something else than nodes is missing then.
        best, best_over = limits.min_nodes, math.inf
        for nodes in range(max(1, limits.min_nodes), limits.max_nodes + 1):
            over = overs[nodes] if nodes in overs else self._judge(nodes, self._with(shape(nodes))).over
            if over < (1 - AS_GOOD) * best_over:
                best, best_over = nodes, over
        return best

    def _one_wave(self, nodes: int) -> dict[str, int]:
        """As many instances as slots, of operators that gain by it."""
        slots = nodes * self._slots_per_node
        wanted: dict[str, int] = {}
        for query in self._queries:
            spared_s, changed = 0.0, {}
            for stage in query.stages:
                if stage.operator and stage.operator not in self._kept:
                    count = min(slots, self._dimensions.most(stage.operator, self._snapshot))
                    spared_s += stage.seconds(query.rows, slots)
                    spared_s -= replace(stage, tasks=count).seconds(query.rows, slots)
                    changed[stage.operator] = count
            if spared_s > WORTH * query.interval_s:
                wanted.update(changed)
        return wanted

    def stops(self, change: LayoutDifference) -> bool:
        """Executors come and go while it runs; only instances need a restart."""
        return change.restarts

    def guessed(self, layout: Layout) -> str:  # noqa: ARG002
        """Queries whose batches would have another number of rows than those from which their costs are known."""
        return ", ".join(
            f"a batch of {query.name} of {query.rows:.0f} rows ({query.seen} seen)"
            for query in self._queries
            if query.seen is not None and not query.seen.holds(query.rows)
        )

    def inputs(self) -> Mapping[str, float | str]:
        """How many rows a batch of each query has."""
        return {f"{query.name} batch_rows": round(query.rows) for query in self._queries}


def _layout(planned: Layout, nodes: int, parallelism: Mapping[str, int]) -> Layout:
    changed = {**planned.parallelism, **parallelism}
    return Layout(nodes=planned.nodes, parallelism=changed, placement=planned.placement).with_nodes(nodes)


def _stages(model: BatchModel, operators: Mapping[int, str]) -> tuple[_Stage, ...]:
    return tuple(
        _Stage(s.tasks, *s.costs, s.skew, operators.get(at, "")) for at, s in enumerate(model.stages)
    )
