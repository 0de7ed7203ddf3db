"""Rolling top-k words over tweets: T1 of the Elysium seed (§5.1), after the topology of Storm's starter.

::

    reader ─► [enrich ─►] words ─► stop-words ─► counter ─► intermediate-ranker ─► final-ranker ─► Rankings
     source    a lookup    ├──────── one stage ───┤ state     ├─ best k of each ─┤   one instance     sink
               that waits                                     instance's words

``counter`` counts each word in every window that slides over it. It emits the counts that a batch changed, as
totals, and in a window counts only grow. So a word that was not among the best k of a window and did not change
cannot be among them now: rankers need to see changed words only, and need no state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import cloudpickle
from pyspark.sql import functions as F  # noqa: N812

from ebbflow.errors import PipelineError
from ebbflow.papers.elysium.pipelines import lookup, ranking
from ebbflow.papers.elysium.pipelines.rankings import Rankings
from ebbflow.papers.elysium.pipelines.reader import (
    READER,
    TweetReader,
    start_query,
    state_partitions,
    with_text,
)
from ebbflow.targets.spark.act.restart import ManagedQuery
from ebbflow.targets.spark.operators.operator import operator
from ebbflow.workloads.tweets import STOP_WORDS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ebbflow.papers.elysium.pipelines.reader import Sink

TOP_WORDS = "top-words"
COUNTER = "counter"
OPERATORS = (READER, "words", "stop-words", COUNTER, "intermediate-ranker", "final-ranker")
_WORD = r"[@#]?[_']*[\p{L}\p{N}][\p{L}\p{N}_']*"
"""The # or @ before it, and a run with a letter or digit in it: quotes and marks alone are no words."""
RANKED = "ends_s long, word string, count long"
"""What rankers take and give."""


@dataclass(frozen=True, kw_only=True)
class TopWords:
    """The application and its settings.

    ``lookup_wait_s`` puts the operator ``enrich`` behind the reader: a lookup for which each tweet waits that long.
    ``audit`` counts every tweet by its row number in the same state as the words: a row that is lost or
    repeated anywhere between the source and the state shows there.
    """

    load: str
    seed: int = 0
    source_partitions: int = 12
    max_rows: int | None = None
    """Of a batch."""
    start_ms: int | None = None
    lookup_wait_s: float | None = None
    trigger_s: float = 2.0
    window_s: int = 60
    slide_s: int = 20
    top: int = 10
    audit: bool = False
    ranks_in_sink: bool = False
    """Without rankers: all changed counts go to the sink, which ranks them. Two Python steps less for each new
    executor to start, and no more than the driver can take where a batch changes few words."""

    def __post_init__(self) -> None:
        if self.slide_s < 1 or self.window_s % self.slide_s:
            raise PipelineError(
                f"a window of {self.window_s} s cannot slide by {self.slide_s} s; by a whole part of it, like "
                f"{max(1, self.window_s // 3)}"
            )
        if self.top < 1:
            raise PipelineError(f"the best {self.top} words make no ranking; 1 or more")

    # -- steps, from DataFrame to DataFrame; with them a benchmark builds the same without names --------------

    def split(self, df: DataFrame) -> DataFrame:
        """A row for each word: runs of letters, digits, _ and ' with at least a letter or digit in them, with the # or
        @ right before them.

        Its tweets also tell the time by which windows are closed: without a delay, because rows of one source
        come in order. Said of tweets, not of words, it costs a twentieth; said before a Python step, it is lost.
        """
        words = F.regexp_extract_all(F.lower("text"), F.lit(_WORD), F.lit(0))
        if self.audit:
            words = F.concat(words, F.array(F.concat(F.lit(ranking.ROW_MARK), F.col("row").cast("string"))))
        timed = df.withWatermark("timestamp", "0 seconds")
        return timed.select("timestamp", F.explode(words).alias("word"))

    def keep(self, df: DataFrame) -> DataFrame:
        """Words that say something."""
        return df.where(~F.col("word").isin(*sorted(STOP_WORDS)))

    def count(self, df: DataFrame) -> DataFrame:
        """(end of window, word, how often it stood there so far)."""
        window = F.window("timestamp", f"{self.window_s} seconds", f"{self.slide_s} seconds")
        counts = df.groupBy(window.alias("window"), "word").count()
        return counts.select(F.col("window.end").cast("long").alias("ends_s"), "word", "count")

    def best(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """What a ranker does with the rows of one instance."""
        return partial(ranking.best, top=self.top)

    # -- the pipeline -------------------------------------------------------------------------------------------

    def ranked(self, tweets: DataFrame, parallelism: Mapping[str, int] | None = None) -> DataFrame:
        """(ends_s, word, count) of the best words of each window, of those that tweets changed."""
        sizes = dict(parallelism or {})
        df = tweets.transform(operator(READER)(with_text))  # its parallelism is that of the source
        if self.lookup_wait_s is not None:
            enrich = operator("enrich", parallelism=sizes.get("enrich"))
            schema = "row long, timestamp timestamp, text string, region string"
            df = df.transform(enrich.map_in_arrow(_look_up(self.lookup_wait_s), schema))
        df = df.transform(operator("words", parallelism=sizes.get("words"))(self.split))
        df = df.transform(operator("stop-words", parallelism=sizes.get("stop-words"))(self.keep))
        df = df.transform(operator(COUNTER)(self.count))  # its parallelism is that of its state
        if self.ranks_in_sink:
            return df
        ranker = operator("intermediate-ranker", parallelism=sizes.get("intermediate-ranker"), key="word")
        df = df.transform(ranker.map_in_arrow(self.best(), RANKED))
        return df.transform(operator("final-ranker", parallelism=1).map_in_arrow(self.best(), RANKED))

    def reader(self) -> TweetReader:
        """Where its tweets come from."""
        return TweetReader(
            load=self.load, seed=self.seed, partitions=self.source_partitions, max_rows=self.max_rows,
            start_ms=self.start_ms,
        )  # fmt: skip

    def rankings(self) -> Rankings:
        """A sink for it."""
        return Rankings(window_s=self.window_s, slide_s=self.slide_s, top=self.top)

    def start(
        self,
        spark: SparkSession,
        checkpoint: str,
        sink: Sink | None,
        parallelism: Mapping[str, int] | None = None,
    ) -> StreamingQuery:
        """Start the query; what the final ranker gives goes to ``sink``."""
        sizes = dict(parallelism or {})
        if sizes.get("final-ranker", 1) != 1:
            raise PipelineError("operator 'final-ranker' is one instance: who sees all rankings is one")
        ranked = self.ranked(self.reader().stream(spark, sizes), sizes)
        with state_partitions(spark, sizes.get(COUNTER)):
            return start_query(
                ranked, name=TOP_WORDS, checkpoint=checkpoint, trigger_s=self.trigger_s, sink=sink
            )

    def managed(
        self, spark: SparkSession, checkpoint: str | Path, sink: Sink | None, parallelism: Mapping[str, int]
    ) -> ManagedQuery:
        """Start it so that Ebbflow may restart it with another parallelism of the operators named here."""
        return ManagedQuery(
            spark,
            name=TOP_WORDS,
            checkpoint=checkpoint,
            parallelism=parallelism,
            start=lambda sizes: self.start(spark, str(checkpoint), sink, sizes),
            stateful=(COUNTER,),
        )


def _look_up(wait_s: float) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A step that waits ``wait_s`` for each tweet, as a call to another service would."""

    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return lookup.regions(batches, wait_s, time.sleep)

    return step


# Sent to executors as code, not as a name: they need pyarrow and numpy, but not Ebbflow.
for _module in (lookup, ranking):
    cloudpickle.register_pickle_by_value(_module)  # type: ignore[no-untyped-call]
