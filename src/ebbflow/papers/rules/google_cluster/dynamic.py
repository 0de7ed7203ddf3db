"""The dynamic scaling test (§5.3.5): the trace in fast motion under the policy of Source Code 5.9, on Spark.

All slots that the largest size needs run from the start. The policy scales the parallelism of the machine operator:
its query stops between two batches, its state is repartitioned, and the query starts again. The replay continues
meanwhile, so the next batch is longer.

Events travel as rows here, like the tuples of the thesis, because its thresholds are for such an operator. As columns
(``packed``) they cost so little that a replay at ×1000 hardly shows in the CPU.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from ebbflow.control.attach import attach
from ebbflow.control.loop import CycleReport
from ebbflow.core.clock import Clock, SystemClock
from ebbflow.core.decision import LedgerEntry
from ebbflow.core.folders import scratch_folder
from ebbflow.core.metrics import Metric
from ebbflow.options import Configuration
from ebbflow.papers.rules.google_cluster import sink
from ebbflow.papers.rules.google_cluster.query import MACHINE, GoogleClusterQuery, settings
from ebbflow.policy import (
    Policy,
    above,
    absolute,
    below,
    metric,
    minutes,
    nodes,
    operator,
    percent,
    rule,
    seconds,
)
from ebbflow.runs.stored_run import read_decisions
from ebbflow.runs.watching import raise_failure, source_start_s, wait_for_end
from ebbflow.targets.spark.act.restart import RestartTimes
from ebbflow.targets.spark.launch.local_cluster import LocalCluster, local_settings
from ebbflow.targets.spark.launch.session import local_session
from ebbflow.targets.spark.launch.settings import scaling_settings

MAX_INSTANCES = 8
EXECUTORS = 2
TRIGGER_S = 5.0
"""Each batch gives a reading of the CPU; the thesis sampled every 5 to 10 s."""


def thesis_policy() -> Policy:
    """Return the policy of the Rules thesis (Source Code 5.9)."""
    machine = operator(MACHINE)
    return Policy(
        rule("CPU is above 10% for 30 seconds, scale-out by 1")
        .scale_out(machine).by(absolute(1)).but_never_above(nodes(MAX_INSTANCES))
        .when(metric("cpu")).is_(above(percent(10))).for_at_least(seconds(30))
        .with_no_scale_in_since(minutes(1)),
        rule("CPU is above 20% for 60 seconds, scale-out by 2")
        .scale_out(machine).by(absolute(2)).but_never_above(nodes(MAX_INSTANCES))
        .when(metric("cpu")).is_(above(percent(20))).for_at_least(seconds(60))
        .with_no_scale_in_since(minutes(1)),
        rule("CPU is below 10% for 60 seconds, scale-in by 1")
        .scale_in(machine).by(absolute(1))
        .when(metric("cpu")).is_(below(percent(10))).for_at_least(seconds(60))
        .with_no_scale_out_since(minutes(1)),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Resize:
    """A change of the machine operator's parallelism."""

    time_s: float
    before: int
    after: int
    rule: str


@dataclass(frozen=True, kw_only=True, eq=False)
class DynamicResult:
    """The measurements of a run; times are seconds since the replay began."""

    speed: float
    cpu: list[tuple[float, float]]
    """Share of a core that an instance of the machine operator used, per batch."""
    sizes: list[tuple[float, int]]
    rates: list[tuple[float, float]]
    """Events per second of real time, per batch, with and without a machine."""
    resizes: tuple[Resize, ...]
    stops: list[tuple[float, float]] = field(default_factory=list)
    """(time, seconds) of each stop of the query for a resize."""
    cluster: dict[str, list[float]] = field(default_factory=dict)
    """The query's results: the columns of its cluster table."""
    events: int = 0

    @property
    def stopped_s(self) -> float:
        """Total time in which the query was stopped."""
        return sum(seconds for _, seconds in self.stops)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values, with only the first and last report of the query."""
        reports = len(self.cluster.get("trace_s", ()))
        return {
            "speed": self.speed,
            "events": self.events,
            "changes": [
                {"time_s": round(c.time_s, 1), "from": c.before, "to": c.after, "rule": c.rule}
                for c in self.resizes
            ],
            "stopped_s": round(self.stopped_s, 1),
            "stops": [[round(t, 1), round(s, 1)] for t, s in self.stops],
            "cpu": [[round(t, 1), round(v, 4)] for t, v in self.cpu],
            "sizes": [[round(t, 1), n] for t, n in self.sizes],
            "events_per_s": [[round(t, 1), round(v)] for t, v in self.rates],
            "reports": reports,
            "first_report": {k: v[0] for k, v in self.cluster.items()} if reports else None,
            "last_report": {k: v[-1] for k, v in self.cluster.items()} if reports else None,
        }


def run_dynamic(
    folder: Path,
    *,
    lasts_s: float,
    speed: float = 1000.0,
    packed: bool = False,
    policy: Policy | None = None,
    clock: Clock | None = None,
    say: Callable[[str], None] = lambda _: None,
    stop: threading.Event | None = None,
) -> DynamicResult:
    """Replay the folder in real time on a local standalone cluster."""
    time, ended = clock or SystemClock(), stop or threading.Event()
    cpu: list[tuple[float, float]] = []
    sizes: list[tuple[float, int]] = []
    restarts: list[tuple[float, RestartTimes]] = []

    def record(report: CycleReport) -> None:
        observation = report.observation
        if observation is None:
            return
        last = managed.last_restart
        if last is not None and (not restarts or restarts[-1][1] is not last):
            restarts.append((observation.time_s, last))
        for reading in observation.readings:
            if reading.subject == MACHINE and reading.metric is Metric.INSTANCE_CPU:
                cpu.append((reading.time_s, reading.value))
        size = observation.layout.parallelism.get(MACHINE)
        if size is not None:
            sizes.append((observation.time_s, size))

    with (
        scratch_folder("google") as scratch,
        LocalCluster(cores=MAX_INSTANCES, memory_mb=4096) as cluster,
    ):
        output = Path(scratch) / "out"
        sink.prepare_output(output)
        per_executor = MAX_INSTANCES // EXECUTORS
        own = {
            **cluster.settings,
            **local_settings(cores_per_executor=per_executor, memory="1200m"),
            **scaling_settings(initial_executors=EXECUTORS, master=cluster.master_url),
            **settings(1, packed=packed),
        }
        say(f"starting the query on {EXECUTORS} executors with {per_executor} slots each")
        with local_session(cluster.master_url, own, name="google-cluster") as spark:
            query = GoogleClusterQuery(
                input=folder,
                output=output,
                speed=str(speed),
                max_parts=None,
                max_trace=None,
                trigger_s=TRIGGER_S,
                packed=packed,
            )
            store = Path(scratch) / "run.sqlite"
            managed = query.managed(spark, Path(scratch) / "checkpoint", 1)
            started_s = source_start_s(managed.query, time, ended, within_s=180)
            attached = attach(
                spark,
                config=Configuration(),
                executors=(EXECUTORS, EXECUTORS),
                policy=policy or thesis_policy(),
                queries=[managed],
                store=store,
                on_cycle=record,
                master_web_url=cluster.web_url,
            )
            try:
                wait_for_end(managed.failure, attached, time, started_s + lasts_s, ended)
            finally:
                attached.stop()
            raise_failure(
                managed.failure
            )  # a restart that was in progress at the last check has ended by now
            managed.stop()
        by_batch = sink.events_by_batch(output)
        ended_s = sink.written_s_by_batch(output)
        table = sink.read_table(output, sink.CLUSTER).to_pydict()
        decisions = read_decisions(store)
    return DynamicResult(
        speed=speed,
        cpu=[(t - started_s, v) for t, v in cpu],
        sizes=[(t - started_s, n) for t, n in sizes],
        rates=rates_of(ended_s, by_batch, started_s),
        resizes=tuple(_resizes(decisions, started_s)),
        stops=[(t - started_s, sum(times)) for t, times in restarts],
        cluster=table,
        events=sum(by_batch.values()),
    )


def _resizes(decisions: Sequence[LedgerEntry], started_s: float) -> list[Resize]:
    resizes = []
    for entry in decisions:
        if entry.verdict != "act" or entry.outcome is None:
            continue
        changed = entry.outcome.requested.difference(entry.before).parallelism
        if MACHINE in changed:
            before, after = changed[MACHINE]
            named = str(entry.decision.inputs.get("rule", ""))
            resizes.append(Resize(time_s=entry.time_s - started_s, before=before, after=after, rule=named))
    return resizes


def rates_of(
    ended_s: dict[int, float], events: dict[int, int], started_s: float
) -> list[tuple[float, float]]:
    """Return (end, events per second since the end of the batch before) of each batch but the first.

    The first batch has the state before the trace. Times come from the sink's files: Spark discards the progress of a
    query that is stopped for a resize.

    >>> rates_of({0: 100.0, 1: 105.0, 2: 115.0}, {0: 9000, 1: 50, 2: 300}, 98.0)
    [(7.0, 10.0), (17.0, 30.0)]
    """
    return [
        (ended_s[batch] - started_s, events[batch] / (ended_s[batch] - ended_s[before]))
        for before, batch in pairwise(sorted(ended_s))
        if ended_s[batch] > ended_s[before]
    ]
