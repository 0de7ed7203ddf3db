"""The page of ``bench pascal``: the results of §7.1, published beside ours, and charts like the paper's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ebbflow.core.duration import format_duration
from ebbflow.core.plural import counted
from ebbflow.papers import SIMULATOR, SPARK
from ebbflow.papers.elysium.run import RunCurves
from ebbflow.papers.page import embedded_data, estimator_pictures
from ebbflow.papers.pascal.comparison import compare, headline
from ebbflow.papers.pascal.published import FORECAST_ERROR, PROACTIVE, REACTIVE, STATIC
from ebbflow.papers.pascal.run import ASSESSED_EVERY_S, Metrics, Result
from ebbflow.papers.pascal.studies import PeriodResult, Studies
from ebbflow.report.panels import Panel, PanelLine, Picture
from ebbflow.report.template import render
from ebbflow.report.wording import number, share

COLUMNS = (
    ("paper: saved", "share of the nodes of the over-provisioned cluster, as published"),
    ("ours", "1 − node-seconds ÷ (4 × duration)"),
    ("paper: latency", "mean, as published"),
    ("ours", "mean time of a tuple from arrival to completion"),
    ("paper: failed", "share of the tuples, as published"),
    ("ours", "share of the tuples that took longer than Storm's time-out of 30 s"),
    ("throughput", "tuples completed per second"),
    ("changes", "reconfigurations in a run"),
)
STRATEGY_NAMES = {PROACTIVE: "proactive", REACTIVE: "reactive", STATIC: "over-provisioned"}


def write_pascal_page(path: Path, results: Sequence[Result], studies: Studies | None) -> None:
    """Write the page as one HTML file."""
    path.write_text(pascal_page(results, studies), encoding="utf-8")


def pascal_page(results: Sequence[Result], studies: Studies | None) -> str:
    """The page as HTML text."""
    comparisons = compare(results)
    pictures = [*_loads(results), *_overall(results)]
    if studies is not None:
        pictures += study_pictures(studies)
    return render(
        "page.html.j2",
        folder=Path(__file__).parent,
        title="Pascal's loads",
        headline=headline(comparisons),
        ok=all(each.ok for each in comparisons),
        facts=_facts(results),
        columns=COLUMNS,
        rows=list(_rows(results)),
        notes=list(dict.fromkeys(f"{each.load}: {each.note}." for each in results if each.note)),
        comparisons=comparisons,
        periods=_periods(studies.periods) if studies is not None else [],
        pictures=pictures,
        data=embedded_data(
            pictures,
            rows=results,
            comparisons=comparisons,
            studies=studies,
            curves={f"{each.load} {each.strategy} on {each.target}": each.curves for each in results},
        ),
    )


def _facts(results: Sequence[Result]) -> list[str]:
    targets = {each.target for each in results}
    runs = max((each.runs for each in results), default=0)
    return [
        *(
            ["simulator: 4 nodes of 4 cores, four instances of every operator"]
            if SIMULATOR in targets
            else []
        ),
        *(["Spark: 4 executors of 1 core"] if SPARK in targets else []),
        f"assessed every {format_duration(ASSESSED_EVERY_S)}, proactive and reactive",
        f"means of {counted(runs, 'run')}",
    ]


def cells(result: Result) -> list[str]:
    """The cells of a row of the table, after its name."""
    metrics, published = result.metrics, result.published
    return [
        _percent(None if published is None else published.nodes_saved),
        _percent(metrics.nodes_saved),
        _ms(None if published is None else published.latency_mean_s),
        _ms(metrics.latency_mean_s),
        _percent(None if published is None else published.failed),
        _percent(metrics.failed),
        f"{metrics.throughput_per_s:.0f}/s",
        f"{metrics.reconfigurations:.1f}",
    ]


def _rows(results: Sequence[Result]) -> Iterator[dict[str, Any]]:
    group = ""
    for result in results:
        here = result.load + ("" if result.target == SIMULATOR else f" on {result.target}")
        yield {
            "group": here if here != group else "",
            "strategy": STRATEGY_NAMES[result.strategy],
            "cells": cells(result),
        }
        group = here


def _percent(part: float | None) -> str:
    return number(None) if part is None else f"{100 * part:.1f} %" if part else "0 %"


def _ms(seconds: float | None) -> str:
    return number(None) if seconds is None else f"{1000 * seconds:,.0f} ms"


def _periods(results: Sequence[PeriodResult]) -> list[dict[str, Any]]:
    """A row for each load and strategy, with a cell for each assessment period."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in results:
        found.setdefault((each.load, each.strategy), []).append(
            f"{share(each.metrics.nodes_saved)}, {_ms(each.metrics.latency_mean_s)}"
        )
    return [
        {"name": f"{load} {STRATEGY_NAMES[strategy]}", "cells": row}
        for (load, strategy), row in found.items()
    ]


# -- pictures ----------------------------------------------------------------------------------------------------


def _loads(results: Sequence[Result]) -> Iterator[Picture]:
    """Figure 13: one picture for each load and target."""
    groups: dict[tuple[str, str], dict[str, RunCurves]] = {}
    for each in results:
        if each.curves is not None:
            curves = groups.setdefault((each.load, each.target), {})
            curves[STRATEGY_NAMES[each.strategy]] = each.curves
    for (load, target), curves in groups.items():
        first = next(iter(curves.values()))
        (key,) = first.load
        where = "" if target == SIMULATOR else f" on {target}"
        yield Picture(
            title=f"{load}{where} (Figure 13)",
            caption="The load is grey. Nodes are those held. Latency is the mean time of a tuple from arrival to "
            "completion, for the tuples completed in each 10\N{NO-BREAK SPACE}s.",
            panels=[
                Panel(
                    title="throughput, tuples/s",
                    lines=[
                        PanelLine(name="load", points=first.load[key], behind=True),
                        *(PanelLine(name=name, points=each.throughput[key]) for name, each in curves.items()),
                    ],
                ),
                Panel(
                    title="nodes",
                    whole=True,
                    lines=[PanelLine(name=n, points=each.nodes, steps=True) for n, each in curves.items()],
                ),
                Panel(
                    title="latency, s",
                    lines=[PanelLine(name=n, points=each.latency[key]) for n, each in curves.items()],
                ),
            ],
        )


def _overall(results: Sequence[Result]) -> Iterator[Picture]:
    """Figure 14: saved nodes, latency and failed tuples."""
    rows = [each for each in results if each.target == SIMULATOR]
    names = list(dict.fromkeys(each.strategy for each in rows))
    if len(names) < 2:
        return

    def bars(value: Callable[[Metrics], float], published: str, scale: float = 1.0) -> list[PanelLine]:
        found = []
        for name in names:
            own = [each for each in rows if each.strategy == name]
            found.append(
                PanelLine(
                    name=STRATEGY_NAMES[name],
                    bars=True,
                    points=[(each.load, round(scale * value(each.metrics), 4)) for each in own],
                )
            )
            known = [
                (each.load, scale * getattr(each.published, published))
                for each in own
                if each.published is not None and getattr(each.published, published) is not None
            ]
            found.append(PanelLine(name=f"{STRATEGY_NAMES[name]}, published", bars=True, points=known))
        return found

    yield Picture(
        title="Nodes saved, latency and failed tuples (Figure 14)",
        caption="Ours beside the published values.",
        x_title="",
        panels=[
            Panel(title="nodes saved, %", lines=bars(lambda m: m.nodes_saved, "nodes_saved", 100.0)),
            Panel(title="mean latency, s", lines=bars(lambda m: m.latency_mean_s, "latency_mean_s")),
            Panel(title="failed tuples, %", lines=bars(lambda m: m.failed, "failed", 100.0)),
        ],
    )


def study_pictures(studies: Studies) -> list[Picture]:
    """Figures 7 and 9 to 12."""
    accuracy, uneven = studies.estimator, studies.imbalance
    spouts = ", ".join(map(str, uneven.spouts))
    return [
        Picture(
            title=f"{each.load}: forecast a minute ahead (Figure 7)",
            caption="Mean square error on the load scaled to [0, 1]: "
            + ", ".join(f"{100 * e:.2f} % {format_duration(s)} ahead" for s, e in each.errors.items())
            + f". The paper reports {100 * FORECAST_ERROR:g} % on average.",
            panels=[
                Panel(
                    title="load, tuples/s",
                    lines=[
                        PanelLine(name="arrived", points=each.came, behind=True),
                        PanelLine(name="forecast", points=each.forecast),
                    ],
                )
            ],
        )
        for each in studies.forecasts
    ] + [
        Picture(
            title="Load imbalance on three nodes (Figure 9)",
            caption=f"A sine; {spouts} instances of the spout on the nodes. The fullest node has {uneven.ratio:.2f} "
            "times the CPU of the emptiest. In the paper it is almost twice in some periods: its spout costs more, "
            "which the paper does not quantify.",
            panels=[
                Panel(
                    title="CPU of each node, share",
                    lines=[PanelLine(name=name, points=points) for name, points in uneven.nodes.items()],
                )
            ],
        ),
        *estimator_pictures(
            accuracy,
            figures=(10, 11),
            operators_note="",
            nodes_note="Estimated from rates alone, on unequally loaded nodes.",
        ),
        Picture(
            title="Cost of reconfiguring, by assessment period (Figure 12)",
            caption="Over-provisioned on nine minutes of a sine, rebalanced needlessly at every assessment. Without a "
            f"rebalance: {studies.reconfigurations[0].throughput_degradation_unsmoothed:.3f}. The paper plots the "
            "curve without a scale.",
            x_title="assessment period, s",
            panels=[
                Panel(
                    title="throughput degradation, second by second",
                    lines=[
                        PanelLine(
                            name="ours",
                            points=[
                                (each.period_s, each.throughput_degradation_unsmoothed)
                                for each in studies.reconfigurations
                                if each.period_s is not None
                            ],
                        )
                    ],
                )
            ],
        ),
    ]
