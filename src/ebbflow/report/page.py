"""The report of one or several runs: one HTML file to keep, to mail and to print."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from ebbflow.core.curve import Curve
from ebbflow.core.decision import LedgerEntry
from ebbflow.core.duration import format_duration
from ebbflow.core.plural import counted
from ebbflow.core.run import Run
from ebbflow.errors import InputError
from ebbflow.profiling.profile import SIMULATOR
from ebbflow.report import figures, wording
from ebbflow.report.palette import COLOURS
from ebbflow.report.template import figure_json, render
from ebbflow.report.wording import UNKNOWN, Scores, clock, number, seconds, share, times, whole
from ebbflow.runs.scaling_points import ScalingPoints, scaling_points
from ebbflow.runs.stored_run import StoredRun

SIMULATED = "Simulated, not measured: the same loop and strategies as on Spark, on a model of it."

_FIRST_DATE_S = 1e9
"""Times before 2001 are not dates but seconds of a simulation."""


def write_run_page(path: Path | str, stored: StoredRun) -> None:
    """Write the report of a run; ``submit``, ``demo``, ``simulate`` and ``report`` all use it."""
    write_page(
        path,
        title=stored.title or f"Ebbflow: {stored.run.pipeline}",
        runs=[stored.run],
        scores=[stored.score_values()],
        points=[stored.scaling_points()],
        notes=[*stored.notes, *_run_notes(stored)],
    )


def write_page(
    path: Path | str,
    *,
    title: str,
    runs: Sequence[Run],
    scores: Sequence[Scores],
    points: Sequence[Sequence[ScalingPoints]] | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Write the report of one or several runs; the headline is about the first.

    ``scores`` has one mapping per run, in the same order: score name to value, None if unknown. ``points`` are those
    of the acts of each run; by default they are computed from the run alone.
    """
    text = page(title=title, runs=runs, scores=scores, points=points, notes=notes)
    Path(path).write_text(text, encoding="utf-8")


def page(
    *,
    title: str,
    runs: Sequence[Run],
    scores: Sequence[Scores],
    points: Sequence[Sequence[ScalingPoints]] | None = None,
    notes: Sequence[str] = (),
) -> str:
    """The report as HTML text."""
    if not runs:
        raise InputError("a report needs at least one run")
    if len(runs) != len(scores):
        raise InputError(f"a report needs scores for each run: got {len(runs)} runs and {len(scores)} scores")
    points = [scaling_points([run]) for run in runs] if points is None else points
    first, names = runs[0], wording.labels(runs)
    kept = [wording.kept_slo(run.slo, score) for run, score in zip(runs, scores, strict=True)]
    versus = [
        wording.comparison(names[0], scores[0], name, score)
        for name, score in zip(names[1:], scores[1:], strict=True)
    ]
    data: dict[str, Any] = {"timeline-data": figure_json(figures.timeline(runs, points))}
    if len(runs) > 1:
        data["comparison-data"] = figure_json(figures.comparison(runs, scores))
    data["ebbflow-data"] = {"title": title, "runs": list(map(run_to_json, runs, scores, points))}
    return render(
        "report.html.j2",
        title=title,
        kept=kept[0],
        headline=_unbroken(wording.headline(first, scores[0], name=names[0] if len(runs) > 1 else "")),
        versus=[sentence for sentence in versus if sentence],
        facts=_facts(first, names),
        tiles=_tiles(first, scores[0]),
        table=_score_table(names, scores, kept),
        runs=[
            {"label": name, "decisions": _decision_counts(run), "ledger": _ledger_rows(run, own)}
            for name, run, own in zip(names, runs, points, strict=True)
        ],
        notes=notes,
        data=data,
    )


def _run_notes(stored: StoredRun) -> list[str]:
    """What readers must know about the data of a run."""
    notes = []
    if stored.target == SIMULATOR:
        notes.append(SIMULATED)
    if len(stored.queries) > 1:
        names = ", ".join(each.pipeline for each in stored.queries)
        notes.append(f"Scores cover the rows of all queries ({names}), each row timed within its own query.")
    if not stored.ended:
        notes.append("The store has no end of this run: it is still running, or its process was killed.")
    if stored.pruned_s:
        notes.append(
            f"The first {format_duration(round(stored.pruned_s))} of the run are no longer in its store; "
            "scores cover the rest."
        )
    if stored.holds_left_out:
        notes.append(f"{whole(stored.holds_left_out)} older holds are not listed; a store has them.")
    if stored.damaged_batches:
        notes.append(f"{counted(stored.damaged_batches, 'batch', 'batches')} of the store cannot be read.")
    return notes


def _facts(run: Run, names: Sequence[str]) -> list[str]:
    date = f"{datetime.fromtimestamp(run.started_s, UTC):%Y-%m-%d %H:%M} UTC"
    return [
        f"pipeline {run.pipeline}",
        f"strategy {names[0]}" if len(names) == 1 else f"{len(names)} runs: {', '.join(names)}",
        f"freshness {wording.slo_text(run.slo)}",
        f"executors {run.limits}",
        *([date] if run.started_s >= _FIRST_DATE_S else []),
        f"{format_duration(max(run.ended_s - run.started_s, 0.0)) or '0s'} long",
    ]


def _unbroken(text: str) -> str:
    """Keep numbers on one line with their units, and hyphenated words in one piece."""
    return re.sub(r"(?<=\d) (?=[s%])", "\N{NO-BREAK SPACE}", text).replace("-", "\N{NON-BREAKING HYPHEN}")


def _tiles(run: Run, scores: Scores) -> list[dict[str, str]]:
    """The four numbers people ask for first."""
    held, span_s = scores.get("node_seconds"), run.ended_s - run.started_s
    mean = f"{held / span_s:.1f} executors on average" if held is not None and span_s > 0 else ""
    tiles = (
        ("Row latency p95", seconds(scores.get("latency_p95_s")), f"SLO {wording.slo_text(run.slo)}"),
        ("Late rows", share(scores.get("violation")), f"of {whole(scores.get('rows_in'))}"),
        ("Executor-seconds", whole(held), mean),
        ("Saved", share(scores.get("nodes_saved")), f"against {run.limits.max_nodes} executors throughout"),
    )
    return [{"name": name, "value": value, "detail": detail} for name, value, detail in tiles]


def run_to_json(run: Run, scores: Scores, points: Sequence[ScalingPoints]) -> dict[str, Any]:
    """A run as plain values, for the data that can be saved from a page. Curves are [seconds, value] pairs."""

    def pairs(curve: Curve) -> list[list[float]]:
        return [
            [round(float(time_s) - run.started_s, 3), round(float(value), 3)]
            for time_s, value in zip(curve.times_s, curve.values, strict=True)
        ]

    return {
        "strategy": run.strategy,
        "pipeline": run.pipeline,
        "slo": {"freshness_s": run.slo.freshness_s, "quantile": run.slo.quantile},
        "limits": {"min_nodes": run.limits.min_nodes, "max_nodes": run.limits.max_nodes},
        "started_s": run.started_s,
        "ended_s": run.ended_s,
        "scores": dict(scores),
        "arrived": pairs(run.arrived),
        "processed": pairs(run.processed),
        "nodes": pairs(run.nodes),
        "nodes_working": pairs(run.nodes_working),
        "batches": msgspec.to_builtins(list(run.batches)),
        "decisions": [entry.to_json() for entry in run.decisions],
        "points": [{"id": each.entry_id, **each.to_json()} for each in points],
        "reconfigurations": run.reconfigurations,
        "rows_repeated": run.rows_repeated,
    }


# -- decisions -------------------------------------------------------------------------------------

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def fold(entries: Sequence[LedgerEntry]) -> list[Sequence[LedgerEntry]]:
    """Groups of decisions that share a row of the table: each act alone; consecutive holds together if their reasons
    differ in nothing but numbers, because "3 executors hold 240 rows/s" and "… 243 rows/s" say the same."""
    groups: list[Sequence[LedgerEntry]] = []
    for _, group in groupby(entries, key=_reason_key):
        together = tuple(group)
        groups += [together] if together[0].verdict == "hold" else [(entry,) for entry in together]
    return groups


def _reason_key(entry: LedgerEntry) -> tuple[str, str, tuple[str, ...]]:
    constraints = tuple(constraint.name for constraint in entry.decision.bound_by)
    return entry.verdict, _NUMBER.sub("#", entry.decision.reason), constraints


def _ledger_rows(run: Run, points: Sequence[ScalingPoints]) -> list[dict[str, Any]]:
    """The rows of the table of decisions; the latest decision of a group stands for it."""

    def at(entry: LedgerEntry) -> str:
        return clock(entry.time_s - run.started_s)

    by_id = {each.entry_id: each for each in points}
    rows = []
    for group in fold(run.decisions):
        latest = group[-1]
        decision = latest.decision
        rows.append(
            {
                "kind": "act" if latest.verdict == "act" else "hold",
                "verdict": latest.verdict,
                "first": at(group[0]),
                "last": at(latest) if len(group) > 1 else "",
                "growth": sum(decision.wanted.nodes.values()) - sum(latest.before.nodes.values()),
                "change": wording.change(latest.before, decision.wanted),
                "reason": decision.reason,
                "bound_by": ", ".join(constraint.name for constraint in decision.bound_by),
                "bound_by_reasons": wording.bound_by(decision),
                "effect": wording.effect(latest),
                "points": wording.scaling_points(by_id.get(latest.entry_id)),
                "entries": [
                    {"time": at(entry), "reason": entry.decision.reason, "working": _working(entry)}
                    for entry in group
                ],
            }
        )
    return rows


def _working(entry: LedgerEntry) -> list[str]:
    """Formula and inputs of a decision, and what of it could not be carried out."""
    decision, outcome = entry.decision, entry.outcome
    parts = [part for part in (decision.formula, wording.inputs(decision)) if part]
    lines = ["  ·  ".join(parts)] if parts else []
    if outcome is not None and (outcome.infeasible_nodes or outcome.note):
        too_many = sum(outcome.requested.nodes.values()) > sum(decision.wanted.nodes.values())
        note = f"{outcome.infeasible_nodes} cannot be {'released' if too_many else 'had'}"
        lines.append(
            ": ".join(part for part in (note if outcome.infeasible_nodes else "", outcome.note) if part)
        )
    return lines


def _decision_counts(run: Run) -> str:
    acts = sum(entry.verdict == "act" for entry in run.decisions)
    return f"{acts} acts, {len(run.decisions) - acts} holds" if run.decisions else "no decisions"


# -- scores ----------------------------------------------------------------------------------------


class Better(Enum):
    """Which values of a score are better; some only inform."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


@dataclass(frozen=True, kw_only=True)
class ScoreText:
    """Label, format and meaning of a score."""

    key: str
    label: str
    meaning: str
    write: Callable[[float | None], str]
    better: Better = Better.LOWER


_COST = "Cost"
SCORES: Mapping[str, tuple[ScoreText, ...]] = {
    "Freshness": (
        ScoreText(
            key="latency_p50_s", label="Row latency, median", write=seconds,
            meaning="Half of the rows were processed within this time of their arrival.",
        ),
        ScoreText(
            key="latency_p95_s", label="Row latency, p95", write=seconds,
            meaning="95 % of the rows were processed within this time of their arrival.",
        ),
        ScoreText(
            key="latency_max_s", label="Row latency, worst", write=seconds,
            meaning="The longest time from the arrival of a row to its commit.",
        ),
        ScoreText(
            key="violation", label="Late rows", write=share,
            meaning="Share of the rows that took longer than the SLO allows, or were lost.",
        ),
    ),
    _COST: (
        ScoreText(
            key="node_seconds", label="Executor-seconds", write=whole,
            meaning="Executors held × seconds, from the request for each until it was released: the billed time.",
        ),
        ScoreText(
            key="nodes_saved", label="Saved", write=share, better=Better.HIGHER,
            meaning="Executor-seconds saved compared with holding the maximum throughout.",
        ),
        ScoreText(
            key="cost_ratio", label="Against hindsight", write=times,
            meaning="Executor-seconds ÷ those of the cheapest schedule that keeps the SLO, computed with the whole "
            "load known in advance. Below 1 is impossible while the SLO is kept.",
        ),
        ScoreText(
            key="reconfigurations", label="Reconfigurations", write=whole,
            meaning="How often the layout was changed. Each change costs a little.",
        ),
    ),
    "Demand": (
        ScoreText(
            key="demand_gap_s", label="Demand gap", write=seconds,
            meaning="Mean time between the demand of the load for a change and its completion, |DP − RP|.",
        ),
        ScoreText(
            key="ready_before_demand", label="Ready before demand", write=share, better=Better.HIGHER,
            meaning="Share of the scale-outs whose executors were ready when the load demanded them.",
        ),
        ScoreText(
            key="acts_without_demand", label="Changes without demand", write=whole,
            meaning="Changes that the load never demanded. They are not part of the two scores above.",
        ),
    ),
    "Flow": (
        ScoreText(
            key="throughput_degradation", label="Throughput degradation", write=share,
            meaning="Mean of |rows in − rows out| ÷ rows in over time: how far processing strayed from "
            "the load. Working off a backlog can exceed 100 %.",
        ),
        ScoreText(
            key="rows_in", label="Rows in", write=whole, better=Better.NEITHER,
            meaning="Rows that arrived at the source.",
        ),
        ScoreText(
            key="rows_out", label="Rows out", write=whole, better=Better.NEITHER,
            meaning="Rows whose results were committed before the run ended.",
        ),
        ScoreText(
            key="rows_lost", label="Rows lost", write=whole,
            meaning="Rows that arrived and can never be processed. Should be 0.",
        ),
        ScoreText(
            key="rows_repeated", label="Rows repeated", write=whole,
            meaning="Rows that were processed again after a restart; results stay exact if sinks are idempotent.",
        ),
    ),
}  # fmt: skip
"""Every score of ``runs.score``, in the order of the table."""


def _score_table(
    names: Sequence[str], scores: Sequence[Scores], kept: Sequence[bool | None]
) -> dict[str, Any]:
    """One row per score, one column per run. The best value of a row is bold where runs differ; a run that missed its
    SLO is never the best in cost."""
    known = {text.key for texts in SCORES.values() for text in texts}
    others = dict.fromkeys(key for score in scores for key in score if key not in known)
    unlisted = tuple(
        ScoreText(key=key, label=key, meaning="", write=number, better=Better.NEITHER) for key in others
    )
    return {
        "runs": [
            {"label": name, "colour": COLOURS[index % len(COLOURS)]} for index, name in enumerate(names)
        ],
        "groups": [
            {
                "name": name,
                "rows": [
                    {
                        "key": text.key,
                        "label": text.label,
                        "meaning": text.meaning,
                        "cells": _cells(text, scores, kept, costs=name == _COST),
                    }
                    for text in texts
                ],
            }
            for name, texts in {**SCORES, "Other": unlisted}.items()
            if any(text.key in score for text in texts for score in scores)
        ],
    }


def _cells(
    text: ScoreText, scores: Sequence[Scores], kept: Sequence[bool | None], *, costs: bool
) -> list[dict[str, str]]:
    values = [score.get(text.key) for score in scores]
    rivals = [None if costs and was_kept is False else v for v, was_kept in zip(values, kept, strict=True)]
    differ = len({value for value in values if value is not None}) > 1
    best = _best(text.better, rivals) if differ else None
    cells = []
    for value, rival, was_kept in zip(values, rivals, kept, strict=True):
        kind = "best" if best is not None and rival == best else ""
        if text.key == "violation" and was_kept is False:
            kind = "bad"
        raw = f"{text.key} = {UNKNOWN if value is None else value}"
        cells.append({"kind": kind, "raw": raw, "text": text.write(value)})
    return cells


def _best(better: Better, rivals: Sequence[float | int | None]) -> float | None:
    known = [value for value in rivals if value is not None]
    if better is Better.NEITHER or not known:
        return None
    return min(known) if better is Better.LOWER else max(known)
