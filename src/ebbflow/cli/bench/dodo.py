"""``ebbflow bench dodo``: balancing and autoscaling of clusters, DoDo's results beside ours."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ebbflow.cli.comparison import check_workers, progress_bar
from ebbflow.cli.output import Json, check_writable, errors, print_json, say
from ebbflow.cli.simulation import Workers
from ebbflow.core.plural import counted
from ebbflow.errors import UnknownNameError
from ebbflow.papers import SIMULATOR
from ebbflow.papers.dodo.clusters.page import (
    CASE_NAMES,
    COLUMNS,
    VARIANT_NAMES,
    cells,
    headline,
    verdicts,
    write_dodo_page,
)
from ebbflow.papers.dodo.clusters.published import CASES, VARIANTS
from ebbflow.papers.dodo.clusters.run import Result, Sensitivity, run_cases, study, study_runs


def register(parent: typer.Typer) -> None:
    """Add the command to the group."""
    parent.command("dodo")(dodo)


def dodo(
    case: Annotated[
        list[str] | None,
        typer.Option(help="Only extreme, optimal or autoscaling; repeatable.", metavar="NAME"),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(help="Runs of each row in the simulator; the figures are means.", show_default="3"),
    ] = None,
    studies: Annotated[
        bool | None,
        typer.Option(
            help="In the simulator, also vary what the text leaves open: processing times and launch time.",
            show_default="studies",
        ),
    ] = None,
    workers: Workers = None,
    report: Annotated[
        Path, typer.Option(help="File for the page with the table and charts like the thesis's.")
    ] = Path("ebbflow-dodo.html"),
    json: Json = False,
) -> int:
    """Run the experiments of DoDo on clusters (§6.4 and §7) and print the results beside the published ones.

    Extreme and optimal case: balancing with capacity, without it, and none. Autoscaling: 12 + 3 nodes static and
    balanced, and 1 + 1 nodes that grow to 15.
    """
    check_writable(report)
    check_workers(workers)
    for name in case or ():
        if name not in CASES:
            raise UnknownNameError("case", name, CASES)
    cases = [name for name in CASES if not case or name in case]
    results, sensitivity = _simulate(
        cases, seeds=3 if seeds is None else seeds, workers=workers, studies=studies is not False
    )
    if json:
        print_json([result.to_json() for result in results])
    else:
        _print(results, sensitivity)
    write_dodo_page(report, results, sensitivity)
    say(f"page: {escape(str(report))}")
    return 0


def _simulate(
    cases: Sequence[str], *, seeds: int, workers: int | None, studies: bool
) -> tuple[list[Result], Sensitivity | None]:
    count = sum(len(VARIANTS[name]) for name in cases)
    say(f"{counted(count, 'row')} × {counted(seeds, 'seed')} = {counted(count * seeds, 'run')}")
    bar = progress_bar()
    with bar:
        task = bar.add_task("runs", total=count * seeds)
        results = run_cases(cases, seeds=seeds, workers=workers, on_done=lambda: bar.advance(task))
        if not studies:
            return results, None
        bar.update(task, description="studies", total=study_runs(), completed=0)
        return results, study(workers=workers, on_done=lambda: bar.advance(task))


def _print(results: Sequence[Result], sensitivity: Sensitivity | None) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("case and variant", no_wrap=True)
    for name, _ in COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for result in results:
        where = "" if result.target == SIMULATOR else f" on {result.target}"
        name = f"{CASE_NAMES[result.case]}{where}: {VARIANT_NAMES[result.variant]}"
        table.add_row(escape(name), *cells(result))
    console.print(table)
    if sensitivity is not None:
        other = Table(box=None, pad_edge=False, header_style="dim")
        other.add_column("gain of", no_wrap=True)
        for name in sensitivity.assumptions[0].gains:
            other.add_column(name.replace(" ", "\n", 1), justify="right")
        for each in sensitivity.assumptions:
            other.add_row(each.text, *(f"{100 * gain:+.1f} %" for gain in each.gains.values()))
        console.print()
        console.print(other)
    judged = verdicts(results)
    for verdict in judged:
        if not verdict.ok:
            errors.print(f"[bold]{escape(verdict.name)}[/bold] {escape(verdict.text)}", soft_wrap=True)
    if judged:
        say(escape(headline(judged)))
