"""``ebbflow bench movies``: movie recommendation of the DoDo thesis, batch against stream."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ebbflow.cli.comparison import progress_bar
from ebbflow.cli.output import Json, check_writable, print_json, say
from ebbflow.core.duration import format_duration
from ebbflow.errors import InputError
from ebbflow.targets.spark.launch.preflight import check_java


def register(parent: typer.Typer) -> None:
    """Add the command to the group."""
    parent.command("movies")(movies)


def movies(
    ratings: Annotated[
        Path | None,
        typer.Option(
            help="CSV like MovieLens' ratings.csv, plain or gzipped (userId,movieId,rating,timestamp).",
            show_default="generated ones",
            metavar="FILE",
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(help="How many ratings.", show_default="100000 generated ones, or all of the file"),
    ] = None,
    top: Annotated[int, typer.Option(help="Length of the lists.")] = 10,
    report: Annotated[Path, typer.Option(help="File for the page with tables and charts.")] = Path(
        "ebbflow-movies.html"
    ),
    json: Json = False,
) -> int:
    """Measure movie recommendation (DoDo, §5) on Spark with two cores, as a stream and as a batch job.

    Prints the throughput of the stream, the time of both as data grows, and from what arrival rate on and for what
    freshness the stream is cheaper, published figures beside ours. Exit code 1 if the two give different lists.
    """
    check_writable(report)
    if top < 1:
        raise InputError(f"--top {top} leaves no list; the minimum is 1")
    if count is not None and count < 1:
        raise InputError(f"--count {count} leaves nothing to process; give a thousand or more")
    check_java()
    from ebbflow.papers.dodo.movies.bench import REFRESHES_S, STEPS, run_movies
    from ebbflow.papers.dodo.movies.page import (
        GROWTH_COLUMNS,
        break_even_rows,
        cost_rows,
        growth_rows,
        throughput_rows,
        write_movies_page,
    )
    from ebbflow.papers.dodo.movies.ratings import generated_ratings, read_ratings

    if ratings is None:
        chosen = generated_ratings(100_000 if count is None else count)
    else:
        chosen = read_ratings(ratings)
        chosen = chosen if count is None else chosen.first(count)
    say(f"{len(chosen):,} ratings ({escape(chosen.source)})")
    bar = progress_bar()
    with bar:
        task = bar.add_task("starting Spark", total=STEPS)

        def step(name: str) -> None:
            bar.update(task, description=name, advance=1)

        result = run_movies(chosen, top=top, on_step=step)
    if json:
        print_json(result.to_json())
    else:
        console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
        for columns, rows in (
            (["", "cores", "input", "throughput"], throughput_rows(result)),
            (GROWTH_COLUMNS, growth_rows(result)),
            (
                ["cost per day, refreshed every", *map(format_duration, REFRESHES_S), "stream"],
                cost_rows(result),
            ),
            (["stream cheaper, refreshed every", "ours: from", "paper: from"], break_even_rows(result)),
        ):
            table = Table(box=None, pad_edge=False, header_style="dim")
            for index, name in enumerate(columns):
                table.add_column(name, no_wrap=True, justify="left" if index == 0 else "right")
            for row in rows:
                table.add_row(*map(escape, row))
            console.print(table)
            console.print()
    say(escape(result.headline))
    say(f"by CPU time alone, {result.per_s_by_cpu:,.0f} ratings/s on two free cores")
    write_movies_page(report, result)
    say(f"page: {escape(str(report))}")
    return 0 if result.same_lists else 1
