"""The simulator behind the target port, with the same observations as on Spark."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from ebbflow.core.batches import Batch
from ebbflow.core.clock import Clock
from ebbflow.core.curve import Curve, sum_of_steps
from ebbflow.core.decision import Outcome
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.ports import Observation
from ebbflow.core.readings import Reading
from ebbflow.core.snapshot import ActionKind, ActionUnderWay
from ebbflow.errors import InputError, TargetError
from ebbflow.targets.simulator.engine import Engine, Inflow, PipelineRows, Start
from ebbflow.targets.simulator.faults import Fault, LateMetrics, MissingMetrics, NodeDies, SlowNode
from ebbflow.targets.simulator.nodes import Cluster, Link, NodeCounts, NodeKind
from ebbflow.workloads.arrival_times import Arrivals

_SUMMED = (
    Metric.ARRIVAL_RATE, Metric.QUEUE_LENGTH, Metric.BACKLOG, Metric.BATCH_ROWS, Metric.FAILED_ROWS,
)  # fmt: skip
_WORST = (Metric.FRESHNESS, Metric.BATCH_TIME)


class SimulatorTarget:
    """Simulated pipelines on simulated clusters. The load starts at time 0 of the clock; calls advance the simulation.

    The same seed, arguments and calls give the same results.

    >>> from ebbflow.core.clock import ManualClock
    >>> from ebbflow.targets.simulator.micro_batch import MicroBatch, Stage
    >>> from ebbflow.workloads import parse_load
    >>> clock = ManualClock()
    >>> query = MicroBatch(pipeline=Pipeline.chain("p", "read"), stages=(Stage(tasks=2, per_row_s=0.01),))
    >>> target = SimulatorTarget(query, NodeKind(), Arrivals(parse_load("constant(50)")), clock, seed=1)
    >>> clock.advance(12.0)
    >>> [(b.rows, b.started_s, round(b.ended_s, 3)) for b in target.observe().batches]
    []
    >>> clock.advance(6.0)
    >>> [(b.rows, b.started_s, round(b.ended_s, 3)) for b in target.observe().batches]
    [(250, 10.0, 12.9), (250, 15.0, 17.9)]
    """

    def __init__(
        self,
        engine: Engine,
        nodes: NodeKind,
        arrivals: Arrivals,
        clock: Clock,
        seed: int = 0,
        *,
        initial_nodes: int = 1,
        faults: Sequence[Fault] = (),
        others: Sequence[tuple[Engine, Arrivals]] = (),
        clusters: Mapping[str, Cluster] | None = None,
        placement: Mapping[str, str] | None = None,
        link: Link | None = None,
    ) -> None:
        """``others``: further pipelines on the same nodes; operators are then named ``pipeline/operator``.
        ``clusters``: clusters beside the main one, which has ``nodes``; ``placement``: operators that start there."""
        all_clusters = {MAIN: Cluster(nodes=nodes, initial_nodes=initial_nodes), **(clusters or {})}
        pipelines = [(engine, arrivals), *others]
        if others:
            pipelines = [(each.with_qualified_operators, load) for each, load in pipelines]
        _check_consistent([each for each, _ in pipelines], all_clusters, placement or {}, faults)
        root = np.random.default_rng(seed)
        for_nodes, for_engine = root.spawn(2)
        generators = iter(root.spawn(len(others) + len(all_clusters) - 1))
        self._clock = clock
        self._pools = {
            name: cluster.nodes.pool(
                cluster.initial_nodes, for_nodes if name == MAIN else next(generators),
                [f for f in faults if isinstance(f, NodeDies | SlowNode) and f.cluster == name],
                step_s=engine.step_s,
            )
            for name, cluster in all_clusters.items()
        }  # fmt: skip
        self._inflows = {each.pipeline.name: Inflow(load) for each, load in pipelines}
        starts = [
            Start(
                each,
                self._inflows[each.pipeline.name],
                for_engine if number == 0 else next(generators),
                placement or {},
            )
            for number, (each, _) in enumerate(pipelines)
        ]
        self._world = engine.start_together(starts, self._pools, link or Link())
        self._runs = dict(zip(self._inflows, self._world.runs, strict=True))
        self._combined = _CombinedReadings([each.pipeline for each, _ in pipelines])
        limited = {each.pipeline.name for each, _ in pipelines if each.read_limited}
        if len(limited) == len(pipelines):
            limited.add(self._combined.pipeline.name)
        self._read_limited = frozenset(limited)
        self._missing = [f for f in faults if isinstance(f, MissingMetrics)]
        self._late = [f for f in faults if isinstance(f, LateMetrics)]
        self._delayed_observations: deque[Observation] = deque()
        self._parallelism: dict[str, int] = {}
        self._layouts_from: tuple[object, ...] = ()
        """What ``_last_layouts`` was made of."""
        self._last_layouts = (Layout.of(0), Layout.of(0))
        self._note_parallelism({})

    # -- the port ------------------------------------------------------------------------------

    def observe(self) -> Observation:
        """Simulate up to now and observe. ``TargetError`` while metrics are missing."""
        now_s = self.advance()
        if self._missing and any(f.from_s <= now_s < f.until_s for f in self._missing):
            raise TargetError(f"the simulated monitor has no metrics at {now_s:g} s")
        observed = self._observe(now_s)
        if not self._late:
            return observed
        delay_s = max((f.delay_s for f in self._late if f.from_s <= now_s < f.until_s), default=0.0)
        return self._delayed(observed, now_s - delay_s) if delay_s or self._delayed_observations else observed

    def apply(self, planned: Layout) -> Outcome:
        """Request nodes, parallelism and clusters. Clusters that the plan does not name stay unchanged."""
        now_s = self.advance()
        for cluster in (*planned.nodes, *planned.placement.values()):
            if cluster not in self._pools:
                raise TargetError(f"there is no cluster '{cluster}'; there are: {', '.join(self._pools)}")
        placement = planned.placement if len(self._pools) > 1 else None
        notes = []
        for run in self._world.runs:
            if note := run.set_parallelism(now_s, planned.parallelism, placement):
                notes.append(note)
        self._note_parallelism(planned.parallelism)
        for cluster, pool in self._pools.items():
            if cluster in planned.nodes:
                pool.set_nodes(now_s, planned.nodes[cluster], busy=self._world.busy(cluster))
        requested = {cluster: pool.requested for cluster, pool in self._pools.items()}
        return Outcome(
            requested=self._layout(requested, self._placement()), note="; ".join(dict.fromkeys(notes))
        )

    def close(self) -> None:
        """There is nothing to close."""

    # -- for recording and scoring -------------------------------------------------------------

    @property
    def pipeline(self) -> Pipeline:
        """All pipelines as one; each operator has the name of its pipeline as its query."""
        return self._combined.pipeline

    @property
    def pipelines(self) -> tuple[str, ...]:
        """The names of the pipelines."""
        return tuple(self._runs)

    def advance(self) -> float:
        """Simulate up to now; returns the time."""
        now_s = self._clock.now_s()
        for pool in self._pools.values():
            pool.advance(now_s)
        self._world.advance(now_s)
        return now_s

    def work(self, pipeline: str | None = None) -> PipelineRows:
        """The row counts of a pipeline, or of all."""
        now_s = self.advance()
        works = [run.work(now_s) for name, run in self._runs.items() if pipeline in (None, name)]
        return PipelineRows(
            processed=sum(work.processed for work in works),
            waiting=sum(work.waiting for work in works),
            failed=sum(work.failed for work in works),
        )

    def arrived(self, until_s: float, pipeline: str | None = None) -> Curve:
        """Arrived rows of a pipeline, cumulative. The name may be omitted if there is only one."""
        return self._inflows[self._named(pipeline)].curve(until_s)

    def processed(self, pipeline: str | None = None) -> Curve:
        """Processed rows of a pipeline, cumulative. The name may be omitted if there is only one."""
        return self._runs[self._named(pipeline)].processed()

    def lost(self, until_s: float, pipeline: str | None = None) -> Curve:
        """Lost rows of a pipeline, cumulative over arrival times. The name may be omitted if there is only one."""
        return self._runs[self._named(pipeline)].lost(self.arrived(until_s, pipeline))

    def held(self, cluster: str | None = None) -> Curve:
        """Nodes paid for in a cluster, or in all, over time."""
        return sum_of_steps([p.held() for name, p in self._pools.items() if cluster in (None, name)])

    def at_work(self, cluster: str | None = None) -> Curve:
        """Joined nodes of a cluster, or of all, over time."""
        return sum_of_steps([p.at_work() for name, p in self._pools.items() if cluster in (None, name)])

    def _named(self, pipeline: str | None) -> str:
        if pipeline is None and len(self._runs) == 1:
            return self.pipelines[0]
        if pipeline is None or pipeline not in self._runs:
            raise InputError(f"name one of the pipelines: {', '.join(self._runs)}")
        return pipeline

    # -- observing -----------------------------------------------------------------------------

    def _observe(self, now_s: float) -> Observation:
        batches: list[Batch] = []
        readings: list[Reading] = []
        for run in self._world.runs:
            new = run.take_batches()
            batches += new
            readings += run.readings(now_s, new)
        if len(self._runs) > 1:
            batches.sort(key=lambda batch: batch.ended_s)
            readings += self._combined.readings(now_s, readings)
        readings += self._world.node_readings(now_s)
        counts = {cluster: pool.counts(now_s) for cluster, pool in self._pools.items()}
        for cluster, count in counts.items():
            slots = count.working * self._pools[cluster].kind.slots
            readings += [
                Reading(now_s, cluster, Metric.NODES, float(count.working)),
                Reading(now_s, cluster, Metric.NODES_REQUESTED, float(count.requested)),
                Reading(now_s, cluster, Metric.SLOTS, float(slots)),
            ]
            joined = self._pools[cluster].take_joined()
            if cluster == MAIN:  # as on Spark: a lead time does not name its cluster
                readings += [
                    Reading(now_s, f"node-{node.number}", Metric.LEAD_TIME, node.lead_time_s)
                    for node in joined
                ]
        main = self._pools[MAIN]
        layout, requested = self._layouts(counts)
        return Observation(
            time_s=now_s,
            pipeline=self.pipeline,
            layout=layout,
            requested=requested,
            slots_per_node=main.kind.slots,
            lead_time_s=main.lead_time_s,
            readings=readings,
            batches=batches,
            under_way=self._under_way(now_s, counts),
            queries={name: since_s for run in self._world.runs for name, since_s in run.running().items()},
            read_limited=self._read_limited,
            held_nodes=sum([count.held for count in counts.values()]),
            topology=self._world.topology(now_s),
        )

    def _note_parallelism(self, planned: Mapping[str, int]) -> None:
        """Record the planned parallelism, or what operators get where they cannot have it."""
        given = {name: n for run in self._world.runs for name, n in run.parallelism.items()}
        # a new dict, because layouts hold on to the old one
        self._parallelism = {**self._parallelism, **planned, **given}

    def _placement(self) -> dict[str, str]:
        return {name: cluster for run in self._world.runs for name, cluster in run.placement.items()}

    def _layout(self, nodes: Mapping[str, int], placement: Mapping[str, str]) -> Layout:
        return Layout(nodes=nodes, parallelism=self._parallelism, placement=placement)

    def _layouts(self, counts: Mapping[str, NodeCounts]) -> tuple[Layout, Layout]:
        """(observed, requested); the same objects as last time if nothing has changed."""
        state = (counts, self._placement(), self._parallelism)
        if state != self._layouts_from:
            self._layouts_from = state
            self._last_layouts = (
                self._layout({cluster: count.working for cluster, count in counts.items()}, state[1]),
                self._layout({cluster: count.requested for cluster, count in counts.items()}, state[1]),
            )
        return self._last_layouts

    def _under_way(self, now_s: float, counts: Mapping[str, NodeCounts]) -> list[ActionUnderWay]:
        actions = []
        for cluster, count in counts.items():
            for kind, since_s, nodes in (
                (ActionKind.GROW, count.last_request_s, count.joining),
                (ActionKind.SHRINK, now_s, count.leaving),
            ):
                if nodes:
                    actions.append(ActionUnderWay(kind=kind, since_s=since_s, nodes=nodes, cluster=cluster))
        for name, run in self._runs.items():
            stopped_s = run.stopped_since_s()
            if stopped_s is not None:
                note = name if len(self._runs) > 1 else ""
                actions.append(ActionUnderWay(kind=ActionKind.RESTART, since_s=stopped_s, note=note))
        return actions

    def _delayed(self, observed: Observation, by_s: float) -> Observation:
        """The newest observation made by a time, with the readings and batches of undelivered earlier ones."""
        self._delayed_observations.append(observed)
        due: list[Observation] = []
        while self._delayed_observations and self._delayed_observations[0].time_s <= by_s + 1e-9:
            due.append(self._delayed_observations.popleft())
        if not due:
            raise TargetError(f"the simulated monitor has delivered nothing newer than {by_s:g} s")
        return msgspec.structs.replace(
            due[-1],
            readings=[reading for each in due for reading in each.readings],
            batches=[batch for each in due for batch in each.batches],
        )


class _CombinedReadings:
    """Readings of all pipelines together: sums of rates and queues, the worst of freshness and batch time.

    As on Spark, where the application is scaled and its queries are monitored.
    """

    def __init__(self, pipelines: Sequence[Pipeline]) -> None:
        self.pipeline = _combined(pipelines)
        self._names = {pipeline.name for pipeline in pipelines}
        self._last: dict[Metric, dict[str, float]] = {}

    def readings(self, now_s: float, new: Iterable[Reading]) -> list[Reading]:
        """Combined readings of each metric for which a pipeline has a new one."""
        updated = set()
        for reading in new:
            if reading.subject in self._names and reading.metric in (*_SUMMED, *_WORST):
                self._last.setdefault(reading.metric, {})[reading.subject] = reading.value
                updated.add(reading.metric)
        name, last = self.pipeline.name, self._last
        readings = [Reading(now_s, name, m, sum(last[m].values())) for m in _SUMMED if m in updated]
        return readings + [Reading(now_s, name, m, max(last[m].values())) for m in _WORST if m in updated]


def _combined(pipelines: Sequence[Pipeline]) -> Pipeline:
    """One pipeline made of several independent ones.

    >>> _combined([Pipeline.chain("a", "a/read"), Pipeline.chain("b", "b/read", "b/count")]).sources
    ('a/read', 'b/read')
    """
    return Pipeline(
        name=" + ".join(pipeline.name for pipeline in pipelines),
        operators=tuple(
            replace(operator, query=pipeline.name)
            for pipeline in pipelines
            for operator in pipeline.operators
        ),
        streams=tuple(s for pipeline in pipelines for s in pipeline.streams),
    )


def _check_consistent(
    engines: Sequence[Engine],
    clusters: Mapping[str, Cluster],
    placement: Mapping[str, str],
    faults: Iterable[Fault],
) -> None:
    """Raise ``InputError`` if pipelines, clusters, placement and faults do not fit together."""
    names = [engine.pipeline.name for engine in engines]
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise InputError(f"two pipelines are named '{duplicate}'; give each its own name")
    kinds = sorted({type(engine).__name__ for engine in engines})
    if len(kinds) > 1:
        raise InputError(f"pipelines on {' and '.join(kinds)} cannot share nodes; use one kind of engine")
    operators = {name for engine in engines for name in engine.pipeline.order}
    for operator, cluster in placement.items():
        if operator not in operators:
            raise InputError(
                f"the placement names '{operator}', which is not one of {', '.join(sorted(operators))}"
            )
        _check_cluster(cluster, clusters, f"operator '{operator}' is placed in")
    for fault in faults:
        if isinstance(fault, NodeDies | SlowNode):
            _check_cluster(fault.cluster, clusters, "a fault affects")


def _check_cluster(cluster: str, clusters: Mapping[str, Cluster], what: str) -> None:
    if cluster not in clusters:
        raise InputError(f"{what} cluster '{cluster}'; there are: {', '.join(clusters)}")
