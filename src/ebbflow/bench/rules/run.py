"""The seed's six tests, run and judged: in the simulator to the second, on Spark within one reading.

The same case, policy and judge for both; only who runs it differs (``rules_spark`` has the real one).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ebbflow.bench.rules.cases import CASES, QUICK, Case, Change
from ebbflow.bench.simulation import play
from ebbflow.core.decision import Decision
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import slope_per_s
from ebbflow.core.snapshot import Snapshot
from ebbflow.errors import UnknownNameError
from ebbflow.strategies.rules import Rules
from ebbflow.targets.simulator import Continuous, NodeKind, Scenario

SIMULATOR, SPARK = "simulator", "spark"
TARGETS = (SIMULATOR, SPARK)
READING_S = {SIMULATOR: 1.0, SPARK: 5.0}
"""How far apart the readings are that a rule sees; a time is right within one of them."""
RESTART_S = {SIMULATOR: 0.0, SPARK: 10.0}
"""How long a change of size may delay the next one: Spark stops the query and starts it again."""
SLOPE_OVER_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What happened in a run of a case. Times count from the start of the load."""

    changes: tuple[Change, ...]
    queues: dict[str, list[tuple[float, float]]]
    """(second, rows) before each operator."""
    sizes: dict[str, list[tuple[float, int]]]

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        changes = [change.to_json() for change in self.changes]
        return {"changes": changes, "queues": self.queues, "sizes": self.sizes}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Seen:
        """What another process saw."""
        return cls(
            changes=tuple(Change.from_json(change) for change in document["changes"]),
            queues={name: [(t, v) for t, v in points] for name, points in document["queues"].items()},
            sizes={name: [(t, n) for t, n in points] for name, points in document["sizes"].items()},
        )


@dataclass(frozen=True, kw_only=True)
class Result:
    """A case, what was seen, and whether that is what must be."""

    case: Case
    target: str
    seen: Seen
    wrong: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        case = self.case
        expected: dict[str, Any] = {
            "says": case.seed_says,
            "changes": [change.to_json() for change in case.changes],
        }
        measured: dict[str, Any] = {"changes": [change.to_json() for change in self.seen.changes]}
        if case.queue_slope_per_s is not None:
            expected["queue_slope_per_s"] = case.queue_slope_per_s
            measured["queue_slope_per_s"] = _rounded(queue_slope_per_s(self.seen, self.target))
        if case.most_queued is not None:
            expected["most_queued"] = case.most_queued
        measured["most_queued"] = _rounded(most_queued(self.seen))
        return {
            "case": case.name,
            "section": case.section,
            "target": self.target,
            "expected": expected,
            "measured": measured,
            "ok": not self.wrong,
            "wrong": list(self.wrong),
        }


@dataclass
class Watching:
    """A strategy that also writes down the queue and the size of every operator at each look."""

    rules: Rules
    started_s: float = 0.0
    queues: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    sizes: dict[str, list[tuple[float, int]]] = field(default_factory=dict)

    name = "rules"
    own_restraint = True

    def decide(self, snapshot: Snapshot) -> Decision:
        """What the rules decide."""
        now_s = snapshot.now_s - self.started_s
        for operator, size in snapshot.planned.parallelism.items():
            # what was read last, where the rules find it: before the operator, its query, or the pipeline
            for subject, metric in (
                (operator, Metric.OPERATOR_QUEUE),
                (operator, Metric.QUEUE_LENGTH),
                (snapshot.pipeline.name, Metric.QUEUE_LENGTH),
            ):
                rows = snapshot.windows.of(subject, metric).last
                if rows is not None:
                    self.queues.setdefault(operator, []).append((now_s, rows))
                    break
            self.sizes.setdefault(operator, []).append((now_s, size))
        return self.rules.decide(snapshot)

    def seen(self, decisions: Sequence[tuple[float, dict[str, tuple[int, int]]]]) -> Seen:
        """What was seen, with the changes that were carried out."""
        changes = tuple(
            Change(time_s=time_s - self.started_s, operator=operator, before=old, after=new)
            for time_s, changed in decisions
            for operator, (old, new) in changed.items()
        )
        return Seen(changes=changes, queues=self.queues, sizes=self.sizes)


def run_cases(
    target: str = SIMULATOR,
    names: Sequence[str] = (),
    *,
    on_case: Callable[[Case], None] | None = None,
) -> list[Result]:
    """Run all cases, or those named, on a target."""
    if target not in TARGETS:
        raise UnknownNameError("target", target, TARGETS)
    known = {case.name: case for case in (*CASES, QUICK)}
    for name in names:
        if name not in known:
            raise UnknownNameError("case", name, known)
    results = []
    for case in [known[name] for name in names] or CASES:
        if on_case is not None:
            on_case(case)
        results.append(judge(case, target, _run(case, target)))
    return results


def _run(case: Case, target: str) -> Seen:
    if target == SPARK:
        from ebbflow.bench.rules.on_spark import run_in_a_process

        return run_in_a_process(case)
    return run_in_simulator(case)


def run_in_simulator(case: Case) -> Seen:
    """One node an instance, as in the seed; nodes come at once and a change stops nothing, so that the
    times are those of the rules alone."""
    engine = Continuous(
        pipeline=Pipeline.chain(case.name, *case.rates_per_s),
        row_cost_s={name: 1.0 / rate for name, rate in case.rates_per_s.items()},
        pause_s=(0.0, 0.0),
        drain_limit_s=0.0,
    )
    scenario = Scenario(
        engine=engine,
        load=case.load,
        limits=Limits(min_nodes=1, max_nodes=10),
        nodes=NodeKind(lead_time_s=0.0),
        initial_nodes=len(case.rates_per_s),
        seconds=case.lasts_s,
        cycle_s=READING_S[SIMULATOR],
    )
    watching = Watching(Rules(case.policy))
    run = play(scenario, watching).run
    return watching.seen(
        [
            (entry.time_s, dict(entry.decision.wanted.difference(entry.before).parallelism))
            for entry in run.decisions
            if entry.verdict == "act"
        ]
    )


# -- judging -----------------------------------------------------------------------------------------


def judge(case: Case, target: str, seen: Seen) -> Result:
    """Compare what was seen with what must be."""
    return Result(case=case, target=target, seen=seen, wrong=tuple(_wrong(case, target, seen)))


def _wrong(case: Case, target: str, seen: Seen) -> list[str]:
    wrong = []
    steps = [(c.operator, c.before, c.after) for c in seen.changes]
    expected = [(c.operator, c.before, c.after) for c in case.changes]
    if steps != expected:
        return [f"changes {_steps(seen.changes)}; expected {_steps(case.changes)}"]
    within_s = 0.0 if target == SIMULATOR else READING_S[target]
    for index, (got, want) in enumerate(zip(seen.changes, case.changes, strict=True)):
        allowed_s = within_s + (RESTART_S[target] if index else 0.0)
        if abs(got.time_s - want.time_s) > allowed_s:
            wrong.append(
                f"{want.operator} {want.before}→{want.after} at {got.time_s:.1f} s, not {want.time_s:g} s"
            )
    slope = queue_slope_per_s(seen, target)
    if case.queue_slope_per_s is not None:
        allowed = 0.01 if target == SIMULATOR else 1.5
        if slope is None or abs(slope - case.queue_slope_per_s) > allowed:
            wrong.append(f"the queue then moves by {slope} rows/s, not {case.queue_slope_per_s:g}")
    if case.most_queued is not None and most_queued(seen) > case.most_queued:
        wrong.append(f"{most_queued(seen):.0f} rows queued, not at most {case.most_queued:g}")
    return wrong


def queue_slope_per_s(seen: Seen, target: str) -> float | None:
    """How the queue of the operator that changed last moves once the change has settled."""
    if not seen.changes:
        return None
    last = seen.changes[-1]
    since_s = last.time_s + 1.0 + RESTART_S[target]
    points = [p for p in seen.queues.get(last.operator, ()) if since_s <= p[0] <= since_s + SLOPE_OVER_S]
    return slope_per_s(points)[0] if len(points) > 2 else None


def most_queued(seen: Seen) -> float:
    """The longest any queue got."""
    return max((rows for queue in seen.queues.values() for _, rows in queue), default=0.0)


def _steps(changes: Sequence[Change]) -> str:
    return ", ".join(f"{c.operator} {c.before}→{c.after} at {c.time_s:g} s" for c in changes) or "none"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3) + 0.0
