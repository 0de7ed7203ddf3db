"""Names and counts for the steps of a pipeline."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from ebbflow.errors import PipelineError
from ebbflow.targets.spark.operator import operator
from ebbflow.targets.spark.progress import Progress, operator_runs
from ebbflow.targets.spark.stopping import stop_between_batches

pytestmark = pytest.mark.spark


def runs_of(query, wait):
    def has_rows() -> bool:
        assert query.exception() is None, str(query.exception())
        return bool(query.lastProgress and query.lastProgress["numInputRows"] > 0)

    wait(has_rows, "a batch with rows")
    progress = msgspec.json.decode(query.lastProgress.json.encode(), type=Progress)
    stop_between_batches(query)
    return progress, {run.name: run for run in operator_runs(progress)}


def test_counts_on_both_sides_and_cpu_of_python_steps_are_exact_for_a_batch(spark, wait) -> None:
    def burn(batches):
        for batch in batches:
            total = 0
            for value in range(400_000):
                total += value
            keep = [row % 2 == 0 for row in batch.column("row").to_pylist()]
            yield batch.filter(pa.array(keep))

    rows = spark.readStream.format("ebbflow").option("load", "constant(100)").option("partitions", 3).load()
    doubled = rows.transform(
        operator("double")(lambda df: df.select("*", F.explode(F.array(F.lit(1), F.lit(2)))))
    )
    half = doubled.select("row", "timestamp").transform(
        operator("half", parallelism=2).map_in_arrow(burn, "row long, timestamp timestamp")
    )
    query = half.writeStream.format("noop").trigger(processingTime="1 second").start()
    progress, runs = runs_of(query, wait)
    assert runs["double"].rows_in == progress.num_input_rows
    assert runs["double"].rows_out == 2 * progress.num_input_rows
    assert runs["double"].cpu_s is None
    assert runs["half"].rows_in == 2 * progress.num_input_rows
    assert abs(runs["half"].rows_out - progress.num_input_rows) <= 2
    assert runs["half"].instances == 2
    assert runs["half"].cpu_s > 0.01
    assert runs["half"].busiest_instance_cpu_s <= runs["half"].cpu_s


def test_rows_are_counted_once_where_their_number_cannot_have_changed(spark, wait) -> None:
    rows = spark.readStream.format("ebbflow").option("load", "constant(100)").option("partitions", 2).load()
    named = rows.transform(operator("name")(lambda df: df.select("row", F.lit("a").alias("word"))))
    kept = named.transform(operator("keep")(lambda df: df.where("row % 2 = 0")))
    dealt = kept.transform(operator("deal", parallelism=2, key="row")(lambda df: df.select("row")))
    last = dealt.where("row % 4 = 0").transform(operator("last")(lambda df: df.where("row % 8 = 0")))
    counters = last._jdf.queryExecution().analyzed().toString().count("CollectMetrics ebbflow:")
    query = last.writeStream.format("noop").trigger(processingTime="1 second").start()
    progress, runs = runs_of(query, wait)
    rows_in = progress.num_input_rows
    assert runs["name"].rows_in == runs["name"].rows_out == rows_in
    assert runs["keep"].rows_in == rows_in
    assert runs["keep"].rows_out == runs["deal"].rows_in == runs["deal"].rows_out
    assert abs(runs["keep"].rows_out - rows_in / 2) <= 1
    assert abs(runs["last"].rows_in - rows_in / 4) <= 1
    assert abs(runs["last"].rows_out - rows_in / 8) <= 1
    assert counters == 5, "name:in, keep:out, deal:out, last:in, last:out"


def test_a_step_that_gives_nothing_still_tells_its_cpu(spark, wait) -> None:
    rows = spark.readStream.format("ebbflow").option("load", "constant(100)").option("partitions", 2).load()

    silent = rows.transform(
        operator("silent").map_in_pandas(lambda frames: (f[:0] for f in frames), "row long")
    )
    query = silent.writeStream.format("noop").trigger(processingTime="1 second").start()
    progress, runs = runs_of(query, wait)
    assert runs["silent"].rows_in == progress.num_input_rows
    assert runs["silent"].rows_out == 0
    assert runs["silent"].instances == 2


def test_only_a_parallelism_makes_a_boundary(spark) -> None:
    rows = spark.range(10)
    plain = rows.transform(operator("a")(lambda df: df.where("id > 3")))
    bounded = rows.transform(operator("b", parallelism=3)(lambda df: df.where("id > 3")))
    assert "Exchange" not in plain._jdf.queryExecution().executedPlan().toString()
    assert bounded.rdd.getNumPartitions() == 3
    assert sorted(r.id for r in bounded.collect()) == sorted(r.id for r in plain.collect())


def test_names_and_sizes_that_make_no_sense_are_refused() -> None:
    with pytest.raises(PipelineError, match="without ':'"):
        operator("a:b")
    with pytest.raises(PipelineError, match="1 or more"):
        operator("a", parallelism=0)
