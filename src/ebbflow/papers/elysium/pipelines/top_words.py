"""Rolling top-k words over tweets: T1 of Elysium (§5.1), after the topology of storm-starter.

::

    reader ─► [enrich ─►] words ─► stop-words ─► counter ─► intermediate-ranker ─► final-ranker ─► Rankings
     source    a lookup    ├──────── one stage ───┤ state     ├─ best k of each ─┤   one instance     sink
               that waits                                     instance's words

``counter`` counts each word in every window that slides over it, and emits the counts that a batch changed, as totals.
Within a window counts only grow, so a word that was not among the best k and did not change cannot be among them now.
Therefore rankers need only the changed words, and no state.
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
from ebbflow.papers.elysium.pipelines import steps
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
"""A run of letters, digits, _ and ' with at least one letter or digit, and the # or @ before it."""
RANKED = "ends_s long, word string, count long"
"""Input and output columns of the rankers."""

Ranking = list[tuple[str, int]]


class Rankings:
    """The sink: keeps the best words of the last windows. Taking the same batch twice is harmless.

    Incoming counts are totals and replace older ones. The rankings are in memory: after a restart of the driver, counts
    are exact (they are in the checkpoint), but the ranking of a window that was open then misses words that did not
    occur again.

    >>> rankings = Rankings(window_s=60, slide_s=20, top=2)
    >>> rankings.add([(60, "tea", 3), (80, "tea", 3), (100, "tea", 3)])
    >>> rankings.add([(60, "sun", 4), (80, "sun", 4), (100, "sun", 4), (120, "sun", 1)])
    >>> rankings.windows()[60], rankings.top()
    ([('sun', 4), ('tea', 3)], [('sun', 4), ('tea', 3)])
    """

    def __init__(self, *, window_s: int, slide_s: int, top: int, windows: int = 12) -> None:
        self._open_s = window_s - slide_s
        self._top = top
        self._max_windows = max(windows, window_s // slide_s)
        self._by_window: dict[int, Ranking] = {}
        self._rows: dict[int, int] = {}

    def take(self, batch: DataFrame, batch_id: int) -> None:  # noqa: ARG002
        """The function for ``foreachBatch``. Ranks first: without rankers, a batch has all changed counts."""
        for best in steps.best(iter(batch.toArrow().to_batches()), self._top):
            self.add(list(zip(*(column.to_pylist() for column in best.columns), strict=True)))

    def add(self, ranked: list[tuple[int, str, int]]) -> None:
        """Add (end of window, word, count)."""
        changed: dict[int, dict[str, int]] = {}
        for ends_s, word, count in ranked:
            if word.startswith(steps.ROW_MARK):
                self._rows[int(word[1:])] = count
            else:
                changed.setdefault(ends_s, {})[word] = count
        by_window = dict(self._by_window)
        for ends_s, counts in changed.items():
            total = dict(by_window.get(ends_s, ())) | counts
            by_window[ends_s] = sorted(total.items(), key=lambda each: (-each[1], each[0]))[: self._top]
        self._by_window = {ends_s: by_window[ends_s] for ends_s in sorted(by_window)[-self._max_windows :]}

    def windows(self) -> dict[int, Ranking]:
        """The best words of the last windows, by the end of the window in epoch seconds. Thread-safe."""
        return self._by_window

    def top(self) -> Ranking:
        """The most frequent words now: those of the oldest window that is still open."""
        windows = self._by_window
        return windows.get(max(windows) - self._open_s, windows[max(windows)]) if windows else []

    def audit(self, rows: int) -> tuple[list[int], int]:
        """(numbers of lost rows, count of repeated rows) among the first ``rows`` rows of the source."""
        lost = [row for row in range(rows) if row not in self._rows]
        repeated = sum(count - 1 for count in self._rows.values())
        return lost, repeated


@dataclass(frozen=True, kw_only=True)
class TopWords:
    """The pipeline and its settings.

    ``lookup_wait_s`` adds the operator ``enrich`` after the reader: a lookup that takes that long per tweet.
    ``audit`` counts every tweet by its row number in the same state as the words, which reveals rows that were lost or
    repeated between the source and the state.
    """

    load: str
    seed: int = 0
    source_partitions: int = 12
    max_rows: int | None = None
    """Maximum per batch."""
    start_ms: int | None = None
    lookup_wait_s: float | None = None
    trigger_s: float = 2.0
    window_s: int = 60
    slide_s: int = 20
    top: int = 10
    audit: bool = False
    ranks_in_sink: bool = False
    """Leave the rankers out; the sink gets all changed counts and ranks them. New executors have two Python steps fewer
    to start. The driver can take it if a batch changes few words."""

    def __post_init__(self) -> None:
        if self.slide_s < 1 or self.window_s % self.slide_s:
            raise PipelineError(
                f"a window of {self.window_s} s cannot slide by {self.slide_s} s; use a divisor of the window, like "
                f"{max(1, self.window_s // 3)}"
            )
        if self.top < 1:
            raise PipelineError(f"a ranking of the best {self.top} words is empty; use 1 or more")

    # -- steps, from DataFrame to DataFrame; a benchmark builds the same pipeline from them without operators --

    def split(self, df: DataFrame) -> DataFrame:
        """A row for each word: a run of letters, digits, _ and ' with at least one letter or digit, and the # or @
        right before it.

        Also sets the watermark that closes windows, without a delay because rows of one source arrive in order. On
        tweets it costs a twentieth of what it would cost on words. Set before a Python step, it would be lost.
        """
        words = F.regexp_extract_all(F.lower("text"), F.lit(_WORD), F.lit(0))
        if self.audit:
            words = F.concat(words, F.array(F.concat(F.lit(steps.ROW_MARK), F.col("row").cast("string"))))
        timed = df.withWatermark("timestamp", "0 seconds")
        return timed.select("timestamp", F.explode(words).alias("word"))

    def keep(self, df: DataFrame) -> DataFrame:
        """Drop stop words."""
        return df.where(~F.col("word").isin(*sorted(STOP_WORDS)))

    def count(self, df: DataFrame) -> DataFrame:
        """(end of window, word, occurrences so far)."""
        window = F.window("timestamp", f"{self.window_s} seconds", f"{self.slide_s} seconds")
        counts = df.groupBy(window.alias("window"), "word").count()
        return counts.select(F.col("window.end").cast("long").alias("ends_s"), "word", "count")

    def best(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """The step of a ranker."""
        return partial(steps.best, top=self.top)

    # -- the pipeline -------------------------------------------------------------------------------------------

    def ranked(self, tweets: DataFrame, parallelism: Mapping[str, int] | None = None) -> DataFrame:
        """(ends_s, word, count) of the best words of each window, among those that ``tweets`` changed."""
        sizes = dict(parallelism or {})
        df = tweets.transform(operator(READER)(with_text))  # sized by the partitions of the source
        if self.lookup_wait_s is not None:
            enrich = operator("enrich", parallelism=sizes.get("enrich"))
            schema = "row long, timestamp timestamp, text string, region string"
            df = df.transform(enrich.map_in_arrow(_lookup(self.lookup_wait_s), schema))
        df = df.transform(operator("words", parallelism=sizes.get("words"))(self.split))
        df = df.transform(operator("stop-words", parallelism=sizes.get("stop-words"))(self.keep))
        df = df.transform(operator(COUNTER)(self.count))  # sized by the partitions of its state
        if self.ranks_in_sink:
            return df
        ranker = operator("intermediate-ranker", parallelism=sizes.get("intermediate-ranker"), key="word")
        df = df.transform(ranker.map_in_arrow(self.best(), RANKED))
        return df.transform(operator("final-ranker", parallelism=1).map_in_arrow(self.best(), RANKED))

    def reader(self) -> TweetReader:
        """The source of tweets."""
        return TweetReader(
            load=self.load, seed=self.seed, partitions=self.source_partitions, max_rows=self.max_rows,
            start_ms=self.start_ms,
        )  # fmt: skip

    def rankings(self) -> Rankings:
        """A sink for the pipeline."""
        return Rankings(window_s=self.window_s, slide_s=self.slide_s, top=self.top)

    def start(
        self,
        spark: SparkSession,
        checkpoint: str,
        sink: Sink | None,
        parallelism: Mapping[str, int] | None = None,
    ) -> StreamingQuery:
        """Start the query; the output of the final ranker goes to ``sink``."""
        sizes = dict(parallelism or {})
        if sizes.get("final-ranker", 1) != 1:
            raise PipelineError("operator 'final-ranker' can have only one instance, which sees all rankings")
        ranked = self.ranked(self.reader().stream(spark, sizes), sizes)
        with state_partitions(spark, sizes.get(COUNTER)):
            return start_query(
                ranked, name=TOP_WORDS, checkpoint=checkpoint, trigger_s=self.trigger_s, sink=sink
            )

    def managed(
        self, spark: SparkSession, checkpoint: str | Path, sink: Sink | None, parallelism: Mapping[str, int]
    ) -> ManagedQuery:
        """Start a query that Ebbflow can restart with another parallelism of the given operators."""
        return ManagedQuery(
            spark,
            name=TOP_WORDS,
            checkpoint=checkpoint,
            parallelism=parallelism,
            start=lambda sizes: self.start(spark, str(checkpoint), sink, sizes),
            stateful=(COUNTER,),
        )


def _lookup(wait_s: float) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A step that waits ``wait_s`` for each tweet, like a call to another service."""

    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return steps.regions(batches, wait_s, time.sleep)

    return step


# Pickled by value: executors need pyarrow and numpy, but not Ebbflow.
cloudpickle.register_pickle_by_value(steps)  # type: ignore[no-untyped-call]
