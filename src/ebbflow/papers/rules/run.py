"""Run the six tests on a target and judge them, and read the stored run on Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.resources import files

from ebbflow.core.clock import Clock, SystemClock
from ebbflow.errors import TargetError, UnknownNameError
from ebbflow.papers import SIMULATOR, SPARK, TARGETS
from ebbflow.papers.rules.cases import CASES, QUICK, Case, Change
from ebbflow.papers.rules.judge import CaseResult, judge
from ebbflow.papers.rules.record import CaseRun, run_in_simulator


def run_cases(
    target: str = SIMULATOR,
    names: Sequence[str] = (),
    *,
    clock: Clock | None = None,
    on_case: Callable[[Case], None] | None = None,
    on_result: Callable[[CaseResult], None] | None = None,
) -> list[CaseResult]:
    """Run all cases, or those named. A case whose target fails gets the error as its problem; the others still run."""
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
            result = CaseResult(case=case, target=target, run=CaseRun(), problems=(str(error),))
        if target == SPARK:
            day = datetime.fromtimestamp((clock or SystemClock()).now_s(), tz=UTC)
            result = replace(result, measured_on=f"{day:%Y-%m-%d}")
        results.append(result)
        if on_result is not None:
            on_result(result)
    return results


def _run(case: Case, target: str) -> CaseRun:
    if target == SPARK:
        from ebbflow.papers.rules.on_spark import run_in_a_process

        return run_in_a_process(case)
    return run_in_simulator(case)


@dataclass(frozen=True, kw_only=True)
class StoredResult:
    """The result of a case in the stored run on Spark."""

    measured_on: str
    changes: tuple[Change, ...]
    queue_slope_per_s: float | None
    ok: bool
    expected: tuple[Change, ...]


def stored_on_spark() -> dict[str, StoredResult]:
    """Return the stored results by case.

    A run takes half an hour. To store a new one::

        ebbflow bench rules --target spark --json > src/ebbflow/papers/rules/on_spark.json

    >>> [change.after for change in stored_on_spark()["extra-capacity"].changes]
    [3]
    """
    text = files("ebbflow.papers.rules").joinpath("on_spark.json").read_text(encoding="utf-8")
    return {
        row["case"]: StoredResult(
            measured_on=row["measured_on"],
            changes=tuple(Change.from_json(change) for change in row["measured"]["changes"]),
            queue_slope_per_s=row["measured"].get("queue_slope_per_s"),
            ok=row["ok"],
            expected=tuple(Change.from_json(change) for change in row["expected"]["changes"]),
        )
        for row in json.loads(text)
    }
