"""A query restarted with another parallelism continues exactly where it stopped."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import functions as F

from ebbflow.errors import TargetError
from ebbflow.targets.spark.act.restart import ManagedQuery, stop_between_batches, unfinished_batch
from ebbflow.targets.spark.operators.operator import operator

pytestmark = pytest.mark.spark


def test_counts_are_exact_after_operators_and_state_were_resized(spark, tmp_path, wait) -> None:
    latest: dict[int, int] = {}

    def take(batch, batch_id) -> None:
        latest.update({row["key"]: row["count"] for row in batch.collect()})

    def start(sizes):
        rows = (
            spark.readStream.format("ebbflow").option("load", "constant(100)").option("partitions", 2).load()
        )
        tagged = rows.transform(
            operator("tag", parallelism=sizes["tag"])(lambda df: df.withColumn("key", F.col("row") % 20))
        )
        counts = tagged.groupBy("key").count()
        stream = counts.writeStream.outputMode("update").foreachBatch(take)
        return (
            stream.option("checkpointLocation", str(tmp_path / "c"))
            .trigger(processingTime="300 milliseconds")
            .start()
        )

    managed = ManagedQuery(
        spark,
        name="keys",
        checkpoint=tmp_path / "c",
        parallelism={"tag": 1, "count": 2},
        start=start,
        stateful=("count",),
    )
    wait(lambda: len(latest) == 20, "all keys")
    assert managed._state_store().endswith(".RocksDBStateStoreProvider")
    assert managed.differs({"tag": 3, "count": 4})
    assert not managed.differs({"tag": 1})
    managed.restart({"tag": 3, "count": 4})
    assert managed.parallelism == {"tag": 3, "count": 4}

    def progressed() -> bool:
        last = managed.query.lastProgress
        return bool(last and last["numInputRows"] > 0)

    wait(progressed, "a batch after the restart")
    assert managed.query.lastProgress["stateOperators"][0]["numShufflePartitions"] == 4
    managed.stop()
    offset = managed.query.lastProgress["sources"][0]["endOffset"]
    rows = int((json.loads(offset) if isinstance(offset, str) else offset)["row"])
    assert sum(latest.values()) == rows
    assert latest == {key: len(range(key, rows, 20)) for key in range(20)}


def test_a_batch_abandoned_by_a_stop_is_finished_before_the_state_is_repartitioned(
    spark, tmp_path, wait, monkeypatch
) -> None:
    """A query terminated during planning has written the offsets of a batch and abandons it."""
    latest: dict[int, int] = {}
    torn: list[int] = []

    def start(sizes):
        rows = spark.readStream.format("ebbflow").option("load", "constant(100)").load()
        counts = rows.groupBy((F.col("row") % 5).alias("key")).count()
        stream = counts.writeStream.outputMode("update").foreachBatch(take)
        checkpointed = stream.option("checkpointLocation", str(tmp_path / "c"))
        return checkpointed.trigger(processingTime="100 milliseconds").start()

    def take(batch, batch_id) -> None:
        latest.update({row["key"]: row["count"] for row in batch.collect()})

    def stop_in_a_batch(query, within_s, *, interrupt=True) -> bool:
        if torn:
            return stop_between_batches(query, within_s, interrupt=interrupt)
        while not torn:  # a plain stop interrupts a batch if one is running
            wait(lambda: managed.query.status["isTriggerActive"], "a batch")
            managed.query.stop()
            unfinished = unfinished_batch(managed.query)
            if unfinished >= 0:
                torn.append(unfinished)
            else:
                managed.query = start({"count": 2})
        return False

    monkeypatch.setattr("ebbflow.targets.spark.act.restart.stop_between_batches", stop_in_a_batch)
    managed = ManagedQuery(
        spark,
        name="torn",
        checkpoint=tmp_path / "c",
        parallelism={"count": 2},
        start=start,
        stateful=("count",),
    )
    wait(lambda: len(latest) == 5, "all keys")
    managed.restart({"count": 3})
    assert torn
    assert managed.parallelism == {"count": 3}
    wait(
        lambda: (last := managed.query.lastProgress) and last["numInputRows"] > 0, "a batch after the restart"
    )
    assert managed.query.lastProgress["stateOperators"][0]["numShufflePartitions"] == 3
    managed.stop()
    rows = sum(latest.values())
    assert latest == {key: len(range(key, rows, 5)) for key in range(5)}


def test_if_the_new_parallelism_cannot_start_the_query_runs_on_unchanged(spark, tmp_path, wait) -> None:
    def start(sizes):
        if sizes["tag"] > 2:
            raise ValueError("no such shape")
        rows = spark.readStream.format("ebbflow").option("load", "constant(50)").load()
        stream = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
        return stream.trigger(processingTime="300 milliseconds").start()

    managed = ManagedQuery(spark, name="tags", checkpoint=tmp_path / "c", parallelism={"tag": 1}, start=start)
    with pytest.raises(TargetError, match="cannot run with"):
        managed.restart({"tag": 3})
    assert managed.parallelism == {"tag": 1}
    wait(lambda: managed.query.isActive and managed.query.lastProgress, "it to run again")
    managed.stop()
