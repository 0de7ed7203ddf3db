"""``ebbflow bench elysium``: Figure 9 of Elysium, published beside ours."""

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
from ebbflow.papers import SIMULATOR, SPARK
from ebbflow.papers.elysium.cases import Case, cases, spark_cases
from ebbflow.papers.elysium.comparison import Comparison, compare, explain_with_sorted_minutes, tally
from ebbflow.papers.elysium.models import Models
from ebbflow.papers.elysium.page import write_elysium_page
from ebbflow.papers.elysium.run import GENERATED, Result, run_cases
from ebbflow.papers.elysium.studies import Studies
from ebbflow.papers.elysium.threshold_learning import ThresholdStudy, threshold_runs
from ebbflow.report.wording import number, seconds, share
from ebbflow.targets.spark.launch.preflight import check_java


def register(parent: typer.Typer) -> None:
    """Add the command to the group."""
    parent.command("elysium")(elysium)


def elysium(
    application: Annotated[
        list[str] | None, typer.Option(help="Only T1, T2 or T1+T2; repeatable.", metavar="NAME")
    ] = None,
    load: Annotated[
        list[str] | None,
        typer.Option(help="Only this load, like stair, square or twitter; repeatable.", metavar="NAME"),
    ] = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(help="Only this strategy, like joint or symbiotic; repeatable.", metavar="NAME"),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Trace of tweets per second over at least five days (time,events), for the load twitter.",
            show_default="a generated trace is used",
            metavar="FILE",
        ),
    ] = None,
    target: Annotated[
        str,
        typer.Option(
            help="simulator, spark (T1 on stair, square and twitter), or both, separated by a comma.",
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
            help="In the simulator, also study thresholds, reconfiguration costs and the estimator (Figures 6 to 8).",
            show_default="studies",
        ),
    ] = None,
    workers: Workers = None,
    report: Annotated[
        Path, typer.Option(help="File for the page with the table and charts like the paper's.")
    ] = Path("ebbflow-elysium.html"),
    json: Json = False,
) -> int:
    """Run the rows of Figure 9 of Elysium and print them beside the published ones."""
    check_writable(report)
    targets = check_paper_options(target, seeds=seeds, studies=studies, workers=workers, trace=trace)
    named = {"applications": application or (), "loads": load or (), "strategies": strategy or ()}
    chosen = cases(trace=None if trace is None else str(trace), **named)
    real: list[Case] = []
    if SPARK in targets:
        real = spark_cases(chosen) if SIMULATOR in targets else spark_cases(chosen, **named)
        check_java()
    results: list[Result] = []
    comparisons: list[Comparison] = []
    study_results: Studies | None = None
    if SIMULATOR in targets:
        results, comparisons, study_results = _simulate(
            chosen, trace, seeds=3 if seeds is None else seeds, workers=workers, studies=studies is not False
        )
    if SPARK in targets:
        from ebbflow.papers.elysium.on_spark import run_selection

        spark_results = run_selection(real, say=lambda text: say(escape(text)))
        results += spark_results
        comparisons += compare(spark_results)
    if json:
        print_json([result.to_json() for result in results])
    else:
        console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
        console.print(_table(results))
        if not all(result.case.traced for result in results):
            console.print(f"* {GENERATED}; the published figures are for Twitter", style="dim")
        if study_results is not None:
            console.print()
            console.print(_threshold_table(study_results.thresholds))
        _print_comparisons(comparisons)
    write_elysium_page(report, results, comparisons, study_results)
    say(f"page: {escape(str(report))}")
    return 0


def _simulate(
    chosen: Sequence[Case], trace: Path | None, *, seeds: int, workers: int | None, studies: bool
) -> tuple[list[Result], list[Comparison], Studies | None]:
    runs = counted(len(chosen) * seeds, "run")
    say(f"{counted(len(chosen), 'row')} × {counted(seeds, 'seed')} = {runs}")
    bar = progress_bar()
    with bar:
        task = bar.add_task("profiling", total=len(chosen) * seeds)
        models = Models.learned(chosen, trace=None if trace is None else str(trace), workers=workers)
        bar.update(task, description="runs")
        results = run_cases(chosen, models, seeds=seeds, workers=workers, on_done=lambda: bar.advance(task))
        bar.update(task, description="comparing")
        comparisons = explain_with_sorted_minutes(
            compare(results), chosen, models, seeds=seeds, workers=workers
        )
        study_results = None
        if studies:
            trials = threshold_runs()
            say(f"{counted(trials, 'run')} for the thresholds")
            bar.update(task, description="studies", total=trials, completed=0)
            study_results = Studies.run(models, workers=workers, on_trial=lambda: bar.advance(task))
    return results, comparisons, study_results


def _print_comparisons(comparisons: Sequence[Comparison]) -> None:
    for each in comparisons:
        if not each.ok:
            errors.print(f"[bold]{escape(each.what)}[/bold] {escape(each.explanation)}", soft_wrap=True)
    for total in tally(comparisons):
        say(escape(str(total)))


def _table(results: Sequence[Result]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("row", no_wrap=True)
    for name in ("paper: degr.", "ours", "unsmoothed", "paper: saved", "ours", "latency", "changes"):
        table.add_column(name, justify="right", no_wrap=True)
    for result in results:
        metrics, published = result.metrics, result.case.published
        where = "" if result.target == SIMULATOR else f" on {result.target}"
        table.add_row(
            escape(f"{result.case.key}{where}{'' if result.case.traced else ' *'}"),
            number(None if published is None else published.throughput_degradation),
            number(_three_decimals(metrics.throughput_degradation)),
            number(_three_decimals(metrics.throughput_degradation_unsmoothed)),
            share(None if published is None else published.nodes_saved),
            share(metrics.nodes_saved),
            seconds(metrics.latency_mean_s),
            number(_three_decimals(metrics.reconfigurations)),
        )
    return table


def _threshold_table(studies: Sequence[ThresholdStudy]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("threshold by Q-learning", no_wrap=True)
    for name in ("paper", "ours", "reward"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for study in studies:
        at = study.converged
        table.add_row(
            study.name, f"{study.published:.2f}", f"{at.value:.2f}", f"{at.reward:.2f}", escape(study.found)
        )
    return table


def _three_decimals(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
