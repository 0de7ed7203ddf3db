"""Which named operators there are, and what is read of them in each batch."""

from __future__ import annotations

from collections.abc import Mapping

from ebbflow.core.batches import Batch, OperatorRun
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Operator, Pipeline
from ebbflow.core.readings import Reading


class OperatorReadings:
    """Remembers the operators met so far: their queries, and up to when their CPU has been told."""

    def __init__(self, application: str, operators: Mapping[str, str]) -> None:
        """``operators``: those that are known before a batch has shown them, each with its query."""
        self._query_of = dict(operators)
        self._told_until_s: dict[str, float] = {}
        self._pipeline = Pipeline(name=application, operators=())

    @property
    def pipeline(self) -> Pipeline:
        """All of them, as a pipeline; the same object while there are no others."""
        if len(self._query_of) != len(self._pipeline.operators):
            operators = tuple(Operator(name=name, query=query) for name, query in self._query_of.items())
            self._pipeline = Pipeline(name=self._pipeline.name, operators=operators)
        return self._pipeline

    def begin(self, query: str, at_s: float) -> None:
        """A run has ended its first batch: its operators' CPU is a share of the time from here on. While a query is
        restarted its instances are not idle; they are not there."""
        self._told_until_s.update({name: at_s for name, of in self._query_of.items() if of == query})

    def of(self, batch: Batch) -> list[Reading]:
        """What a batch tells of its operators."""
        return [reading for run in batch.operators for reading in self._of_run(batch, run)]

    def _of_run(self, batch: Batch, run: OperatorRun) -> list[Reading]:
        at_s, name = batch.ended_s, run.name
        since_s = self._told_until_s.get(name, batch.started_s)
        self._told_until_s[name] = at_s
        self._query_of.setdefault(name, batch.query)
        readings = [
            Reading(at_s, name, Metric.ROWS_IN, float(run.rows_in)),
            Reading(at_s, name, Metric.ROWS_OUT, float(run.rows_out)),
        ]
        if run.cpu_s is None:
            return readings
        readings.append(Reading(at_s, name, Metric.OPERATOR_CPU, run.cpu_s))
        if run.busiest_instance_cpu_s is not None:
            readings.append(Reading(at_s, name, Metric.BUSIEST_INSTANCE_CPU, run.busiest_instance_cpu_s))
        readings.append(Reading(at_s, name, Metric.INSTANCES, float(run.instances or 0)))
        if run.instances and at_s > since_s:
            share = run.cpu_s / run.instances / (at_s - since_s)
            readings.append(Reading(at_s, name, Metric.INSTANCE_CPU, share))
        return readings
