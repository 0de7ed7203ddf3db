"""Figures: one time axis, a visible SLO, runs that look different and can be hidden."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from report_runs import EPOCH_S, ROWS_PER_NODE_S, empty_run, scores_of, sine_run

from ebbflow.core.curve import Curve
from ebbflow.report import figures
from ebbflow.runs.scaling_points import scaling_points

THREE = (sine_run(), sine_run("static", fixed_nodes=6), sine_run("rules", headroom=0.8))


def test_all_panels_share_one_time_axis():
    figure = figures.timeline(THREE)
    assert {trace.xaxis for trace in figure.data} == {"x"}
    assert {trace.yaxis for trace in figure.data} == {"y", "y2", "y3", "y4"}
    assert tuple(figure.layout.xaxis.range) == (0, 180.0)
    assert figure.layout.hovermode == "x unified"


def test_the_slo_is_a_dashed_line_within_the_picture():
    for run in (sine_run(slo_s=15.0), sine_run(slo_s=300.0)):
        figure = figures.timeline([run])
        (line,) = [shape for shape in figure.layout.shapes if shape.name == "slo"]
        assert line.y0 == line.y1 == run.slo.freshness_s
        assert line.yref == "y4"
        assert line.line.dash == "dash"
        assert figure.layout.yaxis4.range[1] > run.slo.freshness_s


def test_limits_are_drawn():
    shapes = figures.timeline([sine_run()]).layout.shapes
    assert {shape.y0 for shape in shapes if shape.name == "limit"} == {1, 6}


def test_each_run_has_one_entry_in_the_legend_that_toggles_it_everywhere():
    figure = figures.timeline(THREE)
    assert figure.layout.legend.groupclick == "togglegroup"
    shown = [trace.name for trace in figure.data if trace.showlegend]
    assert shown == ["load", "symbiotic", "static", "rules"]
    for group in ("run0", "run1", "run2"):
        panels = {trace.yaxis for trace in figure.data if trace.legendgroup == group}
        assert panels == {"y", "y2", "y3", "y4"}


def test_runs_with_different_loads_each_show_their_own():
    other = sine_run("other")
    other = replace(other, arrived=Curve(other.arrived.times_s, other.arrived.values * 2))
    loads = [trace for trace in figures.timeline([THREE[0], other]).data if trace.name == "load"]
    assert [trace.legendgroup for trace in loads] == ["run0", "run1"]


def test_runs_have_different_colours():
    figure = figures.timeline(THREE)
    assert len({trace.line.color for trace in figure.data if trace.showlegend and trace.name != "load"}) == 3


def test_decisions_point_up_and_down_and_say_why():
    run = sine_run()
    (markers,) = [trace for trace in figures.timeline([run]).data if trace.mode == "markers"]
    acts = [entry for entry in run.decisions if entry.verdict == "act"]
    assert len(markers.x) == len(acts) > 5
    assert set(markers.marker.symbol) == {"triangle-up", "triangle-down"}
    assert "0:08  1 → 3" in markers.text[0]
    assert "rows/s" in markers.text[0]
    assert "⌈λ′ · h / c⌉" in markers.text[0]
    assert "freshness 7.5 s → 8.1 s" in markers.text[0]


def test_points_of_an_act_are_marked_and_in_its_hover_text():
    run = replace(sine_run(), capacity_rows_per_s=np.arange(7) * ROWS_PER_NODE_S)
    points = scaling_points([run])
    marks, markers = (trace for trace in figures.timeline([run], [points]).data if trace.mode == "markers")
    ready = [each.ready_s - run.started_s for each in points if each.ready_s is not None]
    demand = [each.demand_s - run.started_s for each in points if each.demand_s is not None]
    by_symbol = {"circle-open": [], "x-thin-open": []}
    for x, symbol in zip(marks.x, marks.marker.symbol, strict=True):
        by_symbol[symbol].append(x)
    assert by_symbol == {"circle-open": pytest.approx(ready), "x-thin-open": pytest.approx(demand)}
    assert ready
    assert demand
    assert "ready +9 s" in markers.text[0]


def test_hover_text_names_what_bound_a_decision():
    run = sine_run(headroom=4.0)
    entry = next(entry for entry in run.decisions if entry.decision.bound_by)
    assert "bound by" in figures.decision_text(entry, EPOCH_S)


def test_hover_text_is_escaped():
    run = sine_run(hostile="<a href='https://evil'>x</a> %{x}")
    (markers,) = [trace for trace in figures.timeline([run]).data if trace.mode == "markers"]
    assert "<a" not in "".join(markers.text)
    assert "&lt;a" in "".join(markers.text)


def test_violations_are_tinted_only_where_there_are_some():
    tinted = [t for t in figures.timeline([sine_run(slo_s=12.0)]).data if t.fill == "tonexty"]
    assert len(tinted) == 1
    assert min(tinted[0].y) == 12.0
    assert not [t for t in figures.timeline([sine_run(slo_s=300.0)]).data if t.fill == "tonexty"]


def test_bars_compare_cost_and_latency():
    scores = [scores_of(run) for run in THREE]
    figure = figures.comparison(THREE, scores)
    cost, latency = figure.data
    assert list(cost.x) == [score["node_seconds"] for score in scores]
    assert list(latency.x) == [score["latency_p95_s"] for score in scores]
    assert any(shape.name == "slo" for shape in figure.layout.shapes)


def test_unknown_scores_have_no_bar_and_a_dash():
    figure = figures.comparison(THREE[:1], [scores_of(THREE[0], latency_p95_s=None)])
    assert figure.data[1].text[0] == "–"


def test_a_run_without_data_makes_an_empty_figure():
    assert figures.timeline([empty_run()]).data is not None
    assert not figures.timeline([]).data
