"""``ebbflow bench leaderboard``: every strategy on every load, ranked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ebbflow.cli.comparison import check_workers, compare, end, print_board, spread_told, tell_files
from ebbflow.cli.options import Parquet, Policies, ScenarioFile, Workers, takes_shared_options
from ebbflow.cli.output import Json, check_writable, errors, print_json, say
from ebbflow.core.duration import format_duration
from ebbflow.errors import InputError
from ebbflow.report.board import Board, headline, sweep_board, write_board
from ebbflow.report.drawing import MOST_RUNS
from ebbflow.report.wording import counted
from ebbflow.runs.leaderboard import APART, RULE, rank_strategies
from ebbflow.runs.loads import NamedLoad, built_in_loads, check_speed, read_loads, split_loads
from ebbflow.runs.policies import check_operators, read_policies
from ebbflow.runs.results_file import check_results_path, write_results
from ebbflow.runs.spec import Spec, read_spec, strategy_names, with_values
from ebbflow.runs.sweep import Sweep, SweepCase, SweepInterrupted
from ebbflow.strategies import STRATEGIES
from ebbflow.targets.spark.launch.preflight import check_java, check_master
from ebbflow.workloads import Constant

PEAK_SHARE = 0.75
"""Peaks are at this share of what the most nodes can do: high enough to need them, low enough to be served."""

USUAL_SECONDS = "1d"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("leaderboard", epilog=f"The ranking. {RULE}")(leaderboard_command)


@takes_shared_options
def leaderboard_command(
    scenario: ScenarioFile = None,
    loads: Annotated[
        str | None,
        typer.Option(
            help="Trace files, folders or patterns of them, and loads like 'sine(...)', with commas. Of a file, "
            "its busiest stretch of --seconds is played.",
            show_default="that of the scenario file, or seven shapes: constant, day, sine, square, sawtooth, stair, "
            "bursts",
            metavar="A,B,…",
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option(help="Runs of each strategy on each load; each draws arrivals and task times anew.")
    ] = 3,
    strategies: Annotated[
        str | None, typer.Option(help="Which strategies.", show_default="all", metavar="A,B,…")
    ] = None,
    policy: Policies = None,
    *,
    given: dict[str, Any],
    peak: Annotated[
        float | None,
        typer.Option(
            help="Stretch traces and built-in shapes to this peak.",
            show_default="three quarters of what the most nodes can do",
            metavar="ROWS/S",
        ),
    ] = None,
    speed: Annotated[float, typer.Option(help="Seconds of a trace file that pass in one second.")] = 1.0,
    seconds: Annotated[
        str | None,
        typer.Option(
            help="How long a run is, unless its load ends sooner.",
            show_default=USUAL_SECONDS,
            metavar="DURATION",
        ),
    ] = None,
    jitter: Annotated[
        float, typer.Option(help="Spread of the arrivals of each second around the load, as a share.")
    ] = 0.05,
    workers: Workers = None,
    master: Annotated[
        str | None, typer.Option(help="Work on a Spark cluster instead: spark://HOST:PORT, yarn, local[*].")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a page with every load and run there.")] = None,
    parquet: Parquet = None,
    json: Json = False,
) -> None:
    """Rank strategies on loads: strategies × loads × seeds, in parallel.

    Prints one row per strategy with the mean of every score over all its runs. Who interrupts gets what is done so far.
    """
    spec = with_values(Spec() if scenario is None else read_spec(scenario), given | {"seconds": seconds})
    if spec.seconds is None:
        spec = with_values(spec, {"seconds": USUAL_SECONDS})
    names = _names(spec, strategies)
    if seeds < 1:
        raise InputError(f"--seeds {seeds} leaves nothing to compare; the fewest is 1")
    if not 0 <= jitter <= 2:
        raise InputError(f"jitter is {jitter:g}; it must be a spread from 0 to 2, like 0.05")
    policies = read_policies(policy or ())
    names += policies
    found = _loads(spec, loads, peak, speed)
    drawn = 0 if report is None else min(seeds, max(1, MOST_RUNS // (len(found) * len(names))))
    scenes = _scenes(spec, found, seeds, jitter, drawn=drawn)
    for each in policies.values():
        check_operators(each, scenes[0].scenario)
    check_writable(report)
    check_workers(workers)
    target = None if parquet is None else check_results_path(parquet)
    if master is not None:
        check_master(master)
        check_java()
    runs = len(scenes) * len(names)
    parts = (
        counted(len(names), "strategy", "strategies"),
        counted(len(found), "load"),
        counted(seeds, "seed"),
    )
    size = " × ".join(parts)
    say(f"{size} = {counted(runs, 'run')}" + ("" if master is None else f" on {master}"))
    interrupted: SweepInterrupted | None = None
    try:
        done = compare(scenes, names, policies=policies, workers=workers, master=master)
    except SweepInterrupted as stop:
        interrupted, done = stop, stop.done
    if target is not None and done.over:
        write_results(target, done, scenes, spec, policies)
    partial = _partial(done, names, runs)
    done = done.comparable(names)
    standings = rank_strategies(done, quantile=spec.objective.quantile)
    page = None
    if report is not None and standings:
        notes = [*partial, f"Arrivals jitter by {100 * jitter:g} % each second."]
        if drawn < seeds:
            notes.append(
                f"The runs with seeds 1 to {drawn} of {seeds} are in the page; it could not hold more."
            )
        page = _page(done, scenes, spec, size=size, notes=notes)
    if json:
        print_json([row.to_json() | {"partial": bool(partial)} for row in standings])
    elif standings:
        print_board(standings, many=True)
        told = f"{RULE} {APART}" if standings[0].apart else RULE
        errors.print(f"\n[dim]{told}[/dim]", soft_wrap=True)
        if spread := spread_told(standings):
            errors.print(f"[dim]{escape(spread)}[/dim]", soft_wrap=True)
        if page is not None:
            errors.print(f"[bold]{escape(headline(page.rows))}[/bold]", soft_wrap=True)
    if report is not None and page is not None:
        write_board(report, page)
    if standings and not json:
        tell_files(report, target)
    if interrupted is not None:
        for note in partial:
            say(note)
        raise interrupted
    end(done, runs)


def _page(done: Sweep, scenes: Sequence[SweepCase], spec: Spec, *, size: str, notes: Sequence[str]) -> Board:
    had = {(run.load, run.seed) for run in done.over}
    return sweep_board(
        done,
        [scene for scene in scenes if (scene.load, scene.scenario.seed) in had],
        title="Ebbflow leaderboard, partial" if done.undone else "Ebbflow leaderboard",
        facts=[
            f"pipeline {spec.pipeline}", f"{spec.engine} engine", f"nodes {spec.limits}", str(spec.objective), size,
        ],
        notes=notes,
        load_text=lambda scene: f"{scene.scenario.load} for {format_duration(scene.scenario.duration_s)}",
    )  # fmt: skip


def _partial(done: Sweep, names: Sequence[str], runs: int) -> list[str]:
    """What a reader must know of a sweep that was interrupted."""
    if not done.undone:
        return []
    over, ranked = runs - done.undone, done.comparable(names)
    text = f"Partial: interrupted after {over} of {counted(runs, 'run')}"
    if not over:
        text += "; there is nothing to show"
    elif len(ranked.results) < len(done.results):
        text += f"; ranked by the {len(ranked.results)} on loads and seeds that every strategy has had"
    elif {run.strategy for run in done.over} < set(names):
        text += "; no load was had by every strategy, so the rank is of unlike things"
    return [f"{text}."]


def _names(spec: Spec, strategies: str | None) -> list[str]:
    """The strategies of the command line, else of the scenario file, else all."""
    if strategies is not None:
        return strategy_names(strategies)
    return list(STRATEGIES) if spec.strategy is None else spec.strategies


def _loads(spec: Spec, texts: str | None, peak: float | None, speed: float) -> list[NamedLoad]:
    """The loads, stretched to a peak that the most nodes can serve if none is told."""
    probe = spec.scenario(Constant(level_per_s=1.0))
    if peak is None:
        peak = PEAK_SHARE * float(probe.mean_speed_rows_per_s(probe.engine)[-1])
    if not (peak > 0 and math.isfinite(peak)):
        raise InputError(f"peak is {peak:g}; it must be rows per second above 0, like 2000")
    check_speed(speed)
    if texts is None and spec.load is not None:
        return [NamedLoad(name=spec.load, load=spec.written_load())]
    if texts is None:
        return built_in_loads(peak)
    return read_loads(split_loads(texts), peak_per_s=peak, speed=speed, seconds=probe.duration_s)


def _scenes(spec: Spec, loads: list[NamedLoad], seeds: int, jitter: float, *, drawn: int) -> list[SweepCase]:
    """Every load with every seed; those with the first ``drawn`` seeds can be looked at."""
    scenes = []
    for load in loads:
        for seed in range(1, seeds + 1):
            made = load.with_jitter(jitter, seed)
            lasts_s = min(spec.duration_s or math.inf, load.load.duration_s)
            own = with_values(spec, {"seed": seed, "seconds": lasts_s})
            scenes.append(SweepCase(load=load.name, scenario=own.scenario(made), drawn=seed <= drawn))
    return scenes
