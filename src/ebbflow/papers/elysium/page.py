"""The page of ``bench elysium``: Figure 9 with the published values beside ours, and charts like the paper's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ebbflow.core.plural import counted
from ebbflow.papers import SIMULATOR, SPARK
from ebbflow.papers.elysium.calibration import STOP_WORDS
from ebbflow.papers.elysium.comparison import Comparison, tally
from ebbflow.papers.elysium.published import BOTH
from ebbflow.papers.elysium.run import GENERATED, Result, RowMetrics, RunCurves
from ebbflow.papers.elysium.studies import Studies
from ebbflow.papers.elysium.threshold_learning import TRIAL, ThresholdStudy
from ebbflow.papers.page import embedded_data, estimator_pictures
from ebbflow.papers.studies import ReconfigurationCost
from ebbflow.report.panels import Panel, PanelLine, Picture
from ebbflow.report.template import render
from ebbflow.report.wording import number, share


def write_elysium_page(
    path: Path, results: Sequence[Result], comparisons: Sequence[Comparison], studies: Studies | None
) -> None:
    """Write the page as one HTML file."""
    path.write_text(elysium_page(results, comparisons, studies), encoding="utf-8")


def elysium_page(
    results: Sequence[Result], comparisons: Sequence[Comparison], studies: Studies | None
) -> str:
    """The page as HTML text."""
    headlines = [{"text": str(each), "ok": each.ok == each.loads} for each in tally(comparisons)]
    headlines = headlines or [{"text": "Elysium's table", "ok": True}]
    pictures = [*_aggregates(results), *_pictures(results)]
    thresholds: Sequence[ThresholdStudy] = ()
    if studies is not None:
        pictures += study_pictures(studies)
        thresholds = studies.thresholds
    return render(
        "page.html.j2",
        folder=Path(__file__).parent,
        title=headlines[0]["text"],
        headlines=headlines,
        facts=_facts(results),
        columns=_COLUMNS,
        rows=_table_rows(results),
        comparisons=comparisons,
        trial=_trial(thresholds),
        learned_columns=_LEARNED_COLUMNS,
        thresholds=[_threshold_row(study) for study in thresholds],
        pictures=pictures,
        data=embedded_data(
            pictures,
            rows=results,
            comparisons=comparisons,
            studies=studies,
            curves={f"{result.case.key} on {result.target}": result.curves for result in results},
        ),
    )


def _facts(results: Sequence[Result]) -> list[str]:
    runs, targets = max((r.runs for r in results), default=0), {r.target for r in results}
    return [
        *(["simulator: 4 nodes of 4 cores, assessed every minute"] if SIMULATOR in targets else []),
        *(["Spark: 4 executors of 1 core, assessed every 30 s"] if SPARK in targets else []),
        f"means of {counted(runs, 'run')}",
    ]


_COLUMNS = (
    ("paper: degradation", "as the paper published it"),
    ("ours", "mean of |in − out| / in over windows of a minute"),
    ("unsmoothed", "the same second by second, without a window"),
    ("paper: saved", "share of the nodes of an over-provisioned cluster, as the paper published it"),
    ("ours", "1 − node-seconds ÷ (4 × duration)"),
    ("latency", "mean time of a row from arrival to completion"),
    ("changes", "reconfigurations in a run"),
)

_LEARNED_COLUMNS = (
    ("paper", "as the paper published it"),
    ("ours", "where Q-learning converged"),
    ("reward", "threshold − throughput degradation, unsmoothed; the mean over the runs"),
    ("highest at", "the value with the highest reward of those tried"),
    ("inside", "whether lower and higher values were tried and were worse"),
)


def _table_rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    """The rows of the table; the first of each application, load and target has a heading for its group."""
    figures: dict[tuple[str, str], str] = {}
    for result in results:
        if result.case.published is not None and result.case.published.figure:
            figures.setdefault(result.case.key[:2], f" (Figure {result.case.published.figure})")
    shown, group = [], ""
    for result in results:
        key, published, metrics = result.case.key, result.case.published, result.metrics
        here = f"{key.application} · {key.load}" + (
            "" if result.target == SIMULATOR else f" · {result.target}"
        )
        notes = ["" if published is None else published.note, "" if result.case.traced else GENERATED]
        shown.append(
            {
                "group": here + figures.get(key[:2], "") if here != group else "",
                "name": str(key),
                "strategy": _strategy_name(result),
                "note": "; ".join(filter(None, notes)),
                "cells": [
                    _hundredths(None if published is None else published.throughput_degradation),
                    _hundredths(metrics.throughput_degradation),
                    _hundredths(metrics.throughput_degradation_unsmoothed),
                    share(None if published is None else published.nodes_saved),
                    share(metrics.nodes_saved),
                    number(None) if metrics.latency_mean_s is None else f"{metrics.latency_mean_s:.1f} s",
                    number(None) if metrics.reconfigurations is None else f"{metrics.reconfigurations:.1f}",
                ],
            }
        )
        group = here
    return shown


def _threshold_row(study: ThresholdStudy) -> dict[str, Any]:
    values = (study.published, study.converged.value, study.converged.reward, study.learned.best)
    return {
        "name": f"{study.name}_thr",
        "explanation": f"{study.found} {study.why}",
        "cells": [*map(_hundredths, values), "yes" if study.learned.inside else "no"],
    }


def _hundredths(value: float | None) -> str:
    return number(None) if value is None else f"{value:.2f}"


HEAVIEST = (STOP_WORDS, "features")
"""The operators whose parallelism is drawn: T1's stop-word filter (Figure 10e), T2's feature extraction."""


def _trial(studies: Sequence[ThresholdStudy]) -> str:
    """The load that the thresholds were learned on. That it was picked belongs beside every result."""
    if not studies:
        return ""
    case = studies[0].case
    loads = " and ".join(f"{application} on {load}" for application, load in case.loads)
    text = f"Each value was run on {case.seconds / 60:g} minutes of {loads}, the other two thresholds as published."
    return f"{text} The load was picked for cpu_max: docs/elysium.md says why." if case == TRIAL else text


def _aggregates(results: Sequence[Result]) -> Iterator[Picture]:
    """Figures 13(d) and (e) for all loads: the strategies without a fixed setting, side by side."""
    rows = [row for row in results if not row.case.key.setting and row.target == SIMULATOR]
    names = list(dict.fromkeys(row.case.key.strategy for row in rows))
    if len(names) < 2:
        return

    def bars(value: Callable[[RowMetrics], float | None]) -> list[PanelLine]:
        return [
            PanelLine(
                name=name,
                bars=True,
                points=[
                    (f"{row.case.key.application} {row.case.key.load}", round(value(row.metrics) or 0.0, 4))
                    for row in rows
                    if row.case.key.strategy == name
                ],
            )
            for name in names
        ]

    yield Picture(
        title="Degradation and nodes saved (Figure 13d–e)",
        caption="Degradation is unsmoothed.",
        x_title="",
        panels=[
            Panel(title="throughput degradation", lines=bars(lambda m: m.throughput_degradation_unsmoothed)),
            Panel(title="nodes saved", lines=bars(lambda m: m.nodes_saved)),
        ],
    )


def _pictures(results: Sequence[Result]) -> Iterator[Picture]:
    """One for each application, load and target, and another one for strategies with a fixed setting."""
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        if result.curves is not None:
            key = result.case.key
            groups.setdefault((key.application, key.load, result.target), []).append(result)
    for (application, load, target), rows in groups.items():
        curves = {_strategy_name(row): row.curves for row in rows if row.curves is not None}
        fixed = {name: each for name, each in curves.items() if "(" in name}
        free = {name: each for name, each in curves.items() if "(" not in name}
        figures = list(dict.fromkeys(row.case.published.figure for row in rows if row.case.published))
        like = ", ".join(figure for figure in figures if figure)
        where = "" if target == SIMULATOR else f", {target}"
        for shown, what in ((free, ""), (fixed, ": with a fixed setting")):
            if shown:
                yield Picture(
                    title=f"{application} {load}{what}{where}"
                    + (f" (Figures {like})" if like and not what else ""),
                    caption="The load is grey. Nodes are those held. Latency is the mean time of a row from arrival to "
                    "completion, as in the table; here for the rows completed in each 10\N{NO-BREAK SPACE}s.",
                    panels=_panels(application, shown),
                )


def _strategy_name(result: Result) -> str:
    key = result.case.key
    return key.strategy + (f" ({key.setting})" if key.setting else "")


def _panels(application: str, runs: Mapping[str, RunCurves]) -> list[Panel]:
    first = next(iter(runs.values()))
    panels = []
    for app, load in first.load.items():
        of = f" of {app}" if application == BOTH else ""
        panels.append(
            Panel(
                title=f"throughput{of}, rows/s",
                lines=[
                    PanelLine(name="load", points=load, behind=True),
                    *(PanelLine(name=name, points=run.throughput[app]) for name, run in runs.items()),
                ],
            )
        )
    panels.append(
        Panel(
            title="nodes",
            whole=True,
            lines=[PanelLine(name=name, points=run.nodes, steps=True) for name, run in runs.items()],
        )
    )
    for operator in _heaviest(first):
        panels.append(
            Panel(
                title=f"instances of {operator}",
                whole=True,
                lines=[
                    PanelLine(name=name, points=run.parallelism.get(operator, ()), steps=True)
                    for name, run in runs.items()
                ],
            )
        )
    for app in first.latency:
        of = f" of {app}" if application == BOTH else ""
        panels.append(
            Panel(
                title=f"latency{of}, s",
                lines=[PanelLine(name=name, points=run.latency[app]) for name, run in runs.items()],
            )
        )
    return panels


def _heaviest(curves: RunCurves) -> list[str]:
    return [name for name in curves.parallelism if name.rsplit("/", 1)[-1] in HEAVIEST]


def study_pictures(studies: Studies) -> list[Picture]:
    """Figures 6, 7 and 8."""
    accuracy, overheads = studies.accuracy, studies.overheads
    return [
        *(_threshold_picture(each) for each in studies.thresholds),
        Picture(
            title="Cost of reconfiguring, by assessment period (Figure 6c)",
            caption="T1 over-provisioned on nine minutes of a sine, rebalanced needlessly at every assessment. "
            f"{_most_often(overheads)}",
            x_title="assessment period, s",
            panels=[
                Panel(
                    title="throughput degradation",
                    lines=[
                        PanelLine(
                            name="paper",
                            points=[
                                (o.period_s, o.published) for o in overheads if o.period_s and o.published
                            ],
                            dashed=True,
                        ),
                        PanelLine(
                            name="ours, unsmoothed",
                            points=[
                                (o.period_s, o.throughput_degradation_unsmoothed)
                                for o in overheads
                                if o.period_s
                            ],
                        ),
                        PanelLine(
                            name="ours, in windows of a minute",
                            points=[(o.period_s, o.throughput_degradation) for o in overheads if o.period_s],
                        ),
                    ],
                )
            ],
        ),
        *estimator_pictures(
            accuracy,
            figures=(7, 8),
            operators_note="; the paper reports under 3 %",
            nodes_note="The part above the sum ÷ 4 is the engine's overhead.",
        ),
    ]


def _most_often(overheads: Sequence[ReconfigurationCost]) -> str:
    """The result of the shortest period, beside the published one."""
    shortest = min((o for o in overheads if o.period_s), key=lambda o: o.period_s or 0.0)
    published = "" if shortest.published is None else f"; the paper published {shortest.published:g}"
    return (
        f"Every {shortest.period_s:g} s: {shortest.throughput_degradation_unsmoothed:.2f} unsmoothed, "
        f"{shortest.throughput_degradation:.3f} in windows of a minute{published}."
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
                    PanelLine(name="ours", points=[(each.value, each.reward) for each in tried]),
                    *([PanelLine(name="paper", points=published, dashed=True)] if published else []),
                    PanelLine(
                        name=f"the paper's threshold, {study.published:.2f}",
                        points=[(study.published, 0.0), (study.published, top)],
                        dashed=True,
                    ),
                ],
            ),
            Panel(
                title="throughput degradation",
                lines=[PanelLine(name="ours", points=[(t.value, t.throughput_degradation) for t in tried])],
            ),
            Panel(
                title="nodes saved",
                lines=[PanelLine(name="ours", points=[(t.value, t.nodes_saved) for t in tried])],
            ),
        ],
    )
