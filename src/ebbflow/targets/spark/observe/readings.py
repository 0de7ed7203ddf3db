"""What is read of queries, each for itself and all together: one that lags must not hide behind one that does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from ebbflow.core.batches import Batch, OperatorRun
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Operator, Pipeline
from ebbflow.core.readings import Reading
from ebbflow.targets.spark.observe.tracking import QueryTracker

# Which named operators there are, and what is read of them in each batch.


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


def of_batch(batch: Batch) -> list[Reading]:
    """What a finished batch tells of its query."""
    at_s, name = batch.ended_s, batch.query
    readings = [
        Reading(at_s, name, Metric.BATCH_ROWS, float(batch.rows)),
        Reading(at_s, name, Metric.BATCH_TIME, batch.duration_s),
        Reading(at_s, name, Metric.FRESHNESS, max(0.0, at_s - batch.oldest_arrival_s)),
    ]
    if batch.backlog_rows is not None:
        readings.append(Reading(at_s, name, Metric.BACKLOG, batch.backlog_rows))
    if batch.trigger_interval_s:
        after_due_s = batch.started_s % batch.trigger_interval_s
        readings.append(Reading(at_s, name, Metric.SCHEDULING_LATENCY, after_due_s))
    return readings


def of_all(
    name: str,
    now_s: float,
    trackers: Mapping[str, QueryTracker],
    batches: Sequence[Batch],
    limited: AbstractSet[str],
) -> list[Reading]:
    """Sums over the queries; freshness of the running batch where it is already worse than the last.

    ``trackers`` of those that run, by name; ``batches`` that are new; ``limited``: those with a read limit, and
    ``name``, the application, if all have one.
    """
    if not trackers:
        return []
    readings = [
        Reading(now_s, name, Metric.ARRIVAL_RATE, sum(t.rate_per_s for t in trackers.values())),
        *_queued(name, now_s, trackers),
        *_idle(name, now_s, trackers, limited),
    ]
    if batches:
        readings += _last_batches(name, max(batch.ended_s for batch in batches), trackers)
        readings += _state(name, now_s, trackers)
    else:
        readings += _late(name, now_s, trackers)
    return readings


def _queued(name: str, now_s: float, trackers: Mapping[str, QueryTracker]) -> list[Reading]:
    """What waits before each query, and in all; not in all while it is unknown of one."""
    queued = {query: tracker.queue_rows(now_s) for query, tracker in trackers.items()}
    known = {query: rows for query, rows in queued.items() if rows is not None}
    readings = [
        Reading(now_s, query, Metric.QUEUE_LENGTH, rows) for query, rows in known.items() if query != name
    ]
    if len(known) == len(queued):
        readings.append(Reading(now_s, name, Metric.QUEUE_LENGTH, sum(known.values())))
    return readings


def _idle(
    name: str, now_s: float, trackers: Mapping[str, QueryTracker], limited: AbstractSet[str]
) -> list[Reading]:
    """That nothing waits, of queries which would tell it with their next batch and have none to run."""
    idle = {query for query, tracker in trackers.items() if tracker.is_idle}
    if len(idle) == len(trackers):
        idle.add(name)
    return [Reading(now_s, query, Metric.BACKLOG, 0.0) for query in sorted(idle & limited)]


def _last_batches(name: str, at_s: float, trackers: Mapping[str, QueryTracker]) -> list[Reading]:
    """The last batch of every query, taken together."""
    last = [t.last_batch for t in trackers.values() if t.last_batch is not None]
    if not last:  # the news are of a query that has ended
        return []
    left = [batch.backlog_rows for batch in last if batch.backlog_rows is not None]
    readings = [
        Reading(at_s, name, Metric.BATCH_ROWS, float(sum(batch.rows for batch in last))),
        Reading(at_s, name, Metric.BATCH_TIME, max(batch.duration_s for batch in last)),
        Reading(at_s, name, Metric.FRESHNESS, max(max(0.0, b.ended_s - b.oldest_arrival_s) for b in last)),
    ]
    if len(left) == len(last):
        readings.append(Reading(at_s, name, Metric.BACKLOG, sum(left)))
    return readings


def _state(name: str, now_s: float, trackers: Mapping[str, QueryTracker]) -> list[Reading]:
    state = [s for t in trackers.values() if t.last is not None for s in t.last.state_operators]
    if not state:
        return []
    return [
        Reading(now_s, name, Metric.STATE_ROWS, float(sum(s.num_rows_total for s in state))),
        Reading(now_s, name, Metric.STATE_SIZE, float(sum(s.memory_used_bytes for s in state))),
    ]


def _late(name: str, now_s: float, trackers: Mapping[str, QueryTracker]) -> list[Reading]:
    """How old the oldest row of a running batch is by now, once that is more than a batch usually takes."""
    waiting_s = [
        now_s - oldest_s
        for t in trackers.values()
        if t.running_since_s is not None and (oldest_s := t.oldest_unprocessed_s()) is not None
    ]
    usual_s = 2 * max(t.trigger_interval_s for t in trackers.values()) + 2.0
    longest_s = max(waiting_s, default=0.0)
    return [Reading(now_s, name, Metric.FRESHNESS, longest_s)] if longest_s > usual_s else []
