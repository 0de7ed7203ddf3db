"""The page of Elysium: complete, one file that loads nothing, and safe with any text."""

from __future__ import annotations

import json
import re

import pytest

from ebbflow.papers.elysium.page import ElysiumPage, Finding, Headline, LearnedRow, Row, elysium_page
from ebbflow.report.panels import Panel, PanelLine, Picture, panels_figure

HOSTILE = "<script>alert(1)</script>"


def row(**given: object) -> Row:
    values: dict[str, object] = {
        "application": "T1", "load": "stair", "strategy": "joint", "target": "simulator",
        "published_degradation": 0.97, "published_saved": 0.32, "degradation": 0.123, "degradation_unsmoothed": 0.4,
        "saved": 0.3, "latency_s": 4.2, "reconfigurations": 11.0,
    }  # fmt: skip
    return Row(**(values | given))  # type: ignore[arg-type]


def picture(title: str = "nodes") -> Picture:
    joint = PanelLine(name="joint", points=[(0.0, 1.0), (60.0, 2.0)], steps=True)
    load = PanelLine(name="load", points=[(0.0, 100.0), (60.0, 200.0)], behind=True)
    return Picture(
        title=title,
        caption="a caption",
        panels=[Panel(title="rows/s", lines=[load, joint]), Panel(title="nodes", lines=[joint], whole=True)],
    )


def test_the_page_has_every_row_with_what_was_published_and_loads_nothing() -> None:
    page = ElysiumPage(
        rows=[row(), row(strategy="symbiotic", published_saved=None, note="the text says 52 %")],
        findings=[
            Finding(
                what="T1 stair", saves_more=True, degrades_no_more=False, explanation="it stopped more often"
            )
        ],
        pictures=[picture()],
        headlines=[Headline(text="better on 1 of 1", ok=True), Headline(text="worse on 2", ok=False)],
        data={"rows": [1]},
    )
    text = elysium_page(page)
    rest = re.sub(r'<script id="plotly-js">.*?</script>', "", text, flags=re.DOTALL)
    assert '<h1 class="kept"><i class="mark"></i>better on 1 of 1</h1>' in rest
    assert '<h2 class="missed"><i class="mark"></i>worse on 2</h2>' in rest
    assert "it stopped more often" in rest
    assert (
        "<td>0.97</td><td>0.12</td><td>0.40</td><td>32 %</td><td>30 %</td><td>4.2 s</td><td>11.0</td>" in rest
    )
    assert "the text says 52 %" in rest
    assert not re.findall(r"https?://", rest)
    assert json.loads(re.findall(r'id="picture-0">(.*?)</script>', rest, flags=re.DOTALL)[0])["data"]


def test_hostile_text_is_text_everywhere() -> None:
    text = elysium_page(
        ElysiumPage(
            rows=[row(load=HOSTILE, strategy=HOSTILE, note=HOSTILE, figure=HOSTILE)],
            findings=[Finding(what=HOSTILE, saves_more=True, degrades_no_more=True, explanation=HOSTILE)],
            pictures=[picture(HOSTILE)],
            headlines=[Headline(text=HOSTILE, ok=True), Headline(text=HOSTILE, ok=False)],
            facts=[HOSTILE],
            data=HOSTILE,
        )
    )
    assert "<script>alert" not in text


def test_a_line_has_one_colour_and_one_entry_in_the_legend_in_all_panels() -> None:
    figure = panels_figure(picture())
    load, first, second = figure.data
    assert (load.fill, first.line.color) == ("tozeroy", second.line.color)
    assert [trace.showlegend for trace in figure.data] == [True, True, False]
    assert (first.yaxis, second.yaxis) == ("y", "y2")
    assert figure.layout.yaxis.domain[0] > figure.layout.yaxis2.domain[1]
    assert figure.layout.yaxis2.domain[0] == 0.0


@pytest.mark.parametrize("names", [["joint"], [f"only-resources (parallelism {n})" for n in range(6)]])
def test_the_legend_fits_above_the_title_of_the_first_panel_in_a_narrow_window(
    names: list[str],
) -> None:
    lines = [PanelLine(name=name, points=[(0.0, 1.0), (60.0, 2.0)]) for name in names]
    panels = [Panel(title="rows/s", lines=lines), Panel(title="nodes", lines=lines, whole=True)]
    layout = panels_figure(Picture(title="", caption="", panels=panels)).layout
    inner = layout.height - layout.margin.t - layout.margin.b
    title = layout.annotations[0]
    title_top = title.y * inner + title.yshift + 1.5 * title.font.size
    legend_bottom = layout.legend.y * inner
    assert layout.legend.yanchor == "bottom"
    assert legend_bottom >= title_top
    needed = 1 if len(names) == 1 else 3  # two such names fit side by side
    assert layout.margin.t >= legend_bottom - inner + needed * 19


def test_the_highest_count_is_not_cut_off() -> None:
    figure = panels_figure(picture())
    assert figure.layout.yaxis2.range[0] == 0.0
    assert figure.layout.yaxis2.range[1] > 2.0


def test_learned_thresholds_stand_beside_the_published_ones_with_an_explanation() -> None:
    learned = LearnedRow(
        name=HOSTILE, published=0.25, learned=0.45, reward=0.3241, best=0.5, inside=True, explanation=HOSTILE
    )
    text = elysium_page(
        ElysiumPage(rows=[], findings=[], pictures=[], thresholds=[learned], trial="on a step" + HOSTILE)
    )
    assert "<p>on a step&lt;script" in text
    assert "<td>0.25</td><td>0.45</td><td>0.32</td><td>0.50</td><td>yes</td>" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;</b>" in text
    assert "<script>alert" not in text


def test_bars_stand_side_by_side_over_text_labels() -> None:
    lines = [
        PanelLine(name=name, bars=True, points=[("T1 stair", 0.1), ("T1 step", 0.2)])
        for name in ("joint", "other")
    ]
    figure = panels_figure(Picture(title="", caption="", panels=[Panel(title="", lines=lines)]))
    assert [trace.type for trace in figure.data] == ["bar", "bar"]
    assert figure.data[0].x == ("T1 stair", "T1 step")
