"""Load series of operators and clusters (DoDo, §6.2).

The load of an operator in a period is s = λ·p: the events that arrive per second times the node seconds that one takes.
The load of a cluster of N nodes is Σ s / N (equation 1): 1 if its nodes are fully busy, more if events queue.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Floats
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Operator
from ebbflow.core.snapshot import Snapshot

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Loads:
    """The load series of operators, and where they are.

    >>> loads = Loads(operators=("a", "b"), clusters=("main", "west"), nodes=np.array([2.0, 1.0]),
    ...               placed=np.array([0, 0]), series=np.array([[1.0, 2.0], [1.0, 0.0]]))
    >>> loads.of_clusters.tolist(), loads.means.tolist()
    ([[1.0, 1.0], [0.0, 0.0]], [1.0, 0.0])
    """

    operators: tuple[str, ...]
    clusters: tuple[str, ...]
    nodes: Floats
    """N of each cluster."""
    placed: Ints
    """The index of the cluster of each operator."""
    series: Floats
    """A row for each operator: its load in each of the last k periods, in nodes."""

    @cached_property
    def operator_means(self) -> Floats:
        """ES of each operator, in nodes."""
        return np.asarray(np.mean(self.series, axis=-1))

    @cached_property
    def of_clusters(self) -> Floats:
        """A row for each cluster: its load in each period, with the operators and nodes that it has now (equation 1).

        So a series has no jump where an operator moved. A cluster without nodes has no load; what is placed there
        waits.
        """
        total = np.zeros((len(self.clusters), self.series.shape[1]))
        np.add.at(total, self.placed, self.series)
        return np.divide(total, self.nodes[:, None], out=np.zeros_like(total), where=self.nodes[:, None] > 0)

    @cached_property
    def means(self) -> Floats:
        """ES of each cluster."""
        return np.asarray(np.mean(self.of_clusters, axis=-1))

    def moved(self, placed: Ints) -> Loads:
        """The same loads with the operators elsewhere."""
        return Loads(
            operators=self.operators,
            clusters=self.clusters,
            nodes=self.nodes,
            placed=placed,
            series=self.series,
        )


class LoadSeries:
    """Collects the loads of operators from snapshots, a value for each period.

    Operators without readings of their own, such as the later steps of a micro-batch query, move with the first
    operator of their query that has some.
    """

    def __init__(self, *, period_s: float, periods: int) -> None:
        self.period_s = period_s
        self.periods = periods
        self._since_s: float | None = None
        self._operators: tuple[str, ...] = ()
        self._values: deque[list[float]] = deque(maxlen=periods)
        self.ready = False
        """Whether a period ended with the last snapshot, and there are k of them."""

    def update(self, snapshot: Snapshot) -> str:
        """Add a snapshot. Returns why there is nothing new to decide on; empty if a period has ended."""
        self.ready = False
        now_s = snapshot.observed_s
        if self._since_s is None:
            self._since_s = now_s
            return "the first period begins"
        if now_s - self._since_s < self.period_s - 1e-9:
            return f"the period of {self.period_s:g} s has not ended"
        since_s, self._since_s = self._since_s, now_s
        windows = snapshot.windows
        operators = [
            each
            for each in snapshot.pipeline.operators
            if windows.of(each.name, Metric.EVENT_RATE).last is not None
        ]
        if not operators:
            return "no data: no operator reports its event rate"
        values: list[float] = []
        for operator in operators:
            load = _load(snapshot, operator, since_s)
            if load is None:
                return f"no data: {operator.name} has no event rate or no time per event for this period"
            values.append(load)
        names = tuple(operator.name for operator in operators)
        if names != self._operators:  # series must be equally long
            self._operators = names
            self._values.clear()
        self._values.append(values)
        if len(self._values) < self.periods:
            return f"{len(self._values)} of {self.periods} periods observed"
        self.ready = True
        return ""

    def restart_period(self, snapshot: Snapshot) -> None:
        """Begin the period anew: in a stop, rates say nothing about the load."""
        self._since_s = snapshot.observed_s
        self.ready = False

    def loads(self, layout: Layout, nodes: Mapping[str, int], *, last: int | None = None) -> Loads:
        """The series with a placement and numbers of nodes; only of the ``last`` periods if given."""
        clusters = tuple(nodes)
        index = {name: k for k, name in enumerate(clusters)}
        series = np.asarray(self._values).T
        return Loads(
            operators=self._operators,
            clusters=clusters,
            nodes=np.array([float(nodes[name]) for name in clusters]),
            placed=np.array(
                [index[layout.placement.get(name, MAIN)] for name in self._operators], dtype=np.int64
            ),
            series=series if last is None else series[:, -last:],
        )


def _load(snapshot: Snapshot, operator: Operator, since_s: float) -> float | None:
    """s = λ·p of an operator since a time; None if one of them is unknown.

    A query reports when a batch ends. While one runs that began before the period, the last values hold.
    """
    rates = snapshot.windows.of(operator.name, Metric.EVENT_RATE)
    recent = rates.after(since_s)
    in_batch = snapshot.queries.get(operator.query or operator.name) is not None
    if not recent and not (in_batch and rates.last is not None):
        return None
    rate_per_s = statistics.fmean(rate for _, rate in recent) if recent else rates.last or 0.0
    times = snapshot.windows.of(operator.name, Metric.TIME_PER_EVENT)
    # without an event in this period, the last known time holds
    measured = [seconds for _, seconds in times.after(since_s)]
    event_s = statistics.fmean(measured) if measured else times.last
    if event_s is None:
        return 0.0 if rate_per_s == 0 else None
    return rate_per_s * event_s


def followers(snapshot: Snapshot, leaders: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """For each operator with a load: the operators of its query that have none and move with it."""
    query_of = {operator.name: operator.query for operator in snapshot.pipeline.operators}
    first: dict[str, str] = {}
    for name in leaders:
        first.setdefault(query_of[name], name)
    found: dict[str, list[str]] = {name: [] for name in leaders}
    for name in snapshot.pipeline.order:
        if name not in found and query_of[name] in first:
            found[first[query_of[name]]].append(name)
    return {name: tuple(more) for name, more in found.items()}
