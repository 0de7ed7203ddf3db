"""The common parts of both pipelines: reading tweets and starting the query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ebbflow.targets.spark.source import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    Sink = Callable[[DataFrame, int], None]

READER = "reader"
_SHUFFLES = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, kw_only=True)
class TweetReader:
    """The source of tweets. Each setting is an option of ``format("ebbflow")``.

    The parallelism of the operator ``reader`` is the number of partitions of the source.
    """

    load: str
    seed: int = 0
    partitions: int = 4
    max_rows: int | None = None
    start_ms: int | None = None
    file: str | None = None
    """A file of labelled tweets, instead of generated ones."""

    def stream(self, spark: SparkSession, parallelism: Mapping[str, int]) -> DataFrame:
        """The streaming DataFrame of (row, timestamp, text), with a label if the tweets come from a file."""
        register(spark)
        options = {
            "load": self.load,
            "rows": "tweets" if self.file is None else "labelled",
            "seed": self.seed,
            "partitions": parallelism.get(READER, self.partitions),
            "maxRowsPerTrigger": self.max_rows,
            "startMs": self.start_ms,
            "file": self.file,
        }
        source = spark.readStream.format("ebbflow")
        for key, value in options.items():
            if value is not None:
                source = source.option(key, value)
        return source.load()


def with_text(df: DataFrame) -> DataFrame:
    """The step of the operator ``reader``: drop tweets without a text."""
    return df.where(df["text"].isNotNull())


def start_query(
    df: DataFrame, *, name: str, checkpoint: str, trigger_s: float, sink: Sink | None
) -> StreamingQuery:
    """Start a query whose changed rows go to ``sink``; without a sink they are computed and dropped."""
    stream = (
        df.writeStream.queryName(name)
        .outputMode("update")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=f"{round(trigger_s * 1000)} milliseconds")
    )
    return (stream.format("noop") if sink is None else stream.foreachBatch(sink)).start()


@contextmanager
def state_partitions(spark: SparkSession, count: int | None) -> Iterator[None]:
    """A query that starts in this context on a new checkpoint keeps its state in ``count`` partitions.

    Spark takes the number from the session when a query first starts, and from its checkpoint after that.
    """
    if count is None:
        yield
        return
    before = spark.conf.get(_SHUFFLES)
    spark.conf.set(_SHUFFLES, count)
    try:
        yield
    finally:
        assert before is not None
        spark.conf.set(_SHUFFLES, before)
