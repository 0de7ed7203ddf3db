"""``ebbflow bench leaderboard``: every strategy on every load, ranked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ebbflow.cli.comparison import (
    check_workers,
    compare,
    print_board,
    print_files,
    raise_failures,
    spread_text,
)
from ebbflow.cli.output import Json, check_writable, errors, print_json, say
from ebbflow.cli.simulation import (
    Parquet,
    Policies,
    ScenarioFile,
    Workers,
    complete_strategies,
    simulated_spec,
    takes_description,
    takes_simulated_configuration,
)
from ebbflow.core.duration import format_duration
from ebbflow.core.plural import counted
from ebbflow.errors import InputError
from ebbflow.options import Configuration
from ebbflow.report.board import Board, headline, sweep_board, write_board
from ebbflow.report.drawing import MOST_RUNS
from ebbflow.runs.leaderboard import COARSE_NOTE, RULE, rank_strategies
from ebbflow.runs.loads import NamedLoad, built_in_loads, check_speed, read_loads, split_loads
from ebbflow.runs.policy_trial import check_operators, read_policies
from ebbflow.runs.results_file import check_results_path, write_results
from ebbflow.runs.spec import Spec, with_values
from ebbflow.runs.sweep import Sweep, SweepCase, SweepInterrupted
from ebbflow.strategies import STRATEGIES
from ebbflow.targets.spark.launch.preflight import check_java, check_master
from ebbflow.workloads import Constant

PEAK_SHARE = 0.75
"""Default peak as a share of the capacity of the maximum number of nodes."""

DEFAULT_SECONDS = "1d"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("leaderboard", epilog=f"Ranking: {RULE}")(leaderboard_command)


@takes_simulated_configuration()
@takes_description
def leaderboard_command(
    scenario: ScenarioFile = None,
    loads: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated trace files, folders, patterns, and loads like 'sine(...)'. From a file, "
            "the busiest section of length --seconds is used.",
            show_default="that of the scenario file, or seven shapes: constant, day, sine, square, sawtooth, stair, "
            "bursts",
            metavar="A,B,…",
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            help="Runs of each strategy on each load, with different random arrivals and task times."
        ),
    ] = 3,
    strategies: Annotated[
        str | None, typer.Option(help="Comma-separated strategies.", show_default="all", metavar="A,B,…")
    ] = None,
    policy: Policies = None,
    *,
    configured: Configuration,
    given: dict[str, Any],
    peak: Annotated[
        float | None,
        typer.Option(
            help="Scale traces and built-in shapes to this peak.",
            show_default="75 % of the capacity of the maximum number of nodes",
            metavar="ROWS/S",
        ),
    ] = None,
    speed: Annotated[float, typer.Option(help="Speed-up of trace files.")] = 1.0,
    seconds: Annotated[
        str | None,
        typer.Option(
            help="Length of a run, unless its load is shorter.",
            show_default=DEFAULT_SECONDS,
            metavar="DURATION",
        ),
    ] = None,
    jitter: Annotated[
        float, typer.Option(help="Relative spread of the arrivals of each second around the load.")
    ] = 0.05,
    workers: Workers = None,
    master: Annotated[
        str | None, typer.Option(help="Run on a Spark cluster: spark://HOST:PORT, yarn, local[*].")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page with every load and run to this file.")
    ] = None,
    parquet: Parquet = None,
    json: Json = False,
) -> None:
    """Rank strategies on loads: strategies × loads × seeds, in parallel.

    Prints one row per strategy with the mean of every score over all its runs. If interrupted, it prints the results so
    far.
    """
    spec = simulated_spec(configured, given | {"seconds": seconds}, scenario)
    if spec.seconds is None:
        spec = with_values(spec, {"seconds": DEFAULT_SECONDS})
    in_file = "" if spec.strategy is None else f"{scenario}, strategy"
    chosen = complete_strategies(
        configured,
        strategies or spec.strategy or STRATEGIES.comparable(clusters=bool(spec.cluster)),
        in_file if strategies is None else "--strategies",
        read_policies(policy or ()),
    )
    chosen.check()
    if seeds < 1:
        raise InputError(f"--seeds is {seeds}; it must be 1 or more")
    if not 0 <= jitter <= 2:
        raise InputError(f"jitter is {jitter:g}; it must be a relative spread from 0 to 2, like 0.05")
    names, policies = chosen.names, chosen.policies
    named_loads = _loads(spec, loads, peak, speed)
    drawn = 0 if report is None else min(seeds, max(1, MOST_RUNS // (len(named_loads) * len(names))))
    cases = _cases(spec, named_loads, seeds, jitter, drawn=drawn)
    for each in policies.values():
        check_operators(each, cases[0].scenario)
    check_writable(report)
    check_workers(workers)
    target = None if parquet is None else check_results_path(parquet)
    if master is not None:
        check_master(master)
        check_java()
    runs = len(cases) * len(names)
    parts = (
        counted(len(names), "strategy", "strategies"),
        counted(len(named_loads), "load"),
        counted(seeds, "seed"),
    )
    size = " × ".join(parts)
    say(f"{size} = {counted(runs, 'run')}" + ("" if master is None else f" on {master}"))
    interrupted: SweepInterrupted | None = None
    try:
        done = compare(
            cases, names, policies=policies, workers=workers, guards=configured.make_guards, master=master
        )
    except SweepInterrupted as stop:
        interrupted, done = stop, stop.sweep
    if target is not None and done.finished:
        write_results(target, done, cases, spec, policies)
    partial = _partial(done, names, runs)
    done = done.comparable(names)
    board = rank_strategies(done, quantile=spec.objective.quantile)
    page = None
    if report is not None and board:
        notes = [*partial, f"Arrivals of each second vary by {100 * jitter:g} %."]
        if drawn < seeds:
            notes.append(
                f"The page contains the runs with seeds 1 to {drawn} of {seeds}; all would make it too large."
            )
        page = _page(done, cases, spec, size=size, notes=notes)
    if json:
        print_json([row.to_json() | {"partial": bool(partial)} for row in board])
    elif board:
        print_board(board, many=True)
        rule = f"{RULE} {COARSE_NOTE}" if board[0].coarse_means else RULE
        errors.print(f"\n[dim]{rule}[/dim]", soft_wrap=True)
        if spread := spread_text(board):
            errors.print(f"[dim]{escape(spread)}[/dim]", soft_wrap=True)
        if page is not None:
            errors.print(f"[bold]{escape(headline(page.rows))}[/bold]", soft_wrap=True)
    if report is not None and page is not None:
        write_board(report, page)
    if board and not json:
        print_files(report, target)
    if interrupted is not None:
        for note in partial:
            say(note)
        raise interrupted
    raise_failures(done, runs)


def _page(done: Sweep, cases: Sequence[SweepCase], spec: Spec, *, size: str, notes: Sequence[str]) -> Board:
    finished = {(run.load, run.seed) for run in done.finished}
    return sweep_board(
        done,
        [case for case in cases if (case.load, case.scenario.seed) in finished],
        title="Ebbflow leaderboard, partial" if done.unfinished else "Ebbflow leaderboard",
        facts=[
            f"pipeline {spec.pipeline}", f"{spec.engine} engine", f"nodes {spec.limits}", str(spec.objective), size,
        ],
        notes=notes,
        load_text=lambda case: f"{case.scenario.load} for {format_duration(case.scenario.duration_s)}",
    )  # fmt: skip


def _partial(done: Sweep, names: Sequence[str], runs: int) -> list[str]:
    """A note on an interrupted sweep."""
    if not done.unfinished:
        return []
    finished, ranked = runs - done.unfinished, done.comparable(names)
    text = f"Partial: interrupted after {finished} of {counted(runs, 'run')}"
    if not finished:
        text += "; no results"
    elif len(ranked.results) < len(done.results):
        text += f"; ranked by the {len(ranked.results)} on loads and seeds that all strategies have finished"
    elif {run.strategy for run in done.finished} < set(names):
        text += "; no load was finished by all strategies, so the ranking compares different loads"
    return [f"{text}."]


def _loads(spec: Spec, texts: str | None, peak: float | None, speed: float) -> list[NamedLoad]:
    """The loads; the default peak is one that the maximum of nodes can process."""
    probe = spec.scenario(Constant(level_per_s=1.0))
    if peak is None:
        peak = PEAK_SHARE * float(probe.mean_speed_rows_per_s(probe.engine)[-1])
    if not (peak > 0 and math.isfinite(peak)):
        raise InputError(f"peak is {peak:g}; it must be a rate above 0 rows/s, like 2000")
    check_speed(speed)
    if texts is None and spec.load is not None:
        return [NamedLoad(name=spec.load, load=spec.parsed_load())]
    if texts is None:
        return built_in_loads(peak)
    return read_loads(split_loads(texts), peak_per_s=peak, speed=speed, seconds=probe.duration_s)


def _cases(spec: Spec, loads: list[NamedLoad], seeds: int, jitter: float, *, drawn: int) -> list[SweepCase]:
    """Every load with every seed; those with the first ``drawn`` seeds are drawn."""
    cases = []
    for load in loads:
        for seed in range(1, seeds + 1):
            jittered = load.with_jitter(jitter, seed)
            seconds = min(spec.duration_s or math.inf, load.load.duration_s)
            own = with_values(spec, {"seed": seed, "seconds": seconds})
            cases.append(SweepCase(load=load.name, scenario=own.scenario(jittered), drawn=seed <= drawn))
    return cases
