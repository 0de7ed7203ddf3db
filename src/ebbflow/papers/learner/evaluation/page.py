"""The page of ``bench learner``: for each study its question, a picture and a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ebbflow.core.plural import counted
from ebbflow.papers import SPARK
from ebbflow.papers.elysium.run import RunCurves
from ebbflow.papers.learner.evaluation.loads import ALL_FIVE
from ebbflow.papers.learner.evaluation.run import MeanOfSeeds, StudyRow
from ebbflow.papers.learner.evaluation.studies import Study
from ebbflow.report.panels import Panel, PanelLine, Picture, panels_figure
from ebbflow.report.template import figure_json, render
from ebbflow.report.wording import number

MOST_LATE = 0.10
"""Pictures of late rows end at this share; the table has every value."""
CONVERGENCE = "convergence"


def write_evaluation_page(
    path: Path, studies: Sequence[Study], rows: Sequence[StudyRow], curves: Mapping[str, RunCurves]
) -> None:
    """Write the page as one HTML file. ``curves``: runs on Spark, by setting."""
    path.write_text(evaluation_page(studies, rows, curves), encoding="utf-8")


def evaluation_page(
    studies: Sequence[Study], rows: Sequence[StudyRow], curves: Mapping[str, RunCurves]
) -> str:
    """The page as HTML text."""
    sections, data = [], {}
    for study in studies:
        own = [row for row in rows if row.study == study.name]
        if not own:
            continue
        data[study.name] = figure_json(panels_figure(_picture(study, own)))
        sections.append(
            {
                "heading": study.title,
                "paragraphs": [study.question, *_answers([r for r in own if r.setting not in study.bounds])],
                "figure": study.name,
                "table": table(own),
            }
        )
    on_spark = [row for row in rows if row.target == SPARK]
    if on_spark:
        data["on-spark"] = figure_json(panels_figure(_spark_picture(curves)))
        sections.append(
            {
                "heading": "On Spark",
                "paragraphs": ["One run of each, on a cluster of this machine with at most four executors."],
                "figure": "on-spark",
                "table": table(on_spark),
            }
        )
    seeds = max((row.seeds for row in rows if row.target != SPARK), default=0)
    facts = ["SLO: freshness p95 <= 30s"]
    if seeds:
        facts += [
            f"means of {counted(seeds, 'seed')} with 95 % confidence intervals (Student)",
            "1 to 16 nodes, lead time 12 s, a decision every 10 s",
            f"late rows beyond {100 * MOST_LATE:g} % are cut off in pictures",
        ]
    return render(
        "figures.html.j2",
        title="Does learning to scale pay?",
        eyebrow="Ebbflow: the evaluation of Learner",
        ok=None,
        facts=facts,
        sections=sections,
        data={**data, "ebbflow-data": {"rows": [row.to_json() for row in rows]}},
    )


def _answers(rows: Sequence[StudyRow]) -> list[str]:
    """What the figures say, for studies whose settings are judged on the same loads."""
    late: dict[str, list[float]] = {}
    cost: dict[str, list[float]] = {}
    for row in rows:
        if row.load != ALL_FIVE and row.cost_ratio is not None:
            late.setdefault(row.setting, []).append(row.violation.mean)
            cost.setdefault(row.setting, []).append(row.cost_ratio.mean)
    if len(late) < 2:
        return []
    mean_late = {name: sum(values) / len(values) for name, values in late.items()}
    mean_cost = {name: sum(values) / len(values) for name, values in cost.items()}
    least, cheapest = min(mean_late, key=mean_late.__getitem__), min(mean_cost, key=mean_cost.__getitem__)
    return [
        f"Mean over the loads: fewest late rows with {least} ({_share(mean_late[least])}, "
        f"{mean_cost[least]:.2f} times the cost of capacity), lowest cost with {cheapest} "
        f"({mean_cost[cheapest]:.2f} times, {_share(mean_late[cheapest])} late)."
    ]


def column(row: StudyRow) -> str:
    """What a row is measured on.

    >>> column(StudyRow(study="s", setting="a", load="sine", phase="", hours=1.0, node_seconds=MeanOfSeeds.of([1.0]),
    ...                 violation=MeanOfSeeds.of([0.0]), cost_ratio=None, reconfigurations=0.0, seeds=1))
    'sine'
    """
    return row.phase or row.load


def table(rows: Sequence[StudyRow]) -> dict[str, Any]:
    """Settings in rows; late rows and cost in columns, for each load or phase."""
    columns = list(dict.fromkeys(column(row) for row in rows))
    found: dict[str, dict[str, StudyRow]] = {}
    for row in rows:
        found.setdefault(row.setting, {})[column(row)] = row
    converged = any(row.converged_after_h is not None for row in rows)
    names = ["setting", *(f"{name}: {what}" for name in columns for what in ("late", "cost ÷ capacity"))]
    lines = []
    for setting, own in found.items():
        line = [setting]
        for name in columns:
            line += [late_text(own.get(name)), cost_text(own.get(name))]
        if converged:
            hours = next((r.converged_after_h for r in own.values() if r.converged_after_h is not None), None)
            line.append(
                number(None) if hours is None else f"{hours.mean:.0f} h {_half(hours, 1, '')}".strip()
            )
        lines.append(line)
    return {"columns": [*names, *(["converged after"] if converged else [])], "rows": lines}


def late_text(row: StudyRow | None) -> str:
    """Late rows with the interval."""
    if row is None:
        return number(None)
    return f"{_share(row.violation.mean)} {_half(row.violation, 100, '')}".strip()


def cost_text(row: StudyRow | None) -> str:
    """Cost relative to ``capacity`` with the interval; node-seconds without."""
    if row is None:
        return number(None)
    if row.cost_ratio is None:
        return f"{row.node_seconds.mean:,.0f} node-s"
    return f"{row.cost_ratio.mean:.2f} {_half(row.cost_ratio, 1, '')}".strip()


def _share(part: float) -> str:
    return f"{100 * part:.2f} %"


def _half(estimate: MeanOfSeeds, scale: float, unit: str) -> str:
    return "" if estimate.half is None else f"± {scale * estimate.half:.2f}{unit}"


# -- pictures ------------------------------------------------------------------------------------------------------


def _picture(study: Study, rows: Sequence[StudyRow]) -> Picture:
    return _curves(study, rows) if study.name == CONVERGENCE else _bars(study, rows)


def _bars(study: Study, rows: Sequence[StudyRow]) -> Picture:
    """Late rows and cost: a group of bars for each setting."""
    columns = list(dict.fromkeys(column(row) for row in rows))

    def lines(scale: float, of: str) -> list[PanelLine]:
        found = []
        for name in columns:
            own = [(row, getattr(row, of)) for row in rows if column(row) == name]
            known = [(row, value) for row, value in own if value is not None]
            found.append(
                PanelLine(
                    name=name,
                    bars=True,
                    points=[(row.setting, round(scale * value.mean, 4)) for row, value in known],
                    errors=[None if value.half is None else scale * value.half for _, value in known],
                )
            )
        return found

    return Picture(
        title=study.title,
        caption="",
        x_title="",
        panels=[
            Panel(title="late rows, %", lines=lines(100.0, "violation"), most=100.0 * MOST_LATE),
            Panel(title="node-seconds ÷ those of capacity", lines=lines(1.0, "cost_ratio")),
        ],
    )


def _curves(study: Study, rows: Sequence[StudyRow]) -> Picture:
    """Late rows and cost of each pass over the hours of learning."""
    settings = list(dict.fromkeys(row.setting for row in rows))

    def lines(scale: float, of: str) -> list[PanelLine]:
        found = []
        for setting in settings:
            passes = [row for row in rows if row.setting == setting and row.phase.startswith("pass ")]
            values = [getattr(row, of) for row in passes]
            found.append(
                PanelLine(
                    name=setting,
                    points=[
                        (row.hours * index, round(scale * value.mean, 4))
                        for index, (row, value) in enumerate(zip(passes, values, strict=True), start=1)
                    ],
                    errors=[None if value.half is None else scale * value.half for value in values],
                )
            )
        return found

    return Picture(
        title=study.title,
        caption="",
        x_title="hours of learning",
        panels=[
            Panel(title="late rows, %", lines=lines(100.0, "violation")),
            Panel(title="node-seconds ÷ those of capacity", lines=lines(1.0, "cost_ratio")),
        ],
    )


def _spark_picture(curves: Mapping[str, RunCurves]) -> Picture:
    """Load, executors and latency of the runs on Spark."""
    first = next(iter(curves.values()))
    (key,) = first.load
    return Picture(
        title="On Spark",
        caption="",
        panels=[
            Panel(
                title="rows/s",
                lines=[
                    PanelLine(name="load", points=first.load[key], behind=True),
                    *(PanelLine(name=name, points=each.throughput[key]) for name, each in curves.items()),
                ],
            ),
            Panel(
                title="executors",
                whole=True,
                lines=[PanelLine(name=n, points=each.nodes, steps=True) for n, each in curves.items()],
            ),
            Panel(
                title="latency, s",
                lines=[PanelLine(name=n, points=each.latency[key]) for n, each in curves.items()],
            ),
        ],
    )
