"""The operators of the top-N topics, for ``start`` in a fleet file (``topics.toml`` in this package is one).

::

    tweets ─► extract ─► topics ─► count ─► counts ─► top ─► a list every 10 s

In the paper: ExtractorPE, TopicCountAndReportPE and TopNTopicPE. Options: ``every`` of ``count`` and ``top``, how often
they report (1 and 10 seconds); ``n`` and ``file`` of ``top``, length of the list (10) and where it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ebbflow.core.folders import replace_file
from ebbflow.errors import InputError
from ebbflow.papers.dodo.topics.tweets import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ebbflow.targets.fleet.context import QueryContext

TOPIC = "topic string"
COUNT = "topic string, count long"


def extract(context: QueryContext) -> DataStreamWriter:
    """The topics of each tweet: its words that start with #, in lower case."""
    from pyspark.sql import functions as F  # noqa: N812

    found = F.regexp_extract_all("text", F.lit(r"#([\p{L}\p{N}_]+)"), F.lit(1))
    return context.write(
        context.read(schema=COLUMNS)
        .select(F.explode(found).alias("topic"))
        .select(F.lower("topic").alias("topic"))
    )


def count(context: QueryContext) -> DataStreamWriter:
    """Count every topic, and report the counts that changed."""
    counts = context.read(schema=TOPIC).groupBy("topic").count()
    return context.write(counts, mode="update", trigger=context.options.get("every", "1 second"))


def top(context: QueryContext) -> DataStreamWriter:
    """Keep the list of the most frequent topics in a JSON file."""
    if "file" not in context.options:
        raise InputError(
            f"operator {context.name} needs the option file, like options = {{ file = 'top.json' }}"
        )
    text = context.options.get("n", "10")
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise InputError(
            f"option n of operator {context.name} is '{text}'; it must be a whole number from 1 on, like 10"
        )
    file, length = Path(context.options["file"]), int(text)

    def keep(batch: DataFrame, batch_id: int) -> None:  # noqa: ARG001
        from pyspark.sql import functions as F  # noqa: N812

        highest = batch.groupBy("topic").agg(F.max("count").alias("count"))
        best = highest.orderBy(F.col("count").desc(), "topic").limit(length)
        rows = [(row["topic"], row["count"]) for row in best.collect()]
        if rows:
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, json.dumps(merged(read_top(file), rows, length)))

    every = context.options.get("every", "10 seconds")
    return context.writer(context.read(schema=COUNT), trigger=every).foreachBatch(keep)


def merged(
    known: Iterable[tuple[str, int]], new: Iterable[tuple[str, int]], length: int
) -> list[tuple[str, int]]:
    """The most frequent topics of a list and of new counts, by name among equals.

    Counts only grow, so a topic that was not on the list and is not among the best new counts cannot be on it now.

    >>> merged([("tea", 5), ("sun", 4)], [("sun", 6), ("rain", 5)], 2)
    [('sun', 6), ('rain', 5)]
    """
    counts: dict[str, int] = {}
    for topic, count in (*known, *new):
        counts[topic] = max(count, counts.get(topic, 0))
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:length]


def read_top(file: Path) -> list[tuple[str, int]]:
    """The list in a file that ``top`` wrote, the most frequent topic first; empty if there is none yet."""
    return (
        [(topic, count) for topic, count in json.loads(file.read_text(encoding="utf-8"))]
        if file.exists()
        else []
    )
