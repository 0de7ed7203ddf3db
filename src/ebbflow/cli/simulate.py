"""``ebbflow simulate``: any strategy on any load, without a cluster, in about a second."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ebbflow.bench.leaderboard.ranking import Standing, leaderboard
from ebbflow.bench.leaderboard.sweep import Result, Scene, Sweep
from ebbflow.bench.spec import Spec, amended, read_spec
from ebbflow.cli import scenario_options as options
from ebbflow.cli.comparison import board, check_workers, compare, end, print_board
from ebbflow.cli.output import Json, check_writable, errors, print_json
from ebbflow.core.duration import format_duration
from ebbflow.report.board import write_board
from ebbflow.report.numbers import share, times
from ebbflow.targets.simulator import Scenario


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate")(simulate)


def simulate(
    scenario: Annotated[
        Path | None, typer.Argument(help="A TOML file with the same names; options here come first.")
    ] = None,
    load: Annotated[
        str | None, typer.Option(help="What arrives, like 'sine(base=100, peak=900, period=1h)'.")
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(help="Who decides; several with commas.", show_default="capacity", metavar="A,B,…"),
    ] = None,
    pipeline: options.Pipeline = None,
    engine: options.Engine = None,
    nodes: options.Nodes = None,
    slo: options.Objective = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same numbers.", show_default="1")] = None,
    seconds: Annotated[
        str | None,
        typer.Option(help="How long.", show_default="as long as the load", metavar="DURATION"),
    ] = None,
    cycle: options.Cycle = None,
    lead_time: options.LeadTime = None,
    lead_noise: options.LeadNoise = None,
    trigger: options.Trigger = None,
    slots: options.Slots = None,
    noise: options.Noise = None,
    initial_nodes: options.InitialNodes = None,
    workers: options.Workers = None,
    report: Annotated[Path | None, typer.Option(help="Write a page with pictures there.")] = None,
    json: Json = False,
) -> None:
    """Try strategies on a load without a cluster: same loop, same strategies, simulated pipeline.

    Each run is scored, also against the cheapest schedule with hindsight. Loads are
    written like constant(50), sine(...), trace(file.csv.gz, peak=2000, speed=60), and sums of them.
    """
    spec = amended(
        Spec() if scenario is None else read_spec(scenario),
        {
            "load": load, "strategy": strategy, "pipeline": pipeline, "engine": engine, "nodes": nodes,
            "slo": slo, "seed": seed, "seconds": seconds, "cycle": cycle, "lead-time": lead_time,
            "lead-noise": lead_noise, "trigger": trigger, "slots-per-node": slots, "noise": noise,
            "initial-nodes": initial_nodes,
        },
    )  # fmt: skip
    made, names = spec.scenario(), spec.strategies
    check_writable(report)
    check_workers(workers)
    scene = Scene(load=str(made.load), scenario=made, drawn=report is not None)
    done = compare([scene], names, workers=workers)
    end(done, len(names))
    if report is not None:
        write_board(
            report,
            board(
                done, [scene], title=f"Ebbflow simulation: {spec.pipeline}", facts=_facts(spec, made),
                notes=["Simulated, not measured: the same loop and strategies as on Spark, on a model of it."],
                written=lambda one: one.load,
            ),
        )  # fmt: skip
    if json:
        print_json([_document(result, spec) for result in done.results])
    else:
        _tell(done, made, report)


def _document(result: Result, spec: Spec) -> dict[str, Any]:
    return {
        "strategy": result.strategy,
        "pipeline": spec.pipeline,
        "engine": spec.engine,
        "load": result.load,
        "seed": result.seed,
        **result.scores.to_json(),
        "slo_kept": result.kept,
        "oracle_node_seconds": result.oracle_node_seconds,
        "oracle_feasible": result.oracle_feasible,
    }


def _facts(spec: Spec, made: Scenario) -> list[str]:
    return [
        f"pipeline {spec.pipeline}",
        f"{spec.engine} engine",
        f"nodes {made.limits}",
        str(made.slo),
        f"lead time {format_duration(made.nodes.lead_time_s)}",
        f"{format_duration(made.duration_s)} long",
        f"seed {made.seed}",
    ]


def _tell(done: Sweep, made: Scenario, report: Path | None) -> None:
    standings = leaderboard(done, quantile=made.slo.quantile)
    print_board(standings, many=False)
    errors.print(f"\n{_summary(standings, made, done)}", soft_wrap=True)
    if report is not None:
        errors.print(f"Page with pictures and decisions: [bold]{escape(str(report))}[/bold]", soft_wrap=True)


def _summary(standings: list[Standing], made: Scenario, done: Sweep) -> str:
    first = standings[0]
    late, cost = share(first.scores["violation"]), times(first.scores["cost_ratio"])
    verdict = "kept" if first.kept else "missed"
    text = (
        f"[bold]{escape(first.strategy)} {verdict} {made.slo}[/bold] over {format_duration(made.duration_s)}: "
        f"{late} of the rows late, {cost} the cheapest schedule with hindsight"
    )
    if done.results[0].oracle_feasible is False:
        text += f"; no schedule within {made.limits} nodes keeps it on this load"
    return text
