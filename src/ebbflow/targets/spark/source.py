"""``spark.readStream.format("ebbflow")``: generates rows at any load, the same rows after every restart.

::

    register(spark)
    tweets = (spark.readStream.format("ebbflow")
              .option("load", "sine(base=100, peak=900, period=10m)").option("rows", "tweets").load())

=================  ==========  ==================================================================
option             default     meaning
=================  ==========  ==================================================================
load               (required)  a shape or a trace, see ``workloads.parse_load``
rows               numbers     ``numbers`` (row, timestamp), ``tweets`` (also text), or ``labelled``
                               (also label): the tweets of ``file``, repeated
file               none        labelled tweets, see ``workloads.read_labelled_tweets``
seed               0           random seed of the generated rows
partitions         4           tasks that read a batch
maxRowsPerTrigger  none        read limit, as in other sources
startMs            now         time 0 of the load, ms since the epoch
=================  ==========  ==================================================================

An offset is the number of rows that have arrived since the start, together with that start. Row i arrives when the
integral of the load reaches i + 1, and is the same whenever it is read. So the rows in a sink can be compared with
the offsets, and lost and repeated rows counted.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from ebbflow.errors import InputError, LoadError, UnknownNameError
from ebbflow.workloads.arrival_times import Arrivals
from ebbflow.workloads.expression import parse_load
from ebbflow.workloads.tweets import read_labelled_tweets

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

SCHEMAS = {
    "numbers": "row long, timestamp timestamp",
    "tweets": "row long, timestamp timestamp, text string",
    "labelled": "row long, timestamp timestamp, text string, label string",
}
_ARROW_BATCH = 10_000


def register(spark: SparkSession) -> None:
    """Register the format with a session."""
    spark.dataSource.register(EbbflowSource)


class RowRange(InputPartition):
    """Rows [first, end) of a load that started at ``start_ms``."""

    def __init__(self, first: int, end: int, start_ms: int) -> None:
        super().__init__((first, end))
        self.first = first
        self.end = end
        self.start_ms = start_ms


class EbbflowSource(DataSource):
    """The format ``ebbflow``."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format()``."""
        return "ebbflow"

    def schema(self) -> str:
        """The columns of the kind of rows."""
        return SCHEMAS[self._kind()]

    def streamReader(self, schema: StructType) -> LoadReader:  # noqa: ARG002
        """The reader of one query."""
        options = self.options
        if "load" not in options:
            raise LoadError(
                "format 'ebbflow' needs a load: .option('load', 'sine(base=100, peak=900, period=10m)')"
            )
        limit = options.get("maxRowsPerTrigger")
        return LoadReader(
            load=options["load"],
            kind=self._kind(),
            seed=_integer(options.get("seed", "0"), "seed", 0),
            partitions=_integer(options.get("partitions", "4"), "partitions", 1),
            max_rows=None if limit is None else _integer(limit, "maxRowsPerTrigger", 1),
            start_ms=_integer(options["startMs"], "startMs", 0) if "startMs" in options else None,
            file=options.get("file"),
        )

    def _kind(self) -> str:
        kind = self.options.get("rows", "numbers")
        if kind not in SCHEMAS:
            raise UnknownNameError("kind of rows", kind, SCHEMAS)
        return kind


class LoadReader(DataSourceStreamReader):
    """Computes offsets from the clock, and rows from their numbers."""

    def __init__(
        self, *, load: str, kind: str, seed: int, partitions: int, max_rows: int | None, start_ms: int | None,
        file: str | None,
    ) -> None:  # fmt: skip
        if kind == "labelled":
            if file is None:
                raise InputError(
                    "format 'ebbflow': rows 'labelled' need a file: .option('file', 'tweets.csv.gz')"
                )
            read_labelled_tweets(file)  # report a broken file before anything runs
        self._load = load
        self._kind = kind
        self._seed = seed
        self._partitions = partitions
        self._max_rows = max_rows
        self._start_ms = start_ms
        self._file = file
        self._arrivals = Arrivals(parse_load(load))
        self._newest: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Row 0, and the start of the load as a string, so that it is not taken for a row count."""
        start_ms = int(time.time() * 1000) if self._start_ms is None else self._start_ms
        return {"startMs": str(start_ms), "row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        """All available rows, unless ``maxRowsPerTrigger`` is set."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

        return ReadAllAvailable() if self._max_rows is None else ReadMaxRows(self._max_rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Rows that have arrived by now, up to the limit."""
        from pyspark.sql.streaming.datasource import ReadMaxRows

        elapsed_s = time.time() - int(start["startMs"]) / 1000
        # Never back, even if the machine's clock is set back.
        arrived = max(int(start["row"]), self._arrivals.rows_by(max(0.0, elapsed_s)))
        self._newest = {"startMs": start["startMs"], "row": arrived}
        if isinstance(limit, ReadMaxRows):
            arrived = min(arrived, int(start["row"]) + limit.max_rows)
        return {"startMs": start["startMs"], "row": arrived}

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Rows that had arrived when the last batch was planned, whatever the read limit."""
        return self._newest

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[RowRange]:
        """Ranges of rows of equal size."""
        first, last = int(start["row"]), int(end["row"])
        edges = [first + (last - first) * i // self._partitions for i in range(self._partitions + 1)]
        start_ms = int(end["startMs"])
        return [RowRange(a, b, start_ms) for a, b in itertools.pairwise(edges) if b > a]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range, generated from their numbers."""
        import numpy as np
        import pyarrow as pa

        from ebbflow.workloads.tweets import Tweets

        assert isinstance(partition, RowRange)
        tweets = Tweets(self._seed) if self._kind == "tweets" else None
        labelled = read_labelled_tweets(self._file) if self._file and self._kind == "labelled" else None
        for first in range(partition.first, partition.end, _ARROW_BATCH):
            count = min(_ARROW_BATCH, partition.end - first)
            rows = np.arange(first, first + count, dtype=np.int64)
            times_us = (self._arrivals.times_of(first, count) * 1e6).astype(
                np.int64
            ) + partition.start_ms * 1000
            columns = [pa.array(rows), pa.array(times_us).cast(pa.timestamp("us", tz="UTC"))]
            names = ["row", "timestamp"]
            if tweets is not None:
                columns.append(tweets.texts(first, count))
                names.append("text")
            if labelled is not None:
                columns += labelled.rows(first, count)
                names += ["text", "label"]
            yield pa.RecordBatch.from_arrays(columns, names)


def _integer(text: str, option: str, minimum: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = minimum - 1
    if value < minimum:
        raise InputError(
            f"option {option} of format 'ebbflow' must be a whole number of at least {minimum}, not '{text}'"
        )
    return value
