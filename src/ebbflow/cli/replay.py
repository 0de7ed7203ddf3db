"""``ebbflow replay``: simulate a recorded run under other strategies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ebbflow.cli.comparison import (
    check_workers,
    compare,
    print_board,
    print_files,
    raise_failures,
)
from ebbflow.cli.options import Seed
from ebbflow.cli.output import Json, check_writable, errors, print_json
from ebbflow.cli.simulation import Policies, Strategies, Workers, choose, takes_simulated_configuration
from ebbflow.core.duration import format_duration, parse_duration_s
from ebbflow.core.ports import DEFAULT_LEAD_TIME_S
from ebbflow.core.slo import DEFAULT_SLO
from ebbflow.options import Configuration
from ebbflow.report.board import sweep_board, write_board
from ebbflow.report.wording import comparison, seconds, share, whole
from ebbflow.runs.leaderboard import rank_strategies
from ebbflow.runs.policy_trial import check_operators
from ebbflow.runs.replay.plan import (
    RECORDED,
    Fidelity,
    Plan,
    Settings,
    fidelity_of,
    kept_up,
    plan_of,
    replay_case,
)
from ebbflow.runs.replay.readers import format_utc, read_recording
from ebbflow.runs.sweep import Sweep, SweepResult

_RECORD = "as recorded, else "


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("replay")(replay_command)


@takes_simulated_configuration(
    settable=("strategy", "policy"),
    defaults={
        "executors": f"{_RECORD}1 up to the recorded maximum",
        "slo": f"{_RECORD}{DEFAULT_SLO}",
        "cycle": format_duration(Settings.cycle_s),
    },
)
def replay_command(
    recording: Annotated[
        Path,
        typer.Argument(
            help="Spark query progress, one JSON per line (plain or .gz), a Spark event log, or a store of Ebbflow."
        ),
    ],
    strategy: Strategies = None,
    policy: Policies = None,
    *,
    configured: Configuration,
    executors_then: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of executors in the recorded run, if the recording does not contain it."
        ),
    ] = None,
    slots_per_node: Annotated[
        int | None,
        typer.Option(min=1, help="Tasks that an executor runs at once.", show_default=f"{_RECORD}1"),
    ] = None,
    tasks: Annotated[
        int | None,
        typer.Option(min=1, help="Tasks per batch (partitions).", show_default=f"{_RECORD}3 per slot"),
    ] = None,
    trigger: Annotated[
        str | None,
        typer.Option(help="Trigger interval.", show_default=f"{_RECORD}back to back", metavar="DURATION"),
    ] = None,
    lead_time: Annotated[
        str | None,
        typer.Option(
            help="Time from requesting a node to its first work.",
            show_default=f"{_RECORD}{format_duration(DEFAULT_LEAD_TIME_S)}",
            metavar="DURATION",
        ),
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="Query to replay.", show_default="the one with the most rows")
    ] = None,
    seed: Seed = 1,
    workers: Workers = None,
    report: Annotated[Path | None, typer.Option(help="Write a page with charts to this file.")] = None,
    json: Json = False,
) -> None:
    """Simulate a recorded run under other strategies.

    Load, trigger interval and costs come from the recording; what it lacks is assumed and listed. The recorded run is
    scored and ranked with the others.
    """
    chosen = choose(configured, option=strategy, files=policy)
    chosen.check()
    names, policies = chosen.names, chosen.policies
    given = {key: configured[key] for key in ("slo", "executors", "cycle") if configured.given(key)}
    settings = Settings(
        slo=given.get("slo"),
        limits=given.get("executors"),
        cycle_s=given.get("cycle", Settings.cycle_s),
        nodes_then=executors_then,
        slots_per_node=slots_per_node,
        tasks=tasks,
        trigger_s=None if trigger is None else parse_duration_s(trigger),
        lead_time_s=None if lead_time is None else parse_duration_s(lead_time),
        seed=seed,
    )
    check_writable(report)
    check_workers(workers)
    plan = plan_of(read_recording(recording, query), settings)
    for each in policies.values():
        check_operators(each, plan.scenario)
    fidelity = fidelity_of(plan)
    case = replay_case(plan, drawn=report is not None)
    done = compare([case], names, policies=policies, workers=workers, guards=configured.make_guards)
    facts, doubts = _facts(plan, fidelity), _doubts(plan, fidelity)
    sentences = _summary(done)
    if report is not None:
        write_board(
            report,
            sweep_board(
                done, [case], title=f"Ebbflow replay: {plan.recording.query}", facts=_page_facts(plan),
                notes=[*sentences, *facts, *(f"Note: {doubt}." for doubt in doubts)],
                load_text=lambda one: str(one.scenario.load),
            ),
        )  # fmt: skip
    doubts += _infeasible(plan, done)  # the page has its own note on this
    if json:
        print_json(_document(plan, fidelity, doubts, done, sentences))
    else:
        for fact in facts:
            _print_line(fact)
        _print_line("")
        print_board(rank_strategies(done, quantile=plan.scenario.slo.quantile), many=False)
        typer.echo("\n" + "\n".join(sentences))
        for doubt in doubts:
            _print_line(f"Note: {doubt}", style="yellow")
        print_files(report)
    raise_failures(done, len(case.run_names(names)))


def _summary(done: Sweep) -> list[str]:
    """One sentence for each strategy, compared with the recorded run."""
    recorded = next((result for result in done.results if result.strategy == RECORDED), None)
    if recorded is None:
        return []
    return [_compared(result, recorded) for result in done.results if result is not recorded]


def _compared(result: SweepResult, recorded: SweepResult) -> str:
    name, mine, theirs = result.strategy, result.scores.to_json(), recorded.scores.to_json()
    text = comparison(name, mine, "you held", theirs)
    if text:
        return text.replace(" used ", " would have used ", 1).replace(
            " were late, against ", " late, against your ", 1
        )
    late, their_late = share(mine["violation"]), share(theirs["violation"])
    held = whole(mine["node_seconds"])
    return (
        f"{name} would have used {held} executor-seconds; {late} of its rows late, against your {their_late}."
    )


def _document(
    plan: Plan, fidelity: Fidelity, doubts: list[str], done: Sweep, sentences: list[str]
) -> dict[str, Any]:
    recording = plan.recording
    return {
        "file": recording.file,
        "form": recording.form,
        "query": recording.query,
        "other_queries": list(recording.other_queries),
        "from": format_utc(plan.flow.origin_s),
        "seconds": plan.flow.end_s,
        "batches": len(recording.batches_with_rows),
        "starts": recording.starts,
        "slo": str(plan.scenario.slo),
        "assumptions": [
            {"name": each.name, "value": each.value, "source": each.source} for each in plan.assumptions
        ],
        "fit": plan.fit.to_json(),
        "fidelity": fidelity.to_json(),
        "kept_up": kept_up(plan),
        "warnings": doubts,
        "results": [{"strategy": result.strategy, **result.scores.to_json()} for result in done.results],
        "summary": sentences,
    }


def _doubts(plan: Plan, fidelity: Fidelity) -> list[str]:
    return [*plan.warnings, *([fidelity.doubt] if fidelity.doubt else [])]


def _infeasible(plan: Plan, done: Sweep) -> list[str]:
    if any(result.oracle_feasible is False for result in done.results):
        return [f"no schedule within {plan.scenario.limits} nodes keeps the SLO on this load"]
    return []


def _page_facts(plan: Plan) -> list[str]:
    """The facts at the top of the page."""
    scenario = plan.scenario
    return [
        f"query {plan.recording.query}",
        plan.recording.form,
        f"from {format_utc(plan.flow.origin_s)}",
        f"{format_duration(plan.flow.end_s)} long",
        f"nodes {scenario.limits}",
        str(scenario.slo),
        f"lead time {format_duration(scenario.nodes.lead_time_s)}",
        f"seed {scenario.seed}",
    ]


def _facts(plan: Plan, fidelity: Fidelity) -> list[str]:
    fit, recording = plan.fit, plan.recording
    facts = [
        f"{recording.query}: {len(recording.batches_with_rows)} batches in {format_duration(plan.flow.end_s)} "
        f"from {format_utc(plan.flow.origin_s)} ({recording.form})",
        f"The model explains half of your batches within {share(fit.median_error)} "
        f"and 90 % within {share(fit.wide_error)}: "
        f"{format_duration(fit.driver_s)} per batch, {1000 * fit.per_row_s:.3g} ms per row, {fit.tasks} tasks",
        f"Simulated with the recorded nodes: batches take {seconds(fidelity.batch_mean_s[1])} on average (recorded "
        f"{seconds(fidelity.batch_mean_s[0])}), row latency p95 is {seconds(fidelity.latency_p95_s[1])} (recorded "
        f"{seconds(fidelity.latency_p95_s[0])})",
        "Assumptions: " + "; ".join(str(each) for each in plan.assumptions),
    ]
    late = kept_up(plan)["batches_longer_than_trigger"]
    if late is not None:
        facts.insert(1, f"{share(late)} of the batches took longer than their trigger interval")
    if recording.other_queries:
        facts.append(f"Other queries in the file, not replayed: {', '.join(recording.other_queries)}")
    return facts


def _print_line(text: str, style: str = "") -> None:
    errors.print(text, style=style, markup=False, soft_wrap=True)
