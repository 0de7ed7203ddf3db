"""The seed's six tests, run and judged. The same case, policy and judge for both targets; who runs it differs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.resources import files

from ebbflow.core.clock import Clock, SystemClock
from ebbflow.errors import TargetError, UnknownNameError
from ebbflow.papers.rules.cases import CASES, QUICK, Case, Change
from ebbflow.papers.rules.in_simulator import run_in_simulator
from ebbflow.papers.rules.judge import SIMULATOR, SPARK, Result, judge
from ebbflow.papers.rules.seen import Seen

# The last run of the cases on a real Spark cluster that was kept: half an hour that not everyone has.
#
# ``ebbflow bench rules --target spark --json > src/ebbflow/bench/rules/on_spark.json`` makes the file anew.


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What was measured of a case, and on which day."""

    case: str
    measured_on: str
    changes: tuple[Change, ...]
    queue_slope_per_s: float | None
    ok: bool
    expected: tuple[Change, ...]


def stored_on_spark() -> dict[str, Stored]:
    """By the names of the cases.

    >>> [change.after for change in stored_on_spark()["extra-capacity"].changes]
    [3]
    """
    text = files("ebbflow.papers.rules").joinpath("on_spark.json").read_text(encoding="utf-8")
    return {
        row["case"]: Stored(
            case=row["case"],
            measured_on=row["measured_on"],
            changes=tuple(Change.from_json(change) for change in row["measured"]["changes"]),
            queue_slope_per_s=row["measured"].get("queue_slope_per_s"),
            ok=row["ok"],
            expected=tuple(Change.from_json(change) for change in row["expected"]["changes"]),
        )
        for row in json.loads(text)
    }


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
        from ebbflow.papers.rules.on_spark import run_in_a_process

        return run_in_a_process(case)
    return run_in_simulator(case)
