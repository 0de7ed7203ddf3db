"""Tweets per second of the two applications on two cores, with and without named operators, alternating.

The tweets wait at the source, so that each batch is full, and no operator waits. The speed of a query is that of
its median batch, from trigger to commit. Both versions warm up until the JVM has compiled them. Because a shared
machine varies over half a minute, they then take short turns, and the cost of the names is the median over
neighbouring pairs of turns. The CPU time per tweet is reported, too.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psutil

from benchmarks.figures import Figure
from ebbflow.papers.elysium.pipelines.reader import with_text
from ebbflow.papers.elysium.pipelines.sentiment import Sentiment, feature_columns, sentiment_columns
from ebbflow.papers.elysium.pipelines.top_words import RANKED, TopWords
from ebbflow.targets.spark.launch.session import use_loopback, use_this_python

ROWS_PER_BATCH, BATCHES, WARM_UP, TURNS = 200_000, 3, 1, 11
WARM_UP_TURNS = 3
CORES = 2
HOUR_MS = 3_600_000


def measure() -> list[Figure]:
    use_this_python()
    use_loopback()
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    spark = (
        builder.master(f"local[{CORES}]")
        .appName("pipelines")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(CORES))
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    try:
        return [
            *_figures(spark, "top-k words", _named_top_words, _plain_top_words, bar=50_000),
            *_figures(spark, "sentiment", _named_sentiment, _plain_sentiment, bar=10_000),
        ]
    finally:
        spark.stop()


Built = tuple[Any, Callable[..., None] | None]
"""A streaming DataFrame, and the sink of its batches."""


@dataclass(frozen=True)
class Turn:
    """One run of a query: seconds of each batch, and the CPU time of all its processes."""

    batches_s: list[float]
    cpu_s: float
    rows: int

    def __str__(self) -> str:
        speeds = ", ".join(f"{ROWS_PER_BATCH / s:,.0f}" for s in self.batches_s)
        return f"{speeds} tweets/s, {1e6 * self.cpu_s / self.rows:.1f} µs of CPU a tweet"


def _figures(
    spark: Any, what: str, named: Callable[[Any], Built], plain: Callable[[Any], Built], bar: float
) -> list[Figure]:
    for _ in range(WARM_UP_TURNS):
        _run(*named(spark))
        _run(*plain(spark))
    turns: dict[str, list[Turn]] = {"named": [], "plain": []}
    for turn in range(TURNS):
        pairs = [("plain", plain), ("named", named)]
        for name, build in pairs if turn % 2 else pairs[::-1]:
            turns[name].append(_run(*build(spark)))
            print(f"  {what}, {name}: {turns[name][-1]}", file=sys.stderr, flush=True)
    batches_s = {name: [s for turn in own for s in turn.batches_s] for name, own in turns.items()}
    speed = {name: ROWS_PER_BATCH / statistics.median(own) for name, own in batches_s.items()}
    cpu_us = {
        name: statistics.median(1e6 * turn.cpu_s / turn.rows for turn in own) for name, own in turns.items()
    }
    lost = 1 - statistics.median(
        statistics.median(plain_one.batches_s) / statistics.median(named_one.batches_s)
        for plain_one, named_one in zip(turns["plain"], turns["named"], strict=True)
    )
    return [
        Figure(what=f"{what}, {CORES} cores", value=speed["named"], unit="tweets/s", bar=bar, at_least=True),
        Figure(what="  the same in plain Spark", value=speed["plain"], unit="tweets/s"),
        Figure(what="  throughput that the names cost", value=100 * lost, unit="%", bar=10.0),
        Figure(what="  CPU per tweet", value=cpu_us["named"], unit="µs"),
        Figure(what="  CPU per tweet in plain Spark", value=cpu_us["plain"], unit="µs"),
    ]


def _run(df: Any, sink: Callable[..., None] | None) -> Turn:
    """Run a query for some full batches, without the first ones."""
    with tempfile.TemporaryDirectory() as checkpoint:
        stream = df.writeStream.outputMode("update").option("checkpointLocation", checkpoint)
        query = (stream.format("noop") if sink is None else stream.foreachBatch(sink)).start()

        def full() -> list[float]:
            done = [p for p in query.recentProgress if p["numInputRows"] == ROWS_PER_BATCH]
            return [p["durationMs"]["triggerExecution"] / 1000 for p in done]

        def once(batches: int) -> tuple[int, float]:
            while len(full()) < batches:
                query.awaitTermination(0.1)
            return len(full()), _cpu_s()

        first, before_s = once(WARM_UP)
        last, after_s = once(first + BATCHES)
        seconds = full()[first:last]
        query.stop()
    return Turn(seconds, after_s - before_s, ROWS_PER_BATCH * (last - first))


def _cpu_s() -> float:
    """CPU of this process and its children: the JVM and Spark's Python workers."""
    total = 0.0
    for process in [own := psutil.Process(), *own.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def _settings() -> dict[str, Any]:
    return {
        "load": f"constant({ROWS_PER_BATCH // 2})",  # a batch is two seconds of tweets
        "seed": 1,
        "source_partitions": CORES,
        "max_rows": ROWS_PER_BATCH,
        "start_ms": int(time.time() * 1000) - HOUR_MS,
    }


def _named_top_words(spark: Any) -> Built:
    app = TopWords(**_settings())
    return app.ranked(app.reader().stream(spark, {})), app.rankings().take


def _plain_top_words(spark: Any) -> Built:
    app = TopWords(**_settings())
    tweets = app.reader().stream(spark, {})
    counts = tweets.transform(with_text).transform(app.split).transform(app.keep).transform(app.count)
    ranked = counts.mapInArrow(app.best(), RANKED)
    return ranked.repartition(1).mapInArrow(app.best(), RANKED), app.rankings().take


def _named_sentiment(spark: Any) -> Built:
    app = Sentiment(**_settings())
    return app.classified(app.reader().stream(spark, {})), None


def _plain_sentiment(spark: Any) -> Built:
    app = Sentiment(**_settings())
    tweets = app.reader().stream(spark, {})
    tokens = tweets.transform(with_text).transform(app.tokenise).transform(app.preprocess)
    features = tokens.mapInArrow(app.extract(), feature_columns(tokens))
    return features.mapInArrow(app.classify(), sentiment_columns(features)), None
