"""Scores as a table for people: one row per score with its meaning, one column per run."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from ebbflow.report.numbers import UNKNOWN, number, seconds, share, times, whole
from ebbflow.report.wording import Scores


class Better(Enum):
    """Which values of a score one wishes for; some only inform."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


@dataclass(frozen=True, kw_only=True)
class ScoreText:
    """How a score is called, written and explained."""

    key: str
    label: str
    meaning: str
    write: Callable[[float | None], str]
    better: Better = Better.LOWER


GROUPS: tuple[tuple[str, tuple[ScoreText, ...]], ...] = (
    ("Freshness", (
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
            meaning="No row waited longer than this from its arrival to its commit.",
        ),
        ScoreText(
            key="violation", label="Late rows", write=share,
            meaning="Share of the rows that took longer than the SLO allows, or were lost.",
        ),
    )),
    ("Cost", (
        ScoreText(
            key="node_seconds", label="Executor-seconds", write=whole,
            meaning="Executors held × seconds, from asking for each until it was gone: what one pays for.",
        ),
        ScoreText(
            key="nodes_saved", label="Saved", write=share, better=Better.HIGHER,
            meaning="Executor-seconds saved against holding the maximum throughout.",
        ),
        ScoreText(
            key="cost_ratio", label="Against hindsight", write=times,
            meaning="Executor-seconds ÷ those of the cheapest schedule that keeps the SLO, found knowing the "
            "whole load in advance. 1 cannot be beaten while the SLO is kept.",
        ),
        ScoreText(
            key="reconfigurations", label="Reconfigurations", write=whole,
            meaning="How often the layout was changed. Each change costs a little; fewer is calmer.",
        ),
    )),
    ("Flow", (
        ScoreText(
            key="throughput_degradation", label="Throughput degradation", write=share,
            meaning="Mean of |rows in − rows out| ÷ rows in over time: how far processing strayed from "
            "the load. Working off a backlog counts for more than 100 %.",
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
            meaning="Rows that arrived and can never be processed any more. Should be 0.",
        ),
        ScoreText(
            key="rows_repeated", label="Rows repeated", write=whole,
            meaning="Rows that were processed again after a restart; results stay exact where sinks are "
            "idempotent.",
        ),
    )),
)  # fmt: skip
"""Every score that ``bench`` computes, in the order of the table."""

_KNOWN = {text.key for _, texts in GROUPS for text in texts}


def score_table(
    labels: Sequence[str], colours: Sequence[str], scores: Sequence[Scores], kept: Sequence[bool | None]
) -> str:
    """The table as HTML. The best value of a row is set in bold where runs differ.

    ``kept`` says of each run whether it kept its SLO. A run that did not is never the best in cost: to be
    cheap and late is no art.
    """
    if not scores:
        return ""
    heads = "".join(
        f'<th scope="col"><i class="dot" style="background:{colour}"></i>{html.escape(label)}</th>'
        for label, colour in zip(labels, colours, strict=True)
    )
    body = "".join(
        f'<tbody><tr class="group"><th colspan="{len(scores) + 1}" scope="rowgroup">{name}</th></tr>'
        + "".join(_row(text, scores, kept, costs=name == "Cost") for text in texts)
        + "</tbody>"
        for name, texts in (*GROUPS, ("Other", _others(scores)))
        if any(text.key in score for text in texts for score in scores)
    )
    kind = "scores alone" if len(scores) == 1 else "scores"
    return f'<table class="{kind}"><thead><tr><th></th>{heads}</tr></thead>{body}</table>'


def _others(scores: Sequence[Scores]) -> tuple[ScoreText, ...]:
    """Scores the catalogue does not know: shown all the same, under their own names."""
    keys = dict.fromkeys(key for score in scores for key in score if key not in _KNOWN)
    return tuple(
        ScoreText(key=key, label=key, meaning="", write=number, better=Better.NEITHER) for key in keys
    )


def _row(text: ScoreText, scores: Sequence[Scores], kept: Sequence[bool | None], *, costs: bool) -> str:
    values = [score.get(text.key) for score in scores]
    rivals = [None if costs and was_kept is False else v for v, was_kept in zip(values, kept, strict=True)]
    differ = len({value for value in values if value is not None}) > 1
    best = _best(text.better, rivals) if differ else None
    cells = ""
    for value, rival, was_kept in zip(values, rivals, kept, strict=True):
        kind = "best" if best is not None and rival == best else ""
        if text.key == "violation" and was_kept is False:
            kind = "bad"
        raw = f"{text.key} = {UNKNOWN if value is None else value}"
        cells += f'<td class="{kind}" title="{html.escape(raw)}">{html.escape(text.write(value))}</td>'
    meaning = html.escape(text.meaning)
    label = (
        f'<abbr title="{meaning}">{html.escape(text.label)}</abbr>' if meaning else html.escape(text.label)
    )
    return f'<tr data-score="{html.escape(text.key)}"><th scope="row">{label}</th>{cells}</tr>'


def _best(better: Better, rivals: Sequence[float | int | None]) -> float | None:
    known = [value for value in rivals if value is not None]
    if better is Better.NEITHER or not known:
        return None
    return min(known) if better is Better.LOWER else max(known)
