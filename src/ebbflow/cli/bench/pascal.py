"""``ebbflow bench pascal``: proactive scaling of streams on Pascal's loads, published beside ours."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ebbflow.cli.bench.paper import check_paper_options
from ebbflow.cli.comparison import progress_bar
from ebbflow.cli.output import Json, check_writable, errors, print_json, say
from ebbflow.cli.simulation import Workers
from ebbflow.core.plural import counted
from ebbflow.errors import UnknownNameError
from ebbflow.papers import SIMULATOR, SPARK
from ebbflow.papers.pascal.comparison import compare, headline
from ebbflow.papers.pascal.loads import PastAndPresent, paper_loads
from ebbflow.papers.pascal.page import COLUMNS, cells, write_pascal_page
from ebbflow.papers.pascal.published import STRATEGIES
from ebbflow.papers.pascal.run import Result, learn_profile, run_loads
from ebbflow.papers.pascal.studies import Studies, study_runs
from ebbflow.targets.spark.launch.preflight import check_java


def register(parent: typer.Typer) -> None:
    """Add the command to the group."""
    parent.command("pascal")(pascal)


def pascal(
    load: Annotated[
        list[str] | None,
        typer.Option(help="Only sawtooth, sine, square or twitter; repeatable.", metavar="NAME"),
    ] = None,
    strategy: Annotated[
        list[str] | None, typer.Option(help="Only proactive, reactive or static; repeatable.", metavar="NAME")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Trace of tweets per second over at least six days (time,events), for the load twitter.",
            show_default="a generated trace is used",
            metavar="FILE",
        ),
    ] = None,
    target: Annotated[
        str,
        typer.Option(
            help="simulator, spark (sawtooth and square, in minutes), or both, separated by a comma.",
            metavar="TARGET",
        ),
    ] = SIMULATOR,
    seeds: Annotated[
        int | None,
        typer.Option(help="Runs of each row in the simulator; the metrics are means.", show_default="3"),
    ] = None,
    studies: Annotated[
        bool | None,
        typer.Option(
            help="In the simulator, also study imbalance, estimator, forecasts and changes (§7.1.2 to §7.1.4).",
            show_default="studies",
        ),
    ] = None,
    workers: Workers = None,
    report: Annotated[
        Path, typer.Option(help="File for the page with the table and charts like the paper's.")
    ] = Path("ebbflow-pascal.html"),
    json: Json = False,
) -> int:
    """Run the loads of Pascal's evaluation on streams (§7.1) and print the results beside the published ones."""
    check_writable(report)
    targets = check_paper_options(target, seeds=seeds, studies=studies, workers=workers, trace=trace)
    for name in strategy or ():
        if name not in STRATEGIES:
            raise UnknownNameError("strategy", name, STRATEGIES)
    strategies = [name for name in STRATEGIES if not strategy or name in strategy]
    loads = paper_loads(load or (), None if trace is None else str(trace))
    real: list[PastAndPresent] = []
    if SPARK in targets:
        from ebbflow.papers.pascal.on_spark import spark_loads

        real = spark_loads(loads, named=SIMULATOR not in targets and bool(load))
        check_java()
    results: list[Result] = []
    study_results: Studies | None = None
    if SIMULATOR in targets:
        results, study_results = _simulate(
            loads,
            strategies,
            seeds=3 if seeds is None else seeds,
            workers=workers,
            studies=studies is not False,
        )
    if SPARK in targets:
        from ebbflow.papers.pascal.on_spark import run_selection

        results += run_selection(real, strategies, say=lambda text: say(escape(text)))
    if json:
        print_json([result.to_json() for result in results])
    else:
        _print(results)
    write_pascal_page(report, results, study_results)
    say(f"page: {escape(str(report))}")
    return 0


def _simulate(
    loads: Sequence[PastAndPresent],
    strategies: Sequence[str],
    *,
    seeds: int,
    workers: int | None,
    studies: bool,
) -> tuple[list[Result], Studies | None]:
    count = len(loads) * len(strategies)
    say(f"{counted(count, 'row')} × {counted(seeds, 'seed')} = {counted(count * seeds, 'run')}")
    bar = progress_bar()
    with bar:
        task = bar.add_task("profiling", total=count * seeds)
        profile = learn_profile()
        bar.update(task, description="runs")
        results = run_loads(
            loads, profile,
            strategies=strategies, seeds=seeds, workers=workers, on_done=lambda: bar.advance(task),
        )  # fmt: skip
        study_results = None
        if studies:
            bar.update(task, description="studies", total=study_runs(loads), completed=0)
            study_results = Studies.run(loads, profile, workers=workers, on_done=lambda: bar.advance(task))
    return results, study_results


def _print(results: Sequence[Result]) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("load and strategy", no_wrap=True)
    for name, _ in COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for result in results:
        where = "" if result.target == SIMULATOR else f" on {result.target}"
        table.add_row(escape(f"{result.load} {result.strategy}{where}"), *cells(result))
    console.print(table)
    for note in dict.fromkeys(f"{each.load}: {each.note}" for each in results if each.note):
        console.print(note, style="dim")
    comparisons = compare(results)
    for each in comparisons:
        if not each.ok:
            errors.print(f"[bold]{escape(each.load)}[/bold] {escape(each.text)}", soft_wrap=True)
    if comparisons:
        say(escape(headline(comparisons)))
