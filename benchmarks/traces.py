"""``capacity`` beside what people have today, on the busiest day of each of a dozen real traces.

``python -m benchmarks traces`` holds the means to bars: fewer node-seconds than Spark's two allocations,
Elastic-Scaling and the HPA, and no more late rows than the last three (``spark-dra`` is never late: it holds nearly
all the nodes it may). ``python -m benchmarks.traces`` prints each load, in Markdown: the table of docs/leaderboard.md.

Everything is as `ebbflow bench leaderboard --loads FOLDER --seeds 1` has it. The traces are not part of the project:
they are looked for in the folder ``loads`` of EBBFLOW_SHARED_DATA, or of ``shared/data`` beside the checkout.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.figures import Figure
from ebbflow.bench.leaderboard.ranking import COARSE, FINE, sampling
from ebbflow.bench.leaderboard.sweep import Result, Scene, mean, sweep
from ebbflow.bench.loads import NamedLoad, read_loads
from ebbflow.bench.spec import Spec
from ebbflow.core.duration import format_duration
from ebbflow.workloads import Constant

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
FOLDER = Path(os.environ.get("EBBFLOW_SHARED_DATA", BESIDE)) / "loads"
MINE = "capacity"
LESS_LATE_THAN = ("spark-legacy", "elastic-scaling", "hpa")
CHEAPER_THAN = ("spark-dra", *LESS_LATE_THAN)
DAY_S = 86_400.0
PEAK_SHARE, JITTER = 0.75, 0.05
SECTIONS = {"twitter_1s": "start=5d, end=5d23h30m"}
"""Where the busiest day is not what it seems: its recording stops for half an hour each night."""


def measure() -> list[Figure]:
    """The bars."""
    loads = read(FOLDER)
    found = Figure(what=f"traces in {FOLDER}", value=len(loads), unit="", bar=1, at_least=True)
    if not loads:
        return [found]
    results = play(loads)
    cost = _means(results, lambda run: run.scores.node_seconds)
    late = _means(results, lambda run: run.scores.violation)
    figures = [found]
    for peer in CHEAPER_THAN:
        what = f"node-seconds of {MINE} ÷ those of {peer}, mean of {len(loads)} traces"
        figures.append(Figure(what=what, value=cost[MINE] / cost[peer], unit="×", bar=1.0))
    for peer in LESS_LATE_THAN:
        what = f"late rows of {MINE} − those of {peer}, mean of {len(loads)} traces"
        figures.append(Figure(what=what, value=100 * (late[MINE] - late[peer]), unit="points", bar=0.0))
    return figures


def read(folder: Path) -> list[NamedLoad]:
    """The busiest day of every trace in a folder."""
    files = sorted(folder.glob("*.csv.gz")) if folder.is_dir() else []
    probe = Spec().scenario(Constant(level_per_s=1.0))
    peak_per_s = round(PEAK_SHARE * float(probe.usual_rows_per_s(probe.engine)[-1]), 1)
    texts = []
    for file in files:
        section = SECTIONS.get(file.name.removesuffix(".csv.gz"))
        texts.append(f"trace('{file}', peak={peak_per_s:g}, {section})" if section else str(file))
    return read_loads(texts, peak_per_s=peak_per_s, speed=1.0, seconds=DAY_S)


def play(loads: Sequence[NamedLoad]) -> tuple[Result, ...]:
    """Every strategy on every load, with one seed."""
    scenes = []
    for load in loads:
        spec = Spec(seed=1, seconds=min(DAY_S, load.load.duration_s))
        scenes.append(Scene(load=load.name, scenario=spec.scenario(load.with_jitter(JITTER, 1))))
    done = sweep(scenes, [MINE, *CHEAPER_THAN])
    assert not done.failures, done.failures[0]
    return done.results


def markdown(results: Sequence[Result]) -> Iterator[str]:
    """A line for each load, then the means: node-seconds, and the share of late rows."""
    names = [MINE, *CHEAPER_THAN]
    yield f"| load | a sample every | {' | '.join(f'`{name}`' for name in names)} |"
    yield f"|---|---|{'---:|' * len(names)}"
    by_load: dict[str, list[Result]] = {}
    for run in sorted(results, key=lambda run: (sampling(run.step_s) == COARSE, run.load)):
        by_load.setdefault(run.load, []).append(run)
    for load, runs in by_load.items():
        yield f"| {load} | {format_duration(runs[0].step_s)} | {_cells(runs, names)} |"
    groups = {kind: [run for run in results if sampling(run.step_s) == kind] for kind in (FINE, COARSE)}
    for title, runs in {
        **{f"mean of the {k} ones": g for k, g in groups.items()},
        "mean": list(results),
    }.items():
        if runs:
            yield f"| **{title}** | | {_cells(runs, names)} |"


def _cells(runs: Sequence[Result], names: Sequence[str]) -> str:
    cost = _means(runs, lambda run: run.scores.node_seconds)
    late = _means(runs, lambda run: run.scores.violation)
    return " | ".join(f"{cost[name]:,.0f}, {100 * late[name]:.2f} %" for name in names)


def _means(runs: Sequence[Result], of: Callable[[Result], float | None]) -> dict[str, float]:
    found = {}
    for name in dict.fromkeys(run.strategy for run in runs):
        value = mean([of(run) for run in runs if run.strategy == name])
        found[name] = math.nan if value is None else value
    return found


if __name__ == "__main__":
    for line in markdown(play(read(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))):
        print(line)
