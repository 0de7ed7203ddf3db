"""``ebbflow replay``: a recorded run, played again under other strategies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ebbflow.cli import options
from ebbflow.cli.comparison import check_workers, compare, end, print_board, tell_files
from ebbflow.cli.output import Json, check_writable, errors, print_json
from ebbflow.core.duration import format_duration, parse_duration_s
from ebbflow.core.limits import Limits
from ebbflow.core.ports import DEFAULT_LEAD_TIME_S
from ebbflow.core.slo import DEFAULT_SLO, Slo
from ebbflow.report.board import sweep_board, write_board
from ebbflow.report.wording import comparison, seconds, share, whole
from ebbflow.runs.leaderboard import rank_strategies
from ebbflow.runs.policies import check_operators, read_policies
from ebbflow.runs.replay.plan import (
    RECORDED,
    Fidelity,
    Plan,
    Settings,
    fidelity_of,
    kept_up,
    plan_of,
    read_recording,
    replay_case,
)
from ebbflow.runs.replay.readers import format_utc
from ebbflow.runs.spec import strategy_names
from ebbflow.runs.sweep import Result, Sweep

_RECORD = "what the record tells; else "


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("replay")(replay_command)


def replay_command(
    recording: Annotated[
        Path,
        typer.Argument(
            help="Query progress of Spark, one JSON a line (plain or .gz); or a store of Ebbflow."
        ),
    ],
    strategy: Annotated[
        str, typer.Option(help="Who decides; several with commas.", metavar="A,B,…")
    ] = "capacity",
    policy: options.Policies = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            help="Fewest and most nodes.",
            show_default=f"{_RECORD}1 up to as many as there were",
            metavar="MIN:MAX",
        ),
    ] = None,
    slo: Annotated[
        str | None, typer.Option(help="The objective.", show_default=f"{_RECORD}{DEFAULT_SLO}")
    ] = None,
    executors_then: Annotated[
        int | None, typer.Option(min=1, help="How many executors there were, where the record does not tell.")
    ] = None,
    slots_per_node: Annotated[
        int | None, typer.Option(min=1, help="Tasks an executor runs at once.", show_default=f"{_RECORD}1")
    ] = None,
    tasks: Annotated[
        int | None,
        typer.Option(min=1, help="Tasks of a batch, so its partitions.", show_default=f"{_RECORD}3 per slot"),
    ] = None,
    trigger: Annotated[
        str | None,
        typer.Option(help="The trigger interval.", show_default=f"{_RECORD}back to back", metavar="DURATION"),
    ] = None,
    lead_time: Annotated[
        str | None,
        typer.Option(
            help="From asking for a node to its first work.",
            show_default=f"{_RECORD}{format_duration(DEFAULT_LEAD_TIME_S)}",
            metavar="DURATION",
        ),
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="Which query; the one with the most rows if not told.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Which noise.")] = 1,
    workers: options.Workers = None,
    report: Annotated[Path | None, typer.Option(help="Write a page with pictures there.")] = None,
    json: Json = False,
) -> None:
    """Say what other strategies would have made of a recorded run.

    Load, trigger interval and costs are taken from the record; what it does not tell is assumed and said. The
    recorded run is scored and ranked with the others.
    """
    policies = read_policies(policy or ())
    names = [*strategy_names(strategy), *policies]
    settings = Settings(
        slo=None if slo is None else Slo.parse(slo),
        limits=None if nodes is None else Limits.parse(nodes),
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
    scene = replay_case(plan, drawn=report is not None)
    done = compare([scene], names, policies=policies, workers=workers)
    facts, doubts = _facts(plan, fidelity), _doubts(plan, fidelity)
    sentences = _summary(done)
    if report is not None:
        write_board(
            report,
            sweep_board(
                done, [scene], title=f"Ebbflow replay: {plan.recording.query}", facts=_surroundings(plan),
                notes=[*sentences, *facts, *(f"Careful: {doubt}." for doubt in doubts)],
                load_text=lambda one: str(one.scenario.load),
            ),
        )  # fmt: skip
    doubts += _hopeless(plan, done)  # the page says so by itself
    if json:
        print_json(_document(plan, fidelity, doubts, done, sentences))
    else:
        for fact in facts:
            _line(fact)
        _line("")
        print_board(rank_strategies(done, quantile=plan.scenario.slo.quantile), many=False)
        typer.echo("\n" + "\n".join(sentences))
        for doubt in doubts:
            _line(f"Careful: {doubt}", style="yellow")
        tell_files(report)
    end(done, len(scene.runs(names)))


def _summary(done: Sweep) -> list[str]:
    """What each strategy would have done beside the recorded run, a sentence each."""
    recorded = next((result for result in done.results if result.strategy == RECORDED), None)
    if recorded is None:
        return []
    return [_against(result, recorded) for result in done.results if result is not recorded]


def _against(result: Result, recorded: Result) -> str:
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
        "batches": len(recording.worked),
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


def _hopeless(plan: Plan, done: Sweep) -> list[str]:
    if any(result.oracle_feasible is False for result in done.results):
        return [f"no schedule within {plan.scenario.limits} nodes keeps the objective on this load"]
    return []


def _surroundings(plan: Plan) -> list[str]:
    """What was played, in a few words each: the head of the page."""
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
        f"{recording.query}: {len(recording.worked)} batches in {format_duration(plan.flow.end_s)} "
        f"from {format_utc(plan.flow.origin_s)} ({recording.form})",
        f"The model explains your batches within {share(fit.median_error)} "
        f"(half of them; nine in ten within {share(fit.wide_error)}): "
        f"{format_duration(fit.driver_s)} a batch, {1000 * fit.per_row_s:.3g} ms a row, {fit.tasks} tasks",
        f"Your size played again: batches take {seconds(fidelity.batch_mean_s[1])} on the mean (yours "
        f"{seconds(fidelity.batch_mean_s[0])}), row latency p95 is {seconds(fidelity.latency_p95_s[1])} (yours "
        f"{seconds(fidelity.latency_p95_s[0])})",
        "Rests on: " + "; ".join(str(each) for each in plan.assumptions),
    ]
    late = kept_up(plan)["batches_longer_than_trigger"]
    if late is not None:
        facts.insert(1, f"{share(late)} of the batches took longer than their trigger interval")
    if recording.other_queries:
        facts.append(f"Other queries in the file, left out: {', '.join(recording.other_queries)}")
    return facts


def _line(text: str, style: str = "") -> None:
    errors.print(text, style=style, markup=False, soft_wrap=True)
