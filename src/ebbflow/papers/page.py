"""What the pages of papers share: the data behind them and the charts of the estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ebbflow.papers.studies import EstimatorAccuracy
from ebbflow.report.panels import Panel, PanelLine, Picture, panels_figure
from ebbflow.report.template import figure_json


class HasJson(Protocol):
    """Anything with JSON values."""

    def to_json(self) -> dict[str, Any]: ...


def embedded_data(
    pictures: Sequence[Picture],
    *,
    rows: Sequence[HasJson],
    comparisons: Sequence[HasJson],
    studies: HasJson | None,
    curves: Mapping[str, HasJson | None],
) -> dict[str, Any]:
    """What a page embeds: its pictures, and the data that a reader can save from it."""
    return {
        **{f"picture-{i}": figure_json(panels_figure(picture)) for i, picture in enumerate(pictures)},
        "ebbflow-data": {
            "rows": [row.to_json() for row in rows],
            "verdicts": [each.to_json() for each in comparisons],
            "studies": None if studies is None else studies.to_json(),
            "curves": {name: each.to_json() for name, each in curves.items() if each is not None},
        },
    }


def estimator_pictures(
    accuracy: EstimatorAccuracy, *, figures: tuple[int, int], operators_note: str, nodes_note: str
) -> list[Picture]:
    """CPU measured and estimated: of operators over time, and of a node by the sum of its instances."""
    worst = max(accuracy.operators.values())
    return [
        Picture(
            title=f"CPU of operators, measured and estimated (Figure {figures[0]})",
            caption="A sine that the profile was not learned from. Mean error "
            f"{100 * accuracy.mean:.1f} % over all operators, {100 * worst:.1f} % at worst{operators_note}.",
            panels=[
                Panel(
                    title=f"{name}, cores of all instances",
                    lines=[
                        PanelLine(name="measured", points=accuracy.measured[name]),
                        PanelLine(name="estimated", points=accuracy.estimated[name], dashed=True),
                    ],
                )
                for name in accuracy.measured
            ],
        ),
        Picture(
            title=f"CPU of a node against the sum of its instances (Figure {figures[1]})",
            caption=f"{nodes_note} Mean error {100 * accuracy.node:.1f} %.",
            x_title="cores of the instances on the node",
            panels=[
                Panel(
                    title="share of the node in use",
                    lines=[
                        PanelLine(name="measured", points=accuracy.nodes_measured, dots=True),
                        PanelLine(name="estimated", points=accuracy.nodes_estimated),
                    ],
                )
            ],
        ),
    ]
