"""The micro-batch engine behaves like Spark: calibrated on one executor, it predicts three."""

from __future__ import annotations

import time
from math import inf
from statistics import mean, median

import pytest

from ebbflow.core.batches import Batch
from ebbflow.core.clock import SystemClock
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.pipeline import Pipeline
from ebbflow.profiling.batch.model import BatchModel
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies import make_strategy
from ebbflow.targets.simulator import MicroBatch, Scenario, Stage
from ebbflow.targets.spark.act.restart import stop_between_batches
from ebbflow.targets.spark.operators.operator import operator
from ebbflow.targets.spark.target import SparkTarget
from ebbflow.workloads import parse_load

pytestmark = [pytest.mark.spark, pytest.mark.alone]

# Mostly waiting, so that other work on the machine has little effect. Four triggers are a period, so four batches have
# the same mean rows wherever they begin.
LOAD, TRIGGER_S = "sine(base=10, peak=26, period=8s)", 2.0
LEARNED_ON, TRIES = 1, 2
BATCHES = {3: (4, 4), LEARNED_ON: (1, 8)}
"""(batches to warm up, to compare) on each size; the largest first, so that executors start only once."""


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


def test_batch_times_on_every_size_are_within_20_percent_of_sparks(spark, waiting_query, wait) -> None:
    """Batch by batch and on average, for each size once it is warm. There is a second try, because other work on the
    machine lengthens batches."""
    target = SparkTarget(spark, SystemClock())
    wait(lambda: target.observe().active, "the query to run")

    def steady_batches(nodes: int) -> list[Batch]:
        warm_up, count = BATCHES[nodes]
        target.apply(Layout.of(nodes))
        batches: list[Batch] = []

        def enough() -> bool:
            assert waiting_query.exception() is None, str(waiting_query.exception())
            observed = target.observe()
            if observed.held_nodes == nodes and observed.layout == Layout.of(nodes):
                batches.extend(b for b in observed.batches if b.steady and b.slots == nodes and b.rows)
            return len(batches) >= warm_up + count

        wait(enough, f"{warm_up + count} batches on {nodes} executors", 120)
        return batches[warm_up : warm_up + count]

    tries = []
    for _ in range(TRIES):
        real = {nodes: steady_batches(nodes) for nodes in BATCHES}
        if any(len({b.rows for b in some}) <= 2 for some in real.values()):
            tries.append({"too few different batch sizes": inf})  # triggers were missed: the machine is busy
            continue
        tries.append(errors(real))
        if max(tries[-1].values()) <= 0.2:
            break
    target.close()
    assert max(tries[-1].values()) <= 0.2, tries


def errors(real: dict[int, list[Batch]]) -> dict[str, float]:
    """The relative error of the engine on each size: batch by batch, and in a simulated run on the same load."""
    model = BatchModel()
    for batch in real[LEARNED_ON]:
        model.learn(batch)
    engine = calibrated(model)
    found = {}
    for nodes, some in real.items():
        scenario = Scenario(
            engine=engine,
            load=parse_load(LOAD),
            seconds=120.0,
            limits=Limits(min_nodes=nodes, max_nodes=nodes),
        )
        simulated = [
            b.duration_s for b in run_simulation(scenario, make_strategy("static")).run.batches if b.rows
        ]
        took = [b.duration_s for b in some]
        found[f"batches on {nodes}"] = median(
            abs(engine.batch_s(b.rows, b.slots) / b.duration_s - 1) for b in some
        )
        found[f"run on {nodes}"] = abs(mean(simulated) / mean(took) - 1)
    return found


def calibrated(model: BatchModel) -> MicroBatch:
    """The query of a learned model: the same d, and for each stage the same p, o, c and skew."""
    stages = []
    for stage in model.stages:
        per_task_s, per_row_s = stage.costs
        skew = min(stage.skew, float(stage.tasks))
        stages.append(Stage(tasks=stage.tasks, per_task_s=per_task_s, per_row_s=per_row_s, skew=skew))
    return MicroBatch(
        pipeline=Pipeline.chain("lookups", "lookup"),
        stages=tuple(stages),
        driver_s=model.driver_s,
        trigger_interval_s=TRIGGER_S,
    )
