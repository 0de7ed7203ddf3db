"""``ebbflow bench learner``: the evaluation that the Learner thesis leaves open."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ebbflow.cli.bench.paper import check_paper_options
from ebbflow.cli.comparison import progress_bar
from ebbflow.cli.output import Json, check_writable, print_json, refuse, say
from ebbflow.cli.simulation import Workers
from ebbflow.core.plural import counted
from ebbflow.errors import InputError
from ebbflow.papers import SIMULATOR, SPARK
from ebbflow.papers.elysium.run import RunCurves
from ebbflow.papers.learner.evaluation.loads import HOUR_S, PEAK_PER_S, Loads
from ebbflow.papers.learner.evaluation.page import column, cost_text, late_text, write_evaluation_page
from ebbflow.papers.learner.evaluation.run import StudyRow, run_studies, works_of
from ebbflow.papers.learner.evaluation.studies import TRACES, Budget, Study, all_studies, chosen_studies
from ebbflow.runs.loads import read_loads
from ebbflow.targets.spark.launch.preflight import check_java

SEEDS = 10
QUICK_SEEDS, QUICK_BUDGET = 2, Budget(whole=3, parameter=1)
TRACE_HOURS = 3.0
"""Of a trace, the busiest section of this length."""
NAMES = ", ".join(study.name for study in all_studies(Budget(), ["trace"]))


def register(parent: typer.Typer) -> None:
    """Add the command to the group."""
    parent.command("learner")(learner)


def learner(
    study: Annotated[
        list[str] | None, typer.Option(help=f"Only this study; repeatable: {NAMES}.", metavar="NAME")
    ] = None,
    target: Annotated[
        str,
        typer.Option(
            help="simulator, spark (a trained table, capacity and spark-legacy, ten minutes each), or both, separated "
            "by a comma.",
            metavar="TARGET",
        ),
    ] = SIMULATOR,
    seeds: Annotated[
        int | None,
        typer.Option(
            help="Runs of each setting in the simulator; results are means.", show_default=str(SEEDS)
        ),
    ] = None,
    trace: Annotated[
        list[Path] | None,
        typer.Option(
            help=f"Recorded load (time,events) for the study traces: its busiest {TRACE_HOURS:g} h; repeatable.",
            metavar="FILE",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(help=f"{QUICK_SEEDS} seeds and less training: a few minutes, for a first impression."),
    ] = False,
    workers: Workers = None,
    report: Annotated[Path, typer.Option(help="File for the page with the pictures and tables.")] = Path(
        "ebbflow-learner.html"
    ),
    json: Json = False,
) -> int:
    """Study how `learner` learns and whether it pays: parameters, convergence, other strategies, new loads.

    Agents are trained and rules calibrated with the same budget on some loads, and judged on others. Costs are relative
    to those of `capacity`. The whole takes about a quarter of an hour on two cores.
    """
    check_writable(report)
    targets = check_paper_options(target, seeds=seeds, studies=None, workers=workers, trace=None)
    if SIMULATOR not in targets:
        refuse({"study": study, "trace": trace, "quick": quick or None}, "is for --target simulator")
    traces = read_loads(
        [str(file) for file in trace or ()], peak_per_s=PEAK_PER_S, speed=1.0, seconds=TRACE_HOURS * HOUR_S
    )
    loads = Loads(traces=traces)
    if TRACES in (study or ()) and not traces:
        raise InputError("--study traces needs a recorded load; add --trace FILE")
    if traces and study and TRACES not in study:
        raise InputError("--trace is for the study traces; add --study traces, or leave it out")
    studies = chosen_studies(QUICK_BUDGET if quick else Budget(), study or (), loads.trace_names)
    if SPARK in targets:
        check_java()
    rows: list[StudyRow] = []
    curves: Mapping[str, RunCurves] = {}
    if SIMULATOR in targets:
        count = (QUICK_SEEDS if quick else SEEDS) if seeds is None else seeds
        rows += _simulate(studies, loads, seeds=count, workers=workers)
    if SPARK in targets:
        from ebbflow.papers.learner.evaluation.on_spark import run_selection

        on_spark, curves = run_selection(say=lambda text: say(escape(text)))
        rows += on_spark
    if json:
        print_json([row.to_json() for row in rows])
    else:
        _print(studies, rows)
    write_evaluation_page(report, studies, rows, curves)
    say(f"page: {escape(str(report))}")
    return 0


def _simulate(studies: Sequence[Study], loads: Loads, *, seeds: int, workers: int | None) -> list[StudyRow]:
    runs = seeds * len(works_of(studies))
    say(
        f"{counted(len(studies), 'study', 'studies')} × {counted(seeds, 'seed')} = "
        f"{counted(runs, 'preparation')} with their runs"
    )
    with progress_bar() as bar:
        task = bar.add_task("studies", total=runs)
        return run_studies(studies, loads, seeds=seeds, workers=workers, on_done=lambda: bar.advance(task))


def _print(studies: Sequence[Study], rows: Sequence[StudyRow]) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    titles = {study.name: f"{study.title}: {study.question}" for study in studies}
    for name in dict.fromkeys(row.study for row in rows):
        console.print(f"\n[bold]{escape(titles.get(name, name))}[/bold]")
        grid = Table(box=None, pad_edge=False, header_style="dim")
        grid.add_column("setting", no_wrap=True)
        grid.add_column("load", no_wrap=True)
        for heading in ("late", "cost ÷ capacity", "converged after"):
            grid.add_column(heading, justify="right", no_wrap=True)
        before = ""
        for row in (row for row in rows if row.study == name):
            hours = "" if row.converged_after_h is None else f"{row.converged_after_h.mean:.0f} h"
            setting = "" if row.setting == before else row.setting
            grid.add_row(escape(setting), escape(column(row)), late_text(row), cost_text(row), hours)
            before = row.setting
        console.print(grid)
