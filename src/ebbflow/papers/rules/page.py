"""The page of ``ebbflow bench rules``: queue length and size over time, like the figures of the thesis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebbflow.report.palette import COLOURS, FONT, GRID, TRANSPARENT
from ebbflow.report.template import figure_json, render


@dataclass(frozen=True, kw_only=True)
class CasePicture:
    """One case on the page."""

    title: str
    expected: str
    measured: str
    ok: bool
    queues: Mapping[str, Sequence[tuple[float, float]]]
    sizes: Mapping[str, Sequence[tuple[float, int]]]


def write_rules_page(path: Path, cases: Sequence[CasePicture]) -> None:
    """Write the page as one HTML file."""
    path.write_text(rules_page(cases), encoding="utf-8")


def rules_page(cases: Sequence[CasePicture]) -> str:
    """Return the page as HTML text."""
    passed = sum(case.ok for case in cases)
    data = {f"case-{index}": figure_json(case_figure(case)) for index, case in enumerate(cases)}
    return render(
        "figures.html.j2",
        title=f"Rules: {passed} of {len(cases)} tests have the expected result",
        eyebrow="Ebbflow: the six tests of the Rules thesis",
        ok=passed == len(cases),
        sections=[
            {
                "heading": f"{'✓' if case.ok else '✗'} {case.title}",
                "paragraphs": [f"Expected: {case.expected}", f"Measured: {case.measured}"],
                "figure": f"case-{index}",
            }
            for index, case in enumerate(cases)
        ],
        data={**data, "ebbflow-data": [_case_data(case) for case in cases]},
    )


def _case_data(case: CasePicture) -> dict[str, Any]:
    return {
        "title": case.title,
        "ok": case.ok,
        "expected": case.expected,
        "measured": case.measured,
        "queues": {name: [list(p) for p in points] for name, points in case.queues.items()},
        "sizes": {name: [list(p) for p in points] for name, points in case.sizes.items()},
    }


def case_figure(case: CasePicture) -> Any:
    """Draw queue length (left axis) and size (right axis, as steps) over time, one colour per operator."""
    import plotly.graph_objects as graph

    figure = graph.Figure()
    several = len(case.sizes) > 1
    for index, name in enumerate(case.sizes):
        colour = COLOURS[index % len(COLOURS)]
        of = f" of {name}" if several else ""
        queue, size = case.queues.get(name, ()), case.sizes[name]
        figure.add_trace(
            graph.Scatter(
                x=[round(t, 1) for t, _ in queue], y=[round(v, 1) for _, v in queue], mode="lines",
                name=f"queue length{of}", line={"color": colour, "width": 1.8},
                hovertemplate="%{x} s: %{y} rows<extra></extra>",
            )
        )  # fmt: skip
        figure.add_trace(
            graph.Scatter(
                x=[round(t, 1) for t, _ in size], y=[n for _, n in size], mode="lines", yaxis="y2",
                name=f"size{of}", line={"color": colour, "width": 2.2, "shape": "hv", "dash": "dot"},
                hovertemplate="%{x} s: %{y} instances<extra></extra>",
            )
        )  # fmt: skip
    largest = max((n for points in case.sizes.values() for _, n in points), default=1)
    figure.update_layout(
        height=320, margin={"l": 56, "r": 48, "t": 12, "b": 40}, font={"family": FONT, "size": 13},
        paper_bgcolor=TRANSPARENT, plot_bgcolor=TRANSPARENT, hovermode="x unified",
        legend={"orientation": "h", "y": 1.12},
        xaxis={
            "title": {"text": "seconds", "font": {"size": 13}}, "gridcolor": GRID, "zeroline": False,
            "ticks": "outside", "ticklen": 6, "tickcolor": TRANSPARENT,  # keeps labels apart from those of the y axes
        },
        yaxis={"title": "rows queued", "gridcolor": GRID, "rangemode": "tozero", "zeroline": False},
        yaxis2={
            "title": "instances", "overlaying": "y", "side": "right", "range": [0, largest + 1], "dtick": 1,
            "showgrid": False, "zeroline": False,
        },
    )  # fmt: skip
    return figure
