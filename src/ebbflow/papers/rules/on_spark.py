"""A case of the seed's tests on a real Spark cluster of this machine, with operators that wait.

All executors that the largest size needs are there from the start, one slot each: what is measured is the rule
and the change of an operator's parallelism, not how long an executor takes to start.

The policy is the seed's, as written: the ``queue-length`` of an operator is what the batches of its query leave
behind, because its source has a read limit (``policy.needs``).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from ebbflow.control.attach import attach
from ebbflow.core.clock import Clock, SystemClock
from ebbflow.errors import TargetError
from ebbflow.options import Configuration
from ebbflow.papers.rules.cases import CASES, QUICK, Case
from ebbflow.papers.rules.seen import Seen, Watching
from ebbflow.papers.rules.waiting import WaitingOperator, warm_up
from ebbflow.targets.spark.launch.local_cluster import LocalCluster, local_settings
from ebbflow.targets.spark.launch.session import local_session
from ebbflow.targets.spark.launch.settings import scaling_settings

HEAD_START_S = 6.0
"""The load begins so long after the queries, which have nothing to do until then."""
LATE_S = 5.0
"""A change that is a little late comes after the time of its case."""


def run_in_a_process(case: Case) -> Seen:
    """Run the case in a process of its own: a JVM remembers the settings of the case before."""
    told = subprocess.run(
        [sys.executable, "-m", "ebbflow.papers.rules.on_spark", case.name],
        stdout=subprocess.PIPE,
        check=False,
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
            for name in case.rates_per_s:
                warm_up(spark, name, Path(folder) / "warm-up", instances=slots, clock=time)
            started_s = time.now_s() + HEAD_START_S
            queries = [
                WaitingOperator(
                    name=name, load=str(case.load), rate_per_s=rate, start_ms=round(started_s * 1000)
                ).managed(spark, Path(folder))
                for name, rate in case.rates_per_s.items()
            ]
            time.wait(started_s - time.now_s(), never)
            watching = Watching(case.policy, started_s=started_s)
            attached = attach(
                spark,
                config=Configuration(),
                executors=(slots, slots),
                policy=case.policy,
                queries=queries,
                store=Path(folder) / "run.sqlite",
                cycle_s=1.0,
                master_web_url=cluster.web_url,
                on_cycle=watching.take,
            )
            time.wait(started_s + case.lasts_s + LATE_S - time.now_s(), never)
            attached.stop()
            for query in queries:
                query.stop()
    return watching.seen()


def main() -> None:
    """Run the case named, and print what was seen as one line of JSON."""
    name = sys.argv[1]
    case = next(case for case in (*CASES, QUICK) if case.name == name)
    seen = run_on_spark(case)
    sys.stdout.write(json.dumps(seen.to_json()) + "\n")


if __name__ == "__main__":
    main()
