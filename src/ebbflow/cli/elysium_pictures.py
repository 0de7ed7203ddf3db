"""The page of ``bench elysium``, put together from results: which curves stand beside which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ebbflow.bench.elysium.calibration import STOP_WORDS
from ebbflow.bench.elysium.names import BOTH, SIMULATOR, SPARK
from ebbflow.bench.elysium.overheads import Overhead
from ebbflow.bench.elysium.result import STANDS_IN, Curves, Measured, Result
from ebbflow.bench.elysium.studies import Studies
from ebbflow.bench.elysium.thresholds import TRIAL, ThresholdStudy
from ebbflow.bench.elysium.verdict import Verdict, counts
from ebbflow.report.elysium_page import ElysiumPage, Finding, Headline, LearnedRow, Row
from ebbflow.report.numbers import counted
from ebbflow.report.panels import Line, Panel, Picture

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
