"""The micro-batch engine behaves like Spark: learned on one executor, it tells how two will do."""

from __future__ import annotations

import time
from statistics import median

import pytest

from ebbflow.bench.simulation import play
from ebbflow.core.batches import Batch
from ebbflow.core.clock import SystemClock
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.pipeline import Pipeline
from ebbflow.profiling.batch_model import BatchModel
from ebbflow.strategies import make_strategy
from ebbflow.targets.simulator import Scenario
from ebbflow.targets.simulator.calibration import calibrated
from ebbflow.targets.spark.operator import operator
from ebbflow.targets.spark.stopping import stop_between_batches
from ebbflow.targets.spark.target import SparkTarget
from ebbflow.workloads import parse_load

pytestmark = [pytest.mark.spark, pytest.mark.alone]

# Mostly waiting, so that other work on the machine changes little.
LOAD, TRIGGER_S = "sine(base=10, peak=30, period=16s)", 4.0


@pytest.fixture
def waiting_query(spark, tmp_path):
    """Six tasks that wait 30 ms for each row."""

    def look_up(batches):
        for batch in batches:
            time.sleep(0.03 * batch.num_rows)
            yield batch.select(["row"])

    rows = spark.readStream.format("ebbflow").option("load", LOAD).option("partitions", 6).load()
    found = rows.transform(operator("lookup").map_in_arrow(look_up, "row long"))
    running = (
        found.writeStream.format("noop")
        .queryName("lookups")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime=f"{TRIGGER_S:g} seconds")
        .start()
    )
    yield running
    stop_between_batches(running)


def test_batch_times_on_another_size_are_within_20_percent_of_sparks(spark, waiting_query, wait) -> None:
    target = SparkTarget(spark, SystemClock())
    wait(lambda: target.observe().active, "the query to run")

    def steady_batches(nodes: int, count: int) -> list[Batch]:
        target.apply(Layout.of(nodes))
        seen: list[Batch] = []

        def enough() -> bool:
            assert waiting_query.exception() is None, str(waiting_query.exception())
            observed = target.observe()
            if observed.held_nodes == nodes and observed.layout == Layout.of(nodes):
                seen.extend(b for b in observed.batches if b.steady and b.slots == nodes and b.rows)
            return len(seen) >= count

        wait(enough, f"{count} batches on {nodes} executors", 120)
        return seen

    told = []
    for _ in range(3):  # other work on the machine can spoil an attempt, and only lengthen batches
        model = BatchModel()
        for batch in steady_batches(1, 6):
            model.learn(batch)
        real = steady_batches(2, 6)
        engine = calibrated(model, Pipeline.chain("lookups", "lookup"), trigger_interval_s=TRIGGER_S)
        batch_error = median(abs(engine.batch_s(b.rows, b.slots) / b.duration_s - 1) for b in real)
        scenario = Scenario(
            engine=engine, load=parse_load(LOAD), seconds=120.0, limits=Limits(min_nodes=2, max_nodes=2)
        )
        simulated = [b.duration_s for b in play(scenario, make_strategy("static")).run.batches if b.rows]
        run_error = abs(median(simulated) / median(b.duration_s for b in real) - 1)
        told.append((batch_error, run_error))
        if batch_error <= 0.2 and run_error <= 0.2:
            break
    target.close()
    assert min(max(errors) for errors in told) <= 0.2, told
