"""Rolling top-k words over tweets, with an enrichment step that waits on a lookup.

::

    tweets ─► enrich ─► words ─► stop-words ─► count in panes (state) ─► rank the last panes (sink)

The window rolls over *panes*: words are counted in state for each short pane, and the ranker adds up the
last few. A pane is counted once however many windows it is part of.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import cloudpickle
from pyspark.sql import functions as F  # noqa: N812

from ebbflow.pipelines import lookup
from ebbflow.targets.spark.operator import operator
from ebbflow.targets.spark.source import register
from ebbflow.workloads.vocabulary import STOP_WORDS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TWEETS = "top-words"
_ROW_MARK = "\x01"
"""First character of the mark by which a tweet is counted beside its words, for the audit."""


@dataclass(frozen=True, kw_only=True)
class TopWords:
    """The application and its settings.

    ``audit`` counts every tweet by its row number in the same state as the words: a row that is lost or
    repeated anywhere between the source and the state shows there.
    """

    load: str
    seed: int = 0
    source_partitions: int = 12
    lookup_wait_s: float = 0.01
    trigger_s: float = 2.0
    pane_s: int = 10
    panes: int = 6
    top: int = 10
    audit: bool = False

    def counts(self, spark: SparkSession, parallelism: Mapping[str, int] | None = None) -> DataFrame:
        """The streaming DataFrame of (pane, word, count)."""
        sizes = parallelism or {}
        register(spark)
        tweets = (
            spark.readStream.format("ebbflow")
            .option("load", self.load)
            .option("rows", "tweets")
            .option("seed", self.seed)
            .option("partitions", self.source_partitions)
            .load()
        )
        enrich = operator("enrich", parallelism=sizes.get("enrich"))
        schema = "row long, timestamp timestamp, text string, region string"
        enriched = tweets.transform(enrich.map_in_arrow(_look_up(self.lookup_wait_s), schema))
        words = enriched.transform(operator("words")(self._words))
        kept = words.transform(operator("stop-words")(lambda df: df.where(~F.col("word").isin(*STOP_WORDS))))
        return (
            kept.withWatermark("timestamp", f"{self.pane_s * self.panes} seconds")
            .groupBy(F.window("timestamp", f"{self.pane_s} seconds").alias("pane"), "word")
            .count()
        )

    def _words(self, df: DataFrame) -> DataFrame:
        words = F.split(F.lower("text"), r"\s+")
        if self.audit:
            words = F.concat(words, F.array(F.concat(F.lit(_ROW_MARK), F.col("row").cast("string"))))
        return df.select("timestamp", F.explode(words).alias("word"))

    def start(
        self,
        spark: SparkSession,
        checkpoint: str,
        ranker: Ranker,
        parallelism: Mapping[str, int] | None = None,
    ) -> StreamingQuery:
        """Start the query; ranked words and the audit are kept by ``ranker``."""
        return (
            self.counts(spark, parallelism)
            .writeStream.queryName(TWEETS)
            .outputMode("update")
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime=f"{round(self.trigger_s * 1000)} milliseconds")
            .foreachBatch(ranker.take)
            .start()
        )


class Ranker:
    """The sink: keeps the counts of the last panes and ranks them; writing the same batch twice is harmless."""

    def __init__(self, *, panes: int, top: int) -> None:
        self._panes = panes
        self._top = top
        self._counts: dict[float, dict[str, int]] = {}
        self._rows: dict[int, int] = {}
        self._ranked: list[tuple[str, int]] = []

    def take(self, batch: DataFrame, batch_id: int) -> None:  # noqa: ARG002
        """Take in the counts that a batch changed."""
        for record in batch.select(F.unix_timestamp("pane.start"), "word", "count").collect():
            pane_s, word, count = float(record[0]), str(record[1]), int(record[2])
            if word.startswith(_ROW_MARK):
                self._rows[int(word[1:])] = count
            else:
                self._counts.setdefault(pane_s, {})[word] = count
        for old in sorted(self._counts)[: -self._panes]:
            del self._counts[old]
        total: Counter[str] = Counter()
        for counts in self._counts.values():
            total.update(counts)
        self._ranked = total.most_common(self._top)

    def top(self) -> list[tuple[str, int]]:
        """The most frequent words of the last panes, as of the last batch; safe from any thread."""
        return self._ranked

    def audit(self, rows: int) -> tuple[list[int], int]:
        """(numbers of those lost, how many repeated) among the first ``rows`` rows of the source."""
        lost = [row for row in range(rows) if row not in self._rows]
        repeated = sum(count - 1 for count in self._rows.values())
        return lost, repeated


def _look_up(wait_s: float) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A step that waits ``wait_s`` for each tweet, as a call to another service would."""

    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return lookup.regions(batches, wait_s, time.sleep)

    return step


# The lookup is sent to executors as code, not as a name: they need pyarrow, but not Ebbflow.
cloudpickle.register_pickle_by_value(lookup)  # type: ignore[no-untyped-call]
