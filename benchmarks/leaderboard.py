"""The time of a leaderboard: 12 strategies × 10 loads × 3 seeds of a day each.

``python -m benchmarks leaderboard`` runs two of the ten loads with one seed and extrapolates its CPU seconds.
``python -m benchmarks.leaderboard`` runs all of it and measures wall-clock time.

One load is read from a file like a recorded trace: a day in minutes that wanders, with bursts and a gap.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure, show
from ebbflow.core.machine import cores
from ebbflow.report.drawing import draw
from ebbflow.runs.loads import NamedLoad, built_in_loads
from ebbflow.runs.simulation import oracle_of
from ebbflow.runs.spec import Spec
from ebbflow.runs.sweep import SweepCase, sweep
from ebbflow.workloads import parse_load

PEAK_PER_S = 1900.0
STRATEGIES = [
    "capacity", "static", "static-mean", "dask", "dataflow", "ds2", "elastic-scaling", "flink", "hpa", "keda",
    "spark-dra", "spark-legacy",
]  # fmt: skip
"""The twelve of the bar."""
SEEDS = 3
SAMPLE = ("day", "trace")


def measure() -> list[Figure]:
    """Run a fifteenth of the leaderboard and extrapolate."""
    some = [load for load in _loads() if load.name in SAMPLE]
    return _measure(some, seeds=1)


def _loads() -> list[NamedLoad]:
    more = {
        "pulses": "square(base=190, peak=1900, period=1h, duty=0.25)",
        "two": "day(base=100, peak=1500, period=1d) + periodic(base=0, peak=400, period=2h, peaks=3)",
    }
    loads = built_in_loads(PEAK_PER_S)
    loads += [NamedLoad(name=name, load=parse_load(text)) for name, text in more.items()]
    with tempfile.TemporaryDirectory() as folder:
        file = _write_trace(Path(folder) / "trace.csv")
        loads.append(NamedLoad(name="trace", load=parse_load(f"trace('{file}', peak={PEAK_PER_S:g})")))
    return loads


def _write_trace(file: Path, *, minutes: int = 1440) -> Path:
    """Events of every minute of a day: a daily wave times a random walk, fading bursts, and a gap of an hour."""
    rng = np.random.default_rng(7)
    minute = np.arange(minutes)
    wave = 1.2 - np.cos(2 * np.pi * minute / minutes)
    walk = np.exp(np.cumsum(rng.normal(0.0, 0.02, minutes)))
    bursts = np.zeros(minutes)
    for start in rng.integers(0, minutes - 60, 12):
        bursts[start : start + 60] += rng.uniform(0.5, 2.0) * np.exp(-np.arange(60) / 10)
    events = np.rint(1000 * (wave * walk + bursts)).astype(int)
    rows = [f"{at},{count}" for at, count in zip(minute, events, strict=True) if not 300 <= at < 360]
    file.write_text("minute,events\n" + "\n".join(rows) + "\n")
    return file


def _measure(loads: list[NamedLoad], *, seeds: int) -> list[Figure]:
    cases = [
        SweepCase(
            load=load.name,
            scenario=Spec(seed=seed, seconds="1d").scenario(load.with_jitter(0.05, seed)),
            drawn=True,
        )
        for load in loads
        for seed in range(1, seeds + 1)
    ]
    began, spent_s = time.perf_counter(), _cpu_s()
    done = sweep(cases, STRATEGIES, workers=cores(), draw=draw)
    took_s, spent_s = time.perf_counter() - began, _cpu_s() - spent_s
    assert not done.failures, done.failures[0]
    runs, whole = len(done.results), len(STRATEGIES) * len(_loads()) * SEEDS
    began = time.process_time()
    oracle_of(cases[0].scenario)
    oracle_s = time.process_time() - began
    all_of_it = runs == whole
    note = "" if all_of_it else f", from {runs} of them"
    return [
        Figure(
            what=f"leaderboard of {whole} days, CPU of {cores()} cores{note}",
            value=spent_s / runs * whole / cores() / 60,
            unit="min",
            bar=None if all_of_it else 10.0,
        ),
        Figure(
            what="the same in wall-clock time, which depends on other processes",
            value=took_s / runs * whole / 60,
            unit="min",
            bar=10.0 if all_of_it else None,
        ),
        Figure(what="one day of one strategy, CPU", value=spent_s / runs, unit="s"),
        Figure(what="hindsight of one day, once per load and seed", value=oracle_s, unit="s"),
    ]


def _cpu_s() -> float:
    """CPU seconds of this process and of finished workers."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    figures = _measure(_loads(), seeds=SEEDS)
    show(figures)
    sys.exit(0 if all(figure.ok for figure in figures) else 1)
