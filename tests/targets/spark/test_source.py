"""The format ``ebbflow``: the same rows after every restart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ebbflow.errors import InputError
from ebbflow.targets.spark.act.restart import stop_between_batches
from ebbflow.targets.spark.source import EbbflowSource


class Sink:
    """Collects the rows of every batch."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple]] = {}

    def take(self, batch: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = [tuple(row) for row in batch.collect()]

    @property
    def rows(self) -> list[tuple]:
        return [row for batch_id in sorted(self.batches) for row in self.batches[batch_id]]


def start(spark: SparkSession, sink: Sink, checkpoint: Path, **options: object):
    reader = spark.readStream.format("ebbflow")
    for key, value in options.items():
        reader = reader.option(key, str(value))
    stream = reader.load().writeStream.foreachBatch(sink.take).option("checkpointLocation", str(checkpoint))
    return stream.trigger(processingTime="200 milliseconds").start()


def stop(query, wait) -> dict:
    """Stop between batches; returns the newest progress."""
    assert stop_between_batches(query), "no batch is interrupted"
    return query.lastProgress


def end_row(progress) -> int:
    offset = progress["sources"][0]["endOffset"]
    return int((json.loads(offset) if isinstance(offset, str) else offset)["row"])


@pytest.mark.spark
def test_rows_are_the_same_after_a_restart_and_none_is_lost_or_repeated(spark, tmp_path, wait) -> None:
    sink = Sink()
    query = start(spark, sink, tmp_path / "c", load="constant(200)", rows="tweets", seed=7)
    wait(lambda: len(sink.rows) > 100, "rows")
    stop(query, wait)
    before = len(sink.rows)
    query = start(spark, sink, tmp_path / "c", load="constant(200)", rows="tweets", seed=7)
    wait(lambda: len(sink.rows) > before + 100, "rows after the restart")
    last = stop(query, wait)
    numbers = [row[0] for row in sink.rows]
    assert sorted(numbers) == list(range(end_row(last)))
    times = {row[0]: row[1] for row in sink.rows}
    assert all(times[i] < times[i + 1] for i in range(len(times) - 1))

    from ebbflow.workloads.tweets import Tweets

    expected = Tweets(7).texts(0, len(numbers)).to_pylist()
    assert {row[0]: row[2] for row in sink.rows} == dict(enumerate(expected))


@pytest.mark.spark
def test_the_offsets_show_the_rows_that_a_read_limit_leaves_behind(spark, tmp_path, wait) -> None:
    sink = Sink()
    query = start(spark, sink, tmp_path / "c", load="constant(2000)", maxRowsPerTrigger=50)
    wait(lambda: len(sink.batches) > 3, "batches")
    last = stop(query, wait)
    assert all(len(rows) <= 50 for rows in sink.batches.values())

    import msgspec

    from ebbflow.targets.spark.observe.progress import Progress, rows_left_behind

    progress = msgspec.json.decode(last.json.encode(), type=Progress)
    assert (rows_left_behind(progress) or 0) > 500


@pytest.mark.spark
def test_an_invalid_option_is_an_error_of_the_query(spark, tmp_path) -> None:
    with pytest.raises(PySparkException, match="needs a load"):
        start(spark, Sink(), tmp_path / "c").awaitTermination(30)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"load": "sinus(1)"}, "unknown load shape"),
        ({"load": "constant(5)", "rows": "poems"}, "unknown kind of rows"),
        ({"load": "constant(5)", "partitions": "0"}, "at least 1"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        EbbflowSource(options).streamReader(StructType())
