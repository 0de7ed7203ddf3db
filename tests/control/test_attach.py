"""``attach`` scales an unknown job on a real cluster, and never disturbs it."""

from __future__ import annotations

import time

import pytest

import ebbflow
from ebbflow.core.clock import SystemClock
from ebbflow.core.decision import Decision
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.ports import Strategy
from ebbflow.errors import InputError
from ebbflow.monitoring.collector import Collector
from ebbflow.monitoring.store import Store
from ebbflow.policy import (
    Policy,
    above,
    absolute,
    megabytes,
    metric,
    nodes,
    rule,
    seconds,
)
from ebbflow.policy import (
    cluster as the_cluster,
)
from ebbflow.profiling.fitting import QUICK
from ebbflow.runs.profiling.from_store import learn_from_store
from ebbflow.targets.spark.act.restart import stop_between_batches
from ebbflow.targets.spark.driver import Driver
from ebbflow.targets.spark.target import SparkTarget

pytestmark = pytest.mark.spark


class TwoThenOne(Strategy):
    """Wants two executors until they are live, then one again."""

    name = "two-then-one"

    def __init__(self) -> None:
        self.had_two = False

    def decide(self, snapshot) -> Decision:
        self.had_two = self.had_two or snapshot.observed.main_nodes == 2
        return Decision(
            wanted=snapshot.planned.with_nodes(1 if self.had_two else 2), reason="a test wants it"
        )


class Broken(Strategy):
    """Always fails."""

    name = "broken"

    def decide(self, snapshot) -> Decision:
        raise RuntimeError("out of order")


@pytest.fixture
def query(spark, tmp_path):
    rows = spark.readStream.format("ebbflow").option("load", "constant(50)").option("partitions", 4).load()
    stream = (
        rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).queryName("plain")
    )
    running = stream.trigger(processingTime="500 milliseconds").start()
    yield running
    stop_between_batches(running)


def start_with_one_executor(spark, wait) -> None:
    """Release what an earlier test left running."""
    target = SparkTarget(spark, SystemClock())
    target.observe()

    def has_one() -> bool:
        target.apply(Layout.of(1))
        return target.observe().held_nodes == 1

    wait(has_one, "one executor")
    target.close()


def test_a_job_grows_and_shrinks_and_the_ledger_records_it(spark, query, tmp_path, wait) -> None:
    path = tmp_path / "run.sqlite"
    attached = ebbflow.attach(spark, executors=(1, 3), strategy=TwoThenOne(), store=path, cycle_s=0.5)
    assert attached.active

    def acts() -> list[dict]:
        return (
            [entry for entry in Store.read_ledger(path) if entry["verdict"] == "act"] if path.exists() else []
        )

    wait(lambda: len([act for act in acts() if act["outcome"]]) == 2, "both acts and their outcomes", 90)
    grew, shrank = acts()
    assert (grew["before"]["nodes"], grew["wanted"]["nodes"]) == ({"main": 1}, {"main": 2})
    assert grew["outcome"]["requested"]["nodes"] == {"main": 2}
    assert shrank["wanted"]["nodes"] == {"main": 1}
    assert "removing executor" in shrank["outcome"]["note"]
    wait(
        lambda: sum(batch.rows > 0 for batch in Store.read_batches(path).batches) >= 3,
        "batches to learn from",
        60,
    )
    attached.stop()
    assert not attached.active
    assert query.isActive
    assert query.exception() is None
    batches, rows = Store.read_batches(path).batches, Store.read_readings(path, [Metric.BATCH_ROWS]).series
    assert [(b.ended_s, float(b.rows)) for b in batches] == rows["plain", Metric.BATCH_ROWS]
    assert any(batch.stages for batch in batches)
    learned = learn_from_store(path, kinds=QUICK).profile
    assert (learned.pipeline, learned.target) == ("plain", "spark")
    assert learned.costs is not None
    assert [stage.tasks for stage in learned.costs.stages] == [4]


def test_capacity_grows_a_query_that_falls_behind_and_shrinks_it_when_the_load_falls(
    spark, tmp_path, wait
) -> None:
    """90 rows/s of 25 ms keep 2.25 executors busy; 5 rows/s an eighth of one."""

    def look_up(batches):
        for batch in batches:
            time.sleep(0.025 * batch.num_rows)
            yield batch.select(["row"])

    trace = tmp_path / "falls.csv"
    trace.write_text("seconds,value\n" + "".join(f"{t},{900 if t < 20 else 50}\n" for t in range(0, 600, 10)))
    rows = spark.readStream.format("ebbflow").option("load", f"trace({trace})")
    looked_up = (
        rows.option("partitions", 6)
        .load()
        .transform(ebbflow.operator("lookup").map_in_arrow(look_up, "row long"))
    )
    running = (
        looked_up.writeStream.format("noop").queryName("lookups").trigger(processingTime="2 seconds")
        .option("checkpointLocation", str(tmp_path / "c")).start()
    )  # fmt: skip
    sizes: list[int] = []

    def record(report) -> None:
        if report.observation is not None:
            sizes.append(report.observation.layout.main_nodes)

    attached = ebbflow.attach(
        spark,
        executors=(1, 3),
        slo="freshness p95 <= 20s",
        store=tmp_path / "run.sqlite",
        cycle_s=0.5,
        on_cycle=record,
    )
    wait(lambda: sizes and max(sizes) == 3, "three executors", 90)
    wait(lambda: sizes[-1] == 1, "one again", 120)
    attached.stop()
    assert running.exception() is None
    stop_between_batches(running)
    acts = [entry for entry in Store.read_ledger(tmp_path / "run.sqlite") if entry["verdict"] == "act"]
    assert {entry["strategy"] for entry in acts} == {"capacity"}
    grew = acts[0]["reason"]  # depends on whether the first batches have finished at the first decision
    assert grew.startswith(("grow ", "learning, and a batch of lookups has run"))
    assert acts[-1]["reason"].startswith("shrink ")
    assert acts[-1]["wanted"]["nodes"] == {"main": 1}


def test_a_rule_on_a_metric_of_the_agent_fires(spark, cluster, query, tmp_path, wait) -> None:
    start_with_one_executor(spark, wait)
    policy = Policy(
        rule("memory in use")
        .scale_out(the_cluster())
        .by(absolute(1))
        .but_never_above(nodes(3))
        .when(metric("node-memory"))
        .is_(above(megabytes(1)))
        .for_at_least(seconds(2))
    )
    path = tmp_path / "run.sqlite"
    attached = ebbflow.attach(
        spark, executors=(1, 3), policy=policy, store=path, cycle_s=0.5, agents=[cluster.agent_address]
    )

    def acts() -> list[dict]:
        return [e for e in Store.read_ledger(path) if e["verdict"] == "act"] if path.exists() else []

    wait(acts, "the rule to fire", 60)
    act = acts()[0]
    assert attached.agents is not None
    assert attached.agents["readings"] > 0
    attached.use(Policy())
    wait(lambda: any("policy replaced" in e["reason"] for e in Store.read_ledger(path)), "another policy")
    assert "memory in use" in act["reason"]
    assert any("node-memory" in key for key in act["inputs"]), act["inputs"]
    attached.stop()
    assert query.isActive


def test_an_agent_measures_the_python_workers_and_the_heap_of_an_executor(
    spark, cluster, tmp_path, wait
) -> None:
    def burn(batches):
        for batch in batches:
            total = 0
            for value in range(3_000_000):
                total += value
            yield batch

    rows = spark.readStream.format("ebbflow").option("load", "constant(50)").load()
    burning = rows.mapInArrow(burn, rows.schema).writeStream.format("noop")
    burning = burning.option("checkpointLocation", str(tmp_path / "burn"))
    query = burning.trigger(processingTime="200 milliseconds").start()
    collector = Collector([cluster.agent_address], application=spark.sparkContext.applicationId)
    collector.subscribe_to([("executor-*", Metric.NODE_CPU), ("executor-*", Metric.NODE_HEAP_SHARE)])
    highest: dict[Metric, float] = {}

    def both() -> bool:
        for reading in collector.take(time.time()):
            highest[reading.metric] = max(reading.value, highest.get(reading.metric, 0.0))
        return highest.get(Metric.NODE_CPU, 0.0) > 0.4 and Metric.NODE_HEAP_SHARE in highest

    try:
        wait(both, "a busy executor", 60)
    finally:
        collector.close()
        stop_between_batches(query)
    assert 0.0 < highest[Metric.NODE_HEAP_SHARE] <= 1.0


def test_agents_that_do_not_answer_change_nothing(spark, query, tmp_path, wait) -> None:
    silent = f"ipc://{tmp_path}/no-agent"
    attached = ebbflow.attach(spark, strategy=TwoThenOne(), cycle_s=0.2, dry_run=True, agents=[silent])
    wait(lambda: len(attached.decisions) > 0, "decisions without agents")
    attached.stop()
    assert query.isActive


def test_a_strategy_that_fails_leaves_the_job_alone(spark, query, wait) -> None:
    attached = ebbflow.attach(spark, strategy=Broken(), cycle_s=0.2)
    before = query.lastProgress["batchId"] if query.lastProgress else -1
    wait(lambda: query.lastProgress and query.lastProgress["batchId"] > before + 3, "further batches")
    assert attached.active, "the loop runs on too"
    assert query.isActive
    attached.stop()


def test_wrong_input_is_refused_with_a_suggestion(spark) -> None:
    with pytest.raises(InputError, match="did you mean 'capacity'"):
        ebbflow.attach(spark, strategy="capasity")
    with pytest.raises(InputError, match="did you mean 2:5"):
        ebbflow.attach(spark, executors=(5, 2))
    with pytest.raises(InputError, match="is not an SLO"):
        ebbflow.attach(spark, slo="soon")
    with pytest.raises(InputError, match="which needs keys"):
        ebbflow.attach(spark, agents=["tcp://10.0.0.7:7788"])
    with pytest.raises(InputError, match="there is no key"):
        ebbflow.attach(spark, agents=["tcp://10.0.0.7:7788"], agent_keys="nowhere")
    with pytest.raises(InputError, match="the fewest and the most executors"):
        ebbflow.attach(spark, executors=5)  # type: ignore[arg-type]


def test_a_second_loop_takes_over_from_the_first(spark, caplog) -> None:
    first = ebbflow.attach(spark, executors=(1, 3), strategy=TwoThenOne(), dry_run=True)
    second = ebbflow.attach(spark, executors=(1, 3), strategy=TwoThenOne(), dry_run=True)
    assert not first.active
    assert second.active
    assert "replaces the old one" in caplog.text
    second.stop()
    first.stop()


def test_a_query_of_another_session_is_found(spark, tmp_path, wait) -> None:
    other = spark.newSession()
    rows = other.readStream.format("rate").option("rowsPerSecond", 5).load()
    stream = rows.writeStream.queryName("elsewhere").format("noop")
    query = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        driver = Driver(spark)
        wait(lambda: str(query.runId) in {str(each.runId) for each in driver.queries()}, "the other query")
        assert {each.name for each in driver.queries()} >= {"elsewhere"}
        wait(lambda: query.lastProgress, "a batch")
    finally:
        query.stop()
    wait(lambda: "elsewhere" not in {each.name for each in driver.queries()}, "its end")


def test_a_store_that_cannot_be_opened_leaves_the_job_unscaled(spark, tmp_path) -> None:
    attached = ebbflow.attach(spark, store=tmp_path)  # a folder
    assert not attached.active
    assert "cannot open the store" in attached.reason
    attached.stop()
