"""Shared by ``simulate``, ``replay`` and ``bench leaderboard``: a sweep with a progress bar, and its table."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
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

from ebbflow.cli.output import errors, say
from ebbflow.core.curve import Curve, Floats
from ebbflow.core.plural import counted
from ebbflow.core.run import Run
from ebbflow.errors import InputError, RunFailedError
from ebbflow.guards import guards_for
from ebbflow.policy.model import Policy
from ebbflow.profiling.estimator import Estimator
from ebbflow.report.drawing import Detail, draw_runs
from ebbflow.report.wording import number, seconds, share, times, whole
from ebbflow.runs.leaderboard import LeaderboardRow, MeanScores
from ebbflow.runs.sweep import GuardsOf, Sweep, SweepCase, sweep
from ebbflow.strategies.static import Static

log = logging.getLogger(__name__)


def check_workers(workers: int | None) -> None:
    """Check the number of worker processes."""
    if workers is not None and workers < 1:
        raise InputError(f"--workers is {workers}; it must be 1 or more")


def progress_bar() -> Progress:
    """A progress bar on standard error, if that is a terminal."""
    return Progress(
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


def compare(
    cases: Sequence[SweepCase],
    strategies: Sequence[str],
    *,
    policies: Mapping[str, Policy],
    workers: int | None,
    estimators: Mapping[str, Estimator] | None = None,
    guards: GuardsOf = guards_for,
    master: str | None = None,
    keep_runs: bool = False,
) -> Sweep:
    """Run the sweep with a progress bar, and print a line for every failed run, both on standard error.

    ``keep_runs``: keep drawn runs, and not just what a page with many runs shows.
    """
    guards(Static())  # an invalid guard is an error of the command, not of each run
    runs = sum(len(case.run_names(strategies)) for case in cases)
    drawn = sum(len(case.run_names(strategies)) for case in cases if case.drawn)
    with progress_bar() as bar:
        task = bar.add_task("runs", total=runs)
        done = sweep(
            cases,
            strategies,
            policies=policies,
            estimators=estimators,
            guards=guards,
            workers=workers,
            master=master,
            draw=(_whole if keep_runs else partial(draw_runs, detail=Detail.of_each(drawn)))
            if drawn
            else None,
            on_done=lambda: bar.advance(task),
        )
    for failure in done.failures:
        say(f"[bold]failed[/bold] {escape(str(failure))}")
        log.info("%s", failure.trace)
    return done


def _whole(runs: Sequence[Run], capacity_per_s: Floats, schedule: Curve | None) -> Sequence[Run]:
    del capacity_per_s, schedule
    return runs


def print_files(page: Path | None, results: Path | None = None) -> None:
    """Print where the page and the results are."""
    for what, path in (("Page", page), ("Results", results)):
        if path is not None:
            errors.print(f"{what}: [bold]{escape(str(path))}[/bold]", soft_wrap=True)


def raise_failures(done: Sweep, runs: int) -> None:
    """Raise if a run failed; call it last, when the results of the others are printed."""
    failed = len(done.failures)
    if failed:
        raise RunFailedError(f"{failed} of {counted(runs, 'run')} failed, the first: {done.failures[0]}")


def print_board(board: Sequence[LeaderboardRow], *, many: bool) -> None:
    """Print the ranking; ``many``: means over several runs. Coarse loads have a separate table."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    console.print(_table([(row, row.ranked_means) for row in board], many=many))
    coarse = [(row, row.coarse_means) for row in board if row.coarse_means is not None]
    if coarse:
        console.print("\ncoarser loads, in the same order", style="dim")
        console.print(_table(coarse, many=many))


def spread_text(board: Sequence[LeaderboardRow]) -> str:
    """The largest standard deviations over the seeds; empty with one seed."""
    cost, late = [], []
    for row in board:
        means = row.ranked_means
        held, held_sd = means.scores["node_seconds"], means.spread["node_seconds"]
        if held and held_sd is not None:
            cost.append(held_sd / held)
        if (late_sd := means.spread["violation"]) is not None:
            late.append(late_sd)
    if not cost or not late:
        return ""
    return (
        f"Standard deviation over the seeds: node-s at most {share(max(cost))} of the mean, late at most "
        f"{number(100 * max(late))} points; --json and the page show it for each row."
    )


def _table(rows: Sequence[tuple[LeaderboardRow, MeanScores]], *, many: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    infeasible = any(means.infeasible for _, means in rows)
    for name, justify in _columns(many, infeasible=infeasible):
        table.add_column(name, justify=justify, no_wrap=True)
    for row, means in rows:
        scores, style = means.scores, "" if means.slo_kept else "dim"
        late = share(scores["violation"])
        cells = [
            str(row.rank),
            f"[bold]{escape(row.strategy)}[/bold]"
            if row.rank == 1 and means.slo_kept
            else escape(row.strategy),
            whole(scores["node_seconds"]),
            times(scores["cost_ratio"]),
            share(scores["nodes_saved"]),
            late if means.slo_kept else f"[red]{late}[/red]",
            seconds(scores["latency_p95_s"]),
            seconds(scores["latency_max_s"]),
            whole(scores["reconfigurations"]),
            seconds(scores["demand_gap_s"]),
        ]
        if many:
            cells += [f"{means.runs_kept}/{means.runs}", str(means.wins) if means.wins else "–"]
            cells += [str(means.infeasible)] if infeasible else []
        table.add_row(*cells, style=style)
    return table


def _columns(many: bool, *, infeasible: bool) -> list[tuple[str, Literal["left", "right"]]]:
    names = ["node-s", "× hindsight", "saved", "late", "p95", "worst", "changes", "gap"]
    names += ["SLO kept", "first on"] if many else []
    names += ["infeasible"] if many and infeasible else []
    return [("#", "right"), ("strategy", "left"), *((name, "right") for name in names)]
