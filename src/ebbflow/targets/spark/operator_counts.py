"""What the named operators of a query did, for a job that looks for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ebbflow.targets.spark.driver import Driver
from ebbflow.targets.spark.progress import operator_runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ebbflow.core.batches import OperatorRun


class OperatorCounts:
    """Rows in and out of each named operator, batch by batch; ask it about once a second.

    ::

        counts = ebbflow.OperatorCounts(spark, query)
        while not query.awaitTermination(1):
            for batch_id, run in counts.new():
                print(batch_id, run.name, run.rows_in, run.rows_out, run.cpu_s)
    """

    def __init__(self, spark: SparkSession, query: StreamingQuery) -> None:
        self._driver = Driver(spark)
        self._query = query
        self._rows = self._driver.row_counts()
        self._last_batch_id = -1

    def new(self) -> list[tuple[int, OperatorRun]]:
        """(batch, what an operator did in it) of the batches that ended since this was last asked."""
        found = []
        for progress, rows in self._driver.progress_after(self._query, self._last_batch_id, self._rows):
            self._last_batch_id = progress.batch_id
            found += [
                (progress.batch_id, run) for run in operator_runs(progress, rows, self._driver.stage_cpu_s)
            ]
        return found
