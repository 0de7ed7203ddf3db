"""How long a leaderboard takes: 12 strategies × 10 loads × 3 seeds of a day each.

``python -m benchmarks leaderboard`` runs two of the ten loads with one seed and multiplies: a fifteenth of it.
``python -m benchmarks.leaderboard`` runs all of it.
"""

from __future__ import annotations

import resource
import time

from benchmarks.figures import Figure, show
from ebbflow.bench.leaderboard.sweep import Scene, sweep
from ebbflow.bench.leaderboard.workforce import cores
from ebbflow.bench.loads import NamedLoad, built_in_loads
from ebbflow.bench.simulation import oracle_of
from ebbflow.bench.spec import Spec
from ebbflow.report.drawing import draw
from ebbflow.strategies import STRATEGIES
from ebbflow.workloads import parse_load

PEAK_PER_S = 1900.0
SEEDS = 3
SAMPLE = ("day", "bursts")


def measure() -> list[Figure]:
    """A fifteenth of the leaderboard, multiplied."""
    some = [load for load in _loads() if load.name in SAMPLE]
    return _measure(some, seeds=1)


def _loads() -> list[NamedLoad]:
    more = {
        "hourly": "sine(base=190, peak=1900, period=1h)",
        "pulses": "square(base=190, peak=1900, period=1h, duty=0.25)",
        "two": "day(base=100, peak=1500, period=1d) + periodic(base=0, peak=400, period=2h, peaks=3)",
    }
    return built_in_loads(PEAK_PER_S) + [NamedLoad(name=n, load=parse_load(text)) for n, text in more.items()]


def _measure(loads: list[NamedLoad], *, seeds: int) -> list[Figure]:
    scenes = [
        Scene(
            load=load.name,
            scenario=Spec(seed=seed, seconds="1d").scenario(load.with_jitter(0.05, seed)),
            drawn=True,
        )
        for load in loads
        for seed in range(1, seeds + 1)
    ]
    began, spent_s = time.perf_counter(), _cpu_s()
    done = sweep(scenes, list(STRATEGIES), workers=cores(), draw=draw)
    took_s, spent_s = time.perf_counter() - began, _cpu_s() - spent_s
    assert not done.failures, done.failures[0]
    runs, whole = len(done.results), len(STRATEGIES) * len(_loads()) * SEEDS
    began = time.process_time()
    oracle_of(scenes[0].scenario)
    oracle_s = time.process_time() - began
    told = "" if runs == whole else f", from {runs} of them"
    return [
        Figure(
            what=f"leaderboard of {whole} days, CPU of {cores()} cores{told}",
            value=spent_s / runs * whole / cores() / 60,
            unit="min",
            bar=10.0,
        ),
        Figure(
            what="the same by the clock, which counts what else the machine does",
            value=took_s / runs * whole / 60,
            unit="min",
        ),
        Figure(what="one day of one strategy, CPU", value=spent_s / runs, unit="s"),
        Figure(what="hindsight of one day, once per load and seed", value=oracle_s, unit="s"),
    ]


def _cpu_s() -> float:
    """CPU seconds of this process and of the workers that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    show(_measure(_loads(), seeds=SEEDS))
