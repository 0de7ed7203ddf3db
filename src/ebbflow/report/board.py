"""The comparison board: the ranking, every load beside every strategy, and each run over time.

``simulate``, ``replay`` and ``bench leaderboard`` build it from a sweep with :func:`sweep_board`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ebbflow.core.duration import format_duration
from ebbflow.core.plural import counted
from ebbflow.core.slo import Slo
from ebbflow.report.drawing import Drawing
from ebbflow.report.palette import COLOURS
from ebbflow.report.template import render
from ebbflow.report.wording import Scores, seconds, share, slo_text, times, whole
from ebbflow.runs.leaderboard import (
    COARSE,
    COARSE_NOTE,
    RULE,
    LeaderboardRow,
    MeanScores,
    mean_scores,
    rank_strategies,
    sampling,
)
from ebbflow.runs.sweep import Sweep, SweepCase, SweepResult, kept_slo
from ebbflow.targets.simulator import Scenario

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
    recorded: bool = False
    """Whether it is not a strategy but a recorded run, which is always drawn."""
    infeasible: int = 0
    """Loads on which no schedule keeps the SLO."""
    spread: Scores = field(default_factory=dict)
    """Standard deviation of some scores over the seeds, if there are several."""


@dataclass(frozen=True, kw_only=True)
class BoardCell:
    """A strategy on one load: means over the seeds."""

    cost_ratio: float | None
    node_seconds: float | None
    violation: float | None
    kept: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class BoardRun:
    """One run: its result, and its curves unless it failed."""

    cell: BoardCell
    drawing: Drawing | None


@dataclass(frozen=True, kw_only=True, eq=False)
class BoardCase:
    """The runs of all strategies on a load with one seed."""

    seed: int
    text: str
    """The load as an expression."""
    runs: Mapping[str, BoardRun]


@dataclass(frozen=True, kw_only=True, eq=False)
class BoardLoad:
    """A load: the results of strategies on it, and their runs for every seed."""

    name: str
    first: str
    """The strategy that ranks first on it."""
    cells: Mapping[str, BoardCell]
    cases: Sequence[BoardCase]
    sampled: str = ""
    """How finely, in words; empty for a shape."""
    coarse: bool = False
    """Whether its samples are so coarse that it does not count for the rank."""

    @property
    def text(self) -> str:
        """The load as an expression, and how finely it is sampled."""
        text = self.cases[0].text if self.cases else self.name
        return f"{text}, {self.sampled}" if self.sampled else text


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
    coarse: Sequence[BoardRow] = ()
    """The same strategies, in the same order, on coarse loads."""
    notes: Sequence[str] = ()


# -- the page --------------------------------------------------------------------------------------


def write_board(path: Path | str, board: Board) -> None:
    """Write the page."""
    Path(path).write_text(board_page(board), encoding="utf-8")


def board_page(board: Board) -> str:
    """The page as HTML text."""
    styles = _styles(board.rows)
    return render(
        "board.html.j2",
        title=board.title,
        kept=board.rows[0].kept,
        headline=headline(board.rows),
        facts=board.facts,
        columns=[{"name": name, "meaning": meaning, "kind": kind} for name, meaning, kind in _COLUMNS],
        ranked=[_ranked(row, styles) for row in board.rows],
        separated=_separated(board.rows),
        coarse=[_ranked(row, styles) for row in board.coarse],
        coarse_separated=_separated(board.coarse),
        fine_loads=sum(not load.coarse for load in board.loads),
        rule=board.rule,
        slo=slo_text(board.slo),
        loads=board.loads,
        matrix=[
            {
                "strategy": row.strategy,
                "colour": styles[row.strategy].colour,
                "cells": [_matrix_cell(load, row.strategy) for load in board.loads],
            }
            for row in board.rows
        ],
        several_seeds=any(len(load.cases) > 1 for load in board.loads),
        notes=board.notes,
        data={"ebbflow-data": _data(board, styles)},
    )


def headline(rows: Sequence[BoardRow]) -> str:
    """The winner in one sentence.

    >>> row = BoardRow(rank=1, strategy="hpa", kept=True, runs=3, kept_runs=3, failed=0, wins=1,
    ...                scores={"violation": 0.012, "cost_ratio": 1.21})
    >>> headline([row])
    'hpa kept the SLO at 1.21 × the cheapest schedule with hindsight; 1.2 % of the rows were late.'
    """
    first = rows[0]
    late = share(first.scores.get("violation"))
    if not first.kept and len(rows) == 1:
        return f"{first.strategy} missed the SLO; {late} of its rows were late."
    place = f" is first of {len(rows)}" if len(rows) > 1 else ""
    if not first.kept:
        return f"{first.strategy}{place}, but none of them kept the SLO; {late} of its rows were late."
    ratio = first.scores.get("cost_ratio")
    cost = f"{times(ratio)} the cheapest schedule with hindsight"
    if ratio is None:
        cost = f"{whole(first.scores.get('node_seconds'))} node-seconds"
    verb = f"{place}: it kept" if place else " kept"
    return f"{first.strategy}{verb} the SLO at {cost}; {late} of the rows were late."


@dataclass(frozen=True, kw_only=True)
class _Style:
    colour: str
    dash: str


def _styles(rows: Sequence[BoardRow]) -> dict[str, _Style]:
    """Colour and dash of each strategy, in order of the ranking."""
    count, dashes = len(COLOURS), ("solid", "dash", "dot", "dashdot")
    return {
        row.strategy: _Style(colour=COLOURS[index % count], dash=dashes[index // count % len(dashes)])
        for index, row in enumerate(rows)
    }


_COLUMNS: tuple[tuple[str, str, str], ...] = (
    (
        "Node-seconds",
        "Nodes held × seconds, from the request for each until it was released. Mean over the runs; ± standard "
        "deviation over the seeds.",
        "",
    ),
    ("× hindsight", "Node-seconds ÷ those of the cheapest schedule with hindsight that keeps the SLO.", ""),
    ("Saved", "Node-seconds saved compared with holding the maximum throughout.", ""),
    (
        "Late rows",
        "Share of the rows that were later than the SLO allows, or lost. Mean over the runs; ± standard deviation "
        "over the seeds.",
        "",
    ),
    ("p50", "Half of the rows were processed within this time of their arrival.", "narrow"),
    ("p95", "95 % of the rows were processed within this time of their arrival.", "narrow"),
    ("Worst", "The longest latency of a row; mean over the runs.", "narrow"),
    ("Changes", "How often the layout was changed; mean over the runs.", ""),
    (
        "Gap",
        "Mean time between the demand of the load for a change and its completion, |DP − RP|; mean over the runs.",
        "",
    ),
    ("Lost", "Rows that can never be processed; mean over the runs.", "narrow"),
    ("SLO kept", "Runs that kept the SLO, of all runs.", ""),
    ("First on", "Loads on which it ranks first by the same rule.", ""),
    (
        "Infeasible",
        "Loads on which no schedule within the limits keeps the SLO; × hindsight compares with a best effort there.",
        "narrow",
    ),
)


def _separated(rows: Sequence[BoardRow]) -> int:
    """Index of the first row that missed the SLO, if those that kept it all come before; else −1.

    On coarse loads, which do not count for the rank, rows that kept it may come anywhere.
    """
    if not all(row.kept or not after.kept for row, after in itertools.pairwise(rows)):
        return -1
    return next((index for index, row in enumerate(rows) if not row.kept and row.rank > 1), -1)


def _ranked(row: BoardRow, styles: Mapping[str, _Style]) -> dict[str, Any]:
    scores = row.scores
    kept = f"{row.kept_runs} of {row.runs}" + (f", {row.failed} failed" if row.failed else "")
    lost = scores.get("rows_lost")
    cells = (
        (whole(scores.get("node_seconds")), "strong", _spread(whole, row, "node_seconds")),
        (times(scores.get("cost_ratio")), "", ""),
        (share(scores.get("nodes_saved")), "", ""),
        (share(scores.get("violation")), "" if row.kept else "bad", _spread(share, row, "violation")),
        (seconds(scores.get("latency_p50_s")), "narrow", ""),
        (seconds(scores.get("latency_p95_s")), "narrow", ""),
        (seconds(scores.get("latency_max_s")), "narrow", ""),
        (whole(scores.get("reconfigurations")), "", ""),
        (seconds(scores.get("demand_gap_s")), "", ""),
        (whole(lost), "narrow bad" if lost else "narrow", ""),
        (kept, "bad" if row.failed else "", ""),
        (str(row.wins) if row.wins else "–", "", ""),
        (str(row.infeasible) if row.infeasible else "–", "narrow", ""),
    )
    return {
        "rank": row.rank,
        "strategy": row.strategy,
        "kept": row.kept,
        "colour": styles[row.strategy].colour,
        "cells": [{"text": text, "kind": kind, "spread": spread} for text, kind, spread in cells],
    }


def _spread(write: Callable[[float | None], str], row: BoardRow, score: str) -> str:
    value = row.spread.get(score)
    return "" if value is None else write(value)


def _matrix_cell(load: BoardLoad, strategy: str) -> dict[str, str]:
    """Cost against hindsight, and the share of late rows if the SLO was missed."""
    cell = load.cells.get(strategy)
    if cell is None:
        return {"kind": "bad", "text": "failed", "title": "", "late": ""}
    return {
        "kind": "first" if strategy == load.first else "" if cell.kept else "bad",
        "text": times(cell.cost_ratio),
        "title": f"{whole(cell.node_seconds)} node-seconds, {share(cell.violation)} late",
        "late": "" if cell.kept else share(cell.violation),
    }


def _data(board: Board, styles: Mapping[str, _Style]) -> dict[str, Any]:
    return {
        "title": board.title,
        "slo": {"freshness": board.slo.freshness_s, "quantile": board.slo.quantile},
        "strategies": [
            {
                "name": row.strategy,
                "colour": styles[row.strategy].colour,
                "dash": styles[row.strategy].dash,
                "shown": row.rank <= SHOWN_AT_FIRST or row.recorded,
                "kept": row.kept,
                "scores": dict(row.scores),
            }
            for row in board.rows
        ],
        "loads": [
            {
                "name": load.name,
                "sampled": load.sampled,
                "seeds": [_case_data(case) for case in load.cases],
            }
            for load in board.loads
        ],
    }


def _case_data(case: BoardCase) -> dict[str, Any]:
    drawn = {name: (run, run.drawing) for name, run in case.runs.items() if run.drawing is not None}
    shared = next((drawing.shared_curves() for _, drawing in drawn.values()), {})
    runs = {
        name: {"summary": _summary(run.cell), **drawing.curves()} for name, (run, drawing) in drawn.items()
    }
    return {"seed": case.seed, "text": case.text, **shared, "runs": runs}


def _summary(cell: BoardCell) -> str:
    cost = times(cell.cost_ratio) if cell.cost_ratio is not None else f"{whole(cell.node_seconds)} node-s"
    return f"{cost}, {share(cell.violation)} late"


# -- from a sweep ----------------------------------------------------------------------------------


def sweep_board(
    done: Sweep,
    cases: Sequence[SweepCase],
    *,
    title: str,
    facts: Sequence[str],
    notes: Sequence[str],
    load_text: Callable[[SweepCase], str],
) -> Board:
    """The board of a sweep. ``load_text`` writes the load of a case."""
    slo = cases[0].scenario.slo
    standings = rank_strategies(done, quantile=slo.quantile)
    coarse = any(row.coarse_means is not None for row in standings)
    recorded = {name for case in cases for name in case.run_names(())}
    by_load: dict[str, list[SweepCase]] = {}
    for case in sorted(cases, key=lambda case: sampling(case.step_s) == COARSE):  # ranked loads first
        by_load.setdefault(case.load, []).append(case)
    loads = [_board_load(done, mine, load_text, slo.quantile, coarse=coarse) for mine in by_load.values()]
    failed = [f"Failed: {failure}." for failure in done.failures]
    return Board(
        title=title,
        facts=facts,
        rule=f"{RULE} {COARSE_NOTE}" if coarse else RULE,
        slo=slo,
        rows=[_board_row(row, row.ranked_means, recorded) for row in standings],
        coarse=[
            _board_row(row, row.coarse_means, recorded) for row in standings if row.coarse_means is not None
        ],
        loads=loads,
        notes=[*notes, *scenario_notes(cases[0].scenario), *_infeasible(done), *_left_out(done), *failed],
    )


def _board_row(row: LeaderboardRow, means: MeanScores, recorded: Set[str]) -> BoardRow:
    return BoardRow(
        rank=row.rank,
        strategy=row.strategy,
        kept=means.slo_kept,
        runs=means.runs,
        kept_runs=means.runs_kept,
        failed=row.failed,
        wins=means.wins,
        infeasible=means.infeasible,
        scores=means.scores,
        recorded=row.strategy in recorded,
        spread=means.spread,
    )


def scenario_notes(made: Scenario) -> list[str]:
    """Notes on a scenario that is not one pipeline on one cluster without faults."""
    notes = []
    if made.others:
        mine, others = made.engine.pipeline.name, [tenant.engine.pipeline.name for tenant in made.others]
        notes.append(
            f"{mine} shares its nodes with {', '.join(others)}: scores cover the rows of all of them; the charts show "
            f"load, backlog and freshness of {mine}."
        )
    if made.clusters:
        notes.append(f"Node counts cover all clusters: main, {', '.join(made.clusters)}.")
    if not made.is_single:
        notes.append(
            "There is no schedule with hindsight here: it exists for one pipeline on one cluster only."
        )
    if made.faults:
        notes.append(
            f"The runs contain {counted(len(made.faults), 'fault')}; the schedule with hindsight has none."
        )
    return notes


def _infeasible(done: Sweep) -> list[str]:
    loads = list(dict.fromkeys(result.load for result in done.results if result.oracle_feasible is False))
    if not loads:
        return []
    return [
        f"No schedule within the limits keeps the SLO on {', '.join(loads)}: "
        "× hindsight compares with a best effort there."
    ]


def _left_out(done: Sweep) -> list[str]:
    """How many decisions a page with many runs leaves out."""
    drawings = [result.drawing for result in done.results if isinstance(result.drawing, Drawing)]
    thinned = [drawing for drawing in drawings if drawing.acts_left_out]
    if not thinned:
        return []
    kept, left = len(thinned[0].acts), sum(drawing.acts_left_out for drawing in thinned)
    return [
        f"{len(thinned)} of the {len(drawings)} runs show only their {kept} largest changes; {whole(left)} smaller "
        "ones are left out of charts and tables. Scores cover all."
    ]


def _board_load(
    done: Sweep,
    cases: Sequence[SweepCase],
    load_text: Callable[[SweepCase], str],
    quantile: float,
    *,
    coarse: bool,
) -> BoardLoad:
    name, step_s = cases[0].load, cases[0].step_s
    results = [result for result in done.results if result.load == name]
    failures = tuple(failure for failure in done.failures if failure.load == name)
    order = rank_strategies(Sweep(results=tuple(results), failures=failures), quantile=quantile)
    by_strategy: dict[str, list[SweepResult]] = {}
    for result in results:
        by_strategy.setdefault(result.strategy, []).append(result)
    return BoardLoad(
        name=name,
        first=order[0].strategy if order else "",
        cells={strategy: _cell(mine, quantile) for strategy, mine in by_strategy.items()},
        cases=[_board_case(results, case, load_text(case), quantile) for case in cases if case.drawn],
        sampled=f"a sample every {format_duration(step_s)}" if step_s else "",
        coarse=coarse and sampling(step_s) == COARSE,
    )


def _board_case(results: Sequence[SweepResult], case: SweepCase, text: str, quantile: float) -> BoardCase:
    seed = case.scenario.seed
    runs = {
        result.strategy: BoardRun(
            cell=_cell([result], quantile),
            drawing=result.drawing if isinstance(result.drawing, Drawing) else None,
        )
        for result in results
        if result.seed == seed
    }
    return BoardCase(seed=seed, text=text, runs=runs)


def _cell(results: Sequence[SweepResult], quantile: float) -> BoardCell:
    scores = mean_scores(results)
    return BoardCell(
        cost_ratio=scores["cost_ratio"],
        node_seconds=scores["node_seconds"],
        violation=scores["violation"],
        kept=kept_slo(scores["violation"], quantile),
    )
