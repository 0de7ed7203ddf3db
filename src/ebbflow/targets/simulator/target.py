"""The simulator behind the target port: what a strategy meets here is what it meets on Spark."""

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
from ebbflow.targets.simulator.clusters import Cluster, Link
from ebbflow.targets.simulator.engine import Engine, Start, Work
from ebbflow.targets.simulator.faults import Fault, LateMetrics, MissingMetrics, NodeDies, SlowNode
from ebbflow.targets.simulator.inflow import Inflow
from ebbflow.targets.simulator.nodes import Census, NodeKind
from ebbflow.targets.simulator.nodes.pool import NodePool
from ebbflow.workloads.arrivals import Arrivals

# Whether pipelines, clusters and faults fit together; said before anything runs.


def check_together(
    engines: Sequence[Engine],
    clusters: Mapping[str, Cluster],
    placement: Mapping[str, str],
    faults: Iterable[Fault],
) -> None:
    """``InputError`` with the first thing that does not fit."""
    names = [engine.pipeline.name for engine in engines]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"two pipelines are named '{twice}'; give each its own name")
    kinds = sorted({type(engine).__name__ for engine in engines})
    if len(kinds) > 1:
        raise InputError(f"pipelines of {' and '.join(kinds)} cannot share nodes; use one kind of engine")
    operators = {name for engine in engines for name in engine.pipeline.order}
    for operator, cluster in placement.items():
        if operator not in operators:
            raise InputError(
                f"the placement names '{operator}', which is not one of {', '.join(sorted(operators))}"
            )
        _check_cluster(cluster, clusters, f"operator '{operator}' is placed in")
    for fault in faults:
        if isinstance(fault, NodeDies | SlowNode):
            _check_cluster(fault.cluster, clusters, "a fault strikes")


def _check_cluster(cluster: str, clusters: Mapping[str, Cluster], what: str) -> None:
    if cluster not in clusters:
        raise InputError(f"{what} cluster '{cluster}'; there are: {', '.join(clusters)}")


# Several pipelines read as one: sums of what adds up, the worst of what must not hide behind the others.


_ADDED = (
    Metric.ARRIVAL_RATE, Metric.QUEUE_LENGTH, Metric.BACKLOG, Metric.BATCH_ROWS, Metric.FAILED_ROWS,
)  # fmt: skip
_WORST = (Metric.FRESHNESS, Metric.BATCH_TIME)


class Overall:
    """The last reading of every pipeline, taken together; the same rule as on Spark, where the application is
    what is scaled and its queries are what is read."""

    def __init__(self, pipelines: Sequence[Pipeline]) -> None:
        self.pipeline = _side_by_side(pipelines)
        self._names = {pipeline.name for pipeline in pipelines}
        self._last: dict[Metric, dict[str, float]] = {}

    def readings(self, now_s: float, new: Iterable[Reading]) -> list[Reading]:
        """Of all together, where at least one has a new reading."""
        fresh = set()
        for reading in new:
            if reading.subject in self._names and reading.metric in (*_ADDED, *_WORST):
                self._last.setdefault(reading.metric, {})[reading.subject] = reading.value
                fresh.add(reading.metric)
        name, last = self.pipeline.name, self._last
        readings = [Reading(now_s, name, m, sum(last[m].values())) for m in _ADDED if m in fresh]
        return readings + [Reading(now_s, name, m, max(last[m].values())) for m in _WORST if m in fresh]


def _side_by_side(pipelines: Sequence[Pipeline]) -> Pipeline:
    """One pipeline of several that have nothing to do with each other.

    >>> _side_by_side([Pipeline.chain("a", "a/read"), Pipeline.chain("b", "b/read", "b/count")]).sources
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


class SimulatorTarget:
    """Simulated pipelines on simulated clusters. Second 0 of the load is time 0 of the clock; time passes
    when it is observed.

    The same seed, arguments and calls give the same answers.

    >>> from ebbflow.core.clock import ManualClock
    >>> from ebbflow.core.pipeline import Pipeline
    >>> from ebbflow.targets.simulator.micro_batch.engine import MicroBatch, Stage
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
        """``others``: more pipelines on the same nodes; operators are then named ``pipeline/operator``.
        ``clusters``: those beside the main one, of ``nodes``; ``placement``: operators that begin there."""
        all_clusters = {MAIN: Cluster(nodes=nodes, initial_nodes=initial_nodes), **(clusters or {})}
        pipelines = [(engine, arrivals), *others]
        if others:
            pipelines = [(each.operators_named_apart, comes) for each, comes in pipelines]
        check_together([each for each, _ in pipelines], all_clusters, placement or {}, faults)
        root = np.random.default_rng(seed)
        for_nodes, for_engine = root.spawn(2)
        luck = iter(root.spawn(len(others) + len(all_clusters) - 1))
        self._clock = clock
        self._pools = {
            name: NodePool(
                cluster.nodes, cluster.initial_nodes, for_nodes if name == MAIN else next(luck),
                [f for f in faults if isinstance(f, NodeDies | SlowNode) and f.cluster == name],
                step_s=engine.step_s,
            )
            for name, cluster in all_clusters.items()
        }  # fmt: skip
        self._inflows = {each.pipeline.name: Inflow(comes) for each, comes in pipelines}
        starts = [
            Start(
                each,
                self._inflows[each.pipeline.name],
                for_engine if number == 0 else next(luck),
                placement or {},
            )
            for number, (each, _) in enumerate(pipelines)
        ]
        self._world = engine.start_together(starts, self._pools, link or Link())
        self._runs = dict(zip(self._inflows, self._world.runs, strict=True))
        self._overall = Overall([each.pipeline for each, _ in pipelines])
        limited = {e.pipeline.name for e, _ in pipelines if getattr(e, "read_limit_rows", None) is not None}
        if len(limited) == len(pipelines):
            limited.add(self._overall.pipeline.name)
        self._read_limited = frozenset(limited)
        self._missing = [f for f in faults if isinstance(f, MissingMetrics)]
        self._late = [f for f in faults if isinstance(f, LateMetrics)]
        self._on_the_way: deque[Observation] = deque()
        self._parallelism: dict[str, int] = {}
        self._layouts_of: tuple[object, ...] = ()
        """What the last layouts that were told were made of."""
        self._last_layouts = (Layout.of(0), Layout.of(0))
        self._note_parallelism({})

    # -- the port ------------------------------------------------------------------------------

    def observe(self) -> Observation:
        """Let time pass up to now, and look. ``TargetError`` while metrics are missing."""
        now_s = self.advance()
        if self._missing and any(f.from_s <= now_s < f.until_s for f in self._missing):
            raise TargetError(f"the simulated monitor is blind at {now_s:g} s")
        seen = self._look(now_s)
        if not self._late:
            return seen
        delay_s = max((f.delay_s for f in self._late if f.from_s <= now_s < f.until_s), default=0.0)
        return self._delayed(seen, now_s - delay_s) if delay_s or self._on_the_way else seen

    def apply(self, planned: Layout) -> Outcome:
        """Ask for nodes, parallelism and clusters. A cluster that the plan does not name stays as it is."""
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
        """Nothing to let go of."""

    # -- for whoever keeps the record ------------------------------------------------------------

    @property
    def pipeline(self) -> Pipeline:
        """What is scaled: all pipelines side by side, each operator with the name of its own."""
        return self._overall.pipeline

    @property
    def pipelines(self) -> tuple[str, ...]:
        """Names of the pipelines at work."""
        return tuple(self._runs)

    def advance(self) -> float:
        """Let time pass up to now; returns it."""
        now_s = self._clock.now_s()
        for pool in self._pools.values():
            pool.advance(now_s)
        self._world.advance(now_s)
        return now_s

    def work(self, pipeline: str | None = None) -> Work:
        """Where the rows of a pipeline are; of all, if none is named."""
        now_s = self.advance()
        works = [run.work(now_s) for name, run in self._runs.items() if pipeline in (None, name)]
        return Work(
            processed=sum(work.processed for work in works),
            waiting=sum(work.waiting for work in works),
            failed=sum(work.failed for work in works),
        )

    def arrived(self, until_s: float, pipeline: str | None = None) -> Curve:
        """Rows that had arrived at a pipeline, cumulative; the only one need not be named."""
        return self._inflows[self._named(pipeline)].curve(until_s)

    def processed(self, pipeline: str | None = None) -> Curve:
        """Rows that are through a pipeline, cumulative; the only one need not be named."""
        return self._runs[self._named(pipeline)].processed()

    def lost(self, until_s: float, pipeline: str | None = None) -> Curve:
        """Rows that a pipeline lost, cumulative over the time of their arrival; the only one need not be named."""
        return self._runs[self._named(pipeline)].lost(self.arrived(until_s, pipeline))

    def held(self, cluster: str | None = None) -> Curve:
        """Nodes of a cluster that are paid for; of all, if none is named."""
        return sum_of_steps([p.held() for name, p in self._pools.items() if cluster in (None, name)])

    def at_work(self, cluster: str | None = None) -> Curve:
        """Nodes of a cluster that were there and could work; of all, if none is named."""
        return sum_of_steps([p.at_work() for name, p in self._pools.items() if cluster in (None, name)])

    def _named(self, pipeline: str | None) -> str:
        if pipeline is None and len(self._runs) == 1:
            return self.pipelines[0]
        if pipeline is None or pipeline not in self._runs:
            raise InputError(f"name one of the pipelines: {', '.join(self._runs)}")
        return pipeline

    # -- looking -------------------------------------------------------------------------------

    def _look(self, now_s: float) -> Observation:
        batches: list[Batch] = []
        readings: list[Reading] = []
        for run in self._world.runs:
            new = run.take_batches()
            batches += new
            readings += run.readings(now_s, new)
        if len(self._runs) > 1:
            batches.sort(key=lambda batch: batch.ended_s)
            readings += self._overall.readings(now_s, readings)
        readings += self._world.node_readings(now_s)
        counts = {cluster: pool.census(now_s) for cluster, pool in self._pools.items()}
        for cluster, count in counts.items():
            slots = count.there * self._pools[cluster].kind.slots
            readings += [
                Reading(now_s, cluster, Metric.NODES, float(count.there)),
                Reading(now_s, cluster, Metric.NODES_REQUESTED, float(count.requested)),
                Reading(now_s, cluster, Metric.SLOTS, float(slots)),
            ]
            came = self._pools[cluster].take_came()
            if cluster == MAIN:  # as on Spark; a lead time does not say of which cluster it is
                readings += [
                    Reading(now_s, f"node-{node.number}", Metric.LEAD_TIME, node.lead_time_s) for node in came
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
        )

    def _note_parallelism(self, planned: Mapping[str, int]) -> None:
        """What was planned, and where an operator cannot have that, what it gets instead."""
        given = {name: n for run in self._world.runs for name, n in run.parallelism.items()}
        self._parallelism = {
            **self._parallelism,
            **planned,
            **given,
        }  # a new one: layouts keep what they were told

    def _placement(self) -> dict[str, str]:
        return {name: cluster for run in self._world.runs for name, cluster in run.placement.items()}

    def _layout(self, nodes: Mapping[str, int], placement: Mapping[str, str]) -> Layout:
        return Layout(nodes=nodes, parallelism=self._parallelism, placement=placement)

    def _layouts(self, counts: Mapping[str, Census]) -> tuple[Layout, Layout]:
        """(observed, requested); the same ones as at the last look if nothing has changed, as mostly nothing has."""
        seen = (counts, self._placement(), self._parallelism)
        if seen != self._layouts_of:
            self._layouts_of = seen
            self._last_layouts = (
                self._layout({cluster: count.there for cluster, count in counts.items()}, seen[1]),
                self._layout({cluster: count.requested for cluster, count in counts.items()}, seen[1]),
            )
        return self._last_layouts

    def _under_way(self, now_s: float, counts: Mapping[str, Census]) -> list[ActionUnderWay]:
        actions = []
        for cluster, count in counts.items():
            if count.coming:
                actions.append(
                    ActionUnderWay(
                        kind=ActionKind.GROW, since_s=count.asked_s, nodes=count.coming, cluster=cluster
                    )
                )
            if count.leaving:
                actions.append(
                    ActionUnderWay(
                        kind=ActionKind.SHRINK, since_s=now_s, nodes=count.leaving, cluster=cluster
                    )
                )
        for name, run in self._runs.items():
            stopped_s = run.stopped_since_s()
            if stopped_s is not None:
                note = name if len(self._runs) > 1 else ""
                actions.append(ActionUnderWay(kind=ActionKind.RESTART, since_s=stopped_s, note=note))
        return actions

    def _delayed(self, seen: Observation, by_s: float) -> Observation:
        """The newest look made by a time, with all that those before it saw and nobody was told."""
        self._on_the_way.append(seen)
        told: list[Observation] = []
        while self._on_the_way and self._on_the_way[0].time_s <= by_s + 1e-9:
            told.append(self._on_the_way.popleft())
        if not told:
            raise TargetError(f"nothing newer than {by_s:g} s has come from the simulated monitor")
        return _merged(told)


def _merged(looks: Sequence[Observation]) -> Observation:
    """The last look, with the readings and batches of all."""
    last = looks[-1]
    if len(looks) == 1:
        return last
    return msgspec.structs.replace(
        last,
        readings=[reading for look in looks for reading in look.readings],
        batches=[batch for look in looks for batch in look.batches],
    )
