"""A live run: the top-words pipeline on a real Spark cluster on this machine, under a strategy.

``ebbflow demo`` is one such run. ``benchmarks side_by_side`` compares three that differ only in the strategy.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
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
from ebbflow.monitoring.store import Store
from ebbflow.options import Configuration
from ebbflow.papers.elysium.pipelines.top_words import Rankings, TopWords
from ebbflow.runs.oracle import cheapest_schedule
from ebbflow.runs.score import Scores
from ebbflow.runs.stored_run import (
    ARRIVED,
    LOST,
    PROCESSED,
    StoredRun,
    arrivals,
    node_changes,
    read_run,
    without_lost_rows,
)
from ebbflow.runs.watching import end_offset, raise_failure, source_start_s, wait_for_end
from ebbflow.targets.spark.act.restart import stop_between_batches
from ebbflow.targets.spark.driver import query_failure
from ebbflow.targets.spark.launch.local_cluster import LocalCluster, local_settings, record_archive
from ebbflow.targets.spark.launch.session import local_session
from ebbflow.targets.spark.launch.settings import dynamic_allocation_settings, scaling_settings
from ebbflow.workloads.expression import parse_load

log = logging.getLogger(__name__)

SPARK_DRA = "spark-dra"
"""Spark's own dynamic allocation scales; Ebbflow is attached as a dry run."""

LIMITS = Limits(min_nodes=1, max_nodes=6)
NAME = "top-words"
LEAVING_S = 36.0
"""Time for the last executors to leave, one after the other, after the load has fallen."""


@dataclass(frozen=True, kw_only=True)
class LiveScenario:
    """The load and limits of a run. The load rises and falls like a day within ``seconds``, and ends with a night."""

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
        """A day and five hours of the night after it, so that the run ends as quietly as it began. A short run has six
        hours, because executors need the same time to leave. The next morning must not begin."""
        period_s = min(self.seconds * 24 / 29, max(self.seconds - LEAVING_S, self.seconds * 24 / 30))
        return f"day(base={self.base_per_s:g}, peak={self.peak_per_s:g}, period={period_s:.3f}s)"

    @property
    def application(self) -> TopWords:
        """The pipeline with the settings of this scenario."""
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
    """The run, read back from its store, and the most frequent words."""

    stored: StoredRun
    top: list[tuple[str, int]]

    @property
    def run(self) -> Run:
        """The run."""
        return self.stored.run

    @cached_property
    def scores(self) -> Scores:
        """Its scores."""
        return self.stored.scores()

    def to_json(self) -> dict[str, Any]:
        """Scores by name, and the history of executors and decisions."""
        return {
            "strategy": self.run.strategy,
            "slo": str(self.run.slo),
            **self.scores.to_json(),
            "executors": node_changes(self.run),
            "decisions": [entry.to_json() for entry in self.run.decisions],
        }


def run_live(
    scenario: LiveScenario,
    strategy: str,
    *,
    config: Configuration | None = None,
    clock: Clock | None = None,
    say: Callable[[str], None] = log.info,
    on_start: Callable[[float, Rankings], None] | None = None,
    on_cycle: Callable[[CycleReport], None] | None = None,
    stop: threading.Event | None = None,
) -> LiveResult:
    """Run the scenario under a strategy. ``on_start`` gets the time at which the load starts.

    If ``config`` is given, it selects the strategy, and ``strategy`` is only the name in the record.
    """
    time = clock or SystemClock()
    rankings = scenario.application.rankings()
    ended = stop or threading.Event()

    say("starting a Spark cluster on this machine (a master and a worker)")
    with (
        scratch_folder("run") as folder,
        LocalCluster(cores=scenario.limits.max_nodes) as cluster,
    ):
        say("starting the application with its first executor")
        path = Path(folder) / "run.sqlite"
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
                strategy=None if config is not None else "capacity" if strategy == SPARK_DRA else strategy,
                config=config or Configuration(),
                dry_run=strategy == SPARK_DRA,
                store=path,
                on_cycle=on_cycle,
                master_web_url=cluster.web_url,
                agents=(cluster.agent_address,),
            )
            try:
                wait_for_end(
                    lambda: query_failure(query), attached, time, started_s + scenario.seconds, ended
                )
                ended_s = time.now_s()
            finally:
                attached.stop()
            stop_between_batches(query)
            raise_failure(lambda: query_failure(query))  # in its last batch
            progress = list(query.recentProgress)
            lost, repeated = rankings.audit(_end_row(progress[-1]) if progress else 0)
        arrived = arrivals(parse_load(scenario.load), started_s, max(started_s, ended_s))
        processed, missing = without_lost_rows(
            arrived, _processed(progress, started_s, scenario.trigger_s), lost
        )
        with closing(Store(path, time)) as store:
            store.set_curves({(ARRIVED, NAME): arrived, (PROCESSED, NAME): processed, (LOST, NAME): missing})
            store.set_terms(
                {
                    "name": NAME,
                    "strategy": strategy,
                    "started_s": repr(started_s),
                    "ended_s": repr(ended_s),
                    "rows_repeated": str(repeated),
                    "oracle_node_seconds": repr(
                        _oracle_node_seconds(scenario, arrived, started_s, max(started_s, ended_s))
                    ),
                }
            )
        stored = read_run(path)
    return LiveResult(stored=stored, top=rankings.top())


def prepare(say: Callable[[str], None]) -> None:
    """Create the class archive that makes executors start faster, once per version of Spark and Java."""
    scenario = LiveScenario(
        limits=Limits(min_nodes=1, max_nodes=1), trigger_s=1.0, lookup_wait_s=0.0, tasks=2
    )

    def run_executor(java_option: str, written: Callable[[], bool]) -> None:
        say(
            "preparing this machine once: recording the classes that executors load, so that they start faster"
        )
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
                    within_s=90.0,
                    every_s=0.2,
                )
                stop_between_batches(query)
                raise_failure(lambda: query_failure(query))
            wait_until(written, clock, within_s=30.0, every_s=0.2)

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


def _processed(progress: list[Any], started_s: float, trigger_s: float) -> Curve:
    """Rows processed by the end of each batch. If the clock was set back between two batches, the second is assumed to
    have started at the next trigger, and later batches are shifted with it."""
    points, set_back_s, earliest_s = [(started_s, 0.0)], 0.0, started_s
    for each in progress:
        took_s = each["durationMs"]["triggerExecution"] / 1000
        began_s = datetime.fromisoformat(each["timestamp"]).timestamp() + set_back_s
        if began_s < earliest_s - trigger_s:
            set_back_s += earliest_s - began_s
            began_s = earliest_s
        earliest_s = began_s + max(took_s, trigger_s)
        points.append((began_s + took_s, float(_end_row(each))))
    return Curve.of(points)


def _oracle_node_seconds(scenario: LiveScenario, arrived: Curve, started_s: float, ended_s: float) -> float:
    """Node-seconds of the cheapest schedule with hindsight, if slots only waited for lookups."""
    sizes = np.arange(scenario.limits.max_nodes + 1, dtype=np.float64)
    best = cheapest_schedule(
        arrived,
        sizes / scenario.lookup_wait_s,
        limits=scenario.limits,
        slo=scenario.slo,
        started_s=started_s,
        ended_s=ended_s,
    )
    return best.node_seconds
