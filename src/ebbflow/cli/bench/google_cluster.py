"""``ebbflow bench google-cluster``: the static and the dynamic scaling test of the Rules thesis (§5.3) on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ebbflow.cli.options import Seed
from ebbflow.cli.output import Json, check_writable, print_json, say, standard_output_to_error
from ebbflow.core.duration import format_duration
from ebbflow.core.folders import scratch_folder
from ebbflow.core.plural import counted
from ebbflow.errors import InputError, TooFewEventsError
from ebbflow.papers.rules.google_cluster.dynamic import DynamicResult, run_dynamic
from ebbflow.papers.rules.google_cluster.folder import TraceFolder
from ebbflow.papers.rules.google_cluster.generator import MAX_DAYS, ClusterTrace, TraceSpec
from ebbflow.papers.rules.google_cluster.job import MAX_PARTS, MIN_BATCHES, make_trace_in_a_process
from ebbflow.papers.rules.google_cluster.page import (
    DynamicPicture,
    StaticPoint,
    write_dynamic_page,
    write_static_page,
)
from ebbflow.papers.rules.google_cluster.rates import EVENTS, MACHINES, MEAN_RATE_PER_S, PARTS
from ebbflow.papers.rules.google_cluster.static import (
    INSTANCES,
    SIMULATED,
    StaticResult,
    published_row,
    run_static,
)
from ebbflow.targets.spark.launch.preflight import check_java

app = typer.Typer(
    help="Scale the Google cluster query (Rules thesis, §5.3) statically, or by its policy.",
    no_args_is_help=True,
)

_MIN_SPAN_S = 6 * 3600.0
"""Span of a generated trace, however little of it is replayed. Long-running tasks fall from 130,000 to 40,000 over any
span; in less than two hours, their ends alone exceed the published rate."""

Input = Annotated[
    Path | None,
    typer.Option(help="Folder of task events.", show_default="a generated trace", metavar="DIR"),
]
Report = Annotated[Path | None, typer.Option(help="Write a page with charts to this file.")]


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="google-cluster")


@app.command("static")
def static(
    events: Annotated[int, typer.Option(help="Events of the generated trace.")] = 5_000_000,
    input: Input = None,
    instances: Annotated[
        str, typer.Option(help="Instances of the machine operator, separated by commas.", metavar="N,N,…")
    ] = ",".join(str(n) for n in INSTANCES),
    seed: Seed = 0,
    report: Report = None,
    json: Json = False,
) -> int:
    """Process the trace as fast as possible with 1, 2, 4 and 8 instances: time, speed-up, efficiency, throughput."""
    check_writable(report)
    sizes = _sizes(instances)
    with _trace(input, lambda: _with_small_parts(TraceSpec(events=events, seed=seed))) as folder:
        result = run_static(folder, sizes, on_run=lambda n: say(f"n = {n}: running on {counted(n, 'slot')}"))
    if report is not None:
        write_static_page(report, [_point(result, i) for i in range(len(result.rows))], result.note)
    if json:
        print_json(result.to_json())
    else:
        Console(highlight=False).print(_table(result))
        say(result.note)
        if report is not None:
            say(f"charts: {escape(str(report))}")
    return 0


@app.command("dynamic")
def dynamic(
    minutes: Annotated[float, typer.Option(help="Length of the run.")] = 5.0,
    speed: Annotated[float, typer.Option(help="Trace seconds per second.")] = 1000.0,
    input: Input = None,
    seed: Seed = 0,
    report: Report = None,
    json: Json = False,
) -> int:
    """Replay the trace faster than real time and scale the machine operator by rules.

    The policy is that of the Rules thesis (Source Code 5.9).
    """
    check_writable(report)
    if not 0.5 <= minutes <= 24 * 60:
        raise InputError(f"invalid --minutes {minutes:g}; use 0.5 to 1440")
    if not 0 < speed <= 100_000:
        raise InputError(f"invalid --speed {speed:g}; use 1 for real time, up to 100000")
    with _trace(input, lambda: _spec_for_replay(minutes, speed, seed)) as folder, standard_output_to_error():
        result = run_dynamic(folder, lasts_s=minutes * 60, speed=speed, say=say)
    if report is not None:
        write_dynamic_page(report, _picture(result))
    if json:
        print_json(result.to_json())
    else:
        _show(result)
        if report is not None:
            say(f"charts: {escape(str(report))}")
    return 0


@contextmanager
def _trace(input: Path | None, spec_of: Callable[[], TraceSpec]) -> Iterator[Path]:
    """Yield the given folder, or a generated trace that is removed afterwards."""
    if input is not None:
        if not TraceFolder(input).has_events:
            raise InputError(f"{input} has no events: no row of its files is a valid task event")
        check_java()
        yield input
        return
    spec = spec_of()
    try:
        ClusterTrace(spec).check()
    except TooFewEventsError as few:
        raise InputError(few.events_only) from None  # these commands have no --machines
    check_java()
    with scratch_folder("trace") as folder:
        say(f"generating a trace of {spec.events:,} events")
        make_trace_in_a_process(spec, Path(folder))
        yield Path(folder)


def _spec_for_replay(minutes: float, speed: float, seed: int) -> TraceSpec:
    """Return a trace that is long enough for a replay."""
    span_s = max(_MIN_SPAN_S, (minutes * 60 + 120) * speed)  # and the start of the run
    if span_s > MAX_DAYS * 86_400:
        raise InputError(
            f"--minutes {minutes:g} at --speed {speed:g} would replay {span_s / 86_400:.0f} days, and a trace has "
            f"at most {MAX_DAYS}; reduce one of them, or name a folder with --input"
        )
    return TraceSpec(events=round(MEAN_RATE_PER_S * span_s) + 16 * MACHINES, span_s=span_s, seed=seed)


def _with_small_parts(spec: TraceSpec) -> TraceSpec:
    """Return a trace with enough parts for the batches of the static test and for instances that read in parallel."""
    usual = round(spec.events * PARTS / EVENTS)
    return replace(spec, parts=min(spec.minutes, max(usual, (MIN_BATCHES + 5) * MAX_PARTS)))


def _sizes(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not words or not all(word.isdecimal() and 1 <= int(word) <= 48 for word in words):
        raise InputError(f"invalid --instances {text}; use whole numbers from 1 to 48, such as 1,2,4,8")
    return [int(word) for word in words]


def _table(result: StaticResult) -> Table:
    table = Table(
        "n", "", "time", "speed-up", "efficiency", "median/s", "p75", "p90", "p95", "thesis: min", "S", "E", "median/s",
        box=None, pad_edge=False,
    )  # fmt: skip
    for row in result.rows:
        published = published_row(row.instances)
        rates = [f"{rate:,.0f}" for rate in row.rates_per_s]
        table.add_row(
            str(row.instances), row.source, f"{row.seconds:.1f} s", f"{row.speed_up:.2f}", f"{row.efficiency:.2f}",
            *rates, *(str(published[name] or "–") for name in ("minutes", "speed_up", "efficiency")),
            f"{published['throughput_per_s'][0]:,}" if published["throughput_per_s"] else "–",
        )  # fmt: skip
    return table


def _point(result: StaticResult, index: int) -> StaticPoint:
    row = result.rows[index]
    return StaticPoint(
        instances=row.instances,
        measured=row.source != SIMULATED,
        seconds=row.seconds,
        speed_up=row.speed_up,
        published_speed_up=published_row(row.instances)["speed_up"],
        rates_per_s=row.rates_per_s,
    )


def _picture(result: DynamicResult) -> DynamicPicture:
    return DynamicPicture(
        speed=result.speed,
        cpu=result.cpu,
        sizes=result.sizes,
        rates=result.rates,
        changes=[(c.time_s, f"{c.before}→{c.after}: {c.rule}") for c in result.resizes],
        stops=result.stops,
        cluster=result.cluster,
    )


def _show(result: DynamicResult) -> None:
    console = Console(highlight=False)
    for resize in result.resizes:
        console.print(
            f"{resize.time_s:6.0f} s  machine {resize.before}→{resize.after}  {escape(resize.rule)}"
        )
    reports = len(result.cluster.get("trace_s", ()))
    console.print(
        f"{result.events:,} events, {counted(len(result.resizes), 'resize')} "
        f"(stopped for {format_duration(result.stopped_s)}), {counted(reports, 'report')}"
    )
