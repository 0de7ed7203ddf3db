"""``ebbflow simulate``: run strategies on a load in the simulator, without a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
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
)
from ebbflow.cli.options import SeedOfScenario
from ebbflow.cli.output import Json, check_writable, errors, print_json
from ebbflow.cli.simulation import (
    Load,
    Parquet,
    Policies,
    ScenarioFile,
    Seconds,
    Strategies,
    Workers,
    choose,
    profiles_in_simulation,
    simulated_spec,
    takes_description,
    takes_simulated_configuration,
)
from ebbflow.core.clock import ManualClock
from ebbflow.core.duration import format_duration
from ebbflow.errors import InputError
from ebbflow.monitoring.store import Store
from ebbflow.options import Configuration
from ebbflow.report.board import scenario_notes, sweep_board, write_board
from ebbflow.report.page import SIMULATED, write_run_page
from ebbflow.report.wording import share, times, whole
from ebbflow.runs.leaderboard import LeaderboardRow, rank_strategies
from ebbflow.runs.policy_trial import check_operators
from ebbflow.runs.results_file import check_results_path, write_results
from ebbflow.runs.spec import Spec
from ebbflow.runs.stored_run import NOTES, TITLE, simulated_run
from ebbflow.runs.sweep import Sweep, SweepCase, SweepResult
from ebbflow.targets.simulator import Scenario


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate")(simulate)


@takes_simulated_configuration("profiles", settable=("strategy", "policy"))
@takes_description
def simulate(
    scenario: ScenarioFile = None,
    load: Load = None,
    strategy: Strategies = None,
    policy: Policies = None,
    *,
    configured: Configuration,
    given: dict[str, Any],
    seed: SeedOfScenario = None,
    seconds: Seconds = None,
    workers: Workers = None,
    report: Annotated[Path | None, typer.Option(help="Write a page with charts to this file.")] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            help="Write the readings, batches and ledger of the run to this SQLite file, for `ebbflow report`. "
            "One strategy only."
        ),
    ] = None,
    parquet: Parquet = None,
    json: Json = False,
) -> None:
    """Try strategies on a load without a cluster: same loop, same strategies, simulated pipeline.

    Each run is scored, also against the cheapest schedule with hindsight. A load is written like constant(50),
    sine(...), trace(file.csv.gz, peak=2000, speed=60), or as a sum of them.
    """
    spec = simulated_spec(configured, given | {"load": load, "seed": seed, "seconds": seconds}, scenario)
    chosen = choose(configured, option=strategy, in_scenario=spec.strategy, scenario=scenario, files=policy)
    made, names = spec.scenario(), chosen.names
    for each in chosen.policies.values():
        check_operators(each, made)
    estimators = profiles_in_simulation(configured, chosen.strategies, made)
    chosen.check(estimators)
    check_writable(report)
    _check_store(store, names)
    check_workers(workers)
    target = None if parquet is None else check_results_path(parquet)
    case = SweepCase(load=str(made.load), scenario=made, drawn=report is not None, store=store)
    done = compare(
        [case],
        names,
        policies=chosen.policies,
        estimators=estimators,
        workers=workers,
        guards=configured.make_guards,
        keep_runs=len(names) == 1,
    )
    if store is not None and done.results:
        with closing(Store(store, ManualClock(made.duration_s))) as opened:
            opened.set_terms({TITLE: _title(spec, made), NOTES: "\n".join(scenario_notes(made))})
    if target is not None:
        write_results(target, done, [case], spec, chosen.policies)
    if json:
        print_json([_document(result, spec) for result in done.results])
    else:
        _tell(done, made)
    if report is not None and len(names) > 1:
        write_board(
            report,
            sweep_board(
                done, [case], title=f"Ebbflow simulation: {spec.pipeline}", facts=_facts(spec, made),
                notes=[SIMULATED],
                load_text=lambda one: one.load,
            ),
        )  # fmt: skip
    elif report is not None and done.results:
        result = done.results[0]
        stored = simulated_run(result.drawing, oracle_node_seconds=result.oracle_node_seconds)
        write_run_page(report, replace(stored, title=_title(spec, made), notes=scenario_notes(made)))
    if not json:
        print_files(report, target)
    raise_failures(done, len(names))


def _check_store(store: Path | None, strategies: Sequence[str]) -> None:
    if store is None:
        return
    if len(strategies) > 1:
        raise InputError(
            f"--store keeps the run of one strategy, not of {len(strategies)}; name one with --strategy"
        )
    check_writable(store)
    if store.exists():
        raise InputError(f"{store} exists; simulated time starts at 0, so --store needs a new file")


def _document(result: SweepResult, spec: Spec) -> dict[str, Any]:
    return {
        "strategy": result.strategy,
        "pipeline": spec.pipeline,
        "engine": spec.engine,
        "load": result.load,
        "seed": result.seed,
        **result.scores.to_json(),
        "slo_kept": result.slo_kept,
        "oracle_node_seconds": result.oracle_node_seconds,
        "oracle_feasible": result.oracle_feasible,
    }


def _title(spec: Spec, made: Scenario) -> str:
    return f"Ebbflow simulation: {spec.pipeline} on {made.load}"


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


def _tell(done: Sweep, made: Scenario) -> None:
    standings = rank_strategies(done, quantile=made.slo.quantile)
    print_board(standings, many=False)
    if done.results:
        errors.print(f"\n{_summary(standings, made, done)}", soft_wrap=True)


def _summary(standings: list[LeaderboardRow], made: Scenario, done: Sweep) -> str:
    first = standings[0]
    scores = first.ranked_means.scores
    late, cost = share(scores["violation"]), f"{whole(scores['node_seconds'])} node-seconds"
    if scores["cost_ratio"] is not None:
        cost = f"{times(scores['cost_ratio'])} the cheapest schedule with hindsight"
    verdict = "kept" if first.ranked_means.slo_kept else "missed"
    text = (
        f"[bold]{escape(first.strategy)} {verdict} {made.slo}[/bold] over {format_duration(made.duration_s)}: "
        f"{late} of the rows late, {cost}"
    )
    if done.results[0].oracle_feasible is False:
        text += f"; no schedule within {made.limits} nodes keeps it on this load"
    return text
