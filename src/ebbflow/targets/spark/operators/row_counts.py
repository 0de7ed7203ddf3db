"""Row counts of named steps, counted by Spark itself: a mark in the plan, and the metric of its node.

A mark is a filter that passes every row and carries a name::

    SPARK_PARTITION_ID() >= 0 OR CAST(SPARK_PARTITION_ID() AS STRING) = 'ebbflow:split:in'

The first half is always true, so the second is never evaluated. Spark does not know that, so it neither drops the
filter nor moves another one across it. The filter is compiled into the loop of its step and has Spark's metric
``number of output rows``. ``observe`` gives the same count, but its node ends the compiled loop, which took a quarter
of a lean query's throughput (``benchmarks operator_cost``).

The drawback: the count is not in Spark's progress. It is read from the plan of a batch, and Spark keeps only the
newest plan. Each poll keeps a reference to it, so every batch longer than a cycle of the loop is counted, and of
shorter batches those that run during a poll.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

_MARK = re.compile(r"= (ebbflow:[^:]+:(?:in|out))\)")
_ROWS = "number of output rows"


class _SqlMetric(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    accumulator_id: int


class _Node(msgspec.Struct, frozen=True, rename="camel"):
    """A node of a physical plan, as in Spark's event log."""

    simple_string: str
    children: list[_Node] = []
    metrics: list[_SqlMetric] = []


def marked(df: DataFrame, mark: str) -> DataFrame:
    """The same rows, counted under ``mark``: ``ebbflow:<operator>:<in or out>``."""
    from pyspark.sql import functions as F  # noqa: N812

    here = F.spark_partition_id()
    return df.where((here >= 0) | (here.cast("string") == F.lit(mark)))


class RowCounts:
    """Row counts of one query's batches."""

    def __init__(self, jvm: Any, mapper: Any) -> None:
        self._jvm = jvm
        self._mapper = mapper
        self._plans: dict[int, Any] = {}
        """Executions by batch."""
        self.stages: dict[str, int] = {}
        """The stage of each mark in the newest plan read; the first stage of a batch is 0."""

    def keep_plan(self, execution: Any) -> None:
        """Keep a reference to the newest execution without reading its plan: Spark may still be planning."""
        if execution is not None:
            self._plans[int(execution.currentBatchId())] = execution

    def of_batch(self, batch_id: int) -> dict[str, int]:
        """Rows by mark of a finished batch, empty if its plan was not kept; drops the plans up to it."""
        execution = self._plans.get(batch_id)
        self._plans = {key: plan for key, plan in self._plans.items() if key > batch_id}
        if execution is None:
            return {}
        try:
            return self._read(execution)
        except (Py4JError, TypeError, msgspec.ValidationError) as error:
            # Only these counts depend on Spark's internal classes; everything else works without them.
            log.warning("cannot read row counts of operators from the plan: %s", type(error).__name__)
            return {}

    def _read(self, execution: Any) -> dict[str, int]:
        info = self._jvm.org.apache.spark.sql.execution.SparkPlanInfo.fromSparkPlan(execution.executedPlan())
        plan = msgspec.json.decode(self._mapper.writeValueAsString(info), type=_Node)
        rows: dict[str, int] = {}
        self.stages = stages(plan)
        for mark, accumulator_id in marks(plan):
            found = self._jvm.org.apache.spark.util.AccumulatorContext.get(accumulator_id)
            if found.isDefined():
                rows[mark] = rows.get(mark, 0) + int(found.get().value())
        return rows


def marks(plan: _Node) -> Iterator[tuple[str, int]]:
    """Every mark in a plan, with the accumulator of its row count."""
    for mark in _MARK.findall(plan.simple_string):
        for metric in plan.metrics:
            if metric.name == _ROWS:
                yield mark, metric.accumulator_id
    for child in plan.children:
        yield from marks(child)


def stages(plan: _Node) -> dict[str, int]:
    """The stage of each mark. A shuffle ends a stage, and the first stage is 0.

    Empty if the plan branches: it does not say which of its stages runs first.

    >>> def node(what: str, *children: _Node) -> _Node:
    ...     return _Node(what, list(children))
    >>> plan = node("Filter (x = ebbflow:count:out)", node("Exchange hashpartitioning(word)",
    ...     node("Filter (x = ebbflow:count:in)")))
    >>> stages(plan)
    {'ebbflow:count:out': 1, 'ebbflow:count:in': 0}
    """
    shuffles = 0
    shuffles_after: dict[str, int] = {}
    while True:
        shuffles += plan.simple_string.startswith("Exchange ")
        shuffles_after.update(dict.fromkeys(_MARK.findall(plan.simple_string), shuffles))
        if len(plan.children) > 1:
            return {}
        if not plan.children:
            return {mark: shuffles - after for mark, after in shuffles_after.items()}
        plan = plan.children[0]
