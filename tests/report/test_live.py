"""The live view: fits 80 columns, shows unknown values as such, and is safe with any text."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from ebbflow.core.limits import Limits
from ebbflow.report.live import LiveState, LiveView, plain_line, render

UNKNOWN = LiveState(title="word count", strategy="symbiotic", elapsed_s=0.0)
FULL = LiveState(
    title="word count",
    strategy="symbiotic",
    elapsed_s=83.4,
    total_s=180.0,
    load_per_s=243.2,
    load_history=[float(i % 40) for i in range(200)],
    backlog_rows=1204.0,
    backlog_history=[10.0, None, 30.0],
    freshness_s=8.2,
    freshness_history=[2.0, 13.0, 16.0],
    slo_s=15.0,
    nodes_working=3,
    nodes_requested=5,
    nodes_history=[1, 1, 3],
    limits=Limits(min_nodes=1, max_nodes=6),
    batch_id=41,
    batch_rows=1210,
    batch_duration_s=3.2,
    verdict="act",
    reason="the load expected in 9 s, 285 rows/s, needs 6 executors; " * 3,
    bound_by="step-cap",
    decision_age_s=12.0,
    top_items=[("the", 12045), ("stream", 9033)] * 10,
)


def _drawn(state: LiveState, width: int = 80) -> list[str]:
    console = Console(record=True, width=width, file=io.StringIO())
    console.print(render(state))
    return console.export_text().splitlines()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("state", [UNKNOWN, FULL])
def test_it_fits_the_terminal(state, width):
    lines = _drawn(state, width)
    assert {cell_len(line) for line in lines} == {width}
    assert len(lines) <= 22


def test_an_unknown_value_is_a_dash_and_never_a_zero():
    body = "\n".join(_drawn(UNKNOWN)[2:])
    assert body.count("–") >= 5
    assert "0" not in body
    assert "None" not in body


def test_known_values_are_shown():
    text = "\n".join(_drawn(FULL))
    for words in (
        "ebbflow · word count · symbiotic", "1:23 of 3:00", "46 %", "243 rows/s", "1,204 rows", "8.2 s",
        "SLO 15 s", "3 → 5", "of 1:6", "■ ■ ■ □ □ ·", "batch 41: 1,210 rows, 3.2 s", "act", "0:12 ago",
        "bound by step-cap", "the 12,045",
    ):  # fmt: skip
        assert words in text, words


def test_freshness_is_coloured_against_the_slo():
    for freshness_s, colour in ((2.0, "32"), (13.0, "33"), (16.0, "31")):
        console = Console(width=80, file=io.StringIO(), force_terminal=True, color_system="standard")
        console.print(render(replace(FULL, freshness_s=freshness_s, freshness_history=())))
        assert f"\x1b[1;{colour}m{freshness_s:g} s" in console.file.getvalue()


def test_leaving_and_starting_nodes_look_different():
    assert "■ ■ ▣ · · ·" in "\n".join(_drawn(replace(FULL, nodes_requested=2)))


def test_too_many_nodes_for_blocks_are_counted():
    many = replace(FULL, nodes_working=80, nodes_requested=90, limits=Limits(min_nodes=1, max_nodes=200))
    assert "■×80 □×10 ·×110" in "\n".join(_drawn(many))


def test_text_from_data_cannot_command_the_terminal():
    evil = "\x1b[2J\x1b]0;owned\x07[red]bold[/red]\nline"
    state = replace(FULL, reason=evil, top_items=[(evil, 1)], title=evil, message=evil, bound_by=evil)
    text = "\n".join(_drawn(state))
    assert "\x1b" not in text
    assert "[red]" in text
    assert "\x1b" not in plain_line(state)
    assert "\n" not in plain_line(state)


def test_plain_line_is_one_compact_line():
    line = plain_line(replace(FULL, reason="load grows"))
    assert line == (
        "1:23/3:00 | load 243 rows/s | backlog 1,204 | freshness 8.2 s (SLO 15 s) | executors 3→5 of 1:6 | "
        "batch 41: 1,210 rows, 3.2 s | act: load grows [bound by step-cap]"
    )
    assert plain_line(UNKNOWN) == "0:00 | load – rows/s | backlog – | freshness – | executors –"


def test_without_a_terminal_the_view_prints_an_occasional_line():
    console = Console(file=io.StringIO(), width=80)
    with LiveView(console, line_every_s=10.0) as view:
        for second in range(25):
            view.update(replace(FULL, elapsed_s=float(second)))
    lines = console.file.getvalue().splitlines()
    assert [line.split("/")[0] for line in lines] == ["0:00", "0:10", "0:20"]


def test_on_a_terminal_the_view_draws_in_place():
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    with LiveView(console) as view:
        view.update(FULL)
        view.update(replace(FULL, batch_id=42))
    assert "batch 42" in console.file.getvalue()
