"""The report: one HTML file that needs nothing else, to keep, to mail and to print.

Everything a run says (names, reasons, notes) is data: it is escaped wherever it stands, and a content
security policy keeps the page from loading anything at all.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ebbflow.core.duration import format_duration
from ebbflow.core.run import Run
from ebbflow.errors import InputError
from ebbflow.profiling.profile import SIMULATOR
from ebbflow.report import figures, wording
from ebbflow.report.ledger_table import ledger_table
from ebbflow.report.numbers import counted, seconds, share, whole
from ebbflow.report.page_assets import SCRIPT
from ebbflow.report.score_table import score_table
from ebbflow.report.shell import FOOTER, document, runs_json, script_json
from ebbflow.runs.stored_run import StoredRun

SIMULATED = "Simulated, not measured: the same loop and strategies as on Spark, on a model of it."

_FIRST_DATE_S = 1e9
"""Times before 2001 are not dates but seconds of a simulation."""


def write_page(
    path: Path | str,
    *,
    title: str,
    runs: Sequence[Run],
    scores: Sequence[Mapping[str, float | int | None]],
    notes: Sequence[str] = (),
) -> None:
    """Write the report of one or several runs; the first is the one the headline is about.

    ``scores`` has one mapping per run, in the same order: score name to value, None where unknown.
    """
    Path(path).write_text(page(title=title, runs=runs, scores=scores, notes=notes), encoding="utf-8")


def write_run_page(
    path: Path | str, stored: StoredRun, *, title: str | None = None, notes: Sequence[str] = ()
) -> None:
    """Write the report of a run that was read from its store; ``submit``, ``demo`` and ``report`` all use it."""
    write_page(
        path,
        title=title or f"Ebbflow: {stored.run.pipeline}",
        runs=[stored.run],
        scores=[stored.score_values()],
        notes=[*notes, *_run_notes(stored)],
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
        notes.append(f"{whole(stored.holds_left_out)} older holds are not listed. The store has them.")
    if stored.damaged_batches:
        notes.append(f"{counted(stored.damaged_batches, 'batch', 'batches')} of the store cannot be read.")
    return notes


def page(
    *,
    title: str,
    runs: Sequence[Run],
    scores: Sequence[Mapping[str, float | int | None]],
    notes: Sequence[str] = (),
) -> str:
    """The report as HTML text."""
    if not runs:
        raise InputError("a report needs at least one run")
    if len(runs) != len(scores):
        raise InputError(
            f"a report needs the scores of each run: {len(runs)} runs, but {len(scores)} scores were given"
        )
    names = wording.labels(runs)
    colours = [figures.COLOURS[index % len(figures.COLOURS)] for index in range(len(runs))]
    body = "\n".join(
        (
            _header(title, runs, names, scores),
            _overview(names, colours, runs, scores),
            _timeline(),
            _ledgers(runs, names),
            _notes(notes),
            FOOTER,
        )
    )
    data = {"timeline-data": _figure_json(figures.timeline(runs))}
    if len(runs) > 1:
        data["comparison-data"] = _figure_json(figures.comparison(runs, scores))
    data["ebbflow-data"] = runs_json(title, runs, scores)
    return document(title=title, body=body, data=data, script=SCRIPT)


def _header(title: str, runs: Sequence[Run], names: Sequence[str], scores: Sequence[wording.Scores]) -> str:
    first = runs[0]
    sentence = wording.headline(first, scores[0], name=names[0] if len(runs) > 1 else "")
    kept = {True: "kept", False: "missed", None: "open"}[wording.kept_slo(first.slo, scores[0])]
    versus = [
        wording.comparison(names[0], scores[0], name, score)
        for name, score in zip(names[1:], scores[1:], strict=True)
    ]
    items = "".join(f"<li>{html.escape(against)}</li>" for against in versus if against)
    facts = [
        f"pipeline {first.pipeline}",
        f"strategy {names[0]}" if len(runs) == 1 else f"{len(runs)} runs: {', '.join(names)}",
        f"freshness {wording.slo_text(first.slo)}",
        f"executors {first.limits}",
        *_date(first.started_s),
        f"{format_duration(max(first.ended_s - first.started_s, 0.0)) or '0s'} long",
    ]
    listed = "".join(f"<span>{html.escape(fact)}</span>" for fact in facts)
    return (
        f'<header><p class="eyebrow">{html.escape(title)}</p>'
        f'<h1 class="{kept}"><i class="mark"></i>{_unbroken(html.escape(sentence))}</h1>'
        f'{f"<ul class=versus>{items}</ul>" if items else ""}<p class="facts">{listed}</p></header>'
    )


def _unbroken(text: str) -> str:
    """Numbers stay on one line with their units, and words with hyphens in one piece."""
    return re.sub(r"(?<=\d) (?=[s%])", "\N{NO-BREAK SPACE}", text).replace("-", "\N{NON-BREAKING HYPHEN}")


def _date(started_s: float) -> list[str]:
    """When it was, unless the run counts from 0, as simulations do."""
    if started_s < _FIRST_DATE_S:
        return []
    return [f"{datetime.fromtimestamp(started_s, UTC):%Y-%m-%d %H:%M} UTC"]


def _overview(
    names: Sequence[str], colours: Sequence[str], runs: Sequence[Run], scores: Sequence[wording.Scores]
) -> str:
    """One run: its four main numbers, then all. Several: all beside each other, and bars."""
    kept = [wording.kept_slo(run.slo, score) for run, score in zip(runs, scores, strict=True)]
    table = f'<div class="scroll">{score_table(names, colours, scores, kept)}</div>'
    if len(runs) == 1:
        return f"<section>{_tiles(runs[0], scores[0])}{table}</section>"
    chart = '<div class="chart" id="comparison" data-figure="comparison-data"></div>'
    return f'<section class="overview"><div>{table}</div><div>{chart}</div></section>'


def _tiles(run: Run, scores: wording.Scores) -> str:
    """The four numbers people ask for first."""
    held = scores.get("node_seconds")
    span_s = run.ended_s - run.started_s
    mean = f"{held / span_s:.1f} executors on average" if held is not None and span_s > 0 else ""
    tiles = (
        ("Row latency p95", seconds(scores.get("latency_p95_s")), f"SLO {wording.slo_text(run.slo)}"),
        ("Late rows", share(scores.get("violation")), f"of {whole(scores.get('rows_in'))}"),
        ("Executor-seconds", whole(held), mean),
        ("Saved", share(scores.get("nodes_saved")), f"against {run.limits.max_nodes} executors throughout"),
    )
    items = "".join(
        f"<div><dt>{name}</dt><dd>{html.escape(value)}<small>{html.escape(small)}</small></dd></div>"
        for name, value, small in tiles
    )
    return f'<dl class="tiles">{items}</dl>'


def _timeline() -> str:
    return (
        '<section><div class="chart" id="timeline" data-figure="timeline-data"></div>'
        '<p class="hint">Drag to zoom, double-click to zoom out, click a name in the legend to hide it. '
        "The reasons of the ▲▼ decisions show when the pointer is over them.</p></section>"
    )


def _ledgers(runs: Sequence[Run], names: Sequence[str]) -> str:
    tools = (
        '<div class="tools"><h2>Decisions</h2>'
        '<label><input type="checkbox" id="show-act" checked> acts</label>'
        '<label><input type="checkbox" id="show-hold" checked> holds</label>'
        '<label>show <select id="show-last"><option value="all">all</option>'
        '<option value="10">last 10</option><option value="25">last 25</option></select></label></div>'
    )
    if len(runs) == 1:
        return f'<section>{tools}<div class="scroll">{ledger_table(runs[0])}</div></section>'
    ledgers = "".join(
        f'<details class="run"{" open" if index == 0 else ""}><summary>{html.escape(name)}'
        f"<small>{_decision_counts(run)}</small></summary>"
        f'<div class="scroll">{ledger_table(run)}</div></details>'
        for index, (run, name) in enumerate(zip(runs, names, strict=True))
    )
    return f"<section>{tools}{ledgers}</section>"


def _decision_counts(run: Run) -> str:
    acts = sum(entry.verdict == "act" for entry in run.decisions)
    return f"{acts} acts, {len(run.decisions) - acts} holds" if run.decisions else "no decisions"


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    items = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return f'<section><h2>Notes</h2><ul class="notes">{items}</ul></section>'


def _figure_json(figure: object) -> str:
    text: str = figure.to_json()  # type: ignore[attr-defined]
    return script_json(json.loads(text))
