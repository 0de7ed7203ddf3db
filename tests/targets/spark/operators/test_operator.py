"""Named operators on a real cluster: row counts and CPU."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from ebbflow.errors import PipelineError
from ebbflow.targets.spark.act.restart import stop_between_batches
from ebbflow.targets.spark.driver import Driver
from ebbflow.targets.spark.observe.progress import operator_runs
from ebbflow.targets.spark.operators.operator import operator

pytestmark = pytest.mark.spark


@pytest.fixture
def runs_of(spark, wait):
    """Run a query until a batch with rows has operator counts; returns its progress and the operators by name."""
    driver = Driver(spark)

    def run(query):
        counts, found = driver.row_counts(), []

        def has_rows() -> bool:
            assert query.exception() is None, str(query.exception())
            last = found[-1][0].batch_id if found else -1
            found.extend(driver.progress_after(query, last, counts))
            return any(seen.num_input_rows > 0 and operator_runs(seen, rows) for seen, rows in found)

        wait(has_rows, "a batch with rows")
        stop_between_batches(query)
        for progress, rows in found:
            runs = operator_runs(progress, rows)
            if progress.num_input_rows > 0 and runs:
                return progress, {each.name: each for each in runs}
        raise AssertionError("no batch")

    return run


def test_counts_on_both_sides_and_cpu_of_python_steps_are_exact_for_a_batch(spark, runs_of) -> None:
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
    progress, runs = runs_of(query)
    assert runs["double"].rows_in == progress.num_input_rows
    assert runs["double"].rows_out == 2 * progress.num_input_rows
    assert runs["double"].cpu_s is None
    assert runs["half"].rows_in == 2 * progress.num_input_rows
    assert abs(runs["half"].rows_out - progress.num_input_rows) <= 2
    assert runs["half"].instances == 2
    assert runs["half"].cpu_s > 0.01
    assert runs["half"].busiest_instance_cpu_s <= runs["half"].cpu_s


def test_a_step_without_a_boundary_stays_in_the_loop_that_spark_compiles(spark) -> None:
    """Another node between the range and the partial count would end the compiled loop."""
    rows = spark.range(10).transform(operator("name")(lambda df: df.select("id", F.lit("a").alias("word"))))
    kept = rows.transform(operator("keep")(lambda df: df.where("id % 2 = 0"))).groupBy("word").count()
    adaptive = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", "false")  # an adaptive plan is compiled only when it runs
    try:
        plan = kept._jdf.queryExecution().executedPlan().toString()
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    marked = [line for line in plan.splitlines() if "ebbflow:" in line]
    assert len(marked) == 4
    assert all("*(1) Filter" in line for line in marked), plan
    assert "*(1) HashAggregate" in plan


def test_marks_are_counted_between_filters_of_the_pipeline(spark, runs_of) -> None:
    """Spark merges and moves filters, but must not do so across a mark."""
    rows = spark.readStream.format("ebbflow").option("load", "constant(100)").option("partitions", 2).load()
    named = rows.transform(operator("name")(lambda df: df.select("row", F.lit("a").alias("word"))))
    kept = named.transform(operator("keep")(lambda df: df.where("row % 2 = 0")))
    dealt = kept.transform(operator("deal", parallelism=2, key="row")(lambda df: df.select("row")))
    last = dealt.where("row % 4 = 0").transform(operator("last")(lambda df: df.where("row % 8 = 0")))
    query = last.writeStream.format("noop").trigger(processingTime="1 second").start()
    progress, runs = runs_of(query)
    rows_in = progress.num_input_rows
    assert runs["name"].rows_in == runs["name"].rows_out == rows_in
    assert runs["keep"].rows_in == rows_in
    assert runs["keep"].rows_out == runs["deal"].rows_in == runs["deal"].rows_out
    assert abs(runs["keep"].rows_out - rows_in / 2) <= 1
    assert abs(runs["last"].rows_in - rows_in / 4) <= 1
    assert abs(runs["last"].rows_out - rows_in / 8) <= 1


def test_rows_are_counted_with_foreach_batch(spark, runs_of) -> None:
    rows = spark.readStream.format("ebbflow").option("load", "constant(100)").load()
    kept = rows.transform(operator("keep")(lambda df: df.where("row % 2 = 0")))
    counts = kept.groupBy((F.col("row") % 3).alias("key")).count()
    stream = counts.writeStream.outputMode("update").foreachBatch(lambda batch, _: batch.collect())
    progress, runs = runs_of(stream.trigger(processingTime="1 second").start())
    assert runs["keep"].rows_in == progress.num_input_rows
    assert abs(runs["keep"].rows_out - progress.num_input_rows / 2) <= 1


def test_the_cpu_of_a_step_without_output_is_reported(spark, runs_of) -> None:
    rows = spark.readStream.format("ebbflow").option("load", "constant(100)").option("partitions", 2).load()

    silent = rows.transform(
        operator("silent").map_in_pandas(lambda frames: (f[:0] for f in frames), "row long")
    )
    query = silent.writeStream.format("noop").trigger(processingTime="1 second").start()
    progress, runs = runs_of(query)
    assert runs["silent"].rows_in == progress.num_input_rows
    assert runs["silent"].rows_out == 0
    assert runs["silent"].instances == 2


def test_frames_are_the_same_as_in_sparks_map_in_pandas(spark) -> None:
    """The frames that the function gets, written as text, and timestamps that it returns."""
    columns = "id long, at timestamp, local timestamp_ntz, day date, price decimal(10,2), word string, some array<int>"

    def look(frames):
        for frame in frames:
            seen = [f"{name} {dtype} {frame[name].tolist()}" for name, dtype in frame.dtypes.items()]
            yield frame.assign(
                seen="; ".join(seen), at=frame["at"] + (frame["at"] - frame["at"].dt.normalize())
            )

    rows = spark.range(3, numPartitions=1).selectExpr(
        "id",
        "if(id = 2, null, timestamp'2026-07-01 12:00:00 UTC' + make_interval(0, 3 * int(id))) as at",
        "timestamp_ntz'2026-03-29 02:30:00' as local",
        "date'2026-01-02' as day",
        "cast(id as decimal(10,2)) as price",
        "if(id = 1, null, 'a') as word",
        "array(1, int(id)) as some",
    )
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        declared = f"{columns}, seen string"
        plain = rows.mapInPandas(look, declared).collect()
        named = rows.transform(operator("look").map_in_pandas(look, declared)).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert named == plain
    assert "at datetime64[ns] [Timestamp('2026-07-01 17:30:00')" in named[0].seen


def test_only_a_parallelism_adds_a_shuffle(spark) -> None:
    rows = spark.range(10)
    plain = rows.transform(operator("a")(lambda df: df.where("id > 3")))
    bounded = rows.transform(operator("b", parallelism=3)(lambda df: df.where("id > 3")))
    assert "Exchange" not in plain._jdf.queryExecution().executedPlan().toString()
    assert bounded.rdd.getNumPartitions() == 3
    assert sorted(r.id for r in bounded.collect()) == sorted(r.id for r in plain.collect())


def test_invalid_names_and_sizes_are_refused() -> None:
    with pytest.raises(PipelineError, match="without ':'"):
        operator("a:b")
    with pytest.raises(PipelineError, match="1 or more"):
        operator("a", parallelism=0)
