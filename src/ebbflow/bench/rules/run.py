"""The seed's six tests, run and judged. The same case, policy and judge for both targets; who runs it differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from ebbflow.bench.rules.cases import CASES, QUICK, Case
from ebbflow.bench.rules.in_simulator import run_in_simulator
from ebbflow.bench.rules.judge import SIMULATOR, SPARK, Result, judge
from ebbflow.bench.rules.seen import Seen
from ebbflow.core.clock import Clock, SystemClock
from ebbflow.errors import TargetError, UnknownNameError

TARGETS = (SIMULATOR, SPARK)


def run_cases(
    target: str = SIMULATOR,
    names: Sequence[str] = (),
    *,
    clock: Clock | None = None,
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
        if target == SPARK:
            day = datetime.fromtimestamp((clock or SystemClock()).now_s(), tz=UTC)
            result = replace(result, measured_on=f"{day:%Y-%m-%d}")
        results.append(result)
        if on_result is not None:
            on_result(result)
    return results


def _run(case: Case, target: str) -> Seen:
    if target == SPARK:
        from ebbflow.bench.rules.on_spark import run_in_a_process

        return run_in_a_process(case)
    return run_in_simulator(case)
