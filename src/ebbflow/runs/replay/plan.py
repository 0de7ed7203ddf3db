"""A recording made into a scenario: what it tells, what is assumed where it does not tell."""

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
from ebbflow.runs.replay.readers import is_store, read_progress, read_store
from ebbflow.runs.replay.recording import Flow, Recording, flow_of, slots_during
from ebbflow.runs.score import score
from ebbflow.runs.simulation import run_simulation
from ebbflow.runs.sweep import SweepCase
from ebbflow.targets.simulator.micro_batch import MicroBatch, Stage
from ebbflow.targets.simulator.nodes import NodeKind
from ebbflow.targets.simulator.scenario import Scenario
from ebbflow.workloads.trace import Recorded

USUAL_NODES = 16
_NEXT_TO_NOTHING_S = 1e-9
"""A row that costs nothing at all would make the best rate infinite."""
TASKS_PER_SLOT = 3
BAD_ERROR = 0.2
"""A model that is further off than this on half of the batches explains them badly."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What someone who replays may say; None: what the record tells, else what is usual."""

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
    """A number the replay rests on, and where it is from."""

    name: str
    value: str
    source: str
    """``given``, ``recorded``, or why it was assumed."""

    def __str__(self) -> str:
        return f"{self.name} {self.value} ({self.source})"


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """A recording made into a scenario."""

    recording: Recording
    flow: Flow
    engine: MicroBatch
    scenario: Scenario
    fit: BatchFit
    assumptions: tuple[Assumption, ...]
    nodes_known: bool
    held: Curve
    """Nodes held then, at seconds since the origin: as recorded, as told, or as assumed."""
    working: Curve

    @property
    def warnings(self) -> list[str]:
        """What makes the answer doubtful."""
        recording, fit, found = self.recording, self.fit, []
        if fit.median_error > BAD_ERROR:
            found.append(
                f"the model is off by {fit.median_error:.0%} on half of the batches: something else than rows and "
                "slots decides how long they take, so take the answer with care"
            )
        if fit.per_row_s == 0:
            found.append("batches did not take longer with more rows, so no number of nodes changes anything")
        elif not fit.sizes_varied:
            found.append(
                "all batches had nearly the same size; what a batch costs without rows cannot be seen"
            )
        if not recording.tells_backlog:
            found.append("no source told its latest offset; rows that a read limit held back are not seen")
        if recording.missing_batches:
            found.append(
                f"{recording.missing_batches} batches in between are not in the file, and their rows are not counted: "
                "write every progress down, as a listener does"
            )
        if recording.starts > 1:
            found.append(
                f"the query was started {recording.starts} times; while it was down rows are taken to have come evenly"
            )
        return found


def read_recording(path: Path, query: str | None = None) -> Recording:
    """Read a recorded run; what kind of file it is shows in its content, not in its name."""
    if not path.exists():
        raise InputError(f"there is no file {path}")
    if path.is_file() and is_store(path):
        return read_store(path, query)
    return read_progress(path, query)


def plan_of(recording: Recording, settings: Settings) -> Plan:
    """The scenario of a recording."""
    told: list[Assumption] = []

    def known(
        name: str, given: Any, recorded: Any, usual: Any, why: str, write: Callable[[Any], str] = str
    ) -> Any:
        value, source = (given, "given") if given is not None else (recorded, "recorded")
        if value is None:
            value, source = usual, why
        told.append(Assumption(name=name, value=write(value), source=source))
        return value

    trigger_s = known(
        "trigger interval", settings.trigger_s, recording.trigger_interval_s, 0.0,
        "assumed: batches ran back to back, or at no regular times; give --trigger", format_duration,
    )  # fmt: skip
    flow = flow_of(recording, trigger_s)
    if flow.end_s < 2 * settings.cycle_s:
        raise InputError(
            f"{recording.file} covers {format_duration(flow.end_s)}; a replay needs some minutes"
        )
    held, working, nodes_known = _nodes_then(recording, settings, flow, told)
    most_then = int(held.values.max())
    slo = known("objective", settings.slo, recording.slo, DEFAULT_SLO, "assumed: give --slo")
    limits = known(
        "nodes", settings.limits, recording.limits, Limits(min_nodes=1, max_nodes=most_then),
        "assumed: one up to as many as there were then",
    )  # fmt: skip
    slots = known(
        "slots per node",
        settings.slots_per_node,
        recording.slots_per_node,
        1,
        "assumed: give --slots-per-node",
    )
    tasks = known(
        "tasks", settings.tasks, recording.tasks, TASKS_PER_SLOT * slots * max(most_then, limits.max_nodes),
        f"assumed: {TASKS_PER_SLOT} for each slot; give --tasks",
    )  # fmt: skip
    lead_time_s = known(
        "lead time", settings.lead_time_s, recording.lead_time_s, DEFAULT_LEAD_TIME_S, "assumed: give --lead-time",
        format_duration,
    )  # fmt: skip
    fit = _fit(recording, Curve(working.times_s + flow.origin_s, working.values), slots, tasks)
    if recording.read_limit_rows is not None:
        told.append(
            Assumption(name="read limit", value=f"{recording.read_limit_rows} rows", source="recorded")
        )
    engine = MicroBatch(
        pipeline=Pipeline.chain(recording.query, "batch"),
        stages=(
            Stage(tasks=tasks, per_task_s=fit.per_task_s, per_row_s=max(fit.per_row_s, _NEXT_TO_NOTHING_S)),
        ),
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
        recording=recording, flow=flow, engine=engine, scenario=scenario, fit=fit, assumptions=tuple(told),
        nodes_known=nodes_known, held=held, working=working,
    )  # fmt: skip


def _nodes_then(
    recording: Recording, settings: Settings, flow: Flow, told: list[Assumption]
) -> tuple[Curve, Curve, bool]:
    """Nodes held and working then, and whether that is known."""
    if settings.nodes_then is None and recording.nodes is not None and recording.nodes_working is not None:
        held, working = (_since(curve, flow) for curve in (recording.nodes, recording.nodes_working))
        low, high = int(held.values.min()), int(held.values.max())
        told.append(
            Assumption(
                name="executors then",
                value=str(high) if low == high else f"{low} to {high}",
                source="recorded",
            )
        )
        return held, working, True
    most = USUAL_NODES if settings.limits is None else settings.limits.max_nodes
    nodes = settings.nodes_then or most
    source = "given" if settings.nodes_then else "assumed: as many as are allowed now; give --executors-then"
    told.append(Assumption(name="executors then", value=str(nodes), source=source))
    constant = Curve.of([(0.0, float(nodes))])
    return constant, constant, settings.nodes_then is not None


def _since(curve: Curve, flow: Flow) -> Curve:
    """A curve of steps from the origin on; what was there first is taken to have been there before."""
    times_s = np.concatenate(([0.0], curve.times_s - flow.origin_s))
    values = np.concatenate(([curve.values[0]], curve.values))
    before = np.searchsorted(times_s, 0.0, side="right") - 1
    inside = (times_s > 0) & (times_s < flow.end_s)
    return Curve(
        np.concatenate(([0.0], times_s[inside])),
        np.maximum(np.concatenate(([values[before]], values[inside])), 0.0),
    )


def _fit(recording: Recording, nodes: Curve, slots_per_node: int, tasks: int) -> BatchFit:
    """Costs, from all batches but those that warmed up, or during which nodes came or went, if enough are left."""
    worked = recording.worked
    slots, steady = slots_during(recording, nodes, slots_per_node)
    warm = np.array([not batch.first for batch in worked])
    chosen = warm & (steady > 0)
    if np.count_nonzero(chosen) < max(5, len(worked) // 4):
        chosen = np.ones(len(worked), dtype=np.bool_)
    inside = [batch.work_s for batch in worked]
    work_s = None if None in inside else np.array(inside, dtype=np.float64)
    return fit_batches(
        rows=np.array([float(batch.rows) for batch in worked])[chosen],
        slots=slots[chosen],
        seconds=np.array([batch.duration_s for batch in worked])[chosen],
        work_s=None if work_s is None else work_s[chosen],
        tasks=tasks,
    )


# A recorded run as a scene of a sweep: what would these strategies have made of my last week?
#
# A recording gives the load (rows that had come by each trigger), the trigger interval, and the costs of a batch
# (``batch_fit``). With them the micro-batch engine plays the same time under any strategy, by the same sweep as every
# comparison, and the recorded run stands beside them.


RECORDED = "recorded"
"""What the recorded run is called where strategies have their names."""


def replay_case(plan: Plan, *, drawn: bool = False) -> SweepCase:
    """What is swept: the scenario of the recording, and the run that was."""
    return SweepCase(load=plan.recording.query, scenario=plan.scenario, drawn=drawn, past=recorded_run(plan))


def recorded_run(plan: Plan) -> Run:
    """The run as it was recorded; what is not known of it is empty or None."""
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
    )


def kept_up(plan: Plan) -> dict[str, Any]:
    """Whether the recorded run did: batches that outlasted their trigger, and rows that waited at the end."""
    trigger_s = plan.engine.trigger_interval_s
    durations = np.array([batch.duration_s for batch in plan.recording.worked])
    waiting = float(plan.recording.batches[-1].left_rows or 0.0)
    late = float(np.mean(durations > trigger_s)) if trigger_s else None
    return {"batches_longer_than_trigger": late, "rows_left_at_the_end": waiting}


_FAR = 0.3
"""A latency that the simulator misses by more than this share, and by some seconds, is not explained."""


@dataclass(frozen=True, kw_only=True)
class Fidelity:
    """Batch times and latencies, each (recorded, simulated)."""

    batch_mean_s: tuple[float, float]
    batch_p95_s: tuple[float, float]
    latency_p95_s: tuple[float | None, float | None]

    @property
    def doubt(self) -> str:
        """Why the record is not understood; empty where it is."""
        then_s, now_s = self.latency_p95_s
        if then_s is None or now_s is None or abs(then_s - now_s) <= max(_FAR * then_s, 2.0):
            return ""
        return (
            f"your size played again has a row latency p95 of {now_s:.1f} s, and yours was {then_s:.1f} s: the replay "
            "misses what made it so; are executors then, slots and tasks right?"
        )

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        pairs = {
            "batch_mean_s": self.batch_mean_s,
            "batch_p95_s": self.batch_p95_s,
            "latency_p95_s": self.latency_p95_s,
        }
        return {name: {"recorded": pair[0], "simulated": pair[1]} for name, pair in pairs.items()}


def fidelity_of(plan: Plan) -> Fidelity:
    """Play the nodes that there were, without noise, and compare batch times and latencies."""
    most = max(1, int(plan.working.values.max()))
    scenario = replace(
        plan.scenario,
        engine=replace(plan.engine, noise=0.0),
        limits=Limits(min_nodes=1, max_nodes=max(most, plan.scenario.limits.max_nodes)),
        nodes=replace(plan.scenario.nodes, lead_time_s=0.0),
        initial_nodes=max(1, int(plan.working.values[0])),
        cycle_s=plan.scenario.cycle_s if len(plan.working) > 1 else 60.0,  # nothing to decide: look seldom
    )
    run = run_simulation(scenario, _AsThen(plan.working), guards=()).run
    then = np.array([batch.duration_s for batch in plan.recording.worked])
    now = np.array([batch.duration_s for batch in run.batches if batch.rows > 0] or [0.0])
    recorded = score(recorded_run(plan), oracle_node_seconds=None)
    return Fidelity(
        batch_mean_s=(float(np.mean(then)), float(np.mean(now))),
        batch_p95_s=(float(np.quantile(then, 0.95)), float(np.quantile(now, 0.95))),
        latency_p95_s=(recorded.latency_p95_s, score(run, oracle_node_seconds=None).latency_p95_s),
    )


class _AsThen(Strategy):
    """A strategy that has the nodes that there were."""

    name = RECORDED
    brings_own_guards = True

    def __init__(self, nodes: Curve) -> None:
        self._nodes = nodes

    def decide(self, snapshot: Snapshot) -> Decision:
        """As many as worked at this time."""
        nodes = max(1, int(self._nodes.stepped(snapshot.now_s)))
        return Decision(wanted=snapshot.planned.with_nodes(nodes), reason="as it was")
