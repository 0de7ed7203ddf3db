"""A case of the seed's tests on a real Spark cluster of this machine, with operators that wait.

All executors that the largest size needs are there from the start, one slot each: what is measured is the rule
and the change of an operator's parallelism, not how long an executor takes to start.

The queue of a micro-batch query is its ``backlog``: rows that waited when a batch started and that it left
behind. Rows that merely arrived since are in no queue, as in the seed's engine they would be at work by then.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from msgspec.structs import replace

from ebbflow.bench.rules.cases import CASES, QUICK, Case
from ebbflow.bench.rules.run import READING_S, SPARK, Seen, Watching
from ebbflow.control.attach import attach
from ebbflow.core.clock import Clock, SystemClock
from ebbflow.core.metrics import Metric
from ebbflow.errors import TargetError
from ebbflow.pipelines.waiting import WaitingOperator
from ebbflow.policy.model import Policy, Trigger
from ebbflow.strategies.rules import Rules
from ebbflow.targets.spark.local_cluster import LocalCluster
from ebbflow.targets.spark.session import local_session
from ebbflow.targets.spark.settings import local_settings, scaling_settings

WARM_UP_S = 25.0
"""The load begins so long after the queries: their first batches start Python and load classes."""


def on_micro_batches(policy: Policy) -> Policy:
    """The policy with the queue of an operator as a micro-batch engine has it."""
    return Policy(
        *(
            replace(
                rule,
                when=tuple(
                    replace(each, metric=Metric.BACKLOG.key)
                    if isinstance(each, Trigger) and each.metric == Metric.QUEUE_LENGTH.key
                    else each
                    for each in rule.when
                ),
            )
            for rule in policy.rules
        ),
        *policy.bounds,
    )


def run_in_a_process(case: Case) -> Seen:
    """Run the case in a process of its own: a JVM remembers the settings of the case before."""
    told = subprocess.run(
        [sys.executable, "-m", "ebbflow.bench.rules.on_spark", case.name], stdout=subprocess.PIPE, check=False
    )
    if told.returncode != 0:
        raise TargetError(f"case {case.name} failed on Spark (code {told.returncode}); its words are above")
    return Seen.from_json(json.loads(told.stdout.splitlines()[-1]))


def run_on_spark(case: Case, clock: Clock | None = None) -> Seen:
    """Run the case in real time; seconds of a case are seconds of the clock."""
    time, never = clock or SystemClock(), threading.Event()
    largest = max([change.after for change in case.changes], default=3)
    slots = len(case.rates_per_s) - 1 + max(3, largest)
    with (
        tempfile.TemporaryDirectory(prefix="ebbflow-rules-") as folder,
        LocalCluster(cores=slots, memory_mb=1024 * slots) as cluster,
    ):
        settings = {
            **cluster.settings,
            **local_settings(),
            **scaling_settings(initial_executors=slots, master=cluster.master_url),
            "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        }
        with local_session(cluster.master_url, settings, name=case.name) as spark:
            started_s = time.now_s() + WARM_UP_S
            queries = [
                WaitingOperator(
                    name=name, load=str(case.load), rate_per_s=rate, start_ms=round(started_s * 1000)
                ).managed(spark, Path(folder))
                for name, rate in case.rates_per_s.items()
            ]
            time.wait(started_s - time.now_s(), never)
            watching = Watching(Rules(on_micro_batches(case.policy)), started_s=started_s)
            attached = attach(
                spark,
                executors=(slots, slots),
                strategy=watching,
                queries=queries,
                store=Path(folder) / "run.sqlite",
                cycle_s=1.0,
                master_web_url=cluster.web_url,
            )
            time.wait(started_s + case.lasts_s + READING_S[SPARK] - time.now_s(), never)
            decisions = list(attached.decisions)
            attached.stop()
            for query in queries:
                query.stop()
    return watching.seen(
        [
            (entry.time_s, dict(entry.outcome.requested.difference(entry.before).parallelism))
            for entry in decisions
            if entry.verdict == "act" and entry.outcome is not None
        ]
    )


def main() -> None:
    """Run the case named, and print what was seen as one line of JSON."""
    name = sys.argv[1]
    case = next(case for case in (*CASES, QUICK) if case.name == name)
    seen = run_on_spark(case)
    sys.stdout.write(json.dumps(seen.to_json()) + "\n")


if __name__ == "__main__":
    main()
