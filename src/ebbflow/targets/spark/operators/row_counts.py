"""Rows that passed a named step, counted by Spark itself: a mark in the plan, and the metric of its node.

A mark is a filter that lets every row pass and carries a name::

    SPARK_PARTITION_ID() >= 0 OR CAST(SPARK_PARTITION_ID() AS STRING) = 'ebbflow:split:in'

Its first half is always true, so the second is never evaluated; Spark cannot know that, so it neither
drops the filter nor moves another across it. It is compiled into the loop of the step it belongs to and has
Spark's own metric ``number of output rows``. ``observe`` would give the same count, but its node ends the
compiled loop: ``benchmarks operator_cost`` showed a quarter of a lean query's throughput gone.

What is given up: the count is not in Spark's progress. It is read off the plan of a batch, and Spark
keeps only the newest plan. It is held at every look, so each batch that is longer than a cycle of the
loop is counted, and of shorter ones at least the one that a look meets.
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


class _Metric(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    accumulator_id: int


class _Node(msgspec.Struct, frozen=True, rename="camel"):
    """A node of a physical plan as Spark writes it into its event log."""

    simple_string: str
    children: list[_Node] = []
    metrics: list[_Metric] = []


def marked(df: DataFrame, mark: str) -> DataFrame:
    """The same rows, counted under ``mark`` on their way: ``ebbflow:<operator>:<in or out>``."""
    from pyspark.sql import functions as F  # noqa: N812

    here = F.spark_partition_id()
    return df.where((here >= 0) | (here.cast("string") == F.lit(mark)))


class RowCounts:
    """Counts of one query's batches, for a reader that looks at it again and again."""

    def __init__(self, jvm: Any, mapper: Any) -> None:
        self._jvm = jvm
        self._mapper = mapper
        self._executions: dict[int, Any] = {}
        self.stages: dict[str, int] = {}
        """The stage in which each mark counts, from the first of a batch on; of the newest plan that was read."""

    def look(self, execution: Any) -> None:
        """Hold the newest plan, without touching it: Spark may still be making it."""
        if execution is not None:
            self._executions[int(execution.currentBatchId())] = execution

    def of_batch(self, batch_id: int) -> dict[str, int]:
        """Rows by mark of a batch that has ended, empty if its plan was not met; older plans are let go."""
        execution = self._executions.get(batch_id)
        self._executions = {key: held for key, held in self._executions.items() if key > batch_id}
        if execution is None:
            return {}
        try:
            return self._read(execution)
        except (Py4JError, TypeError, msgspec.ValidationError) as error:
            # Nothing but these counts hangs on Spark's inner classes; without them the rest goes on.
            log.warning("rows of operators cannot be read off this Spark's plan: %s", type(error).__name__)
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
    """Every mark in a plan with the accumulator that counts its rows."""
    for mark in _MARK.findall(plan.simple_string):
        for metric in plan.metrics:
            if metric.name == _ROWS:
                yield mark, metric.accumulator_id
    for child in plan.children:
        yield from marks(child)


def stages(plan: _Node) -> dict[str, int]:
    """The stage in which each mark counts. A shuffle ends a stage, and the first is 0.

    Empty where the plan branches: which of its stages runs first is then not in it.

    >>> def node(what: str, *children: _Node) -> _Node:
    ...     return _Node(what, list(children))
    >>> plan = node("Filter (x = ebbflow:count:out)", node("Exchange hashpartitioning(word)",
    ...     node("Filter (x = ebbflow:count:in)")))
    >>> stages(plan)
    {'ebbflow:count:out': 1, 'ebbflow:count:in': 0}
    """
    shuffles = 0
    behind: dict[str, int] = {}
    while True:
        shuffles += plan.simple_string.startswith("Exchange ")
        behind.update(dict.fromkeys(_MARK.findall(plan.simple_string), shuffles))
        if len(plan.children) > 1:
            return {}
        if not plan.children:
            return {mark: shuffles - after for mark, after in behind.items()}
        plan = plan.children[0]
