"""The page of Elysium's table: every row published beside ours, and pictures like the seed's figures."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebbflow.papers.elysium.calibration import STOP_WORDS
from ebbflow.papers.elysium.overheads import Overhead
from ebbflow.papers.elysium.published import BOTH, SIMULATOR, SPARK
from ebbflow.papers.elysium.result import STANDS_IN, Curves, Measured, Result
from ebbflow.papers.elysium.studies import Studies
from ebbflow.papers.elysium.thresholds import TRIAL, ThresholdStudy
from ebbflow.papers.elysium.verdict import Verdict, counts
from ebbflow.report.numbers import counted, number, share
from ebbflow.report.page_assets import SCRIPT
from ebbflow.report.panels import Line, Panel, Picture, panels_figure
from ebbflow.report.shell import FOOTER, document, script_json


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


# The page of ``bench elysium``, put together from results: which curves stand beside which.


HEAVIEST = (STOP_WORDS, "features")
"""The operators whose parallelism is drawn: T1's stop-word filter (Figure 10e), T2's feature extraction."""


def elysium_report(
    results: Sequence[Result], judged: Sequence[Verdict], studies: Studies | None
) -> ElysiumPage:
    """All of it."""
    runs, targets = max((r.runs for r in results), default=0), {r.target for r in results}
    pictures = [*_aggregates(results), *_pictures(results)]
    if studies is not None:
        pictures += study_pictures(studies)
    return ElysiumPage(
        rows=[_row(result) for result in results],
        findings=[
            Finding(
                what=v.what,
                saves_more=v.saves_more,
                degrades_no_more=v.degrades_no_more,
                explanation=v.explanation,
            )
            for v in judged
        ],
        pictures=pictures,
        headlines=[Headline(text=str(count), ok=count.ok == count.loads) for count in counts(judged)],
        trial="" if studies is None else _trial(studies.thresholds),
        thresholds=[] if studies is None else [_learned(each) for each in studies.thresholds],
        facts=[
            *(["simulator: 4 nodes of 4 cores, assessed every minute"] if SIMULATOR in targets else []),
            *(["Spark: 4 executors of 1 core, assessed every 30 s"] if SPARK in targets else []),
            f"means of {counted(runs, 'run')}",
        ],
        data={
            "rows": [result.to_json() for result in results],
            "verdicts": [verdict.to_json() for verdict in judged],
            "studies": None if studies is None else studies.to_json(),
            "curves": {
                f"{result.case.key} on {result.target}": result.curves.to_json()
                for result in results
                if result.curves is not None
            },
        },
    )


def _row(result: Result) -> Row:
    key, published, measured = result.case.key, result.case.published, result.measured
    notes = ["" if published is None else published.note]
    if not result.case.traced:
        notes.append(STANDS_IN)
    return Row(
        application=key.application,
        load=key.load,
        strategy=key.strategy + (f" ({key.setting})" if key.setting else ""),
        target=result.target,
        published_degradation=None if published is None else published.throughput_degradation,
        published_saved=None if published is None else published.nodes_saved,
        degradation=measured.throughput_degradation,
        degradation_unsmoothed=measured.throughput_degradation_unsmoothed,
        saved=measured.nodes_saved,
        latency_s=measured.latency_mean_s,
        reconfigurations=measured.reconfigurations,
        figure="" if published is None else published.figure,
        note="; ".join(filter(None, notes)),
    )


def _learned(study: ThresholdStudy) -> LearnedRow:
    return LearnedRow(
        name=f"{study.name}_thr",
        published=study.published,
        learned=study.at_rest.value,
        reward=study.at_rest.reward,
        best=study.learned.best,
        inside=study.learned.inside,
        explanation=f"{study.found} {study.why}",
    )


def _trial(studies: Sequence[ThresholdStudy]) -> str:
    """What was run for them. That this load was picked is no result, and belongs beside every one."""
    if not studies:
        return ""
    case = studies[0].case
    loads = " and ".join(f"{application} on {load}" for application, load in case.loads)
    said = f"Each value was run on {case.seconds / 60:g} minutes of {loads}, the other two thresholds at the seed's."
    return f"{said} The load was picked for cpu_max: docs/elysium.md says why." if case == TRIAL else said


def _aggregates(results: Sequence[Result]) -> Iterator[Picture]:
    """Figure 13(d) and (e), for all loads: whoever decides freely, side by side."""
    rows = [row for row in results if not row.case.key.setting and row.target == SIMULATOR]
    names = list(dict.fromkeys(row.case.key.strategy for row in rows))
    if len(names) < 2:
        return

    def bars(value: Callable[[Measured], float | None]) -> list[Line]:
        return [
            Line(
                name=name,
                bars=True,
                points=[
                    (f"{row.case.key.application} {row.case.key.load}", round(value(row.measured) or 0.0, 4))
                    for row in rows
                    if row.case.key.strategy == name
                ],
            )
            for name in names
        ]

    yield Picture(
        title="Degradation and nodes saved (Figure 13d–e)",
        caption="Degradation is the unsmoothed one.",
        x_title="",
        panels=[
            Panel(title="throughput degradation", lines=bars(lambda m: m.throughput_degradation_unsmoothed)),
            Panel(title="nodes saved", lines=bars(lambda m: m.nodes_saved)),
        ],
    )


def _pictures(results: Sequence[Result]) -> Iterator[Picture]:
    """One for each application, load and target: what was held still first, then who decided."""
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        if result.curves is not None:
            key = result.case.key
            groups.setdefault((key.application, key.load, result.target), []).append(result)
    for (application, load, target), rows in groups.items():
        curves = {_called(row): row.curves for row in rows if row.curves is not None}
        held = {name: each for name, each in curves.items() if "(" in name}
        free = {name: each for name, each in curves.items() if "(" not in name}
        figures = list(dict.fromkeys(row.case.published.figure for row in rows if row.case.published))
        like = ", ".join(figure for figure in figures if figure)
        where = "" if target == SIMULATOR else f", {target}"
        for shown, what in ((free, ""), (held, ": something held still")):
            if shown:
                yield Picture(
                    title=f"{application} {load}{what}{where}"
                    + (f" (Figures {like})" if like and not what else ""),
                    caption="The load is grey. Nodes are those held. Latency as in the table, the mean over the rows "
                    "of the time from arrival to the end: here of those that were done in each 10\N{NO-BREAK SPACE}s.",
                    panels=_panels(application, shown),
                )


def _called(result: Result) -> str:
    key = result.case.key
    return key.strategy + (f" ({key.setting})" if key.setting else "")


def _panels(application: str, runs: Mapping[str, Curves]) -> list[Panel]:
    first = next(iter(runs.values()))
    panels = []
    for app, load in first.load.items():
        of = f" of {app}" if application == BOTH else ""
        panels.append(
            Panel(
                title=f"throughput{of}, rows/s",
                lines=[
                    Line(name="load", points=load, behind=True),
                    *(Line(name=name, points=run.throughput[app]) for name, run in runs.items()),
                ],
            )
        )
    panels.append(
        Panel(
            title="nodes",
            whole=True,
            lines=[Line(name=name, points=run.nodes, steps=True) for name, run in runs.items()],
        )
    )
    for operator in _heaviest(first):
        panels.append(
            Panel(
                title=f"instances of {operator}",
                whole=True,
                lines=[
                    Line(name=name, points=run.parallelism.get(operator, ()), steps=True)
                    for name, run in runs.items()
                ],
            )
        )
    for app in first.latency:
        of = f" of {app}" if application == BOTH else ""
        panels.append(
            Panel(
                title=f"latency{of}, s",
                lines=[Line(name=name, points=run.latency[app]) for name, run in runs.items()],
            )
        )
    return panels


def _heaviest(curves: Curves) -> list[str]:
    return [name for name in curves.parallelism if name.rsplit("/", 1)[-1] in HEAVIEST]


def study_pictures(studies: Studies) -> list[Picture]:
    """Figures 6, 7 and 8."""
    accuracy, overheads = studies.accuracy, studies.overheads
    worst = max(accuracy.operators.values())
    return [
        *(_threshold_picture(each) for each in studies.thresholds),
        Picture(
            title="What reconfiguring costs, by assessment period (Figure 6c)",
            caption="T1 over-provisioned on nine minutes of a sine, rebalanced at every assessment for no reason. "
            f"{_most_often(overheads)}",
            x_title="assessment period, s",
            panels=[
                Panel(
                    title="throughput degradation",
                    lines=[
                        Line(
                            name="the seed",
                            points=[
                                (o.period_s, o.published) for o in overheads if o.period_s and o.published
                            ],
                            dashed=True,
                        ),
                        Line(
                            name="ours, unsmoothed",
                            points=[
                                (o.period_s, o.throughput_degradation_unsmoothed)
                                for o in overheads
                                if o.period_s
                            ],
                        ),
                        Line(
                            name="ours, in windows of a minute",
                            points=[(o.period_s, o.throughput_degradation) for o in overheads if o.period_s],
                        ),
                    ],
                )
            ],
        ),
        Picture(
            title="CPU of operators, measured and estimated (Figure 7)",
            caption=f"A sine that the profile was not learned from. Mean error {100 * accuracy.mean:.1f} % over all "
            f"operators, {100 * worst:.1f} % at the worst; the seed tells under 3 %.",
            panels=[
                Panel(
                    title=f"{name}, cores of all instances",
                    lines=[
                        Line(name="measured", points=accuracy.measured[name]),
                        Line(name="estimated", points=accuracy.estimated[name], dashed=True),
                    ],
                )
                for name in accuracy.measured
            ],
        ),
        Picture(
            title="CPU of a node against the sum of its instances (Figure 8)",
            caption=f"What lies above the sum ÷ 4 is the engine's overhead. Mean error {100 * accuracy.node:.1f} %.",
            x_title="cores of the instances on the node",
            panels=[
                Panel(
                    title="share of the node in use",
                    lines=[
                        Line(name="measured", points=accuracy.nodes_measured, dots=True),
                        Line(name="estimated", points=accuracy.nodes_estimated),
                    ],
                )
            ],
        ),
    ]


def _most_often(overheads: Sequence[Overhead]) -> str:
    """What the shortest period came to, beside the seed's."""
    shortest = min((o for o in overheads if o.period_s), key=lambda o: o.period_s or 0.0)
    seed = "" if shortest.published is None else f"; the seed published {shortest.published:g}"
    return (
        f"Every {shortest.period_s:g} s: {shortest.throughput_degradation_unsmoothed:.2f} unsmoothed, "
        f"{shortest.throughput_degradation:.3f} in windows of a minute{seed}."
    )


def _threshold_picture(study: ThresholdStudy) -> Picture:
    tried = study.tried
    top = max(each.reward for each in tried)
    published = [(each.value, each.published) for each in tried if each.published is not None]
    return Picture(
        title=f"{study.name}_thr by Q-learning" + (" (Table 1, Figure 6a–b)" if published else ""),
        caption=f"reward = {study.name}_thr − throughput degradation, unsmoothed. {study.found}",
        x_title=f"{study.name}_thr",
        panels=[
            Panel(
                title="reward",
                lines=[
                    Line(name="ours", points=[(each.value, each.reward) for each in tried]),
                    *([Line(name="the seed", points=published, dashed=True)] if published else []),
                    Line(
                        name=f"the seed's threshold, {study.published:.2f}",
                        points=[(study.published, 0.0), (study.published, top)],
                        dashed=True,
                    ),
                ],
            ),
            Panel(
                title="throughput degradation",
                lines=[Line(name="ours", points=[(t.value, t.throughput_degradation) for t in tried])],
            ),
            Panel(
                title="nodes saved",
                lines=[Line(name="ours", points=[(t.value, t.nodes_saved) for t in tried])],
            ),
        ],
    )
