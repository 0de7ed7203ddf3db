"""The page of Elysium's table: every row published beside ours, and pictures like the seed's figures."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebbflow.report.embed import script_json
from ebbflow.report.numbers import number, share
from ebbflow.report.page_assets import SCRIPT
from ebbflow.report.panels import Picture, panels_figure
from ebbflow.report.shell import FOOTER, document


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of Figure 9. What the seed did not publish is None."""

    application: str
    load: str
    strategy: str
    target: str
    published_degradation: float | None
    published_saved: float | None
    degradation: float | None
    degradation_unsmoothed: float | None
    saved: float | None
    latency_s: float | None
    reconfigurations: float | None
    figure: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Headline:
    """What the rows of a strategy show, in a sentence."""

    text: str
    ok: bool


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Symbiotic, or its proactive kind, against joint on one load."""

    what: str
    saves_more: bool
    degrades_no_more: bool
    explanation: str = ""

    @property
    def ok(self) -> bool:
        """Better in one, not worse in the other."""
        return self.saves_more and self.degrades_no_more


@dataclass(frozen=True, kw_only=True)
class LearnedRow:
    """A threshold: the seed's beside what was learned here."""

    name: str
    published: float
    learned: float
    """Where Q-learning came to rest."""
    reward: float
    """There."""
    best: float
    """The value with the highest reward."""
    inside: bool
    """Whether that is neither the lowest nor the highest that was tried."""
    explanation: str = ""


@dataclass(frozen=True, kw_only=True)
class ElysiumPage:
    """All that is on it."""

    rows: Sequence[Row]
    findings: Sequence[Finding]
    pictures: Sequence[Picture]
    headlines: Sequence[Headline] = ()
    thresholds: Sequence[LearnedRow] = ()
    trial: str = ""
    """What the thresholds were learned on."""
    facts: Sequence[str] = ()
    data: Any = None
    """What can be saved from it."""


def write_elysium_page(path: Path, page: ElysiumPage) -> None:
    """One HTML file that needs nothing else."""
    path.write_text(elysium_page(page), encoding="utf-8")


def elysium_page(page: ElysiumPage) -> str:
    """The page as HTML text."""
    title, *others = page.headlines or [Headline(text="Elysium's table", ok=True)]
    facts = "".join(f"<span>{html.escape(fact)}</span>" for fact in page.facts)
    sections = [
        '<header><p class="eyebrow">Ebbflow: Figure 9 of the Elysium seed, published beside ours</p>'
        + _headline("h1", title)
        + "".join(_headline("h2", other) for other in others)
        + f'<p class="facts">{facts}</p></header>',
        _table(page.rows),
    ]
    if page.findings:
        sections.append(_findings(page.findings))
    if page.thresholds:
        sections.append(_thresholds(page.thresholds, page.trial))
    data = {}
    for index, picture in enumerate(page.pictures):
        sections.append(
            f"<section><h2>{html.escape(picture.title)}</h2><p>{html.escape(picture.caption)}</p>"
            f'<div class="chart" data-figure="picture-{index}"></div></section>'
        )
        data[f"picture-{index}"] = script_json(json.loads(panels_figure(picture).to_json()))
    data["ebbflow-data"] = script_json(page.data)
    body = "\n".join((*sections, FOOTER))
    return document(title=title.text, body=body, data=data, script=SCRIPT, style=_STYLE)


def _headline(tag: str, said: Headline) -> str:
    kept = "kept" if said.ok else "missed"
    return f'<{tag} class="{kept}"><i class="mark"></i>{html.escape(said.text)}</{tag}>'


_STYLE = """
.scroll + .notes { margin-top: 14px; } .judged { list-style: none; padding: 0; }
.scores tbody tr:not(.group) > th { min-width: 8.5em; }
@media (max-width: 820px) {
  .scores thead th { white-space: normal; vertical-align: bottom; } .scores thead th, .scores td { padding-left: 10px; }
}
"""

_HEADS = (
    ("seed: degradation", "as the seed published it"),
    ("ours", "mean of |in − out| / in over windows of a minute"),
    ("unsmoothed", "the same second by second, without a window"),
    ("seed: saved", "share of the nodes of an over-provisioned cluster, as the seed published it"),
    ("ours", "1 − node-seconds ÷ (4 × duration)"),
    ("latency", "mean over the rows of the time from arrival to the end"),
    ("changes", "reconfigurations in a run"),
)


def _table(rows: Sequence[Row]) -> str:
    heads = "".join(
        f'<th><abbr title="{html.escape(why)}">{html.escape(name)}</abbr></th>' for name, why in _HEADS
    )
    lines, group = [], ""
    for row in rows:
        here = f"{row.application} · {row.load}" + ("" if row.target == "simulator" else f" · {row.target}")
        if here != group:
            group = here
            figures = [r.figure for r in rows if (r.application, r.load) == (row.application, row.load)]
            figure = next((f" (Figure {each})" for each in figures if each), "")
            lines.append(f'<tr class="group"><th colspan="8">{html.escape(here + figure)}</th></tr>')
        cells = (
            _hundredths(row.published_degradation),
            _hundredths(row.degradation),
            _hundredths(row.degradation_unsmoothed),
            share(row.published_saved),
            share(row.saved),
            number(None) if row.latency_s is None else f"{row.latency_s:.1f} s",
            number(None) if row.reconfigurations is None else f"{row.reconfigurations:.1f}",
        )
        note = f' <small title="{html.escape(row.note)}">*</small>' if row.note else ""
        lines.append(
            f"<tr><th>{html.escape(row.strategy)}{note}</th>"
            + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
            + "</tr>"
        )
    notes = "".join(
        f"<li>{html.escape(f'{row.application} {row.load} {row.strategy}: {row.note}')}</li>"
        for row in rows
        if row.note
    )
    listed = f'<ul class="notes">{notes}</ul>' if notes else ""
    return (
        '<section><h2>Figure 9</h2><div class="scroll"><table class="scores"><thead><tr><th></th>'
        f"{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>{listed}</section>"
    )


def _hundredths(value: float | None) -> str:
    return number(None) if value is None else f"{value:.2f}"


def _findings(findings: Sequence[Finding]) -> str:
    items = "".join(
        f"<li>{'✓' if finding.ok else '✗'} <b>{html.escape(finding.what)}</b> {html.escape(finding.explanation)}</li>"
        for finding in findings
    )
    return f'<section><h2>Symbiotic against joint</h2><ul class="notes judged">{items}</ul></section>'


_LEARNED_HEADS = (
    ("seed", "as the seed published it"),
    ("ours", "where Q-learning came to rest"),
    ("reward", "threshold − throughput degradation, unsmoothed; the mean over the runs"),
    ("highest at", "the value with the highest reward of those tried"),
    ("inside", "whether values below and above it were tried, and were worse"),
)


def _thresholds(thresholds: Sequence[LearnedRow], trial: str) -> str:
    heads = "".join(
        f'<th><abbr title="{html.escape(why)}">{html.escape(name)}</abbr></th>'
        for name, why in _LEARNED_HEADS
    )
    rows = "".join(
        f"<tr><th>{html.escape(each.name)}</th>"
        + "".join(
            f"<td>{cell}</td>"
            for cell in (
                *map(_hundredths, (each.published, each.learned, each.reward, each.best)),
                "yes" if each.inside else "no",
            )
        )
        + "</tr>"
        for each in thresholds
    )
    notes = "".join(
        f"<li><b>{html.escape(each.name)}</b> {html.escape(each.explanation)}</li>" for each in thresholds
    )
    told = f"<p>{html.escape(trial)}</p>" if trial else ""
    return (
        f'<section><h2>Thresholds by Q-learning</h2>{told}<div class="scroll"><table class="scores"><thead><tr>'
        f'<th></th>{heads}</tr></thead><tbody>{rows}</tbody></table></div><ul class="notes">{notes}</ul></section>'
    )
