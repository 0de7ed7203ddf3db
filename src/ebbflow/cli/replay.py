"""``ebbflow replay``: a recorded run, played again under other strategies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from ebbflow.bench.replay.plan import Plan, Settings, plan_of, read_recording
from ebbflow.bench.replay.progress_log import written
from ebbflow.bench.replay.run import Fidelity, Result, fidelity_of, kept_up, replay
from ebbflow.cli.output import Json, check_writable, errors, print_json, say
from ebbflow.control.ledger import ACT
from ebbflow.core.curve import Curve
from ebbflow.core.duration import format_duration, parse_duration_s
from ebbflow.core.limits import Limits
from ebbflow.core.run import Run
from ebbflow.core.slo import Slo
from ebbflow.errors import InputError
from ebbflow.report.numbers import seconds, share, times, whole
from ebbflow.report.page import write_page
from ebbflow.report.wording import comparison
from ebbflow.strategies import make_strategy

MOST_DECISIONS = 5_000
"""More than these make a page that no browser likes."""
MOST_POINTS = 20_000


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
    strategy: Annotated[str, typer.Option(help="Who decides; several with commas.")] = "capacity",
    nodes: Annotated[
        str | None, typer.Option(help="Fewest and most nodes, MIN:MAX; up to those there were.")
    ] = None,
    slo: Annotated[str, typer.Option(help="The objective.")] = "freshness p95 <= 30s",
    executors_then: Annotated[
        int | None, typer.Option(min=1, help="How many executors there were, where the record does not tell.")
    ] = None,
    slots_per_node: Annotated[int | None, typer.Option(min=1, help="Tasks an executor runs at once.")] = None,
    tasks: Annotated[int | None, typer.Option(min=1, help="Tasks of a batch, so its partitions.")] = None,
    trigger: Annotated[
        str | None, typer.Option(help="The trigger interval, where it cannot be seen.")
    ] = None,
    lead_time: Annotated[str | None, typer.Option(help="From asking for a node to its first work.")] = None,
    query: Annotated[
        str | None, typer.Option(help="Which query; the one with the most rows if not told.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Which noise.")] = 1,
    report: Annotated[Path | None, typer.Option(help="Write a page with pictures there.")] = None,
    json: Json = False,
) -> None:
    """Say what other strategies would have made of a recorded run.

    Load, trigger interval and costs are taken from the record; what it does not tell is assumed and said. The
    recorded run is scored beside the others.
    """
    names = [name.strip() for name in strategy.split(",") if name.strip()]
    if not names:
        raise InputError("no strategy is named; write --strategy capacity,static")
    for name in names:
        make_strategy(name)
    settings = Settings(
        slo=Slo.parse(slo),
        limits=None if nodes is None else Limits.parse(nodes),
        nodes_then=executors_then,
        slots_per_node=slots_per_node,
        tasks=tasks,
        trigger_s=None if trigger is None else parse_duration_s(trigger),
        lead_time_s=None if lead_time is None else parse_duration_s(lead_time),
        seed=seed,
    )
    check_writable(report)
    plan = plan_of(read_recording(recording, query), settings)
    fidelity = fidelity_of(plan)
    doubts = [*plan.warnings, *([fidelity.doubt] if fidelity.doubt else [])]
    results = replay(plan, names, say=say)
    sentences = [text for result in results[1:] if (text := _against(result, results[0]))]
    if report is not None:
        _write(report, plan, [*_facts(plan, fidelity), *doubts], results)
    if json:
        print_json(_document(plan, fidelity, doubts, results, sentences))
        return
    for fact in _facts(plan, fidelity):
        _line(fact)
    _tell(results, sentences)
    for doubt in doubts:
        _line(f"Careful: {doubt}", style="yellow")
    if report is not None:
        _line(f"Report with pictures and every decision: {report}")


def _against(result: Result, recorded: Result) -> str:
    """What a strategy would have done, in one sentence."""
    text = comparison(result.run.strategy, result.scores, "you held", recorded.scores)
    if text:
        return text.replace(" used ", " would have used ", 1).replace(
            " were late, against ", " late, against your ", 1
        )
    late, their_late = (share(each.scores["violation"]) for each in (result, recorded))
    held = whole(result.scores["node_seconds"])
    name = result.run.strategy
    return (
        f"{name} would have used {held} executor-seconds; {late} of its rows late, against your {their_late}."
    )


def _document(
    plan: Plan, fidelity: Fidelity, doubts: list[str], results: list[Result], sentences: list[str]
) -> dict[str, Any]:
    recording = plan.recording
    return {
        "file": recording.file,
        "form": recording.form,
        "query": recording.query,
        "other_queries": list(recording.other_queries),
        "from": written(plan.flow.origin_s),
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
        "results": [{"strategy": result.run.strategy, **result.scores} for result in results],
        "summary": sentences,
    }


def _facts(plan: Plan, fidelity: Fidelity) -> list[str]:
    fit, recording = plan.fit, plan.recording
    facts = [
        f"{recording.query}: {len(recording.worked)} batches in {format_duration(plan.flow.end_s)} "
        f"from {written(plan.flow.origin_s)} ({recording.form})",
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


def _tell(results: list[Result], sentences: list[str]) -> None:
    out = Console(highlight=False)
    out.print()
    table = Table(
        "strategy", "node-seconds", "÷ cheapest", "late rows", "p50", "p95", "worst", "changes",
        box=None, pad_edge=False,
    )  # fmt: skip
    for result in results:
        scores = result.scores
        table.add_row(
            result.run.strategy,
            whole(scores["node_seconds"]),
            times(scores["cost_ratio"]),
            share(scores["violation"]),
            seconds(scores["latency_p50_s"]),
            seconds(scores["latency_p95_s"]),
            seconds(scores["latency_max_s"]),
            whole(scores["reconfigurations"]),
        )
    out.print(table)
    out.print()
    for sentence in sentences:
        out.print(sentence, style="bold", markup=False, soft_wrap=True)


def _write(report: Path, plan: Plan, notes: list[str], results: list[Result]) -> None:
    runs = [result.run for result in (*results[1:], results[0])]  # the headline is about the first
    if any(len(run.decisions) > MOST_DECISIONS for run in runs):
        notes = [*notes, "It is too long to show all: holds and single batches are left out."]
        runs = [_light(run) for run in runs]
    scores = [result.scores for result in (*results[1:], results[0])]
    write_page(report, title=f"Ebbflow replay: {plan.recording.query}", runs=runs, scores=scores, notes=notes)


def _light(run: Run) -> Run:
    """What a picture of many days needs of a run."""
    every = max(1, len(run.arrived) // MOST_POINTS)
    kept = np.unique(np.append(np.arange(0, len(run.arrived), every), len(run.arrived) - 1))
    return replace(
        run,
        arrived=Curve(run.arrived.times_s[kept], run.arrived.values[kept]),
        batches=(),
        decisions=[entry for entry in run.decisions if entry.verdict == ACT],
    )
