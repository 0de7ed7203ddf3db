"""``ebbflow bench rules``: the six tests of the Rules thesis, in the simulator or on a real Spark cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ebbflow.cli.output import Json, check_writable, print_json, say
from ebbflow.papers import SIMULATOR, SPARK
from ebbflow.papers.rules.cases import Case, Change
from ebbflow.papers.rules.judge import CaseResult, queue_slope_per_s
from ebbflow.papers.rules.page import CasePicture, write_rules_page
from ebbflow.papers.rules.run import StoredResult, run_cases, stored_on_spark
from ebbflow.targets.spark.launch.preflight import check_java


def register(parent: typer.Typer) -> None:
    """Add the command to the group."""
    parent.command("rules")(rules)


def rules(
    target: Annotated[
        str, typer.Option(help="simulator, spark, or both separated by a comma.", metavar="TARGET")
    ] = SIMULATOR,
    case: Annotated[list[str] | None, typer.Option(help="Run only this case; repeatable.")] = None,
    report: Annotated[
        Path, typer.Option(help="Write a page with the queue length and size of each case to this file.")
    ] = Path("ebbflow-rules.html"),
    json: Json = False,
) -> int:
    """Run the six tests of the Rules thesis (§5.2); exit code 1 if a result differs from the expected one."""
    check_writable(report)
    targets = [name.strip() for name in target.split(",")]
    if SPARK in targets:
        check_java()
    results: list[CaseResult] = []
    for name in targets:
        slow = name == SPARK
        results += run_cases(
            name, case or (), on_case=_say_started if slow else None, on_result=_say_result if slow else None
        )
    if json:
        print_json([result.to_json() for result in results])
    else:
        stored = stored_on_spark() if SPARK not in targets else {}
        Console(highlight=False).print(_table(results, stored))
        if stored:
            say("Spark: a stored run; to measure again, in about half an hour: --target simulator,spark")
    write_rules_page(report, [_picture(result) for result in results])
    say(f"charts: {escape(str(report))}")
    return 0 if all(not result.problems for result in results) else 1


def _say_started(case: Case) -> None:
    say(f"{case.name} on Spark: {case.lasts_s:.0f} s, and the start of a cluster")


def _say_result(result: CaseResult) -> None:
    text = "; ".join([_changes(result), *result.problems])
    say(f"{result.case.name} on Spark: {'FAILED' if result.problems else 'ok'}: {escape(text)}")


def _table(results: list[CaseResult], stored: Mapping[str, StoredResult]) -> Table:
    targets = list(dict.fromkeys(result.target for result in results))
    days = ", ".join(sorted({each.measured_on for each in stored.values()}))
    stored_title = [f"Spark, {days}"] if stored else []
    table = Table("case", "the thesis expects", *targets, *stored_title, box=None, pad_edge=False)
    for name in dict.fromkeys(result.case.name for result in results):
        own = {result.target: result for result in results if result.case.name == name}
        case = next(iter(own.values())).case
        cells = [_cell(own.get(target)) for target in targets]
        if stored:
            cells.append(_stored_cell(case, stored.get(name)))
        table.add_row(name, case.expectation, *cells)
    return table


def _cell(result: CaseResult | None) -> str:
    return "–" if result is None else _marked(not result.problems, _changes(result))


def _stored_cell(case: Case, stored: StoredResult | None) -> str:
    if stored is None:
        return "–"
    return _marked(stored.ok, _described(case, stored.changes, stored.queue_slope_per_s))


def _marked(ok: bool, text: str) -> str:
    return f"{'[green]✓[/green]' if ok else '[red]✗[/red]'} {escape(text)}"


def _changes(result: CaseResult) -> str:
    slope = queue_slope_per_s(result.run) if result.case.queue_slope_per_s is not None else None
    return _described(result.case, result.run.changes, slope)


def _described(case: Case, changes: Sequence[Change], slope: float | None) -> str:
    several = len(case.rates_per_s) > 1
    steps = [
        f"{f'{change.operator} ' if several else ''}{change.before}→{change.after} at {change.time_s:.0f} s"
        for change in changes
    ]
    text = ", ".join(steps) or "never scales"
    return text if slope is None else f"{text}, then {round(slope, 1) + 0.0:g} rows/s"


def _picture(result: CaseResult) -> CasePicture:
    case = result.case
    return CasePicture(
        title=f"{case.title} ({case.section}), {result.target}",
        expected=case.expectation,
        measured="; ".join([_changes(result), *result.problems]),
        ok=not result.problems,
        queues=result.run.queues,
        sizes=result.run.sizes,
    )
