"""``ebbflow bench rules``: the six tests of the Rules seed, in the simulator or on a real Spark cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ebbflow.cli.output import Json, check_writable, print_json, say
from ebbflow.papers.rules.cases import Case, Change
from ebbflow.papers.rules.judge import SIMULATOR, SPARK, Result, queue_slope_per_s
from ebbflow.papers.rules.page import CasePicture, write_rules_page
from ebbflow.papers.rules.run import Stored, run_cases, stored_on_spark
from ebbflow.targets.spark.launch.preflight import check_java


def register(parent: typer.Typer) -> None:
    """Add the command to the group."""
    parent.command("rules")(rules)


def rules(
    target: Annotated[
        str, typer.Option(help="simulator, spark, or both with a comma.", metavar="TARGET")
    ] = SIMULATOR,
    case: Annotated[list[str] | None, typer.Option(help="Only this case; repeatable.")] = None,
    report: Annotated[
        Path, typer.Option(help="Where the page goes: queue length against size, for each case.")
    ] = Path("ebbflow-rules.html"),
    json: Json = False,
) -> int:
    """Run the six tests of the Rules seed (§5.2); code 1 if one does not show what it must."""
    check_writable(report)
    targets = [name.strip() for name in target.split(",")]
    if SPARK in targets:
        check_java()
    results: list[Result] = []
    for name in targets:
        slow = name == SPARK
        results += run_cases(
            name, case or (), on_case=_told if slow else None, on_result=_judged if slow else None
        )
    if json:
        print_json([result.to_json() for result in results])
    else:
        stored = stored_on_spark() if SPARK not in targets else {}
        Console(highlight=False).print(_table(results, stored))
        if stored:
            say("Spark as it was measured then; anew, in about half an hour: --target simulator,spark")
    write_rules_page(report, [_picture(result) for result in results])
    say(f"pictures: {escape(str(report))}")
    return 0 if all(not result.wrong for result in results) else 1


def _told(case: Case) -> None:
    say(f"{case.name} on Spark: {case.lasts_s:.0f} s and what a cluster takes to start")


def _judged(result: Result) -> None:
    told = "; ".join([_changes(result), *result.wrong])
    say(f"{result.case.name} on Spark: {'as it must be' if not result.wrong else 'WRONG'}: {escape(told)}")


def _table(results: list[Result], stored: Mapping[str, Stored]) -> Table:
    targets = list(dict.fromkeys(result.target for result in results))
    days = ", ".join(sorted({each.measured_on for each in stored.values()}))
    then = [f"Spark, {days}"] if stored else []
    table = Table("case", "the seed expects", *targets, *then, box=None, pad_edge=False)
    for name in dict.fromkeys(result.case.name for result in results):
        own = {result.target: result for result in results if result.case.name == name}
        case = next(iter(own.values())).case
        cells = [_cell(own.get(target)) for target in targets]
        if stored:
            cells.append(_stored_cell(case, stored.get(name)))
        table.add_row(name, case.seed_says, *cells)
    return table


def _cell(result: Result | None) -> str:
    return "–" if result is None else _marked(not result.wrong, _changes(result))


def _stored_cell(case: Case, then: Stored | None) -> str:
    return "–" if then is None else _marked(then.ok, _told_of(case, then.changes, then.queue_slope_per_s))


def _marked(ok: bool, text: str) -> str:
    return f"{'[green]✓[/green]' if ok else '[red]✗[/red]'} {escape(text)}"


def _changes(result: Result) -> str:
    slope = queue_slope_per_s(result.seen) if result.case.queue_slope_per_s is not None else None
    return _told_of(result.case, result.seen.changes, slope)


def _told_of(case: Case, changes: Sequence[Change], slope: float | None) -> str:
    several = len(case.rates_per_s) > 1
    steps = [
        f"{f'{change.operator} ' if several else ''}{change.before}→{change.after} at {change.time_s:.0f} s"
        for change in changes
    ]
    told = ", ".join(steps) or "never scales"
    return told if slope is None else f"{told}, then {round(slope, 1) + 0.0:g} rows/s"


def _picture(result: Result) -> CasePicture:
    case = result.case
    return CasePicture(
        title=f"{case.title} ({case.section}), {result.target}",
        expected=case.seed_says,
        measured="; ".join([_changes(result), *result.wrong]),
        ok=not result.wrong,
        queues=result.seen.queues,
        sizes=result.seen.sizes,
    )
