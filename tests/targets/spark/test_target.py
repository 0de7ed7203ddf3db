"""Executors are added and removed on a real cluster, and observed."""

from __future__ import annotations

import re
import time

import pytest
from pyspark.sql import functions as F

from ebbflow.core.clock import SystemClock
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.snapshot import ActionKind
from ebbflow.errors import TargetError
from ebbflow.targets.spark.act.restart import stop_between_batches
from ebbflow.targets.spark.driver import Driver
from ebbflow.targets.spark.target import SparkTarget

pytestmark = pytest.mark.spark


@pytest.fixture
def query(spark, tmp_path, wait):
    """A stateful query that uses every executor."""
    rows = spark.readStream.format("ebbflow").option("load", "constant(60)").option("partitions", 6).load()
    counts = rows.groupBy((F.col("row") % 50).alias("key")).count()
    running = (
        counts.writeStream.format("noop")
        .queryName("counts")
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="500 milliseconds")
        .start()
    )
    yield running
    stop_between_batches(running)


class Observer:
    """Observes until a condition holds, and collects readings and batches."""

    def __init__(self, target: SparkTarget, wait) -> None:
        self.target, self._wait = target, wait
        self.readings, self.batches = [], []
        self.last = None

    def until(self, condition, what: str, within_s: float = 60.0):
        def holds() -> bool:
            self.last = self.target.observe()
            self.readings += self.last.readings
            self.batches += self.last.batches
            return bool(condition(self.last))

        self._wait(holds, what, within_s)
        return self.last


def test_grow_and_shrink(spark, cluster, query, wait) -> None:
    target = SparkTarget(spark, SystemClock())
    observer = Observer(target, wait)
    observer.until(lambda o: o.active, "the query to run")
    target.apply(Layout.of(1))  # other tests may have left more
    observer.until(lambda o: o.held_nodes == 1, "one executor")
    observer.batches.clear()
    observer.until(lambda o: len(observer.batches) > 1, "batches on one executor")
    batch = observer.batches[-1]
    assert batch.query == "counts"
    assert batch.rows > 0
    assert [stage.tasks for stage in batch.stages] == [6, 2]
    assert 20 < batch.arrival_rate_per_s < 200
    assert batch.slots == 1
    assert "counts" in observer.last.queries
    assert observer.last.read_limited == frozenset(), "it has no read limit"
    assert observer.last.layout == Layout.of(1)

    outcome = target.apply(Layout.of(2))
    assert outcome.requested == Layout.of(2)
    assert outcome.infeasible_nodes == 0
    observed = target.observe()
    assert observed.layout == Layout.of(1), "requested is not observed"
    assert observed.requested == Layout.of(2)
    assert [a.kind for a in observed.under_way] == [ActionKind.GROW]
    assert observed.held_nodes == 2
    observer.until(lambda o: o.layout == Layout.of(2), "the second executor")
    observer.until(lambda o: any(r.metric is Metric.LEAD_TIME for r in observer.readings), "its first work")
    lead_s = next(r.value for r in observer.readings if r.metric is Metric.LEAD_TIME)
    assert 0.5 < lead_s < 60
    assert observer.last.lead_time_s == pytest.approx(lead_s)

    too_many = target.apply(Layout.of(9))
    assert too_many.requested == Layout.of(3), "the cluster has three cores"
    assert too_many.infeasible_nodes == 6
    assert "capacity for 1 more" in too_many.note
    observer.until(lambda o: o.layout == Layout.of(3), "the third executor")
    again = target.apply(Layout.of(9))
    assert (again.requested, again.infeasible_nodes) == (Layout.of(3), 6)

    rows_before = query.lastProgress["batchId"]
    outcome = target.apply(Layout.of(1))
    assert "removing" in outcome.note
    observed = target.observe()
    assert observed.layout == Layout.of(1), "leaving executors do not count"
    assert ActionKind.SHRINK in [a.kind for a in observed.under_way]
    observer.until(lambda o: o.held_nodes == 1, "two executors to leave")
    wait(lambda: cluster.state()["activeapps"][0]["cores"] == 1, "their cores to be free", 30)
    observer.until(lambda o: query.lastProgress["batchId"] > rows_before + 5, "batches after it")
    assert query.exception() is None
    assert cluster.state()["activeapps"][0]["cores"] == 1, "nothing replaces them"
    assert target.observe().layout == Layout.of(1)
    target.close()


def test_the_victim_is_the_one_with_least_state(spark, query, wait) -> None:
    from ebbflow.targets.spark.act.draining import choose_victims

    target = SparkTarget(spark, SystemClock())
    observer = Observer(target, wait)
    observer.until(lambda o: o.active and observer.batches, "the first batches")
    driver = Driver(spark)
    held: dict[str, int] = {}

    def all_reported() -> bool:  # executors report to the driver with a delay, and one may have just left
        held.clear()
        held.update(driver.state_partitions_by_executor(target._monitor.last_progress()))
        return sum(held.values()) == 2

    wait(all_reported, "two state partitions to be loaded somewhere")
    executors = [e for e in driver.executors() if e.is_active]
    holder = next(iter(held))
    assert holder in {e.id for e in executors}
    newcomer = executors[0].__class__("99", True, 1, 1, 0, 0, 0, 0, 0, 0, 1)
    assert choose_victims([*executors, newcomer], held, 1) == ["99"]


def test_an_executor_with_cached_data_stays_until_the_data_is_released(spark, query, wait) -> None:
    """Locally checkpointed data is on executors only: Spark could not recompute it."""

    def slowly(batches):  # so that every executor gets a part
        for batch in batches:
            time.sleep(0.3)
            yield batch

    target = SparkTarget(spark, SystemClock())
    observer = Observer(target, wait)
    observer.until(lambda o: o.active and observer.batches, "the first batches")
    target.apply(Layout.of(2))  # other tests may have left more
    observer.until(lambda o: o.layout == Layout.of(2) and not o.under_way, "two executors")
    table = spark.range(0, 80, 1, 8).mapInArrow(slowly, "id long").localCheckpoint()

    def both_hold_data() -> bool:
        """A whole job may run on one executor while the query keeps the other busy: then add another."""
        if not all(e.rdd_blocks for e in Driver(spark).executors()):
            spark.range(0, 80, 1, 8).mapInArrow(slowly, "id long").localCheckpoint()
        return all(e.rdd_blocks for e in Driver(spark).executors())

    try:
        wait(both_hold_data, "both to hold data", 30)
        outcome = target.apply(Layout.of(1))
        assert (outcome.requested, outcome.infeasible_nodes) == (Layout.of(2), 1)
        assert re.fullmatch("executor .*, executor .* hold cached data that Spark would lose", outcome.note)
        observed = target.observe()
        assert observed.layout == observed.requested == Layout.of(2)
        assert not observed.under_way
        assert target.apply(Layout.of(1)).note == "", "it is reported once"
        assert table.count() == 80
    finally:
        for rdd in spark.sparkContext._jsc.getPersistentRDDs().values():
            rdd.unpersist(True)
    wait(lambda: not any(e.rdd_blocks for e in Driver(spark).executors()), "it to be let go", 30)
    target.observe()
    assert target.apply(Layout.of(1)).note.startswith("removing executor")
    observer.until(lambda o: o.held_nodes == 1, "one to leave")
    assert query.exception() is None
    target.close()


def test_a_master_without_executors_is_refused_with_a_reason(monkeypatch, spark) -> None:
    from ebbflow.targets.spark import target as module

    class Local(module.Driver):
        def __init__(self, session) -> None:
            super().__init__(session)
            self.master = "local[2]"

    monkeypatch.setattr(module, "Driver", Local)
    with pytest.raises(TargetError, match="no executors to scale"):
        SparkTarget(spark, SystemClock())
