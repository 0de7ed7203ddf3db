"""The page of a comparison: the ranking, every load beside every strategy, and each run to look at.

As all pages: one file that loads nothing, in which names and reasons are data and never markup.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ebbflow.core.slo import Slo
from ebbflow.report.board_assets import SCRIPT, STYLE
from ebbflow.report.drawing import Drawing
from ebbflow.report.figures import COLOURS
from ebbflow.report.numbers import seconds, share, times, whole
from ebbflow.report.shell import FOOTER, document, script_json
from ebbflow.report.wording import Scores, slo_text

SHOWN_AT_FIRST = 3
"""Strategies whose runs are drawn when the page opens; the others are one click away."""


@dataclass(frozen=True, kw_only=True)
class BoardRow:
    """A strategy in the ranking; its scores are means over its runs."""

    rank: int
    strategy: str
    kept: bool
    runs: int
    kept_runs: int
    failed: int
    wins: int
    scores: Scores
    past: bool = False
    """Whether it is no strategy but a run that was; that is always drawn."""
    infeasible: int = 0
    """Loads on which nobody can keep the SLO."""
    spread: Scores = field(default_factory=dict)
    """Of some scores the standard deviation over the seeds, where there are several."""


@dataclass(frozen=True, kw_only=True)
class BoardCell:
    """A strategy on one load: means over the seeds."""

    cost_ratio: float | None
    node_seconds: float | None
    violation: float | None
    kept: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class BoardRun:
    """One run: how it did, and its picture, unless it failed."""

    cell: BoardCell
    drawing: Drawing | None


@dataclass(frozen=True, kw_only=True, eq=False)
class BoardScene:
    """The runs of all strategies on a load with one seed."""

    seed: int
    text: str
    """The load as an expression."""
    runs: Mapping[str, BoardRun]


@dataclass(frozen=True, kw_only=True, eq=False)
class BoardLoad:
    """A load: how strategies did on it, and their runs for every seed."""

    name: str
    first: str
    """The strategy that was first on it."""
    cells: Mapping[str, BoardCell]
    scenes: Sequence[BoardScene]
    sampled: str = ""
    """How finely, in words; empty for a shape."""
    apart: bool = False
    """Whether it is so coarse that the rank is not by it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Board:
    """All that the page shows."""

    title: str
    facts: Sequence[str]
    """What was compared, in a few words each."""
    rule: str
    slo: Slo
    rows: Sequence[BoardRow]
    loads: Sequence[BoardLoad]
    apart: Sequence[BoardRow] = ()
    """The same strategies, in the same order, on the loads that are told apart."""
    notes: Sequence[str] = ()


def write_board(path: Path | str, board: Board) -> None:
    """Write the page."""
    Path(path).write_text(board_page(board), encoding="utf-8")


def board_page(board: Board) -> str:
    """The page as HTML text."""
    looks = _looks(board.rows)
    body = "\n".join(
        (
            _header(board),
            _ranking(board, looks),
            _matrix(board, looks),
            _runs(board),
            _notes(board.notes),
            FOOTER,
        )
    )
    data = script_json(_data(board, looks))
    return document(title=board.title, body=body, data={"ebbflow-data": data}, script=SCRIPT, style=STYLE)


def headline(rows: Sequence[BoardRow]) -> str:
    """Who came first, in one sentence.

    >>> row = BoardRow(rank=1, strategy="hpa", kept=True, runs=3, kept_runs=3, failed=0, wins=1,
    ...                scores={"violation": 0.012, "cost_ratio": 1.21})
    >>> headline([row])
    'hpa kept the SLO at 1.21 × the cheapest schedule with hindsight; 1.2 % of the rows were late.'
    """
    first = rows[0]
    late = share(first.scores.get("violation"))
    place = f" is first of {len(rows)}: it" if len(rows) > 1 else ""
    if not first.kept:
        nobody = "none of them" if len(rows) > 1 else "it"
        return f"{first.strategy}{place.removesuffix(': it')}, but {nobody} kept the SLO; {late} of its rows were late."
    ratio = first.scores.get("cost_ratio")
    cost = f"{times(ratio)} the cheapest schedule with hindsight"
    if ratio is None:
        cost = f"{whole(first.scores.get('node_seconds'))} node-seconds"
    return f"{first.strategy}{place} kept the SLO at {cost}; {late} of the rows were late."


def _looks(rows: Sequence[BoardRow]) -> dict[str, tuple[str, str]]:
    """Colour and dash of each strategy, in the order of the ranking."""
    count = len(COLOURS)
    dashes = ("solid", "dash", "dot", "dashdot")
    return {
        row.strategy: (COLOURS[index % count], dashes[index // count % len(dashes)])
        for index, row in enumerate(rows)
    }


def _header(board: Board) -> str:
    kept = "kept" if board.rows[0].kept else "missed"
    facts = "".join(f"<span>{html.escape(fact)}</span>" for fact in board.facts)
    return (
        f'<header><p class="eyebrow">{html.escape(board.title)}</p>'
        f'<h1 class="{kept}"><i class="mark"></i>{html.escape(headline(board.rows))}</h1>'
        f'<p class="facts">{facts}</p></header>'
    )


_COLUMNS: tuple[tuple[str, str, str], ...] = (
    (
        "Node-seconds",
        "Nodes held × seconds, from asking for each until it was gone. Mean over the runs; ± its standard "
        "deviation over the seeds.",
        "",
    ),
    ("× hindsight", "Node-seconds ÷ those of the cheapest schedule with hindsight that keeps the SLO.", ""),
    ("Saved", "Node-seconds saved against holding the maximum throughout.", ""),
    (
        "Late rows",
        "Share of the rows that were later than the SLO allows, or lost. Mean over the runs; ± its standard deviation "
        "over the seeds.",
        "",
    ),
    ("p50", "Half of the rows were processed within this time of their arrival.", "narrow"),
    ("p95", "95 % of the rows were processed within this time of their arrival.", "narrow"),
    ("Worst", "The longest wait of a row; mean over the runs.", "narrow"),
    ("Changes", "How often the layout was changed; mean over the runs.", ""),
    ("Lost", "Rows that can never be processed any more; mean over the runs.", "narrow"),
    ("SLO kept", "Runs in which few enough rows were late, of all runs.", ""),
    ("First on", "Loads on which it was first by the same rule.", ""),
    (
        "Infeasible",
        "Loads on which no schedule within the limits keeps the SLO; × hindsight is against a best effort there.",
        "narrow",
    ),
)


def _ranking(board: Board, looks: Mapping[str, tuple[str, str]]) -> str:
    ranked, apart = _table(board.rows, looks), ""
    if board.apart:
        ranked = f"<h3>{_FINE}</h3>{ranked}"
        apart = f"<h3>{_COARSE}</h3>{_table(board.apart, looks)}"
    return (
        f"<section><h2>Ranking</h2>{ranked}"
        f'<p class="hint">{html.escape(board.rule)} SLO: freshness {html.escape(slo_text(board.slo))}.</p>'
        f'{apart}<div class="chart" id="costs"></div></section>'
    )


_FINE = "On loads with a sample a minute or more often, which the rank is by"
_COARSE = "On coarser loads, told apart: flat between samples, then a jump that nobody could see"


def _table(rows: Sequence[BoardRow], looks: Mapping[str, tuple[str, str]]) -> str:
    heads = "".join(
        f'<th scope="col" class="{kind}"><abbr title="{html.escape(meaning)}">{name}</abbr></th>'
        for name, meaning, kind in _COLUMNS
    )
    in_order = all(row.kept or not after.kept for row, after in itertools.pairwise(rows))
    body, missed = "", not in_order  # of loads that the rank is not by, who kept it may come anywhere
    for row in rows:
        if not row.kept and not missed and row.rank > 1:
            missed = True
            body += f'<tr class="rule"><th colspan="{len(_COLUMNS) + 2}">did not keep the SLO</th></tr>'
        body += _ranked(row, looks[row.strategy])
    return (
        '<div class="scroll"><table class="board"><thead><tr><th>#</th>'
        f'<th scope="col">Strategy</th>{heads}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _ranked(row: BoardRow, look: tuple[str, str]) -> str:
    scores = row.scores
    kept = f"{row.kept_runs} of {row.runs}" + (f", {row.failed} failed" if row.failed else "")
    lost = scores.get("rows_lost")
    cells = (
        (whole(scores.get("node_seconds")), "strong", _spread(whole, row, "node_seconds")),
        (times(scores.get("cost_ratio")), ""),
        (share(scores.get("nodes_saved")), ""),
        (share(scores.get("violation")), "" if row.kept else "bad", _spread(share, row, "violation")),
        (seconds(scores.get("latency_p50_s")), "narrow"),
        (seconds(scores.get("latency_p95_s")), "narrow"),
        (seconds(scores.get("latency_max_s")), "narrow"),
        (whole(scores.get("reconfigurations")), ""),
        (whole(lost), "narrow bad" if lost else "narrow"),
        (kept, "bad" if row.failed else ""),
        (str(row.wins) if row.wins else "–", ""),
        (str(row.infeasible) if row.infeasible else "–", "narrow"),
    )
    written = "".join(
        f'<td class="{kind}">{html.escape(text)}{"".join(more)}</td>' for text, kind, *more in cells
    )
    name = f'<i class="dot" style="background:{look[0]}"></i>{html.escape(row.strategy)}'
    return f'<tr class="{"kept" if row.kept else "late"}"><td>{row.rank}</td><th scope="row">{name}</th>{written}</tr>'


def _spread(written: Callable[[float | None], str], row: BoardRow, score: str) -> str:
    """Beside a mean over several seeds."""
    value = row.spread.get(score)
    return "" if value is None else f" <small>± {html.escape(written(value))}</small>"


def _matrix(board: Board, looks: Mapping[str, tuple[str, str]]) -> str:
    """Cost against hindsight, strategy by load; where the SLO was missed, how late instead."""
    if len(board.loads) < 2:
        return ""
    heads = "".join(
        f'<th scope="col"><button type="button" data-load="{index}" title="{html.escape(_told(load))}">'
        f"{html.escape(load.name)}</button></th>"
        for index, load in enumerate(board.loads)
    )
    fine = sum(not load.apart for load in board.loads)
    over = ""
    if board.apart:
        coarse = len(board.loads) - fine
        over = f'<tr class="over"><th></th><th colspan="{fine}">ranked</th><th colspan="{coarse}">apart</th></tr>'
    body = ""
    for row in board.rows:
        cells = "".join(_cell(load, row.strategy) for load in board.loads)
        name = f'<i class="dot" style="background:{looks[row.strategy][0]}"></i>{html.escape(row.strategy)}'
        body += f'<tr><th scope="row">{name}</th>{cells}</tr>'
    return (
        '<section><h2>By load</h2><div class="scroll"><table class="matrix">'
        f"<thead>{over}<tr><th></th>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
        '<p class="hint">Cost against hindsight, mean over the seeds; bold is first on that load. Red: the SLO was '
        "missed, with the share of late rows. Click a load to look at its runs.</p></section>"
    )


def _told(load: BoardLoad) -> str:
    text = load.scenes[0].text if load.scenes else load.name
    return f"{text}, {load.sampled}" if load.sampled else text


def _cell(load: BoardLoad, strategy: str) -> str:
    cell = load.cells.get(strategy)
    if cell is None:
        return '<td class="bad">failed</td>'
    late = "" if cell.kept else f"<small>{html.escape(share(cell.violation))} late</small>"
    kind = "first" if strategy == load.first else "" if cell.kept else "bad"
    title = f"{whole(cell.node_seconds)} node-seconds, {share(cell.violation)} late"
    return f'<td class="{kind}" title="{html.escape(title)}">{html.escape(times(cell.cost_ratio))}{late}</td>'


def _runs(board: Board) -> str:
    options = "".join(
        f'<option value="{index}">{html.escape(load.name)}</option>' for index, load in enumerate(board.loads)
    )
    hidden = " hidden" if len(board.loads) < 2 else ""
    alone = " hidden" if all(len(load.scenes) < 2 for load in board.loads) else ""
    return (
        '<section id="runs"><div class="tools"><h2>Runs</h2>'
        f'<label{hidden}>load <select id="load">{options}</select></label>'
        f'<label{alone}>seed <select id="seed"></select></label></div>'
        '<p class="hint" id="load-text"></p><div id="chips" class="chips"></div>'
        '<div class="chart" id="timeline"></div>'
        '<p class="hint">Drag to zoom, double-click to zoom out. The reasons of the ▲▼ decisions show when the '
        "pointer is over them; of a run with very many the largest are drawn, and how many that leaves out is told "
        "below. Dashed grey: the nodes that hindsight would hold.</p></section>"
        '<section><div class="tools"><h2>Decisions</h2><label>of <select id="whose"></select></label></div>'
        '<p class="hint" id="acts-told"></p><div class="scroll"><table class="ledger"><thead><tr>'
        "<th>Time</th><th>Nodes</th><th>Why</th><th>Bound by</th><th>Expected → achieved</th></tr></thead>"
        '<tbody id="acts"></tbody></table></div></section>'
    )


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    items = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return f'<section><h2>Notes</h2><ul class="notes">{items}</ul></section>'


def _data(board: Board, looks: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    return {
        "title": board.title,
        "slo": {"freshness": board.slo.freshness_s, "quantile": board.slo.quantile},
        "strategies": [
            {
                "name": row.strategy,
                "colour": looks[row.strategy][0],
                "dash": looks[row.strategy][1],
                "shown": row.rank <= SHOWN_AT_FIRST or row.past,
                "kept": row.kept,
                "scores": dict(row.scores),
            }
            for row in board.rows
        ],
        "loads": [_load_data(load) for load in board.loads],
    }


def _load_data(load: BoardLoad) -> dict[str, Any]:
    return {
        "name": load.name,
        "sampled": load.sampled,
        "seeds": [_scene_data(scene) for scene in load.scenes],
    }


def _scene_data(scene: BoardScene) -> dict[str, Any]:
    drawn = {name: (run, run.drawing) for name, run in scene.runs.items() if run.drawing is not None}
    around = next((drawing.surroundings() for _, drawing in drawn.values()), {})
    runs = {name: {"told": _run_told(run), **drawing.curves()} for name, (run, drawing) in drawn.items()}
    return {"seed": scene.seed, "text": scene.text, **around, "runs": runs}


def _run_told(run: BoardRun) -> str:
    """A run in a few characters, beside its name."""
    cell = run.cell
    cost = times(cell.cost_ratio) if cell.cost_ratio is not None else f"{whole(cell.node_seconds)} node-s"
    return f"{cost}, {share(cell.violation)} late"
