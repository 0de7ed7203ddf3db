"""The page of Elysium: complete, one file that loads nothing, and safe with any text."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from ebbflow.papers import SIMULATOR
from ebbflow.papers.elysium.cases import cases
from ebbflow.papers.elysium.comparison import Comparison
from ebbflow.papers.elysium.page import elysium_page
from ebbflow.papers.elysium.published import JOINT, T1, Published
from ebbflow.papers.elysium.run import GENERATED, Result, RowMetrics
from ebbflow.report.panels import Panel, PanelLine, Picture, panels_figure

HOSTILE = "<script>alert(1)</script>"


def result(**key: str) -> Result:
    """A row of T1 on the stair under joint scaling; ``key`` replaces parts of its name."""
    (case,) = cases(applications=[T1], loads=["stair"], strategies=[JOINT])
    published = Published(
        throughput_degradation=0.97, nodes_saved=0.32, note=key.pop("note", ""), figure=key.pop("figure", "")
    )
    metrics = RowMetrics(
        throughput_degradation=0.123, throughput_degradation_unsmoothed=0.4, nodes_saved=0.3,
        latency_mean_s=4.2, reconfigurations=11.0,
    )  # fmt: skip
    case = replace(case, key=case.key._replace(**key), published=published)
    return Result(case=case, target=SIMULATOR, metrics=metrics, runs=1)


def comparison(**given: str) -> Comparison:
    values = {"application": T1, "load": "stair", "target": SIMULATOR, "explanation": "it stopped more often"}
    return Comparison(**(values | given), saves_more=True, degrades_no_more=False)  # type: ignore[arg-type]


def picture(title: str = "nodes") -> Picture:
    joint = PanelLine(name="joint", points=[(0.0, 1.0), (60.0, 2.0)], steps=True)
    load = PanelLine(name="load", points=[(0.0, 100.0), (60.0, 200.0)], behind=True)
    return Picture(
        title=title,
        caption="a caption",
        panels=[Panel(title="rows/s", lines=[load, joint]), Panel(title="nodes", lines=[joint], whole=True)],
    )


def test_the_page_has_every_row_with_what_was_published_and_loads_nothing() -> None:
    unpublished = result(strategy="symbiotic")
    unpublished = replace(unpublished, case=replace(unpublished.case, published=None, traced=False))
    text = elysium_page([result(note="the text says 52 %"), unpublished], [comparison()], None)
    rest = re.sub(r'<script id="plotly-js">.*?</script>', "", text, flags=re.DOTALL)
    assert (
        '<h1 class="missed"><i class="mark"></i>Symbiotic saves more nodes than joint on 1 of 1 loads' in rest
    )
    assert "✗ <b>T1 stair</b> it stopped more often" in rest
    assert (
        "<td>0.97</td><td>0.12</td><td>0.40</td><td>32 %</td><td>30 %</td><td>4.2 s</td><td>11.0</td>" in rest
    )
    assert "<td>–</td><td>0.12</td><td>0.40</td><td>–</td><td>30 %</td>" in rest
    assert "<li>T1 stair joint: the text says 52 %</li>" in rest
    assert f"<li>T1 stair symbiotic: {GENERATED}</li>" in rest
    assert not re.findall(r"https?://", rest)
    assert json.loads(re.findall(r'id="picture-0">(.*?)</script>', rest, flags=re.DOTALL)[0])["data"]


def test_hostile_text_is_text_everywhere() -> None:
    row = result(load=HOSTILE, strategy=HOSTILE, setting=HOSTILE, note=HOSTILE, figure=HOSTILE)
    text = elysium_page([row], [comparison(load=HOSTILE, strategy=HOSTILE, explanation=HOSTILE)], None)
    assert text.count("&lt;script&gt;alert(1)") > 6
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


def test_bars_stand_side_by_side_over_text_labels() -> None:
    lines = [
        PanelLine(name=name, bars=True, points=[("T1 stair", 0.1), ("T1 step", 0.2)])
        for name in ("joint", "other")
    ]
    figure = panels_figure(Picture(title="", caption="", panels=[Panel(title="", lines=lines)]))
    assert [trace.type for trace in figure.data] == ["bar", "bar"]
    assert figure.data[0].x == ("T1 stair", "T1 step")
