"""``capacity`` compared with all other strategies on the busiest day of each of twelve real traces, on both engines.

``python -m benchmarks traces`` checks the means: fewer node-seconds than Spark's two allocations, Elastic-Scaling
and the HPA, and no more late rows than the last three (``spark-dra`` is never late, because it holds nearly all
nodes). ``python -m benchmarks.traces`` prints the tables of docs/leaderboard.md in Markdown: the means of every
strategy on each engine, the loads on which another strategy is first, and each load for those five.

The settings are those of `ebbflow bench leaderboard --loads FOLDER --seeds 1`. The traces are not part of the
project: they are expected in the folder ``loads`` of EBBFLOW_SHARED_DATA, or of the working directory.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.figures import Figure
from ebbflow.core.duration import format_duration
from ebbflow.core.plural import counted
from ebbflow.errors import EbbflowError
from ebbflow.report.wording import whole
from ebbflow.runs.leaderboard import COARSE, FINE, LeaderboardRow, MeanScores, rank_strategies, sampling
from ebbflow.runs.loads import NamedLoad, read_loads
from ebbflow.runs.spec import Spec, strategy_names
from ebbflow.runs.sweep import Sweep, SweepCase, SweepResult, sweep
from ebbflow.strategies import STRATEGIES
from ebbflow.targets.simulator.scenario import CONTINUOUS, MICRO_BATCH
from ebbflow.workloads import Constant

FOLDER = Path(os.environ.get("EBBFLOW_SHARED_DATA", "")) / "loads"
MINE = "capacity"
NO_LATER_THAN = ("spark-legacy", "elastic-scaling", "hpa")
CHEAPER_THAN = ("spark-dra", *NO_LATER_THAN)
ENGINES = (MICRO_BATCH, CONTINUOUS)
EACH_LOAD = (MINE, *CHEAPER_THAN)
"""Strategies shown for each load."""
ONLY_BATCHES = ("spark-dra", "spark-legacy", "elastic-scaling", "learner")
"""Strategies that need batches and never act on the continuous engine; they are left out there."""
DAY_S = 86_400.0
PEAK_SHARE, JITTER = 0.75, 0.05
SECTIONS = {"twitter_1s": "start=5d, end=5d23h30m"}
"""Sections of traces whose busiest day has a gap: this recording stops for half an hour each night."""


def measure() -> list[Figure]:
    """The figures with bars."""
    loads = read(FOLDER)
    found = Figure(what=f"traces in {FOLDER}", value=len(loads), unit="", bar=1, at_least=True)
    if not loads:
        return [found]
    means = {row.strategy: row.overall.scores for row in board(run_all(loads, EACH_LOAD))}

    def of(strategy: str, score: str) -> float:
        value = means[strategy][score]
        assert value is not None, f"no {score} of {strategy}"
        return value

    figures = [found]
    for baseline in CHEAPER_THAN:
        what = f"node-seconds of {MINE} ÷ those of {baseline}, mean of {len(loads)} traces"
        ratio = of(MINE, "node_seconds") / of(baseline, "node_seconds")
        figures.append(Figure(what=what, value=ratio, unit="×", bar=1.0))
    for baseline in CHEAPER_THAN:
        what = f"late rows of {MINE} − those of {baseline}, mean of {len(loads)} traces"
        points = 100 * (of(MINE, "violation") - of(baseline, "violation"))
        bar = 0.0 if baseline in NO_LATER_THAN else None
        figures.append(Figure(what=what, value=points, unit="points", bar=bar))
    return figures


def read(folder: Path, engine: str = MICRO_BATCH) -> list[NamedLoad]:
    """The busiest day of every trace in a folder, scaled to a peak that the maximum of nodes can process."""
    files = sorted(folder.glob("*.csv.gz")) if folder.is_dir() else []
    probe = Spec(engine=engine).scenario(Constant(level_per_s=1.0))
    peak_per_s = round(PEAK_SHARE * float(probe.mean_speed_rows_per_s(probe.engine)[-1]), 1)
    texts = []
    for file in files:
        section = SECTIONS.get(file.name.removesuffix(".csv.gz"))
        texts.append(f"trace('{file}', peak={peak_per_s:g}, {section})" if section else str(file))
    return read_loads(texts, peak_per_s=peak_per_s, speed=1.0, seconds=DAY_S)


def run_all(
    loads: Sequence[NamedLoad], strategies: Sequence[str], engine: str = MICRO_BATCH
) -> tuple[SweepResult, ...]:
    """Every strategy on every load, with one seed."""
    cases = []
    for load in loads:
        spec = Spec(engine=engine, seed=1, seconds=min(DAY_S, load.load.duration_s))
        cases.append(SweepCase(load=load.name, scenario=spec.scenario(load.with_jitter(JITTER, 1))))
    done = sweep(cases, strategies)
    assert not done.failures, done.failures[0]
    return done.results


def comparable(strategies: Sequence[str], engine: str) -> list[str]:
    """The strategies that can act on an engine."""
    return [name for name in strategies if engine == MICRO_BATCH or name not in ONLY_BATCHES]


def board(results: Sequence[SweepResult]) -> list[LeaderboardRow]:
    """The leaderboard."""
    return rank_strategies(Sweep(results=tuple(results), failures=()), quantile=Spec().objective.quantile)


def means_table(results: Sequence[SweepResult]) -> Iterator[str]:
    """A line for each strategy: its means over all loads, the fine ones and the coarse ones."""
    loads = len({run.load for run in results})
    heads = ("all", "fine", "coarse", "changes", "SLO kept on", "first on")
    yield f"| # | strategy | {' | '.join(heads)} |"
    yield f"|---:|---|{'---:|' * len(heads)}"
    for row in board(results):
        means = (row.overall, row.by_step.get(FINE), row.by_step.get(COARSE))
        cells = [
            str(row.rank),
            f"`{row.strategy}`",
            *(_cell(some) for some in means),
            whole(row.overall.scores["reconfigurations"]),
            f"{row.overall.runs_kept} of {loads}",
            str(row.overall.wins) if row.overall.wins else "–",
        ]
        yield f"| {' | '.join(cells)} |"


def beaten_table(results: Sequence[SweepResult]) -> Iterator[str]:
    """A line for each load on which another strategy is first."""
    yield f"| load | first | | `{MINE}` |"
    yield "|---|---|---:|---:|"
    for load, runs in _by_load(results).items():
        order = board(runs)
        mine = next(row for row in order if row.strategy == MINE)
        if order[0] is not mine:
            yield f"| {load} | `{order[0].strategy}` | {_cell(order[0].overall)} | {_cell(mine.overall)} |"


def loads_table(results: Sequence[SweepResult], strategies: Sequence[str]) -> Iterator[str]:
    """A line for each load, fine ones first, then the means."""
    yield f"| load | a sample every | {' | '.join(f'`{name}`' for name in strategies)} |"
    yield f"|---|---|{'---:|' * len(strategies)}"
    for load, runs in _by_load(results).items():
        yield f"| {load} | {format_duration(runs[0].step_s)} | {_cells(runs, strategies)} |"
    groups = {kind: [run for run in results if sampling(run.step_s) == kind] for kind in (FINE, COARSE)}
    titled = {f"mean of the {kind} ones": some for kind, some in groups.items() if some}
    for title, runs in {**titled, "mean": list(results)}.items():
        yield f"| **{title}** | | {_cells(runs, strategies)} |"


def _by_load(results: Sequence[SweepResult]) -> dict[str, list[SweepResult]]:
    """Fine loads first."""
    found: dict[str, list[SweepResult]] = {}
    for run in sorted(results, key=lambda run: (sampling(run.step_s) == COARSE, run.load)):
        found.setdefault(run.load, []).append(run)
    return found


def _cells(runs: Sequence[SweepResult], strategies: Sequence[str]) -> str:
    means = {row.strategy: row.overall for row in board(runs)}
    return " | ".join(_cell(means[name]) for name in strategies)


def _cell(means: MeanScores | None) -> str:
    """Node-seconds and the share of late rows."""
    late = None if means is None else means.scores["violation"]
    if means is None or late is None:
        return "–"
    return f"{whole(means.scores['node_seconds'])}, {100 * late:.2f} %"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.traces", description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="folder of the traces")
    parser.add_argument("--strategies", metavar="A,B,…", help="strategies (default: all)")
    parser.add_argument("--engine", choices=ENGINES, help="engine (default: both)")
    options = parser.parse_args(arguments)
    try:
        names = (
            STRATEGIES.comparable(clusters=False)
            if options.strategies is None
            else strategy_names(options.strategies)
        )
    except EbbflowError as error:
        parser.error(str(error))
    if not read(options.folder):
        parser.error(f"no *.csv.gz in {options.folder}; name the folder, or set EBBFLOW_SHARED_DATA")
    for engine in ENGINES if options.engine is None else [options.engine]:
        loads, chosen = read(options.folder, engine), comparable(names, engine)
        if not chosen:
            continue
        sizes = f"{counted(len(chosen), 'strategy', 'strategies')} × {counted(len(loads), 'load')}"
        print(f"· {engine}: {sizes}", file=sys.stderr, flush=True)
        results = run_all(loads, chosen, engine)
        _print(f"{engine} engine, means over {counted(len(loads), 'load')}", means_table(results))
        if MINE in chosen:
            _print(f"{engine} engine, loads on which {MINE} is not first", beaten_table(results))
        shown = [name for name in EACH_LOAD if name in chosen]
        if engine == MICRO_BATCH and shown:
            some = [run for run in results if run.strategy in shown]
            _print(f"{engine} engine, each load", loads_table(some, shown))
    return 0


def _print(title: str, lines: Iterator[str]) -> None:
    print(f"**{title}**\n", *lines, "", sep="\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
