"""The datastore benchmark on real Cassandra: nodes on this machine, one day of the trace in some minutes.

Each node answers a limited number of requests per second (``LocalCassandra``): capacity by construction, because all
nodes share the cores of the machine. The load has the shape of the trace, scaled to the bound of the largest size.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

import numpy as np

from ebbflow.control.loop import ControlLoop, CycleReport
from ebbflow.core.clock import SystemClock
from ebbflow.core.curve import Curve, Floats
from ebbflow.core.expression import quote
from ebbflow.core.folders import scratch_folder
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.ports import Observation
from ebbflow.core.run import Run
from ebbflow.errors import TargetError
from ebbflow.guards import guards_for, topology_guards
from ebbflow.monitoring.store import Store
from ebbflow.papers.pascal.datastore.loads import MINUTES, DatastoreLoad
from ebbflow.papers.pascal.datastore.results import (
    COSTS,
    SLO,
    STATIC_FEW,
    STATIC_MOST,
    Impact,
    ReadingsRecorder,
    StoreRun,
)
from ebbflow.papers.pascal.datastore.simulated import LIMITS, strategy_for
from ebbflow.profiling.datastore import DatastoreProfile, DatastoreProfiling
from ebbflow.profiling.datastore.profile import CASSANDRA
from ebbflow.targets.cassandra.actuator import ResizeTimes
from ebbflow.targets.cassandra.cluster import OpenCluster
from ebbflow.targets.cassandra.launch.local_cassandra import LocalCassandra
from ebbflow.targets.cassandra.load.generator import LoadGenerator, RequestMix
from ebbflow.targets.cassandra.load.rows import create_table, fill
from ebbflow.targets.cassandra.load.written import Written, check_written
from ebbflow.targets.cassandra.target import CassandraTarget
from ebbflow.targets.cassandra.under_load import CassandraUnderLoad

REPLICATION = 3
KEYSPACE = "ebbflow"
DEFAULT_STRATEGIES = (COSTS, STATIC_MOST)
"""Without a choice: ours, and the static maximum that it is compared with."""
PEAK_SHARE = 0.978
"""Highest load ÷ bounded throughput of the largest size, as in the paper: 90,000 of 91,984."""
STEPS_PER_DAY = 240
"""Steps of the forecast: six minutes of the trace."""
CYCLE_S = 1.0
TIMES = ResizeTimes(cleanup_after_s=5.0)
"""The paper waits 60 s before a cleanup; a day of this test has minutes only."""
RESIZE_WITHIN_S = 900.0
IMPACT_AT_S, IMPACT_AFTER_S = 20.0, 20.0


class RunClock:
    """The machine's clock, counted from the start of a run: forecasters know the days before it by negative times."""

    def __init__(self, zero_s: float) -> None:
        self._zero_s, self._clock = zero_s, SystemClock()

    def now_s(self) -> float:
        """Seconds since the start of the run."""
        return self._clock.now_s() - self._zero_s

    def monotonic_s(self) -> float:
        """Seconds since some moment."""
        return self._clock.monotonic_s()

    def wait(self, seconds: float, stop: threading.Event) -> bool:
        """Wait on the event, at most ``seconds``."""
        return self._clock.wait(seconds, stop)


@dataclass(kw_only=True)
class CassandraBench:
    """The benchmark on nodes of this machine. A context manager: they end when it is left."""

    load: DatastoreLoad
    seconds: float = 1_200.0
    """Duration of the day of the test."""
    keys: int = 100_000
    requests_per_s: int = 100
    """Limit of each node."""
    hold_s: float = 15.0
    _stack: ExitStack = field(default_factory=ExitStack, init=False)

    def __enter__(self) -> CassandraBench:
        try:
            self._folder = Path(self._stack.enter_context(scratch_folder("bench")))
            self._clock = SystemClock()
            self._mix = RequestMix(keys=self.keys)
            self._local = self._stack.enter_context(
                LocalCassandra(nodes=LIMITS.min_nodes, hosts=LIMITS.max_nodes, replication_factor=REPLICATION)
            )
            self._cluster = self._stack.enter_context(OpenCluster.of_local(self._local, self._clock))
            create_table(
                self._cluster.connection,
                KEYSPACE,
                replication_factor=REPLICATION,
                data_center=self._local.data_center,
            )
            self._version = int(self._clock.now_s() * 1e6)
            fill(self._cluster.connection, KEYSPACE, range(self.keys), self._version)
            self._local.limit_requests(self.requests_per_s)
            self._written = Written()
            self._written.fill(range(self.keys), self._version)
            self._numbers = itertools.count()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def target(self) -> str:
        """Its name."""
        return CASSANDRA

    @property
    def facts(self) -> Sequence[str]:
        """What was run."""
        return (
            f"Cassandra on this machine: 3 to 6 nodes of {self.requests_per_s} requests/s by construction, "
            f"replication factor {REPLICATION}, {self.keys:,} rows",
            f"one day of the trace in {self.seconds:g} s",
            "a generated trace" if self.load.name == "made" else "a recorded trace",
        )

    @property
    def drawn_s(self) -> tuple[float, float]:
        """The whole run."""
        return 0.0, self.seconds

    # -- profile and impacts ----------------------------------------------------------------------

    def profile(self) -> DatastoreProfile:
        """Step the load on each size, and time the changes."""
        profiling = DatastoreProfiling(
            first_per_s=0.6 * LIMITS.min_nodes * self.requests_per_s,
            sizes=range(LIMITS.min_nodes, LIMITS.max_nodes + 1),
            hold_s=self.hold_s,
            tolerance=0.05,
            repeats=1,
            points=3,
        )
        under_load = CassandraUnderLoad(
            self._cluster, self._clock, self._folder, keyspace=KEYSPACE, mix=self._mix
        )
        return profiling.run(
            under_load, learned_at=datetime.fromtimestamp(self._clock.now_s(), UTC).replace(microsecond=0)
        )

    def impacts(self) -> list[Impact]:
        """3 → 4 and 4 → 3 nodes at half of what three nodes answer."""
        return [self._impact(3, 4), self._impact(4, 3)]

    def _impact(self, before: int, after: int) -> Impact:
        rate_per_s = 0.5 * 3 * self.requests_per_s
        recorder, per_node = ReadingsRecorder(), []
        cleaned_s, ended_s = None, None
        with self._generator(f"constant({rate_per_s:g})", RESIZE_WITHIN_S) as generator:
            target = self._target(generator)
            try:
                start_s, asked, done_s = generator.start_s, False, None
                while done_s is None or self._clock.now_s() - done_s < IMPACT_AFTER_S:
                    seen = target.observe()
                    now_s = self._clock.now_s() - start_s
                    if now_s > RESIZE_WITHIN_S - 30.0:
                        raise TargetError(f"{before} → {after} nodes took more than {RESIZE_WITHIN_S:g} s")
                    recorder.record(seen.readings)
                    rates = [r.value for r in seen.readings if r.metric is Metric.NODE_REQUESTS]
                    if rates:
                        per_node.append((now_s, sum(rates) / len(rates)))
                    for reading in seen.readings:
                        if reading.metric in (Metric.JOIN_TIME, Metric.LEAVE_TIME):
                            ended_s = now_s
                        elif reading.metric is Metric.CLEANUP_TIME and asked:
                            cleaned_s = now_s
                    if not asked and now_s >= IMPACT_AT_S:
                        target.apply(Layout.of(after))
                        asked = True
                    elif asked and done_s is None and _is_complete(target, seen, after):
                        done_s = self._clock.now_s()
                    self._clock.wait(CYCLE_S, threading.Event())
            finally:
                target.close()
        self._written = generator.written(self._written)

        def since(metric: Metric) -> list[tuple[float, float]]:
            return [(time_s - start_s, value) for time_s, value in recorder.points[metric]]

        return Impact(
            before=before,
            after=after,
            rate_per_s=rate_per_s,
            began_s=IMPACT_AT_S,
            ended_s=IMPACT_AT_S if ended_s is None else ended_s,
            cleaned_s=cleaned_s if after > before else None,
            throughput=since(Metric.THROUGHPUT),
            per_node=per_node,
            response=since(Metric.RESPONSE_TIME),
        )

    # -- runs -------------------------------------------------------------------------------------

    def runs(self, profile: DatastoreProfile, strategies: Sequence[str]) -> list[StoreRun]:
        """Run strategies on one day of the trace, one after the other; then read all rows back."""
        found = [self._run(name, profile) for name in strategies]
        self._local.limit_requests(1_000_000)
        checked = check_written(self._cluster.connection, KEYSPACE, self._written)
        note = (
            f"{checked.rows:,} rows read back at QUORUM: {checked.lost} lost, {checked.stale} stale, "
            f"{checked.damaged} damaged, {checked.unreadable} unreadable"
        )
        return [_noted(each, note) for each in found]

    def _run(self, name: str, profile: DatastoreProfile) -> StoreRun:
        nodes = LIMITS.max_nodes if name == STATIC_MOST else LIMITS.min_nodes
        static = name in (STATIC_MOST, STATIC_FEW)
        limits = Limits(min_nodes=nodes, max_nodes=nodes) if static else LIMITS
        self._resize(nodes)
        scale = PEAK_SHARE * profile.bounded_per_s(LIMITS.max_nodes) / self.load.peak_per_s
        recorder = ReadingsRecorder()
        held: list[tuple[float, float]] = []
        working: list[tuple[float, float]] = []

        def record(report: CycleReport) -> None:
            seen = report.observation
            if seen is None:
                return
            recorder.record(seen.readings)
            held.append((seen.time_s, float(seen.held_nodes or seen.layout.main_nodes)))
            working.append((seen.time_s, float(seen.layout.main_nodes)))

        stop = threading.Event()
        with ExitStack() as stack:
            generator = stack.enter_context(self._generator(self._trace(scale), self.seconds))
            clock = RunClock(generator.start_s)
            step_s = self.seconds / STEPS_PER_DAY
            strategy = strategy_for(
                name, profile, self._history(scale, step_s), step_s=step_s, speed=86_400.0 / self.seconds
            )
            cluster = stack.enter_context(OpenCluster.of_local(self._local, clock))
            number = next(self._numbers)
            # A journal of its own, because its times are those of the run.
            target = cluster.target(self._folder / f"run-{number}.json", clients=generator, times=TIMES)
            stack.callback(target.close)
            store = Store(self._folder / f"run-{number}.sqlite", clock)
            stack.callback(store.close)
            loop = ControlLoop(
                target=target,
                strategy=strategy,
                guards=guards_for(strategy, added=topology_guards()),
                store=store,
                clock=clock,
                limits=limits,
                slo=SLO,
                cycle_s=CYCLE_S,
                on_cycle=record,
            )
            timer = threading.Timer(self.seconds - clock.now_s(), stop.set)
            timer.daemon = True
            timer.start()
            loop.run(stop)
            generator.wait()
        self._written = generator.written(self._written)
        series = [(at_s, each) for at_s, each in generator.series(1.0) if at_s >= 0]
        arrived = np.cumsum([0.0, *(each.offered_per_s for _, each in series)])
        answered = np.cumsum([0.0, *(each.answered_per_s for _, each in series)])
        times_s = np.array([0.0, *(at_s + 1.0 for at_s, _ in series)])
        run = Run(
            strategy=name,
            pipeline=self._cluster.name,
            slo=SLO,
            limits=limits,
            started_s=0.0,
            ended_s=self.seconds,
            arrived=Curve(times_s, arrived),
            processed=Curve(times_s, answered),
            nodes=Curve.of(held),
            nodes_working=Curve.of(working),
            decisions=[entry for entry in loop.ledger.entries if entry.verdict == "act"],
            reconfigurations=loop.ledger.reconfigurations,
        )
        return StoreRun(
            strategy=name,
            target=CASSANDRA,
            run=run,
            profile=profile,
            points=recorder.points,
            most_nodes=LIMITS.max_nodes,
        )

    def _history(self, scale: float, step_s: float) -> list[tuple[float, float]]:
        """(end, mean rate) of each step of the test's time before second 0."""
        per_step = MINUTES // STEPS_PER_DAY
        past: Floats = scale * self.load.past[len(self.load.past) % per_step :]
        means = past.reshape(-1, per_step).mean(axis=1)
        ends_s = step_s * np.arange(1 - len(means), 1)
        return list(zip(ends_s.tolist(), means.tolist(), strict=True))

    def _trace(self, scale: float) -> str:
        """The first day of the test as a trace file, as fast as it is replayed."""
        path = self._folder / f"day-{next(self._numbers)}.csv"
        minute_s = self.seconds / MINUTES
        rows = (
            f"{i * minute_s:.3f},{scale * rate * minute_s:.4f}"
            for i, rate in enumerate(self.load.present[:MINUTES])
        )
        path.write_text("time,events\n" + "\n".join(rows) + "\n")
        return f"trace({quote(str(path))})"

    # -- the cluster ------------------------------------------------------------------------------

    def _generator(self, load: str, seconds: float) -> LoadGenerator:
        logs = self._folder / f"writes-{next(self._numbers)}"
        logs.mkdir()
        return LoadGenerator(
            self._cluster.contact,
            load,
            duration_s=seconds,
            keyspace=KEYSPACE,
            mix=self._mix,
            log_folder=logs,
            seed=next(self._numbers),
        )

    def _target(self, generator: LoadGenerator | None) -> CassandraTarget:
        return self._cluster.target(
            self._folder / "journal.json",
            clients=generator,
            times=TIMES,
        )

    def _resize(self, nodes: int) -> None:
        """Bring the cluster to a size between two runs."""
        target = self._target(None)
        deadline_s = self._clock.now_s() + 3 * RESIZE_WITHIN_S
        try:
            target.observe()
            target.apply(Layout.of(nodes))
            while not _is_complete(target, target.observe(), nodes):
                if self._clock.now_s() > deadline_s:
                    raise TargetError(f"the cluster did not come to {nodes} nodes")
                self._clock.wait(CYCLE_S, threading.Event())
        finally:
            target.close()


def _is_complete(target: CassandraTarget, seen: Observation, nodes: int) -> bool:
    """Whether the cluster has so many nodes, and nothing is left to do."""
    assert seen.topology is not None
    clean = not any(node.needs_cleanup or node.cleanups for node in seen.topology.active)
    return seen.layout.main_nodes == nodes and not seen.under_way and clean and target.is_idle


def _noted(run: StoreRun, note: str) -> StoreRun:
    return replace(run, notes=(*run.notes, note))
