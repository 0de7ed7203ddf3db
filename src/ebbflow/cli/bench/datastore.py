"""``ebbflow bench datastore``: proactive scaling of a datastore on Pascal's load, published beside ours."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ebbflow.cli.comparison import check_workers
from ebbflow.cli.output import Json, check_writable, errors, print_json, refuse, say
from ebbflow.cli.simulation import Workers
from ebbflow.core.duration import parse_seconds
from ebbflow.errors import InputError, UnknownNameError
from ebbflow.papers import SIMULATOR
from ebbflow.papers.pascal.datastore.loads import (
    DAYS,
    SEED,
    TESTED_DAYS,
    DatastoreLoad,
    made_load,
    recorded_load,
)
from ebbflow.papers.pascal.datastore.page import (
    RESULT_COLUMNS,
    action_cells,
    benchmark_json,
    headline,
    result_cells,
    write_datastore_page,
)
from ebbflow.papers.pascal.datastore.results import STRATEGIES, Benchmark, run_benchmark
from ebbflow.papers.pascal.datastore.simulated import SimulatedBench
from ebbflow.profiling.datastore.profile import CASSANDRA
from ebbflow.targets.java import check_java

TARGETS = (SIMULATOR, CASSANDRA)
SHORTEST_S = 300.0


def register(parent: typer.Typer) -> None:
    """Add the command to the group."""
    parent.command("datastore")(datastore)


def datastore(
    target: Annotated[
        str, typer.Option(help="simulator, or cassandra: nodes on this machine.", metavar="TARGET")
    ] = SIMULATOR,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Only {', '.join(STRATEGIES[:-1])} or {STRATEGIES[-1]}; repeatable.", metavar="NAME"
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Trace (time,events) over more days than are tested.",
            show_default="a generated trace is used",
            metavar="FILE",
        ),
    ] = None,
    days: Annotated[
        int | None,
        typer.Option(min=3, max=400, help="Days of the generated trace.", show_default=str(DAYS)),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Random seed of the generated trace.", show_default=str(SEED))
    ] = None,
    tested: Annotated[
        int,
        typer.Option(min=1, max=100, help="Days of the test, the last ones; the others are learned from."),
    ] = TESTED_DAYS,
    seconds: Annotated[
        str | None,
        typer.Option(
            help="Cassandra only: time in which the first day of the test is replayed, once for each strategy.",
            show_default="20m",
            metavar="DURATION",
        ),
    ] = None,
    workers: Workers = None,
    report: Annotated[
        Path, typer.Option(help="File for the page with the tables and charts like the paper's.")
    ] = Path("ebbflow-datastore.html"),
    json: Json = False,
) -> int:
    """Run Pascal's evaluation on a datastore (§7.2) and print the results beside the published ones."""
    check_writable(report)
    check_workers(workers)
    if target not in TARGETS:
        raise UnknownNameError("target", target, TARGETS)
    for name in strategy or ():
        if name not in STRATEGIES:
            raise UnknownNameError("strategy", name, STRATEGIES)
    if target == CASSANDRA:
        refuse({"workers": workers}, "is for --target simulator")
        check_java("Cassandra")
        if seconds is not None and parse_seconds(seconds) < SHORTEST_S:
            raise InputError(
                f"--seconds {seconds} is too short for nodes to join; use {SHORTEST_S:g}s or more"
            )
    else:
        refuse({"seconds": seconds}, "is for --target cassandra")
    if trace is not None:
        refuse({"days": days, "seed": seed}, "is for the generated trace, which --trace replaces")
    if trace is not None and not trace.is_file():
        raise InputError(f"there is no trace file {trace}; give one with two columns, or leave --trace out")
    if trace is None and (days or DAYS) <= tested:
        raise InputError(f"--tested {tested} leaves no day to learn from; use more --days")
    if trace is None:
        load = made_load(days or DAYS, tested, SEED if seed is None else seed)
    else:
        load = recorded_load(str(trace), tested)
    done, drawn_s = (
        _on_cassandra(load, strategy, seconds)
        if target == CASSANDRA
        else _in_simulator(load, strategy, workers)
    )
    if json:
        print_json(benchmark_json(done))
    else:
        _print(done)
    write_datastore_page(report, done, drawn_s)
    say(f"page: {escape(str(report))}")
    return 0


def _in_simulator(
    load: DatastoreLoad, strategies: list[str] | None, workers: int | None
) -> tuple[Benchmark, tuple[float, float]]:
    bench = SimulatedBench(load=load, workers=workers)
    chosen = [name for name in STRATEGIES if not strategies or name in strategies]
    return run_benchmark(bench, chosen, say=lambda text: say(escape(text))), bench.drawn_s


def _on_cassandra(
    load: DatastoreLoad, strategies: list[str] | None, seconds: str | None
) -> tuple[Benchmark, tuple[float, float]]:
    from ebbflow.papers.pascal.datastore.on_cassandra import DEFAULT_STRATEGIES, CassandraBench

    chosen = [name for name in STRATEGIES if name in (strategies or DEFAULT_STRATEGIES)]
    say("starting three Cassandra nodes on this machine; each answers a limited number of requests/s")
    bench = CassandraBench(load=load)
    if seconds is not None:
        bench.seconds = parse_seconds(seconds)
    with bench:
        return run_benchmark(bench, chosen, say=lambda text: say(escape(text))), bench.drawn_s


def _print(done: Benchmark) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    results = done.results
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("strategy", no_wrap=True)
    for name, _ in RESULT_COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for result in results:
        table.add_row(escape(result.strategy), *result_cells(result))
    console.print(table)
    if results and results[0].actions:
        actions = Table(box=None, pad_edge=False, header_style="dim", title=f"Table 5: {results[0].strategy}")
        for name in ("action", "TP", "RP", "DP", "duration", "Δ"):
            actions.add_column(name, justify="right", no_wrap=True)
        for action in results[0].actions:
            actions.add_row(*action_cells(action))
        console.print(actions)
    for note in dict.fromkeys(note for result in results for note in result.notes):
        errors.print(escape(note), style="dim")
    say(escape(headline(results)))
