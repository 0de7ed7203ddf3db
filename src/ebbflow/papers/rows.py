"""Run the rows of a paper's table: in the simulator with several seeds on all cores, on Spark each in a process."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ebbflow.core.machine import cores
from ebbflow.errors import InputError, RunFailedError, TargetError
from ebbflow.runs.parallel import parallel_map

Row = TypeVar("Row")
Context = TypeVar("Context")
Metrics = TypeVar("Metrics")
Curves = TypeVar("Curves")


@dataclass(frozen=True, kw_only=True)
class _Failed:
    error: str


def run_rows(
    run: Callable[[Context, Row, int], tuple[Metrics, Curves | None]],
    context: Context,
    rows: Sequence[Row],
    *,
    name: Callable[[Row], str],
    seeds: int,
    workers: int | None = None,
    on_done: Callable[[], None] = lambda: None,
) -> list[tuple[list[Metrics], Curves | None]]:
    """For each row the metrics of every seed, and the curves of the first run that has some.

    ``run`` takes the context, a row and a seed. Calls ``on_done`` after each run. A run that fails ends it all, with
    the ``name`` of its row.
    """
    if seeds < 1:
        raise InputError(f"--seeds {seeds} leaves nothing to compare; the minimum is 1")
    items = [(run, row, seed) for row in rows for seed in range(1, seeds + 1)]
    with parallel_map(context, workers=min(len(items), workers or cores())) as work:
        outcomes: list[Any] = work(_run_item, items, lambda *_: on_done())
    found: list[tuple[list[Metrics], Curves | None]] = []
    for index, row in enumerate(rows):
        metrics: list[Metrics] = []
        curves: Curves | None = None
        for outcome in outcomes[index * seeds : (index + 1) * seeds]:
            if not isinstance(outcome, tuple):
                why = outcome.error if isinstance(outcome, _Failed) else outcome
                raise RunFailedError(f"{name(row)} failed: {why}")
            metrics.append(outcome[0])
            curves = curves or outcome[1]
        found.append((metrics, curves))
    return found


def _run_item(context: Any, item: tuple[Callable[..., Any], Any, int]) -> Any:
    run, row, seed = item
    try:
        return run(context, row, seed)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return _Failed(error=f"{error} ({Path(place.filename).name}:{place.lineno})")


def run_in_process(module: str, *arguments: object, name: str) -> dict[str, Any]:
    """Run a module of one Spark row in a process of its own, because a JVM keeps the settings of earlier runs.

    The last line that it prints is its result, as JSON.
    """
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)], stdout=subprocess.PIPE, check=False
    )
    if done.returncode != 0:
        raise TargetError(f"{name} failed on Spark (exit code {done.returncode}); its output is above")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
