"""What ``simulate``, ``replay`` and ``bench leaderboard`` share: a sweep under a progress bar, its table and page."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from typing import Literal

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from ebbflow.bench.leaderboard.ranking import RULE, Standing, leaderboard, mean_scores
from ebbflow.bench.leaderboard.sweep import Result, Scene, Sweep, kept_slo, sweep
from ebbflow.cli.output import errors, say
from ebbflow.errors import EbbflowError, InputError
from ebbflow.report.board import Board, BoardCell, BoardLoad, BoardRow
from ebbflow.report.drawing import Drawing, draw
from ebbflow.report.numbers import seconds, share, times, whole

log = logging.getLogger("ebbflow")


class SweepError(EbbflowError):
    """Some runs of a comparison failed."""


def check_workers(workers: int | None) -> None:
    """Somebody must do it."""
    if workers is not None and workers < 1:
        raise InputError(f"--workers {workers} leaves nobody to work; the fewest is 1")


def compare(
    scenes: Sequence[Scene], strategies: Sequence[str], *, workers: int | None, master: str | None = None
) -> Sweep:
    """The sweep, with a bar on standard error while it runs, and a line there for every run that failed."""
    runs = sum(len(scene.runs(strategies)) for scene in scenes)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    )
    with bar:
        task = bar.add_task("runs", total=runs)
        done = sweep(
            scenes,
            strategies,
            workers=workers,
            master=master,
            draw=draw if any(scene.drawn for scene in scenes) else None,
            on_done=lambda: bar.advance(task),
        )
    for failure in done.failures:
        say(f"[bold]failed[/bold] {escape(str(failure))}")
        log.info("%s", failure.trace)
    return done


def end(done: Sweep, runs: int) -> None:
    """Fail if a run did."""
    failed = len(done.failures)
    if failed:
        raise SweepError(f"{failed} of {runs} runs failed, the first: {done.failures[0]}")


def print_board(standings: Sequence[Standing], *, many: bool) -> None:
    """The ranking on standard output; ``many``: means over several runs."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name, justify in _columns(many):
        table.add_column(name, justify=justify, no_wrap=True)
    for row in standings:
        scores, style = row.scores, "" if row.kept else "dim"
        late = share(scores["violation"])
        cells = [
            str(row.rank),
            f"[bold]{escape(row.strategy)}[/bold]" if row.rank == 1 and row.kept else escape(row.strategy),
            whole(scores["node_seconds"]),
            times(scores["cost_ratio"]),
            share(scores["nodes_saved"]),
            late if row.kept else f"[red]{late}[/red]",
            seconds(scores["latency_p95_s"]),
            seconds(scores["latency_max_s"]),
            whole(scores["reconfigurations"]),
        ]
        if many:
            cells += [f"{row.kept_runs}/{row.runs}", str(row.wins) if row.wins else "–"]
        table.add_row(*cells, style=style)
    Console(highlight=False, width=None if sys.stdout.isatty() else 120).print(table)


def _columns(many: bool) -> list[tuple[str, Literal["left", "right"]]]:
    names = ["node-s", "× hindsight", "saved", "late", "p95", "worst", "changes"]
    names += ["SLO kept", "first on"] if many else []
    return [("#", "right"), ("strategy", "left"), *((name, "right") for name in names)]


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
    drawn = {scene.load: scene for scene in scenes if scene.drawn}
    past = {name for scene in scenes for name in scene.runs(())}
    rows = [
        BoardRow(
            rank=row.rank,
            strategy=row.strategy,
            kept=row.kept,
            runs=row.runs,
            kept_runs=row.kept_runs,
            failed=row.failed,
            wins=row.wins,
            scores=row.scores,
            past=row.strategy in past,
        )
        for row in leaderboard(done, quantile=slo.quantile)
    ]
    loads = [_board_load(done, scene, written(scene), slo.quantile) for scene in drawn.values()]
    failed = [f"Failed: {failure}." for failure in done.failures]
    return Board(
        title=title, facts=facts, rule=RULE, slo=slo, rows=rows, loads=loads, notes=[*notes, *failed]
    )


def _board_load(done: Sweep, scene: Scene, text: str, quantile: float) -> BoardLoad:
    results = [result for result in done.results if result.load == scene.load]
    failures = tuple(failure for failure in done.failures if failure.load == scene.load)
    order = leaderboard(Sweep(results=tuple(results), failures=failures), quantile=quantile)
    by_strategy: dict[str, list[Result]] = {}
    for result in results:
        by_strategy.setdefault(result.strategy, []).append(result)
    drawings = {r.strategy: r.drawing for r in results if isinstance(r.drawing, Drawing)}
    return BoardLoad(
        name=scene.load,
        text=text,
        first=order[0].strategy if order else "",
        cells={name: _cell(mine, quantile) for name, mine in by_strategy.items()},
        drawings=drawings,
    )


def _cell(results: Sequence[Result], quantile: float) -> BoardCell:
    scores = mean_scores(results)
    return BoardCell(
        cost_ratio=scores["cost_ratio"],
        node_seconds=scores["node_seconds"],
        violation=scores["violation"],
        kept=kept_slo(scores["violation"], quantile),
    )
