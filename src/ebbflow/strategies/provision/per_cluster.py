"""The ``capacity`` strategy for each cluster by itself: the better sizing for ``provision``.

A cluster is shown as a pipeline of its own: the operators placed there, the batches of its queries, its nodes as
``main``. Where rows flow from operator to operator, its arrivals are the events that reach its first operators, its
queue is what waits in the cluster, and the CPU of operators follows from the time per event. Instances do not limit it:
an operator of a cluster may use all nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from ebbflow.core.decision import Decision
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Window, Windows
from ebbflow.core.signals import flows
from ebbflow.core.snapshot import Snapshot
from ebbflow.strategies.capacity import Capacity
from ebbflow.strategies.capacity.flow import LearnedFlow

_RATE_WINDOW_S, _HOLD_IN_S = 120.0, 180.0
"""Longer than for a whole pipeline: whenever another cluster changes, what it sends stops and comes back at once."""
_BUSY_LIMIT = 0.9
"""Lower than for a whole pipeline, for the same reason."""


class ClusterSizing:
    """One ``capacity`` strategy for each cluster."""

    def __init__(self) -> None:
        self._strategies: dict[str, Capacity] = {}

    def decide(self, snapshot: Snapshot, cluster: str) -> Decision | None:
        """The decision on a cluster, as if it were alone; None if it has no operators."""
        shown = view_of(snapshot, cluster)
        if shown is None:
            return None
        strategy = self._strategies.get(cluster)
        if strategy is None:
            flow = _ClusterFlow(rate_window_s=_RATE_WINDOW_S) if flows(snapshot) else None
            strategy = self._strategies[cluster] = Capacity(
                learned=flow, rate_window_s=_RATE_WINDOW_S, hold_in_s=_HOLD_IN_S, busy_limit=_BUSY_LIMIT
            )
        return strategy.decide(shown)


def view_of(snapshot: Snapshot, cluster: str) -> Snapshot | None:
    """A snapshot of one cluster; None if no operator is placed there."""
    whole = snapshot.pipeline
    here = [o for o in whole.operators if snapshot.planned.placement.get(o.name, MAIN) == cluster]
    if not here:
        return None
    names = {operator.name for operator in here}
    queries = {operator.query for operator in here} | names
    pipeline = Pipeline(
        name=cluster,
        operators=tuple(here),
        streams=tuple(s for s in whole.streams if s.source in names and s.target in names),
    )

    def alone(layout: Layout) -> Layout:
        return Layout.of(layout.nodes.get(cluster, 0))

    return msgspec.structs.replace(
        snapshot,
        pipeline=pipeline,
        planned=alone(snapshot.planned),
        requested=alone(snapshot.requested),
        observed=alone(snapshot.observed),
        windows=ClusterWindows(snapshot.windows, cluster, pipeline.sources, pipeline.order),
        batches=[batch for batch in snapshot.batches if batch.query in queries],
        queries={name: since_s for name, since_s in snapshot.queries.items() if name in queries},
        under_way=[replace(a, cluster=MAIN) for a in snapshot.under_way if a.cluster == cluster],
        limits=snapshot.limits_of(cluster),
        cluster_limits={},
    )


class ClusterWindows(Windows):
    """The windows of all, with those of the cluster as a pipeline derived from those of its operators."""

    def __init__(self, windows: Windows, name: str, first: Sequence[str], operators: Sequence[str]) -> None:
        super().__init__()
        self._windows, self._name, self._first, self._operators = windows, name, first, operators

    def of(self, subject: str, metric: Metric) -> Window:
        """The window of a series."""
        if subject == self._name:
            if metric is Metric.ARRIVAL_RATE:
                return self._combined(self._first, Metric.EVENT_RATE, 1.0 / len(self._first))
            if metric is Metric.QUEUE_LENGTH:
                return self._combined(self._operators, Metric.OPERATOR_QUEUE, 1.0)
            if metric is Metric.FRESHNESS:
                return self._waiting()
        return self._windows.of(subject, metric)

    def _combined(self, names: Sequence[str], metric: Metric, factor: float) -> Window:
        """factor · Σ over operators, at the times at which all of them were read."""
        found = Window(self._windows.of(names[0], metric).span_s)
        others = [dict(self._windows.of(name, metric)) for name in names[1:]]
        for time_s, value in self._windows.of(names[0], metric):
            if all(time_s in each for each in others):
                found.add(time_s, factor * (value + sum(each[time_s] for each in others)))
        return found

    def _waiting(self) -> Window:
        """How long the oldest row has waited: the queue ÷ the arrival rate."""
        queue, rates = self.of(self._name, Metric.QUEUE_LENGTH), self.of(self._name, Metric.ARRIVAL_RATE)
        found = Window(queue.span_s)
        if queue.last_time_s is not None and queue.last is not None and rates.last:
            found.add(queue.last_time_s, queue.last / rates.last)
        return found


class _ClusterFlow(LearnedFlow):
    """Learns from the time per event, and lets every operator use all nodes."""

    @staticmethod
    def _layout(snapshot: Snapshot) -> tuple[dict[str, int], dict[str, float]]:
        """(as many instances as slots, queued rows) of each operator with readings."""
        of, most = snapshot.windows.of, snapshot.limits.max_nodes * max(1, snapshot.slots_per_node)
        names = [n for n in snapshot.pipeline.order if of(n, Metric.EVENT_RATE).last is not None]
        return dict.fromkeys(names, most), {n: of(n, Metric.OPERATOR_QUEUE).last or 0.0 for n in names}

    @staticmethod
    def _work(
        snapshot: Snapshot, since_s: float, instances: dict[str, int]
    ) -> tuple[dict[str, float], dict[str, float]]:
        """(CPU seconds, rows finished) of each operator since the last observation."""
        of, slots = snapshot.windows.of, max(1, snapshot.slots_per_node)
        cpu_s, done = {}, {}
        for name in instances:
            done[name] = sum(rows for _, rows in of(name, Metric.ROWS_IN).after(since_s))
            times = of(name, Metric.TIME_PER_EVENT)
            recent = [seconds for _, seconds in times.after(since_s)]
            each_s = sum(recent) / len(recent) if recent else times.last or 0.0
            cpu_s[name] = done[name] * each_s * slots
        return cpu_s, done
