"""``ebbflow forecast``: what load comes next, and how far to trust it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from ebbflow.cli.comparison import print_files
from ebbflow.cli.output import Json, check_writable, errors, print_json, refuse, say
from ebbflow.core.duration import format_duration, parse_seconds
from ebbflow.core.plural import counted
from ebbflow.errors import InputError
from ebbflow.forecasting.model_file import load_model, save_model
from ebbflow.forecasting.registry import DEFAULT, make_forecaster
from ebbflow.report.forecast_pages import (
    accuracy_rows,
    forecast_headline,
    recurring_text,
    write_forecast_page,
)
from ebbflow.report.terminal_chart import forecast_chart
from ebbflow.report.wording import number
from ebbflow.runs.scored_forecast import (
    BAND,
    LEARNED_STEPS,
    ScoredForecast,
    forecast_load,
    moment,
    read_samples_or_store,
)

_CHARTED = 60
"""Steps before the forecast in the chart of the terminal."""
_LISTED = 15
"""Steps of the forecast that are printed; of a longer one, as many at even distances, the last included."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("forecast")(forecast)


def forecast(
    load: Annotated[
        str,
        typer.Argument(
            help="Trace file (time,events), load like 'sine(...)', or the store of a run.",
            metavar="FILE|LOAD|STORE",
        ),
    ],
    horizon: Annotated[str, typer.Option(help="How far to forecast.", metavar="DURATION")] = "5m",
    step: Annotated[
        str | None,
        typer.Option(
            help="Length of a step.",
            show_default="that of the samples, or more, so that the horizon has at most 30 steps",
            metavar="DURATION",
        ),
    ] = None,
    forecaster: Annotated[
        str | None, typer.Option(help="Forecaster.", metavar="NAME", show_default=DEFAULT)
    ] = None,
    steps: Annotated[
        int, typer.Option(help="Learn from the last N steps of the load.", metavar="N")
    ] = LEARNED_STEPS,
    query: Annotated[
        str | None, typer.Option(help="Query of a store that has several.", metavar="NAME")
    ] = None,
    keep_zeros: Annotated[
        bool,
        typer.Option(
            "--keep-zeros",
            help="Keep zeros of ten minutes or more in a trace that is hardly ever 0, instead of counting them as an "
            "outage of the recording.",
        ),
    ] = False,
    model: Annotated[
        Path | None,
        typer.Option(help="Continue with a saved forecaster; it learns only what is new.", metavar="FILE"),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Save what the forecaster has learned to this file.", metavar="FILE")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a page with charts to this file.")] = None,
    json: Json = False,
) -> None:
    """Forecast a load as quantiles, with a backtest on the same load."""
    check_writable(report)
    check_writable(save)
    if steps < 1:
        raise InputError(f"--steps is {steps}; it must be 1 or more")
    horizon_s, step_s = parse_seconds(horizon), None if step is None else parse_seconds(step)
    if model is not None:
        refuse({"forecaster": forecaster}, "is that of the model")
    chosen = forecaster or DEFAULT
    make_forecaster(chosen, 60.0)  # a wrong name is an error before a long trace is read
    restored = None if model is None else load_model(model)
    name, samples = read_samples_or_store(load, query=query, keep_zeros=keep_zeros)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        console=errors, transient=True, disable=not errors.is_terminal,
    )  # fmt: skip
    with bar:
        task = bar.add_task("steps", total=None)
        made = forecast_load(
            name,
            samples,
            restored or (lambda each_s: make_forecaster(chosen, each_s)),
            horizon_s=horizon_s,
            step_s=step_s,
            most=steps,
            on_start=lambda count: bar.update(task, total=count),
            on_step=lambda: bar.advance(task),
        )
    if save is not None:
        save_model(save, made.forecaster, step_s=made.forecast.step_s)
    if report is not None:
        write_forecast_page(report, made)
    if json:
        print_json(made.to_json())
        return
    _print(made)
    print_files(report)


def _print(made: ScoredForecast) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    ahead = made.forecast
    console.print(f"[bold]{escape(forecast_headline(made))}[/bold]", soft_wrap=True)
    console.print(
        f"{escape(made.load)} by {escape(made.forecaster.name)}: {escape(ahead.basis)}", style="dim"
    )
    for text in recurring_text(made):
        console.print(escape(text), style="dim")
    console.print()
    past = made.series.last(_CHARTED)
    low, median, high = (ahead.at(level).tolist() for level in BAND)
    for line in forecast_chart(past.values.tolist(), low, median, high, width=min(console.width - 2, 100)):
        console.print(escape(line), soft_wrap=True)
    past_text = format_duration(float(past.ends_s[-1] - past.ends_s[0]) + past.step_s)
    console.print(f"the last {past_text}, then {format_duration(made.horizon_s)} ahead", style="dim")
    console.print()
    console.print(_steps_table(made))
    if made.tried.accuracy:
        console.print()
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("backtest", no_wrap=True)
        for score in made.tried.accuracy:
            table.add_column(f"{counted(score.ahead, 'step')} ahead", justify="right", no_wrap=True)
        for row in accuracy_rows(made.tried.accuracy):
            table.add_row(*row)
        console.print(table)
    for note in made.notes:
        say(escape(note))


def _steps_table(made: ScoredForecast) -> Table:
    ahead = made.forecast
    table = Table(box=None, pad_edge=False, header_style="dim")
    dated = moment(ahead.start_s) is not None
    table.add_column("end of step (UTC)" if dated else "end of step", no_wrap=True)
    for heading in ("p5", "p50", "p95"):
        table.add_column(heading, justify="right", no_wrap=True)
    count = len(ahead.ends_s)
    places = np.unique(np.linspace(0, count - 1, min(count, _LISTED)).round().astype(int))
    for place in places.tolist():
        end_s = float(ahead.ends_s[place])
        when = moment(end_s) or f"+{format_duration(end_s - ahead.start_s)}"
        table.add_row(when, *(number(float(ahead.at(level)[place])) for level in BAND))
    return table
