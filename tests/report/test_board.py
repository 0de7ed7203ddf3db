"""The comparison board: one file that loads nothing, safe with any text, with every strategy and load."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import msgspec
import numpy as np
from report_runs import scores_of, sine_run

from ebbflow.report.board import (
    Board,
    BoardCase,
    BoardCell,
    BoardLoad,
    BoardRow,
    BoardRun,
    board_page,
    headline,
    write_board,
)
from ebbflow.report.drawing import Detail, draw

HOSTILE = "<script>alert(1)</script>"
CAPACITY = np.arange(9) * 100.0


def drawing(hostile: str = ""):
    run = sine_run(hostile=hostile) if hostile else sine_run()
    return draw(run, CAPACITY, run.nodes)


def row(strategy: str, rank: int = 1, *, kept: bool = True, **more) -> BoardRow:
    scores = {**scores_of(sine_run()), "violation": 0.01 if kept else 0.2}
    given = {"runs": 3, "kept_runs": 3 if kept else 0, "failed": 0, "wins": 1, "scores": scores, **more}
    return BoardRow(rank=rank, strategy=strategy, kept=kept, **given)


def cell(kept: bool = True) -> BoardCell:
    return BoardCell(cost_ratio=1.23, node_seconds=1000.0, violation=0.01 if kept else 0.2, kept=kept)


def case(seed: int, text: str, names, hostile: str = "") -> BoardCase:
    runs = {name: BoardRun(cell=cell(), drawing=drawing(hostile)) for name in names}
    return BoardCase(seed=seed, text=text, runs=runs)


def board(*names: str, loads: int = 2, seeds: int = 1, hostile: str = "") -> Board:
    rows = [row(name, rank, kept=rank < 3) for rank, name in enumerate(names, start=1)]
    return Board(
        title=f"A board {hostile}", facts=[f"two {hostile}"], rule="cheapest first", slo=sine_run().slo, rows=rows,
        loads=[
            BoardLoad(
                name=f"load{i}{hostile}", first=names[0], cells={name: cell(name != names[-1]) for name in names},
                cases=[case(seed, f"constant({i}){hostile}", names, hostile) for seed in range(1, seeds + 1)],
            )
            for i in range(loads)
        ],
        notes=[f"a note {hostile}"],
    )  # fmt: skip


def without_plotly(text: str) -> str:
    return re.sub(r'<script id="plotly-js">.*?</script>', "", text, flags=re.DOTALL)


def data(text: str):
    (found,) = re.findall(
        r'<script type="application/json" id="ebbflow-data">(.*?)</script>', text, flags=re.DOTALL
    )
    return json.loads(found)


def test_the_spread_over_the_seeds_stands_beside_its_mean() -> None:
    several = row("x", scores={"node_seconds": 5000.0, "violation": 0.02})
    several = replace(several, spread={"node_seconds": 123.4, "violation": 0.0031})
    page = board_page(replace(board("x"), rows=[several]))
    assert ">5,000 <small>± 123</small></td>" in page
    assert ">2 % <small>± 0.3 %</small></td>" in page
    assert "<small>±" not in without_plotly(board_page(board("x"))), "one seed has none"


def test_the_page_loads_nothing_from_anywhere(tmp_path) -> None:
    write_board(tmp_path / "b.html", board("x", "y"))
    rest = without_plotly((tmp_path / "b.html").read_text())
    assert not re.findall(r"\bsrc\s*=", rest)
    assert not re.findall(r"https?://", rest)
    assert "default-src 'none'" in rest
    assert rest.count("<script") == rest.count("</script>") == 2


def test_hostile_text_is_text_everywhere() -> None:
    text = board_page(board(f"mine{HOSTILE}", "y", hostile=HOSTILE))
    rest = without_plotly(text)
    assert "<script>alert" not in text
    assert rest.count("<script") == rest.count("</script>") == 2
    assert data(text)["loads"][0]["name"] == f"load0{HOSTILE}"
    assert "innerHTML" not in rest, "texts go in as text"


def test_every_strategy_is_ranked_and_has_its_runs_on_every_load() -> None:
    text = board_page(board("x", "y", "z"))
    assert re.findall(r"<td>(\d)</td><th scope=\"row\">.*?</i>(\w)</th>", text) == [
        ("1", "x"),
        ("2", "y"),
        ("3", "z"),
    ]
    assert text.count("did not keep the SLO</th>") == 1
    assert text.count("20 % late</small>") == 2, "the share of late rows on each load"
    found = data(text)
    assert [load["name"] for load in found["loads"]] == ["load0", "load1"]
    for load in found["loads"]:
        (only,) = load["seeds"]
        assert set(only["runs"]) == {"x", "y", "z"}
        assert {"held", "working", "backlog", "freshness", "acts", "summary"} <= set(only["runs"]["x"])
        assert only["capacity"] == CAPACITY.tolist()
    assert len({(s["colour"], s["dash"]) for s in found["strategies"]}) == 3


def test_infeasible_loads_are_counted_beside_the_cost() -> None:
    one = board("x", "y")
    text = board_page(replace(one, rows=[row("x", infeasible=3), row("y", 2)]))
    assert re.findall(r'<td class="narrow">([^<]*)</td></tr>', text) == ["3", "–"]


def test_two_dozen_strategies_look_different() -> None:
    found = data(board_page(board(*[f"s{i}" for i in range(24)], loads=1)))
    assert len({(s["colour"], s["dash"]) for s in found["strategies"]}) == 24


def test_a_run_that_failed_leaves_a_gap_and_no_error() -> None:
    one = board("x", "y")
    bare = replace(one.loads[0], cells={"x": cell()}, cases=[BoardCase(seed=1, text="t", runs={})])
    text = board_page(replace(one, loads=[bare, one.loads[1]]))
    assert '<td class="bad">failed</td>' in text
    assert data(text)["loads"][0]["seeds"][0]["runs"] == {}


def test_every_seed_can_be_chosen_and_has_its_own_runs() -> None:
    text = board_page(board("x", "y", seeds=3))
    found = data(text)
    assert [[one["seed"] for one in load["seeds"]] for load in found["loads"]] == [[1, 2, 3], [1, 2, 3]]
    assert all(set(one["runs"]) == {"x", "y"} for load in found["loads"] for one in load["seeds"])
    assert '<label>seed <select id="seed">' in text
    assert '<label hidden>seed <select id="seed">' in board_page(board("x", "y"))


def test_changes_left_out_of_the_page_are_counted() -> None:
    run = sine_run()
    acts = [entry for entry in run.decisions if entry.verdict == "act"]
    many = replace(
        run, decisions=[msgspec.structs.replace(acts[0], time_s=run.started_s + i) for i in range(431)]
    )
    busy = BoardRun(cell=cell(), drawing=draw(many, CAPACITY, None))
    one = board("x", loads=1)
    one = replace(one, loads=[replace(one.loads[0], cases=[BoardCase(seed=1, text="t", runs={"x": busy})])])
    shown = data(board_page(one))["loads"][0]["seeds"][0]["runs"]["x"]
    assert (len(shown["acts"]), shown["actsInAll"]) == (120, 431)
    assert "are left out here and in the chart" in board_page(one)


def test_coarse_loads_have_a_table_and_columns_of_their_own() -> None:
    one = board("x", "y")
    late = [row("x", 1, kept=False), row("y", 2, kept=True)]
    loads = [one.loads[0], replace(one.loads[1], coarse=True, sampled="a sample every 5m")]
    text = board_page(replace(one, coarse=late, loads=loads))
    assert text.count('<table class="board">') == 2
    assert "Coarser loads, listed separately" in text
    assert '<th colspan="1">ranked</th><th colspan="1">coarse</th>' in text
    assert 'title="constant(1), a sample every 5m"' in text
    assert data(text)["loads"][1]["sampled"] == "a sample every 5m"
    assert "listed separately" not in without_plotly(board_page(one))


def test_the_headline_says_which_strategy_is_first_and_whether_it_kept_the_slo() -> None:
    assert headline([row("x"), row("y", 2)]).startswith("x is first of 2: it kept the SLO at ")
    assert headline([row("x", kept=False), row("y", 2, kept=False)]).startswith(
        "x is first of 2, but none of them kept"
    )
    alone = row("x", scores={"violation": 0.0, "cost_ratio": None, "node_seconds": 1200.0})
    assert headline([alone]) == "x kept the SLO at 1,200 node-seconds; 0 % of the rows were late."


def test_twelve_strategies_on_ten_loads_fit_in_15_megabytes() -> None:
    run = sine_run()
    rng = np.random.default_rng(1)
    times_s = np.sort(rng.uniform(run.started_s, run.ended_s, 3_000))
    from ebbflow.core.curve import Curve

    busy = replace(
        run,
        nodes=Curve(times_s, rng.integers(1, 17, 3_000).astype(float)),
        nodes_working=Curve(times_s, rng.integers(1, 17, 3_000).astype(float)),
        processed=Curve(times_s, np.sort(rng.uniform(0, run.arrived.values[-1], 3_000))),
        decisions=[entry for entry in run.decisions if entry.verdict == "act"] * 100,
    )
    largest = draw(busy, CAPACITY, run.nodes)
    names = [f"s{i}" for i in range(12)]
    full = board(*names, loads=10)

    def page_of(drawn, seeds: int) -> int:
        runs = dict.fromkeys(names, BoardRun(cell=cell(), drawing=drawn))
        cases = [BoardCase(seed=seed, text="t", runs=runs) for seed in range(1, seeds + 1)]
        return len(
            board_page(replace(full, loads=[replace(load, cases=cases) for load in full.loads])).encode()
        )

    assert page_of(largest, 1) < 15e6
    thinner = draw(busy, CAPACITY, run.nodes, detail=Detail.of_each(360))
    assert page_of(thinner, 3) < 15e6, "three seeds of each"
