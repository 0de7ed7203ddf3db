"""Several pipelines read as one: sums of what adds up, the worst of what must not hide behind the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading

_ADDED = (
    Metric.ARRIVAL_RATE, Metric.QUEUE_LENGTH, Metric.BACKLOG, Metric.BATCH_ROWS, Metric.FAILED_ROWS,
)  # fmt: skip
_WORST = (Metric.FRESHNESS, Metric.BATCH_TIME)


class Overall:
    """The last reading of every pipeline, taken together; the same rule as on Spark, where the application is
    what is scaled and its queries are what is read."""

    def __init__(self, pipelines: Sequence[Pipeline]) -> None:
        self.pipeline = _side_by_side(pipelines)
        self._names = {pipeline.name for pipeline in pipelines}
        self._last: dict[Metric, dict[str, float]] = {}

    def readings(self, now_s: float, new: Iterable[Reading]) -> list[Reading]:
        """Of all together, where at least one has a new reading."""
        fresh = set()
        for reading in new:
            if reading.subject in self._names and reading.metric in (*_ADDED, *_WORST):
                self._last.setdefault(reading.metric, {})[reading.subject] = reading.value
                fresh.add(reading.metric)
        name, last = self.pipeline.name, self._last
        readings = [Reading(now_s, name, m, sum(last[m].values())) for m in _ADDED if m in fresh]
        return readings + [Reading(now_s, name, m, max(last[m].values())) for m in _WORST if m in fresh]


def _side_by_side(pipelines: Sequence[Pipeline]) -> Pipeline:
    """One pipeline of several that have nothing to do with each other.

    >>> _side_by_side([Pipeline.chain("a", "a/read"), Pipeline.chain("b", "b/read", "b/count")]).sources
    ('a/read', 'b/read')
    """
    return Pipeline(
        name=" + ".join(pipeline.name for pipeline in pipelines),
        operators=tuple(
            replace(operator, query=pipeline.name)
            for pipeline in pipelines
            for operator in pipeline.operators
        ),
        streams=tuple(s for pipeline in pipelines for s in pipeline.streams),
    )
