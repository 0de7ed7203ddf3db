"""A policy on a real cluster: a rule changes the parallelism of an operator and adds the node that it needs."""

from __future__ import annotations

import time

import pytest

import ebbflow
from ebbflow.core.clock import SystemClock
from ebbflow.core.layout import Layout
from ebbflow.monitoring.store import Store
from ebbflow.papers.rules.on_spark import WaitingOperator
from ebbflow.policy import Policy, above, absolute, metric, nodes, operator, rule, seconds, tuples
from ebbflow.targets.spark.target import SparkTarget

pytestmark = pytest.mark.spark


@pytest.fixture
def one_executor(spark, wait) -> None:
    """Start with one executor, whatever other tests left."""
    target = SparkTarget(spark, SystemClock())
    target.observe()
    target.apply(Layout.of(1))
    wait(lambda: target.observe().held_nodes == 1, "one executor")
    target.close()


def test_a_rule_adds_instances_and_the_node_they_need(spark, cluster, one_executor, tmp_path, wait) -> None:
    policy = Policy(
        rule("rows wait before it")
        .scale_out(operator("slow"))
        .by(absolute(1))
        .but_never_above(nodes(2))
        .when(metric("queue-length"))
        .is_(above(tuples(20)))
        .for_at_least(seconds(3))
    )
    slow = WaitingOperator(
        name="slow", load="constant(10)", rate_per_s=5.0, start_ms=round(time.time() * 1000)
    ).managed(spark, tmp_path)
    path = tmp_path / "run.sqlite"
    attached = ebbflow.attach(spark, executors=(1, 2), policy=policy, queries=[slow], store=path, cycle_s=0.5)

    def acts() -> list[dict]:
        entries = Store.read_ledger(path) if path.exists() else []
        return [entry for entry in entries if entry["verdict"] == "act" and entry["outcome"]]

    try:
        wait(acts, "the rule to act")
        (act,) = acts()
        assert act["reason"].startswith("rule 'rows wait before it' fired (main +1 node, slow ×1→2)")
        assert (act["before"]["nodes"], act["wanted"]["nodes"]) == ({"main": 1}, {"main": 2})
        assert act["outcome"]["requested"]["parallelism"] == {"slow": 2}
        assert "restarted slow from its checkpoint" in act["outcome"]["note"]
        assert "readings of backlog of slow" in act["inputs"], "the queue of a source with a read limit"
        wait(lambda: cluster.state()["activeapps"][0]["cores"] == 2, "the executor it needs")
        wait(
            lambda: (last := slow.query.lastProgress) and last["numInputRows"] == 10,
            "batches of two instances",
        )
    finally:
        attached.stop()
        slow.stop()
    assert slow.query.exception() is None
