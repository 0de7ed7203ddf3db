"""The profiling phase on a real Spark cluster: a stair of loads, then a sine to check the profile. Takes a few minutes.

At the top of the stair the operators get one more instance and the application one more executor, so that the times of
a restart, of draining and of starting an executor are measured too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from ebbflow.control.attach import attach
from ebbflow.control.loop import CycleReport
from ebbflow.core.clock import Clock, SystemClock, wait_until
from ebbflow.core.folders import scratch_folder
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading
from ebbflow.errors import TargetError, UnknownNameError
from ebbflow.options import Configuration
from ebbflow.papers.elysium.pipelines import sentiment, top_words
from ebbflow.profiling.batch.profiles import STILL_WARMING
from ebbflow.profiling.estimator import accuracy
from ebbflow.profiling.fitting import ALL
from ebbflow.profiling.profile_learner import ProfileLearner
from ebbflow.runs.profiling import LayoutSchedule, ProfilingResult, ProfilingStair, Progress
from ebbflow.runs.watching import raise_failure
from ebbflow.targets.spark.act.restart import ManagedQuery
from ebbflow.targets.spark.launch.local_cluster import LocalCluster, local_settings
from ebbflow.targets.spark.launch.session import local_session
from ebbflow.targets.spark.launch.settings import scaling_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TRIGGER_S = 2.0
"""Two cycles of the loop, so that the plan of every batch is observed, and with it the rows of all operators."""


@dataclass(frozen=True, kw_only=True)
class Application:
    """An application that can be profiled."""

    start: Callable[[SparkSession, Path, str, Mapping[str, int]], ManagedQuery]
    """(session, checkpoint, load, parallelism) → query."""
    operators: tuple[str, ...]
    """In the order of the chain."""
    parallelism: Mapping[str, int]
    """Initial parallelism of the operators that can be sized."""
    larger: Mapping[str, int]
    """Their parallelism after the top of the stair."""
    peak_per_s: float
    """Default of the highest step: about a third of what two cores can process, with driver and source."""


def _top_words(spark: SparkSession, folder: Path, load: str, sizes: Mapping[str, int]) -> ManagedQuery:
    return top_words.TopWords(load=load, trigger_s=TRIGGER_S).managed(spark, folder, None, sizes)


def _sentiment(spark: SparkSession, folder: Path, load: str, sizes: Mapping[str, int]) -> ManagedQuery:
    return sentiment.Sentiment(load=load, trigger_s=TRIGGER_S).managed(spark, folder, None, sizes)


APPLICATIONS = {
    "top-words": Application(
        start=_top_words,
        operators=top_words.OPERATORS,
        parallelism={"reader": 2, "counter": 2, "intermediate-ranker": 2},
        larger={"reader": 3, "counter": 3, "intermediate-ranker": 3},
        peak_per_s=8000.0,
    ),
    "sentiment": Application(
        start=_sentiment,
        operators=sentiment.OPERATORS,
        parallelism={"reader": 2, "features": 2, "classifier": 2},
        larger={"reader": 3, "features": 3, "classifier": 3},
        peak_per_s=12_000.0,
    ),
}


def application(name: str) -> Application:
    """Find an application by name."""
    try:
        return APPLICATIONS[name]
    except KeyError:
        raise UnknownNameError("pipeline", name, APPLICATIONS) from None


TARGET = "spark"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""A state store that can be repartitioned."""
WARM_UP_S = 10.0
"""Readings from the first seconds of a query are ignored."""
WARM_BATCHES = 8
"""The warm-up compares this many batches with as many before. Executors load classes, compile and start Python."""
LONGEST_WARM_UP_S = 180.0


@dataclass(frozen=True, kw_only=True)
class SparkPhase:
    """The settings of a profiling phase."""

    pipeline: str
    executors: int = 2
    peak_per_s: float | None = None
    steps: int = 8
    hold_s: float = 20.0
    check_s: float = 120.0
    """Length of the sine that the profile is checked on; 0 for none."""
    master: str | None = None
    """An existing master; None starts a cluster on this machine."""
    agents: tuple[str, ...] = ()
    agent_keys: Path | None = None

    def run(
        self, *, on_progress: Progress = lambda _, __: None, clock: Clock | None = None
    ) -> ProfilingResult:
        """Run the stair, learn the profile, and check it on a sine."""
        chosen = application(self.pipeline)
        wall = clock or SystemClock()
        stair = ProfilingStair(
            peak_per_s=self.peak_per_s or chosen.peak_per_s, steps=self.steps, hold_s=self.hold_s
        )
        whole_s = stair.seconds + self.check_s
        learner = ProfileLearner(Pipeline(name=self.pipeline, operators=()), kinds=ALL, target=TARGET)
        with ExitStack() as stack:
            folder = Path(stack.enter_context(scratch_folder("profile")))
            session = _Session(
                self, chosen, folder, stack, wall, lambda s, text: on_progress(s / whole_s, text)
            )
            change = (stair.top_s + self.hold_s / 2, chosen.larger, self.executors + 1)

            def learn(readings: Sequence[Reading], batches: Sequence[Any], pipeline: Pipeline) -> None:
                learner.pipeline = with_known_streams(
                    pipeline, Pipeline.chain(self.pipeline, *chosen.operators)
                )
                learner.learn(readings, batches)

            session.warm_up(stair.peak_per_s / 2)
            session.run(stair.load, stair.seconds, chosen.parallelism, [change], learn, "the stair", 0.0)
            began_s = time.process_time()
            profile = learner.profile(datetime.fromtimestamp(wall.now_s(), UTC).replace(microsecond=0))
            training_s = time.process_time() - began_s
            checked = None
            if self.check_s:
                check_readings: list[Reading] = []

                def collect(readings: Sequence[Reading], _: Sequence[Any], __: Pipeline) -> None:
                    check_readings.extend(readings)

                # The layout at the end of the stair: without the extra instances the extra executor would idle.
                what, sizes = "a sine to check the profile", {**chosen.parallelism, **chosen.larger}
                session.run(stair.sine(self.check_s), self.check_s, sizes, [], collect, what, stair.seconds)
                checked = accuracy(profile, learner.pipeline, check_readings)
        on_progress(1.0, "done")
        return ProfilingResult(
            profile=profile, accuracy=checked, seconds=stair.seconds, training_s=training_s
        )


def with_known_streams(observed: Pipeline, known: Pipeline) -> Pipeline:
    """The observed operators, with the streams of the known graph that join two of them.

    >>> with_known_streams(Pipeline(name="x", operators=Pipeline.chain("", "words", "new").operators),
    ...                    Pipeline.chain("top-words", "reader", "words", "new")).streams[0].target
    'new'
    """
    names = {operator.name for operator in observed.operators}
    streams = tuple(s for s in known.streams if s.source in names and s.target in names)
    return replace(observed, streams=streams)


def warm(batch_times_s: Sequence[float]) -> bool:
    """Whether the last batches were no faster than those before.

    >>> warm([4.0] + 7 * [2.0] + 8 * [1.0]), warm([4.0] + 23 * [1.0]), warm(15 * [1.0])
    (False, True, False)
    """
    before, last = batch_times_s[-2 * WARM_BATCHES : -WARM_BATCHES], batch_times_s[-WARM_BATCHES:]
    return len(before) == WARM_BATCHES and median(last) >= STILL_WARMING * median(before)


def _batch_times_s(query: StreamingQuery) -> list[float]:
    return [float(p["durationMs"].get("triggerExecution", 0)) / 1000 for p in query.recentProgress]


class _Session:
    """A session that runs queries one after the other, each observed by a control loop."""

    def __init__(
        self,
        phase: SparkPhase,
        chosen: Application,
        folder: Path,
        stack: ExitStack,
        clock: Clock,
        say: Progress,
    ) -> None:
        self._phase, self._chosen, self._folder, self._clock, self._say = phase, chosen, folder, clock, say
        self._number = 0
        most = phase.executors + 1
        own: dict[str, str] = {}
        self._web_url: str | None = None
        master, self._agents = phase.master, phase.agents
        if master is None:
            say(0.0, "starting a Spark cluster on this machine")
            cluster = stack.enter_context(LocalCluster(cores=most, memory_mb=1024 * most))
            master, self._web_url = cluster.master_url, cluster.web_url
            self._agents = (*self._agents, cluster.agent_address)
            own = {**cluster.settings, **local_settings()}
        settings = {
            **own,
            **scaling_settings(initial_executors=phase.executors, master=master),
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.streaming.stateStore.providerClass": ROCKS_DB,
            "spark.log.level": "OFF",
        }
        self._spark = stack.enter_context(
            local_session(master, settings, name=phase.pipeline, remote=phase.master is not None)
        )

    def warm_up(self, rate_per_s: float) -> None:
        """Run the application until batches get no faster, and discard the result."""
        self._say(0.0, "warming up until batches get no faster")
        checkpoint = self._folder / "checkpoint-warm-up"
        query = self._chosen.start(
            self._spark, checkpoint, f"constant({rate_per_s:g})", self._chosen.parallelism
        )
        running = query.query
        wait_until(
            lambda: running.exception() is not None or warm(_batch_times_s(running)),
            self._clock,
            within_s=LONGEST_WARM_UP_S,
            every_s=0.5,
        )
        query.stop()
        raise_failure(query.failure)

    def run(
        self,
        load: str,
        seconds: float,
        parallelism: Mapping[str, int],
        changes: Sequence[tuple[float, Mapping[str, int], int]],
        on_readings: Callable[[Sequence[Reading], Sequence[Any], Pipeline], None],
        what: str,
        begun_s: float,
    ) -> None:
        """Run the application on a load. Calls ``on_readings`` with what is read after the warm-up."""
        self._number += 1
        checkpoint = self._folder / f"checkpoint-{self._number}"
        self._say(begun_s, f"{what}: {load}")
        query = self._chosen.start(self._spark, checkpoint, load, parallelism)
        started_s, last_s, ended = self._clock.now_s(), -1.0, threading.Event()

        def observe(report: CycleReport) -> None:
            nonlocal last_s
            observation = report.observation
            if observation is None or observation.time_s <= last_s:
                return
            last_s = observation.time_s
            passed_s = observation.time_s - started_s
            self._say(begun_s + passed_s, f"{what}: {_rate(observation.readings, self._phase.pipeline)}")
            if passed_s >= WARM_UP_S:
                on_readings(observation.readings, observation.batches, observation.pipeline)
            if query.query.exception() is not None:
                ended.set()

        attached = attach(
            self._spark,
            config=Configuration(),
            executors=(1, self._phase.executors + 1),
            strategy=LayoutSchedule(changes),
            queries=[query],
            store=self._folder / f"run-{self._number}.sqlite",
            agents=self._agents,
            agent_keys=self._phase.agent_keys,
            on_cycle=observe,
            master_web_url=self._web_url,
        )
        try:
            if not attached.active:
                raise TargetError("the application cannot be observed; the reason is above")
            self._clock.wait(seconds, ended)
        finally:
            attached.stop()
            query.stop()
        raise_failure(query.failure)


def _rate(readings: Sequence[Reading], pipeline: str) -> str:
    rates = [r.value for r in readings if r.metric is Metric.ARRIVAL_RATE and r.subject == pipeline]
    return f"{rates[-1]:.0f} rows/s" if rates else "starting"
