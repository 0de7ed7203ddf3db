"""The operators of ``words.toml``: each is a function that gets a context and returns what the host starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ebbflow.targets.fleet.context import QueryContext


def generate(context: QueryContext) -> DataStreamWriter:
    """Tweets at the load that the fleet file names."""
    tweets = (
        context.spark.readStream.format("ebbflow")
        .option("rows", "tweets")
        .option("load", context.options["load"])
        .option("partitions", 1)
        .load()
    )
    return context.write(tweets, trigger="1 second")


def split(context: QueryContext) -> DataStreamWriter:
    """One row for each word."""
    tweets = context.read("tweets", "row long, timestamp timestamp, text string")
    words = tweets.select("row", f.explode(f.split(f.lower("text"), r"\W+")).alias("word"))
    return context.write(words.where("word != ''"), trigger="1 second")


def count(context: QueryContext) -> DataStreamWriter:
    """How often each word has come so far; a row for each word whose count has changed."""
    words = context.read("words", "row long, word string")
    return context.write(words.groupBy("word").count(), mode="update", trigger="1 second")
