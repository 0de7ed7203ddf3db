"""``ebbflow bench forecast``: every forecaster on every load and horizon."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from ebbflow.cli.comparison import check_workers, print_files
from ebbflow.cli.output import Json, check_writable, errors, print_json, say
from ebbflow.cli.simulation import Workers
from ebbflow.core.duration import format_duration, parse_seconds
from ebbflow.core.plural import counted
from ebbflow.errors import InputError, RunFailedError
from ebbflow.forecasting.registry import DEFAULT, FORECASTERS
from ebbflow.report.forecast_pages import summary_row, write_forecast_bench_page
from ebbflow.runs.forecast_bench import (
    FORMULA_STEPS,
    HORIZONS_S,
    STEPS,
    ForecastCase,
    ForecastRow,
    check_forecasters,
    forecast_cases,
    run_forecast_bench,
    summarise,
)
from ebbflow.runs.loads import read_whole_loads, split_loads

_SHORT = 10_000
"""Steps of a comparison that is over before a second process has started."""
_LEGEND = (
    "Error ÷ that of the last value, geometric mean over the loads; coverage of the 90 % bands over more than a day; "
    "mean CPU times of an update and of a forecast of 30 steps, on the slowest load."
)


def register(parent: typer.Typer) -> None:
    """Add the command to the group."""
    parent.command("forecast")(forecast)


def forecast(
    loads: Annotated[
        str,
        typer.Option(
            help="Comma-separated trace files, folders, patterns, and loads like 'sine(...)'.",
            metavar="A,B,…",
        ),
    ],
    forecasters: Annotated[
        str | None, typer.Option(help="Comma-separated forecasters.", show_default="all", metavar="A,B,…")
    ] = None,
    horizons: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated horizons.",
            show_default=",".join(format_duration(each) for each in HORIZONS_S),
            metavar="A,B,…",
        ),
    ] = None,
    ahead: Annotated[
        int,
        typer.Option(
            help="Steps in a horizon. 1: the load is averaged over the horizon and forecast one step ahead.",
            metavar="N",
        ),
    ] = 1,
    steps: Annotated[
        int,
        typer.Option(
            help=f"Use the last N steps of each load, at most {FORMULA_STEPS:,} of a formula that never ends.",
            metavar="N",
        ),
    ] = STEPS,
    keep_zeros: Annotated[
        bool,
        typer.Option(
            "--keep-zeros",
            help="Keep zeros of ten minutes or more in a trace that is hardly ever 0, instead of counting them as an "
            "outage of the recording.",
        ),
    ] = False,
    workers: Workers = None,
    report: Annotated[Path | None, typer.Option(help="Write a page with charts to this file.")] = None,
    json: Json = False,
) -> None:
    """Compare forecasters by backtest: error, coverage and width of bands, and time, on every load and horizon.

    Rolling origin: each forecast uses only the steps before it. All forecasts count, from the first step on.
    """
    check_writable(report)
    check_workers(workers)
    names = list(FORECASTERS) if forecasters is None else _names(forecasters)
    check_forecasters(names)
    cases, notes = forecast_cases(
        read_whole_loads(split_loads(loads)),
        horizons_s=None if horizons is None else _horizons(horizons),
        ahead=ahead,
        steps=steps,
        keep_zeros=keep_zeros,
    )
    backtests = counted(len(cases) * len(names), "backtest")
    series = f"{counted(len({case.load for case in cases}), 'load')}, {len(cases)} series"
    say(f"{counted(len(names), 'forecaster')} × {series} = {backtests}")
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"),
        TimeRemainingColumn(), console=errors, transient=True, disable=not errors.is_terminal,
    )  # fmt: skip
    with bar:
        task = bar.add_task("backtests", total=len(cases) * len(names))
        rows, failed = run_forecast_bench(
            cases, names, workers=workers or _workers(cases, names), on_done=lambda: bar.advance(task)
        )
    if json:
        print_json([row.to_json() for row in rows])
    elif rows:
        _print(rows)
    for note in notes:
        say(escape(note))
    if report is not None and rows:
        write_forecast_bench_page(report, rows, notes, highlighted=DEFAULT)
        print_files(report)
    if failed:
        raise RunFailedError(f"{len(failed)} of {backtests} failed, the first: {failed[0]}")


def _workers(cases: Sequence[ForecastCase], names: Sequence[str]) -> int:
    """One for a short comparison, because starting processes takes seconds; else one per core."""
    steps = len(names) * sum(len(case.series) for case in cases)
    return 1 if steps < _SHORT else os.cpu_count() or 1


def _print(rows: Sequence[ForecastRow]) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    horizons_s = sorted({row.horizon_s for row in rows})
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("forecaster", no_wrap=True)
    for name in (*(format_duration(each) for each in horizons_s), "coverage"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("worst load", no_wrap=True)
    table.add_column("update", justify="right", no_wrap=True)
    table.add_column("30 steps", justify="right", no_wrap=True)
    for summary in summarise(rows):
        cells = [escape(cell) for cell in summary_row(summary, horizons_s)]
        table.add_row(*cells, style="bold" if summary.forecaster == DEFAULT else "")
    console.print(table)
    shown = DEFAULT if any(row.forecaster == DEFAULT for row in rows) else ""
    shown = shown or rows[0].forecaster
    own = {(row.load, row.horizon_s): row for row in rows if row.forecaster == shown}
    by_load = Table(box=None, pad_edge=False, header_style="dim")
    by_load.add_column(f"{shown} on", no_wrap=True)
    for horizon_s in horizons_s:
        by_load.add_column(format_duration(horizon_s), justify="right", no_wrap=True)
        by_load.add_column("covered", justify="right", no_wrap=True)
    for load in dict.fromkeys(row.load for row in rows):
        cells = []
        for horizon_s in horizons_s:
            row = own.get((load, horizon_s))
            ratio = None if row is None else row.accuracy.error_ratio
            cells += [
                "–" if ratio is None else f"{ratio:.3f}",
                "–" if row is None else f"{100 * row.accuracy.coverage:.1f} %",
            ]
        by_load.add_row(escape(load), *cells)
    console.print()
    console.print(by_load)
    errors.print(f"\n[dim]{_LEGEND}[/dim]", soft_wrap=True)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if "" in names:
        raise InputError(f"--forecasters {text!r} has an empty entry; write names like last-value,mixture")
    return list(dict.fromkeys(names))


def _horizons(text: str) -> list[float]:
    horizons_s = sorted({parse_seconds(part) for part in text.split(",")})
    if horizons_s[0] <= 0:
        raise InputError(f"--horizons {text} has a horizon of 0; it must be above 0, like 10s or 5m")
    return horizons_s
