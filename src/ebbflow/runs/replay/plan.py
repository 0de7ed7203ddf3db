"""Turn a recording into a scenario, so that other strategies can be run on it.

A recording gives the load (the rows that had arrived by each trigger), the trigger interval and the costs of a batch
(``batch_fit``). The micro-batch engine then simulates the same time under any strategy, in the same sweep as every
comparison, beside the recorded run. What the recording does not contain is assumed, and listed in
``Plan.assumptions``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ebbflow.core.curve import Curve
from ebbflow.core.decision import Decision
from ebbflow.core.duration import format_duration
from ebbflow.core.limits import Limits
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.ports import DEFAULT_LEAD_TIME_S, Strategy
from ebbflow.core.run import Run
from ebbflow.core.slo import DEFAULT_SLO, Slo
from ebbflow.core.snapshot import Snapshot
from ebbflow.errors import InputError
from ebbflow.runs.replay.batch_fit import BatchFit, fit_batches
from ebbflow.runs.replay.recording import RecordedFlow, Recording, flow_of, slots_during
from ebbflow.runs.score import score
from ebbflow.runs.simulation import run_simulation
from ebbflow.runs.sweep import SweepCase
from ebbflow.targets.simulator.micro_batch import MicroBatch, Stage
from ebbflow.targets.simulator.nodes import NodeKind
from ebbflow.targets.simulator.scenario import Scenario
from ebbflow.workloads.trace import Recorded

RECORDED = "recorded"
"""The recorded run in place of a strategy name."""
DEFAULT_NODES = 16
_MIN_ROW_S = 1e-9
"""Minimum cost of a row: at 0 the best rate would be infinite."""
TASKS_PER_SLOT = 3
BAD_ERROR = 0.2
"""Above this median error the model does not explain the batches."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Options of a replay; None means the recorded value, or a default if there is none."""

    slo: Slo | None = None
    limits: Limits | None = None
    nodes_then: int | None = None
    slots_per_node: int | None = None
    tasks: int | None = None
    trigger_s: float | None = None
    lead_time_s: float | None = None
    cycle_s: float = 10.0
    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class Assumption:
    """A value that the replay depends on, and its source."""

    name: str
    value: str
    source: str
    """``given``, ``recorded``, or why it was assumed."""

    def __str__(self) -> str:
        return f"{self.name} {self.value} ({self.source})"


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """A recording and its scenario."""

    recording: Recording
    flow: RecordedFlow
    engine: MicroBatch
    scenario: Scenario
    fit: BatchFit
    assumptions: tuple[Assumption, ...]
    nodes_known: bool
    held: Curve
    """Nodes held in the recorded run, at seconds since the origin: recorded, given or assumed."""
    working: Curve

    @property
    def warnings(self) -> list[str]:
        """Reasons to doubt the result."""
        recording, fit, found = self.recording, self.fit, []
        if fit.median_error > BAD_ERROR:
            found.append(
                f"the model is off by {fit.median_error:.0%} on half of the batches: their duration depends on "
                "more than rows and slots, so treat the result with care"
            )
        if fit.per_row_s == 0:
            found.append(
                "batches did not take longer with more rows, so the number of nodes makes no difference"
            )
        elif not fit.sizes_varied:
            found.append(
                "all batches had nearly the same size; the fixed cost of a batch cannot be determined"
            )
        if not recording.has_backlog:
            found.append("no source reported its latest offset; rows held back by a read limit are unknown")
        if recording.missing_batches:
            found.append(
                f"{recording.missing_batches} batches are missing from the file, and their rows are not counted: "
                "record every progress, as a listener does"
            )
        if recording.starts > 1:
            found.append(
                f"the query was started {recording.starts} times; rows are assumed to arrive evenly while it was down"
            )
        return found


def plan_of(recording: Recording, settings: Settings) -> Plan:
    """Turn a recording into a scenario."""
    assumptions: list[Assumption] = []

    def choose(
        name: str, given: Any, recorded: Any, default: Any, why: str, write: Callable[[Any], str] = str
    ) -> Any:
        value, source = (given, "given") if given is not None else (recorded, "recorded")
        if value is None:
            value, source = default, why
        assumptions.append(Assumption(name=name, value=write(value), source=source))
        return value

    trigger_s = choose(
        "trigger interval", settings.trigger_s, recording.trigger_interval_s, 0.0,
        "assumed: batches ran back to back or irregularly; set --trigger", format_duration,
    )  # fmt: skip
    flow = flow_of(recording, trigger_s)
    if flow.end_s < 2 * settings.cycle_s:
        raise InputError(
            f"{recording.file} covers {format_duration(flow.end_s)}; a replay needs a few minutes"
        )
    held, working, nodes_known = _recorded_nodes(recording, settings, flow, assumptions)
    max_then = int(held.values.max())
    slo = choose("objective", settings.slo, recording.slo, DEFAULT_SLO, "assumed: set --slo")
    limits = choose(
        "nodes", settings.limits, recording.limits, Limits(min_nodes=1, max_nodes=max_then),
        "assumed: 1 up to the recorded maximum",
    )  # fmt: skip
    slots = choose(
        "slots per node",
        settings.slots_per_node,
        recording.slots_per_node,
        1,
        "assumed: set --slots-per-node",
    )
    tasks = choose(
        "tasks", settings.tasks, recording.tasks, TASKS_PER_SLOT * slots * max(max_then, limits.max_nodes),
        f"assumed: {TASKS_PER_SLOT} per slot; set --tasks",
    )  # fmt: skip
    lead_time_s = choose(
        "lead time", settings.lead_time_s, recording.lead_time_s, DEFAULT_LEAD_TIME_S, "assumed: set --lead-time",
        format_duration,
    )  # fmt: skip
    fit = _fit(recording, Curve(working.times_s + flow.origin_s, working.values), slots, tasks)
    if recording.read_limit_rows is not None:
        assumptions.append(
            Assumption(name="read limit", value=f"{recording.read_limit_rows} rows", source="recorded")
        )
    engine = MicroBatch(
        pipeline=Pipeline.chain(recording.query, "batch"),
        stages=(Stage(tasks=tasks, per_task_s=fit.per_task_s, per_row_s=max(fit.per_row_s, _MIN_ROW_S)),),
        trigger_interval_s=trigger_s,
        driver_s=fit.driver_s,
        read_limit_rows=recording.read_limit_rows,
        noise=fit.noise,
    )
    scenario = Scenario(
        engine=engine,
        load=Recorded(source=Path(recording.file).name, arrived=flow.arrived),
        limits=limits,
        slo=slo,
        nodes=NodeKind(slots=slots, lead_time_s=lead_time_s),
        initial_nodes=limits.clamp(max(1, int(working.values[0]))),
        cycle_s=settings.cycle_s,
        seed=settings.seed,
        begins_at_s=flow.origin_s,
    )
    return Plan(
        recording=recording, flow=flow, engine=engine, scenario=scenario, fit=fit, assumptions=tuple(assumptions),
        nodes_known=nodes_known, held=held, working=working,
    )  # fmt: skip


def _recorded_nodes(
    recording: Recording, settings: Settings, flow: RecordedFlow, assumptions: list[Assumption]
) -> tuple[Curve, Curve, bool]:
    """Nodes held and working in the recorded run, and whether they are known."""
    if settings.nodes_then is None and recording.nodes is not None and recording.nodes_working is not None:
        held, working = (_from_origin(curve, flow) for curve in (recording.nodes, recording.nodes_working))
        low, high = int(held.values.min()), int(held.values.max())
        assumptions.append(
            Assumption(
                name="executors then",
                value=str(high) if low == high else f"{low} to {high}",
                source="recorded",
            )
        )
        return held, working, True
    most = DEFAULT_NODES if settings.limits is None else settings.limits.max_nodes
    nodes = settings.nodes_then or most
    source = "given" if settings.nodes_then else "assumed: the maximum of nodes; set --executors-then"
    assumptions.append(Assumption(name="executors then", value=str(nodes), source=source))
    constant = Curve.of([(0.0, float(nodes))])
    return constant, constant, settings.nodes_then is not None


def _from_origin(curve: Curve, flow: RecordedFlow) -> Curve:
    """A step curve from the origin on; its first value is assumed for the time before."""
    times_s = np.concatenate(([0.0], curve.times_s - flow.origin_s))
    values = np.concatenate(([curve.values[0]], curve.values))
    before = np.searchsorted(times_s, 0.0, side="right") - 1
    inside = (times_s > 0) & (times_s < flow.end_s)
    return Curve(
        np.concatenate(([0.0], times_s[inside])),
        np.maximum(np.concatenate(([values[before]], values[inside])), 0.0),
    )


def _fit(recording: Recording, nodes: Curve, slots_per_node: int, tasks: int) -> BatchFit:
    """Costs, without first batches and batches during which the nodes changed, if enough others are left."""
    batches = recording.batches_with_rows
    slots, steady = slots_during(recording, nodes, slots_per_node)
    warm = np.array([not batch.first for batch in batches])
    chosen = warm & (steady > 0)
    if np.count_nonzero(chosen) < max(5, len(batches) // 4):
        chosen = np.ones(len(batches), dtype=np.bool_)
    inside = [batch.work_s for batch in batches]
    work_s = None if None in inside else np.array(inside, dtype=np.float64)
    return fit_batches(
        rows=np.array([float(batch.rows) for batch in batches])[chosen],
        slots=slots[chosen],
        seconds=np.array([batch.duration_s for batch in batches])[chosen],
        work_s=None if work_s is None else work_s[chosen],
        tasks=tasks,
    )


def replay_case(plan: Plan, *, drawn: bool = False) -> SweepCase:
    """The scenario of the recording with the recorded run, as a case of a sweep."""
    return SweepCase(
        load=plan.recording.query, scenario=plan.scenario, drawn=drawn, recorded=recorded_run(plan)
    )


def recorded_run(plan: Plan) -> Run:
    """The recorded run; unknown parts are empty or None."""
    recording, flow = plan.recording, plan.flow
    unknown = Curve.of([])
    return Run(
        strategy=RECORDED,
        pipeline=recording.query,
        slo=plan.scenario.slo,
        limits=plan.scenario.limits,
        started_s=0.0,
        ended_s=flow.end_s,
        arrived=flow.arrived,
        processed=flow.processed,
        nodes=plan.held if plan.nodes_known else unknown,
        nodes_working=plan.working if plan.nodes_known else unknown,
        decisions=[
            msgspec.structs.replace(entry, time_s=entry.time_s - flow.origin_s)
            for entry in recording.decisions
            if 0.0 <= entry.time_s - flow.origin_s <= flow.end_s
        ],
        reconfigurations=recording.reconfigurations,
        rows_repeated=recording.rows_repeated,
        capacity_rows_per_s=plan.scenario.sustained_rows_per_s(plan.engine),
    )


def kept_up(plan: Plan) -> dict[str, Any]:
    """Whether the recorded run kept up: batches longer than their trigger interval, and rows waiting at the end."""
    trigger_s = plan.engine.trigger_interval_s
    durations = np.array([batch.duration_s for batch in plan.recording.batches_with_rows])
    waiting = float(plan.recording.batches[-1].left_rows or 0.0)
    late = float(np.mean(durations > trigger_s)) if trigger_s else None
    return {"batches_longer_than_trigger": late, "rows_left_at_the_end": waiting}


_BAD_LATENCY_ERROR = 0.3
"""Relative error of the simulated latency above which the recording is not explained."""


@dataclass(frozen=True, kw_only=True)
class Fidelity:
    """How close the simulator comes with the recorded nodes: batch times and latencies, (recorded, simulated)."""

    batch_mean_s: tuple[float, float]
    batch_p95_s: tuple[float, float]
    latency_p95_s: tuple[float | None, float | None]

    @property
    def doubt(self) -> str:
        """Why the replay does not match the recording; empty if it does."""
        then_s, now_s = self.latency_p95_s
        if then_s is None or now_s is None or abs(then_s - now_s) <= max(_BAD_LATENCY_ERROR * then_s, 2.0):
            return ""
        return (
            f"with the recorded nodes the simulated row latency p95 is {now_s:.1f} s, but {then_s:.1f} s was recorded; "
            "check --executors-then, --slots-per-node and --tasks"
        )

    def to_json(self) -> dict[str, Any]:
        """Convert to plain values."""
        pairs = {
            "batch_mean_s": self.batch_mean_s,
            "batch_p95_s": self.batch_p95_s,
            "latency_p95_s": self.latency_p95_s,
        }
        return {name: {"recorded": pair[0], "simulated": pair[1]} for name, pair in pairs.items()}


def fidelity_of(plan: Plan) -> Fidelity:
    """Simulate the recorded nodes without noise, and compare batch times and latencies."""
    most = max(1, int(plan.working.values.max()))
    scenario = replace(
        plan.scenario,
        engine=replace(plan.engine, noise=0.0),
        limits=Limits(min_nodes=1, max_nodes=max(most, plan.scenario.limits.max_nodes)),
        nodes=replace(plan.scenario.nodes, lead_time_s=0.0),
        initial_nodes=max(1, int(plan.working.values[0])),
        cycle_s=plan.scenario.cycle_s if len(plan.working) > 1 else 60.0,  # nothing to decide
    )
    run = run_simulation(scenario, _RecordedNodes(plan.working), guards=()).run
    then = np.array([batch.duration_s for batch in plan.recording.batches_with_rows])
    now = np.array([batch.duration_s for batch in run.batches if batch.rows > 0] or [0.0])
    recorded = score(recorded_run(plan), oracle_node_seconds=None)
    return Fidelity(
        batch_mean_s=(float(np.mean(then)), float(np.mean(now))),
        batch_p95_s=(float(np.quantile(then, 0.95)), float(np.quantile(now, 0.95))),
        latency_p95_s=(recorded.latency_p95_s, score(run, oracle_node_seconds=None).latency_p95_s),
    )


class _RecordedNodes(Strategy):
    """A strategy that wants the nodes of the recorded run."""

    name = RECORDED
    brings_own_guards = True

    def __init__(self, nodes: Curve) -> None:
        self._nodes = nodes

    def decide(self, snapshot: Snapshot) -> Decision:
        """The nodes that worked at this time."""
        nodes = max(1, int(self._nodes.stepped(snapshot.now_s)))
        return Decision(wanted=snapshot.planned.with_nodes(nodes), reason="as recorded")
