"""The page of ``simulate``, ``replay`` and ``bench leaderboard``: what a sweep found, put together for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from ebbflow.core.duration import format_duration
from ebbflow.report.board import Board, BoardCell, BoardLoad, BoardRow, BoardRun, BoardScene
from ebbflow.report.drawing import Drawing
from ebbflow.report.numbers import whole
from ebbflow.runs.leaderboard.ranking import (
    APART,
    COARSE,
    RULE,
    Means,
    Standing,
    leaderboard,
    mean_scores,
    sampling,
)
from ebbflow.runs.leaderboard.sweep import Result, Scene, Sweep, kept_slo
from ebbflow.targets.simulator import Scenario


def board(
    done: Sweep,
    scenes: Sequence[Scene],
    *,
    title: str,
    facts: Sequence[str],
    notes: Sequence[str],
    written: Callable[[Scene], str],
) -> Board:
    """The page of a sweep. ``written`` is the load of a scene for people."""
    slo = scenes[0].scenario.slo
    standings = leaderboard(done, quantile=slo.quantile)
    apart = any(row.apart is not None for row in standings)
    past = {name for scene in scenes for name in scene.runs(())}
    by_load: dict[str, list[Scene]] = {}
    for scene in sorted(scenes, key=lambda scene: sampling(scene.step_s) == COARSE):  # the ranked ones first
        by_load.setdefault(scene.load, []).append(scene)
    loads = [_board_load(done, mine, written, slo.quantile, apart=apart) for mine in by_load.values()]
    failed = [f"Failed: {failure}." for failure in done.failures]
    return Board(
        title=title,
        facts=facts,
        rule=f"{RULE} {APART}" if apart else RULE,
        slo=slo,
        rows=[_board_row(row, row.judged, past) for row in standings],
        apart=[_board_row(row, row.apart, past) for row in standings if row.apart is not None],
        loads=loads,
        notes=[*notes, *_surroundings(scenes[0].scenario), *_hopeless(done), *_left_out(done), *failed],
    )


def _board_row(row: Standing, means: Means, past: Set[str]) -> BoardRow:
    return BoardRow(
        rank=row.rank,
        strategy=row.strategy,
        kept=means.kept,
        runs=means.runs,
        kept_runs=means.kept_runs,
        failed=row.failed,
        wins=means.wins,
        infeasible=means.infeasible,
        scores=means.scores,
        past=row.strategy in past,
        spread=means.spread,
    )


def _surroundings(made: Scenario) -> list[str]:
    """What a reader of the page must know of a scenario that is not one pipeline on one cluster."""
    notes = []
    if made.others:
        mine, others = made.engine.pipeline.name, [tenant.engine.pipeline.name for tenant in made.others]
        notes.append(
            f"{mine} shares its nodes with {', '.join(others)}: scores are over the rows of all of them, load, backlog "
            f"and freshness are drawn of {mine}."
        )
    if made.clusters:
        notes.append(f"Nodes are those of all clusters: main, {', '.join(made.clusters)}.")
    if not made.is_single:
        notes.append("Hindsight knows one pipeline on one cluster, so here there is none to compare with.")
    if made.faults:
        happen = "1 fault happens" if len(made.faults) == 1 else f"{len(made.faults)} faults happen"
        notes.append(f"{happen}. Hindsight meets none.")
    return notes


def _hopeless(done: Sweep) -> list[str]:
    loads = list(dict.fromkeys(result.load for result in done.results if result.oracle_feasible is False))
    if not loads:
        return []
    return [
        f"No schedule within the limits keeps the SLO on {', '.join(loads)}: hindsight is a best effort there."
    ]


def _left_out(done: Sweep) -> list[str]:
    """What a page with many runs cannot hold of each."""
    drawings = [result.drawing for result in done.results if isinstance(result.drawing, Drawing)]
    thinned = [drawing for drawing in drawings if drawing.acts_left_out]
    if not thinned:
        return []
    kept, left = len(thinned[0].acts), sum(drawing.acts_left_out for drawing in thinned)
    return [
        f"Of {len(thinned)} of the {len(drawings)} runs only the {kept} largest changes are in the page: "
        f"{whole(left)} smaller ones are left out, in the pictures and in the tables. Scores are over all."
    ]


def _board_load(
    done: Sweep, scenes: Sequence[Scene], written: Callable[[Scene], str], quantile: float, *, apart: bool
) -> BoardLoad:
    name, step_s = scenes[0].load, scenes[0].step_s
    results = [result for result in done.results if result.load == name]
    failures = tuple(failure for failure in done.failures if failure.load == name)
    order = leaderboard(Sweep(results=tuple(results), failures=failures), quantile=quantile)
    by_strategy: dict[str, list[Result]] = {}
    for result in results:
        by_strategy.setdefault(result.strategy, []).append(result)
    return BoardLoad(
        name=name,
        first=order[0].strategy if order else "",
        cells={strategy: _cell(mine, quantile) for strategy, mine in by_strategy.items()},
        scenes=[_board_scene(results, scene, written(scene), quantile) for scene in scenes if scene.drawn],
        sampled=f"a sample every {format_duration(step_s)}" if step_s else "",
        apart=apart and sampling(step_s) == COARSE,
    )


def _board_scene(results: Sequence[Result], scene: Scene, text: str, quantile: float) -> BoardScene:
    seed = scene.scenario.seed
    runs = {
        result.strategy: BoardRun(
            cell=_cell([result], quantile),
            drawing=result.drawing if isinstance(result.drawing, Drawing) else None,
        )
        for result in results
        if result.seed == seed
    }
    return BoardScene(seed=seed, text=text, runs=runs)


def _cell(results: Sequence[Result], quantile: float) -> BoardCell:
    scores = mean_scores(results)
    return BoardCell(
        cost_ratio=scores["cost_ratio"],
        node_seconds=scores["node_seconds"],
        violation=scores["violation"],
        kept=kept_slo(scores["violation"], quantile),
    )
