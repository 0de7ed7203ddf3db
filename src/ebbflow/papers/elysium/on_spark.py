"""Part of Figure 9 on a real Spark cluster on this machine: T1 on the stair, the square and Twitter.

Four executors of one core stand for the four nodes. The application is ``pipelines.top_words`` with the operator
``enrich``, which waits 8 ms for each tweet like a call to another service: waiting scales even on a machine of two
cores, computing does not. One executor handles about 110 rows/s. The loads are those of the simulator, lower and
shorter. Assessments take place every half minute instead of every minute, so that there are as many.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ebbflow.control.attach import attach
from ebbflow.core.clock import Clock, SystemClock
from ebbflow.core.expression import quote
from ebbflow.core.folders import scratch_folder
from ebbflow.core.limits import Limits
from ebbflow.core.ports import Strategy
from ebbflow.core.run import Run
from ebbflow.core.slo import DEFAULT_SLO
from ebbflow.monitoring.store import Store
from ebbflow.options import Configuration
from ebbflow.papers import SPARK
from ebbflow.papers.elysium.cases import TWITTER_DAY, TWITTER_SPEED, Case
from ebbflow.papers.elysium.pipelines.top_words import TopWords
from ebbflow.papers.elysium.published import JOINT, T1
from ebbflow.papers.elysium.run import ParallelismRecorder, Result, RowMetrics, RunCurves
from ebbflow.papers.rows import run_in_process
from ebbflow.papers.studies import Points
from ebbflow.runs.stored_run import ARRIVED, arrivals, read_run
from ebbflow.runs.watching import raise_failure, wait_for_end
from ebbflow.strategies.joint import Joint
from ebbflow.strategies.symbiotic import Dimensions, Symbiotic
from ebbflow.targets.spark.launch.local_cluster import LocalCluster, local_settings
from ebbflow.targets.spark.launch.session import local_session
from ebbflow.targets.spark.launch.settings import scaling_settings
from ebbflow.workloads import Load, Trace, parse_load

LIMITS = Limits(min_nodes=1, max_nodes=4)
PEAK_PER_S = 320.0
WAIT_S = 0.008
TRIGGER_S = 5.0
ASSESSED_EVERY_S = 30.0
WARM_UP_S = 25.0
"""The load starts this long after the query, whose first batches start Python and load classes."""
ENRICH = "enrich"
SHAPES: dict[str, tuple[str, float]] = {
    "stair": (f"stair(base=40, peak={PEAK_PER_S:g}, steps=2, hold=75s)", 375.0),
    "square": (f"square(base=60, peak={PEAK_PER_S:g}, period=3m)", 360.0),
}
TWITTER_HOURS = (9.0, 15.0)
"""Hours of the day that are replayed: six minutes at 60:1."""
STAND_IN = (f"day(base=100, peak={PEAK_PER_S:g}, period=6m)", 360.0)


@dataclass(frozen=True, kw_only=True)
class SparkCase:
    """The command-line arguments of one run."""

    load: str
    seconds: float
    strategy: str


def spark_case(case: Case) -> SparkCase:
    """The case with its load as run on Spark."""
    key = case.key
    if key.load in SHAPES:
        text, seconds = SHAPES[key.load]
    else:
        text, seconds = _twitter(case.loads[0][1])
    return SparkCase(load=text, seconds=seconds, strategy=key.strategy)


def _twitter(load: Load) -> tuple[str, float]:
    """A few hours of the day that the simulator replays, scaled so that the busiest minute is the peak."""
    inner: Any = getattr(load, "load", None)
    if not isinstance(inner, Trace):
        return STAND_IN
    start_s, end_s = (TWITTER_DAY[0] + hours * 3600.0 for hours in TWITTER_HOURS)
    text = f"trace({quote(inner.file)}, speed={TWITTER_SPEED:g}, start={start_s:g}s, end={end_s:g}s)"
    section = parse_load(text)
    minutes = section.rows_between(np.arange(0.0, section.span_s + 1e-9, 60.0)) / 60.0
    return f"{PEAK_PER_S / float(minutes.max()):.6g} * {text}", section.span_s


def run_selection(cases: Sequence[Case], *, say: Callable[[str], None]) -> list[Result]:
    """Run each case on Spark."""
    results = []
    for case in cases:
        run = spark_case(case)
        say(f"{case.key} on Spark: {run.seconds:.0f} s after the cluster has started")
        answer = run_in_process(__name__, run.load, run.seconds, run.strategy, name=str(case.key))
        results.append(
            Result(
                case=replace(case, seconds=run.seconds),
                target=SPARK,
                metrics=RowMetrics(**answer["metrics"]),
                runs=1,
                curves=RunCurves.from_json(answer["curves"]),
            )
        )
    return results


def _strategy(name: str) -> Strategy:
    if name == JOINT:
        return Joint(most_instances=LIMITS.max_nodes, assess_s=ASSESSED_EVERY_S)
    return Symbiotic(
        assess_s=ASSESSED_EVERY_S, dimensions=Dimensions(most_instances={ENRICH: LIMITS.max_nodes})
    )


def run_on_spark(case: SparkCase, clock: Clock | None = None) -> tuple[RowMetrics, RunCurves]:
    """One run in real time."""
    run, parallelism = run_application(case.load, case.seconds, _strategy(case.strategy), clock=clock)
    return RowMetrics.of([run]), RunCurves.of({T1: run}, parallelism)


def run_application(
    load: str,
    seconds: float,
    strategy: Strategy,
    *,
    initial_executors: int = LIMITS.min_nodes,
    clock: Clock | None = None,
) -> tuple[Run, Mapping[str, Points]]:
    """Run the application under a load in real time; also returns the planned instances of its operators.

    It starts with as many instances as the maximum of slots: the comparison is about how nodes follow the load, and
    joint scaling adds a node for every instance.
    """
    time, never = clock or SystemClock(), threading.Event()
    recorder = ParallelismRecorder()

    with (
        scratch_folder("elysium") as folder,
        LocalCluster(cores=LIMITS.max_nodes) as cluster,
    ):
        path = Path(folder) / "run.sqlite"
        settings = {
            **cluster.settings,
            **local_settings(),
            **scaling_settings(initial_executors=initial_executors, master=cluster.master_url),
            "spark.sql.shuffle.partitions": "1",
            "spark.log.level": "OFF",
        }
        with local_session(cluster.master_url, settings, name="elysium") as spark:
            started_s = time.now_s() + WARM_UP_S
            recorder.started_s = started_s
            application = TopWords(
                load=load, source_partitions=1, start_ms=round(started_s * 1000), lookup_wait_s=WAIT_S,
                trigger_s=TRIGGER_S,
            )  # fmt: skip
            rankings = application.rankings()
            query = application.managed(
                spark, Path(folder) / "checkpoint", rankings.take, {ENRICH: LIMITS.max_nodes}
            )
            time.wait(started_s - time.now_s(), never)
            attached = attach(
                spark,
                config=Configuration(),
                executors=(LIMITS.min_nodes, LIMITS.max_nodes),
                slo=DEFAULT_SLO,
                strategy=strategy,
                queries=[query],
                store=path,
                on_cycle=recorder.record,
                master_web_url=cluster.web_url,
            )
            try:
                wait_for_end(query.failure, attached, time, started_s + seconds, never)
                ended_s = time.now_s()
            finally:
                attached.stop()
            query.stop()
            raise_failure(query.failure)
        with closing(Store(path, time)) as store:
            arrived = arrivals(parse_load(load), started_s, max(started_s, ended_s))
            store.set_curves({(ARRIVED, T1): arrived})
            store.set_terms(
                {
                    "name": T1,
                    "strategy": strategy.name,
                    "started_s": repr(started_s),
                    "ended_s": repr(ended_s),
                }
            )
        run = read_run(path).run
    return run, recorder.until(seconds)


def main() -> None:
    """Run the load, seconds and strategy of the command line and print the result as one line of JSON."""
    load, seconds, strategy = sys.argv[1:]
    metrics, curves = run_on_spark(SparkCase(load=load, seconds=float(seconds), strategy=strategy))
    sys.stdout.write(json.dumps({"metrics": vars(metrics), "curves": curves.to_json()}) + "\n")


if __name__ == "__main__":
    main()
