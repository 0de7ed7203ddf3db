"""One real run: the top-words application on a real cluster of this machine, under a strategy.

The demo is one such run; the side-by-side comparison is three of them, alike in all but who scales.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from ebbflow.control.attach import attach
from ebbflow.control.loop import CycleReport
from ebbflow.core.clock import Clock, SystemClock, wait_until
from ebbflow.core.curve import Curve
from ebbflow.core.folders import scratch_folder
from ebbflow.core.limits import Limits
from ebbflow.core.run import Run
from ebbflow.core.slo import DEFAULT_SLO, Slo
from ebbflow.papers.elysium.pipelines.rankings import Rankings
from ebbflow.papers.elysium.pipelines.top_words import TopWords
from ebbflow.profiling.profile import Profile
from ebbflow.runs.oracle import cheapest_schedule
from ebbflow.runs.record import RunRecorder, without
from ebbflow.runs.score import Scores, score
from ebbflow.runs.watching import check, end_offset, source_start_s, watch
from ebbflow.targets.spark.act.stopping import stop_between_batches
from ebbflow.targets.spark.driver import query_failure
from ebbflow.targets.spark.launch.class_archive import record_archive
from ebbflow.targets.spark.launch.local_cluster import LocalCluster, local_settings
from ebbflow.targets.spark.launch.session import local_session
from ebbflow.targets.spark.launch.settings import dynamic_allocation_settings, scaling_settings
from ebbflow.workloads.expression import parse_load

log = logging.getLogger(__name__)

SPARK_DRA = "spark-dra"
"""Not a strategy of ours: Spark's own dynamic allocation scales, Ebbflow is a dry run."""


LIMITS = Limits(min_nodes=1, max_nodes=6)


LEAVING_S = 36.0
"""What the last executors may take to leave, one after the other, once the evening is over."""


@dataclass(frozen=True, kw_only=True)
class LiveScenario:
    """What is run. The load rises and falls like a day, in ``seconds``; the last part is the next night."""

    seconds: float = 180.0
    limits: Limits = LIMITS
    slo: Slo = DEFAULT_SLO
    base_per_s: float = 20.0
    peak_per_s: float = 300.0
    lookup_wait_s: float = 0.008
    trigger_s: float = 5.0
    tasks: int = 8
    seed: int = 0

    @property
    def load(self) -> str:
        """A day and five hours of the night after it, so that the run ends as quietly as it began; of a short run
        six, because executors take as long to leave however short the day is. The next morning must not begin."""
        period_s = min(self.seconds * 24 / 29, max(self.seconds - LEAVING_S, self.seconds * 24 / 30))
        return f"day(base={self.base_per_s:g}, peak={self.peak_per_s:g}, period={period_s:.3f}s)"

    @property
    def application(self) -> TopWords:
        """The application with the settings of this scenario."""
        return TopWords(
            load=self.load,
            seed=self.seed,
            source_partitions=self.tasks,
            lookup_wait_s=self.lookup_wait_s,
            trigger_s=self.trigger_s,
            audit=True,
            ranks_in_sink=True,
        )


@dataclass(frozen=True, kw_only=True)
class LiveResult:
    """What came of it."""

    run: Run
    scores: Scores
    executors: list[list[float]]
    top: list[tuple[str, int]]

    def to_json(self) -> dict[str, Any]:
        """Scores by their names, and what happened when."""
        return {
            "strategy": self.run.strategy,
            "slo": str(self.run.slo),
            **self.scores.to_json(),
            "executors": self.executors,
            "decisions": [entry.to_json() for entry in self.run.decisions],
        }


def run_live(
    scenario: LiveScenario,
    strategy: str,
    *,
    policy: Path | None = None,
    profiles: Sequence[Profile] = (),
    clock: Clock | None = None,
    say: Callable[[str], None] = log.info,
    on_start: Callable[[float, Rankings], None] | None = None,
    on_cycle: Callable[[CycleReport], None] | None = None,
    stop: threading.Event | None = None,
) -> LiveResult:
    """Run the scenario under a strategy. ``on_start`` gets the time at which the load starts."""
    time = clock or SystemClock()
    recorder = RunRecorder()
    rankings = scenario.application.rankings()
    ended = stop or threading.Event()

    def after_cycle(report: CycleReport) -> None:
        recorder(report)
        if on_cycle is not None:
            on_cycle(report)

    say("starting a Spark cluster on this machine (a master, a worker)")
    with (
        scratch_folder("run") as folder,
        LocalCluster(cores=scenario.limits.max_nodes) as cluster,
    ):
        say("starting the application with its first executor")
        settings = _settings(scenario, strategy, cluster.master_url) | cluster.settings
        with local_session(cluster.master_url, settings, name="top-words") as spark:
            query = scenario.application.start(spark, f"{folder}/checkpoint", rankings.take)
            started_s = source_start_s(query, time, ended, within_s=120)
            if on_start is not None:
                on_start(started_s, rankings)
            attached = attach(
                spark,
                executors=(scenario.limits.min_nodes, scenario.limits.max_nodes),
                slo=scenario.slo,
                strategy="capacity" if strategy == SPARK_DRA else strategy,
                policy=policy,
                profiles=profiles,
                dry_run=strategy == SPARK_DRA,
                store=Path(folder) / "run.sqlite",
                on_cycle=after_cycle,
                master_web_url=cluster.web_url,
                agents=(cluster.agent_address,),
            )
            try:
                watch(lambda: query_failure(query), attached, time, started_s + scenario.seconds, ended)
                ended_s = time.now_s()
                decisions, reconfigurations = attached.history().entries, attached.reconfigurations
            finally:
                attached.stop()
            stop_between_batches(query)
            check(lambda: query_failure(query))  # of its last batch
            progress = list(query.recentProgress)
            run = recorder.run(
                strategy=strategy,
                pipeline="top-words",
                slo=scenario.slo,
                limits=scenario.limits,
                started_s=started_s,
                ended_s=ended_s,
                decisions=decisions,
                reconfigurations=reconfigurations,
                load=parse_load(scenario.load),
                processed=_processed(progress, started_s, recorder, time.now_s()),
            )
            rows = _end_row(progress[-1]) if progress else 0
    lost, repeated = rankings.audit(rows)
    run = replace(without(run, lost), rows_repeated=repeated)
    return LiveResult(
        run=run,
        scores=score(run, oracle_node_seconds=_oracle_node_seconds(scenario, run)),
        executors=recorder.executors(started_s),
        top=rankings.top(),
    )


def prepare(say: Callable[[str], None]) -> None:
    """Make the class archive with which executors start faster, once for this Spark and this Java."""
    scenario = LiveScenario(
        limits=Limits(min_nodes=1, max_nodes=1), trigger_s=1.0, lookup_wait_s=0.0, tasks=2
    )

    def run_executor(java_option: str, written: Callable[[], bool]) -> None:
        say("preparing once for this machine: recording what executors load, so that they start faster")
        clock = SystemClock()
        with scratch_folder("run") as folder, LocalCluster(cores=1) as cluster:
            settings = _settings(scenario, "static", cluster.master_url)
            settings |= cluster.settings | local_settings(java_option=java_option)
            with local_session(cluster.master_url, settings, name="preparing") as spark:
                query = scenario.application.start(
                    spark, f"{folder}/checkpoint", scenario.application.rankings().take
                )
                wait_until(
                    lambda: query_failure(query) is not None or len(query.recentProgress) >= 4,
                    clock,
                    clock.now_s() + 90,
                    every_s=0.2,
                )
                stop_between_batches(query)
                check(lambda: query_failure(query))
            wait_until(written, clock, clock.now_s() + 30, every_s=0.2)

    record_archive(run_executor)


def _settings(scenario: LiveScenario, strategy: str, master: str) -> dict[str, str]:
    first = scenario.limits.max_nodes if strategy == "static" else scenario.limits.min_nodes
    if strategy == SPARK_DRA:
        scaling = dynamic_allocation_settings(scenario.limits.min_nodes, scenario.limits.max_nodes)
    else:
        scaling = scaling_settings(initial_executors=first, master=master)
    return {
        **local_settings(),
        **scaling,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        "spark.log.level": "OFF",
    }


def _end_row(progress: Any) -> int:
    return int(end_offset(progress)["row"])


def _processed(progress: list[Any], started_s: float, recorder: RunRecorder, now_s: float) -> Curve:
    """Rows done, at the end of each batch. The clock may have been set back by ``now_s``, the run's has not."""
    began_s = [datetime.fromisoformat(each["timestamp"]).timestamp() for each in progress]
    points = [(started_s, 0.0)]
    for each, at_s in zip(progress, recorder.on_one_clock([*began_s, now_s]), strict=False):
        points.append((at_s + each["durationMs"]["triggerExecution"] / 1000, float(_end_row(each))))
    return Curve.of(points)


def _oracle_node_seconds(scenario: LiveScenario, run: Run) -> float:
    """Cheapest schedule with hindsight, if every slot only ever waited for lookups."""
    sizes = np.arange(scenario.limits.max_nodes + 1, dtype=np.float64)
    best = cheapest_schedule(
        run.arrived,
        sizes / scenario.lookup_wait_s,
        limits=scenario.limits,
        slo=scenario.slo,
        started_s=run.started_s,
        ended_s=run.ended_s,
    )
    return best.node_seconds
