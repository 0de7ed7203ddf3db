"""The seed's six tests, run and judged: in the simulator to the second, on Spark within one reading.

The same case, policy and judge for both; only who runs it differs (``on_spark`` has the real one).

What one reading is on Spark was measured in the run itself: the longest time without one since the change before
(or since the load began). A reading tells of the rows when its batch began, so it may be one usual reading old
besides. After a change the query has been restarted, and what came meanwhile has to be worked off first: that takes
the operator as long again.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ebbflow.bench.rules.cases import CASES, QUICK, Case, Change
from ebbflow.bench.rules.seen import Seen, Watching
from ebbflow.bench.simulation import play
from ebbflow.core.limits import Limits
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import slope_per_s
from ebbflow.errors import TargetError, UnknownNameError
from ebbflow.strategies.rules import Rules
from ebbflow.targets.simulator import Continuous, NodeKind, Scenario

SIMULATOR, SPARK = "simulator", "spark"
TARGETS = (SIMULATOR, SPARK)
READING_S = 1.0
"""How far apart the simulator's readings are."""
SLOPE_OVER_S = 30.0


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
            measured["queue_slope_per_s"] = _rounded(queue_slope_per_s(self.seen))
        if case.most_queued is not None:
            expected["most_queued"] = case.most_queued
        measured["most_queued"] = _rounded(most_queued(self.seen))
        measured["reading_s"] = _rounded(usual_reading_s(self.seen))
        if self.target == SPARK:  # a stalled machine widens it: to be seen beside the verdict
            measured["within_s"] = [
                _rounded(one_reading_s(self.seen, i)) for i in range(len(self.seen.changes))
            ]
        return {
            "case": case.name,
            "section": case.section,
            "target": self.target,
            "expected": expected,
            "measured": measured,
            "ok": not self.wrong,
            "wrong": list(self.wrong),
        }


def run_cases(
    target: str = SIMULATOR,
    names: Sequence[str] = (),
    *,
    on_case: Callable[[Case], None] | None = None,
    on_result: Callable[[Result], None] | None = None,
) -> list[Result]:
    """Run all cases, or those named, on a target. One that cannot be run is wrong; the others still tell theirs."""
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
        try:
            result = judge(case, target, _run(case, target))
        except TargetError as error:
            result = Result(
                case=case, target=target, seen=Seen(changes=(), queues={}, sizes={}), wrong=(str(error),)
            )
        results.append(result)
        if on_result is not None:
            on_result(result)
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
        cycle_s=READING_S,
    )
    watching = Watching(case.policy)
    play(scenario, Rules(case.policy), on_cycle=watching.take)
    return watching.seen()


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
    for index, (got, want) in enumerate(zip(seen.changes, case.changes, strict=True)):
        allowed_s = 0.0 if target == SIMULATOR else one_reading_s(seen, index)
        if abs(got.time_s - want.time_s) > allowed_s:
            wrong.append(
                f"{want.operator} {want.before}→{want.after} at {got.time_s:.1f} s, "
                f"not {want.time_s:g} s ± {allowed_s:.1f}"
            )
    slope = queue_slope_per_s(seen)
    if case.queue_slope_per_s is not None:
        allowed = 0.01 if target == SIMULATOR else 1.5
        if slope is None or abs(slope - case.queue_slope_per_s) > allowed:
            wrong.append(f"the queue then moves by {slope} rows/s, not {case.queue_slope_per_s:g}")
    if case.most_queued is not None and most_queued(seen) > case.most_queued:
        wrong.append(f"{most_queued(seen):.0f} rows queued, not at most {case.most_queued:g}")
    return wrong


def one_reading_s(seen: Seen, index: int) -> float:
    """How far from its time a change may be on micro-batches: one reading, as they came in that run."""
    change = seen.changes[index]
    gaps_s = seen.gaps_s(change.operator, seen.changes[index - 1].time_s if index else 0.0, change.time_s)
    if not gaps_s:
        return 0.0
    return max(gaps_s) * (2 if index else 1) + statistics.median(gaps_s)


def usual_reading_s(seen: Seen) -> float | None:
    """How far apart readings usually were."""
    gaps_s = [gap for name in seen.queues for gap in seen.gaps_s(name, 0.0, math.inf)]
    return statistics.median(gaps_s) if gaps_s else None


def queue_slope_per_s(seen: Seen) -> float | None:
    """How the queue of the operator that changed last moves once it works again: after the longest silence that
    follows the change."""
    if not seen.changes:
        return None
    last = seen.changes[-1]
    gaps_s = seen.gaps_s(last.operator, last.time_s, last.time_s + SLOPE_OVER_S)
    if not gaps_s:
        return None
    since_s = last.time_s + sum(gaps_s[: gaps_s.index(max(gaps_s)) + 1]) - 1e-6
    points = [p for p in seen.queues[last.operator] if since_s <= p[0] <= since_s + SLOPE_OVER_S]
    return slope_per_s(points)[0] if len(points) > 2 else None


def most_queued(seen: Seen) -> float:
    """The longest any queue got."""
    return max((rows for queue in seen.queues.values() for _, rows in queue), default=0.0)


def _steps(changes: Sequence[Change]) -> str:
    return ", ".join(f"{c.operator} {c.before}→{c.after} at {c.time_s:g} s" for c in changes) or "none"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3) + 0.0
