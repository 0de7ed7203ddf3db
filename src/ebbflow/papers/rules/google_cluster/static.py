"""The static scaling test (§5.3.4): how long the trace takes with n instances of the machine operator.

n instances have n slots, as each had a node in the thesis; the source shares them. If n needs more cores than this
machine has, the run is computed by the simulator's micro-batch engine instead: T(n) = d + c · events / n per batch.
The measured runs n = 1 and n = 2 determine both costs: c, the cost of an event on one slot, and d, the cost of a batch
outside the slots (driver, cluster operator, sink).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebbflow.core.machine import cores as cores_here
from ebbflow.core.pipeline import Pipeline
from ebbflow.errors import InputError
from ebbflow.papers.rules.google_cluster.job import MIN_BATCHES, JobFigures, quantiles, run_in_a_process
from ebbflow.targets.simulator import MicroBatch, Stage

MEASURED, CROWDED, SIMULATED = "measured", "measured on too few cores", "simulated"
INSTANCES = (1, 2, 4, 8)

PUBLISHED_MINUTES = {1: 129.69, 2: 71.06, 4: 40.35, 8: 26.15, 16: 25.00}
"""Instances of the machine operator → minutes for the whole trace (Figure 5.22)."""
PUBLISHED_RATES_PER_S = {
    1: (18_405, 19_219, 19_955, 20_433),
    2: (33_779, 34_609, 35_010, 35_475),
    4: (59_118, 63_941, 71_445, 71_579),
    8: (89_329, 99_253, 115_291, 123_022),
    16: (96_985, 104_094, 104_575, 106_080),
}
"""Instances → throughput: median, 75th, 90th and 95th percentile (Figure 5.26)."""


@dataclass(frozen=True, kw_only=True)
class StaticRow:
    """One n of the table, beside the same n in the thesis."""

    instances: int
    source: str
    """``measured``, or ``simulated`` if this machine has too few cores; n = 2 always runs, for the calibration."""
    seconds: float
    speed_up: float
    rates_per_s: tuple[float, ...]
    """Throughput of the batches: median, 75th, 90th and 95th percentile."""

    @property
    def efficiency(self) -> float:
        """Speed-up ÷ instances."""
        return self.speed_up / self.instances

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        return {
            "instances": self.instances,
            "from": self.source,
            "seconds": round(self.seconds, 2),
            "speed_up": round(self.speed_up, 3),
            "efficiency": round(self.efficiency, 3),
            "throughput_per_s": [round(rate) for rate in self.rates_per_s],
            "published": published_row(self.instances),
        }


def published_row(instances: int) -> dict[str, Any]:
    """Return the thesis's figures for a number of instances; they are None if it has none.

    >>> published_row(2)["speed_up"], published_row(3)["speed_up"]
    (1.83, None)
    """
    minutes = PUBLISHED_MINUTES.get(instances)
    speed_up = PUBLISHED_MINUTES[1] / minutes if minutes else None
    return {
        "minutes": minutes,
        "speed_up": None if speed_up is None else round(speed_up, 2),
        "efficiency": None if speed_up is None else round(speed_up / instances, 2),
        "throughput_per_s": list(PUBLISHED_RATES_PER_S.get(instances, ())),
    }


@dataclass(frozen=True, kw_only=True)
class StaticResult:
    """The table."""

    cores: int
    runs: dict[int, JobFigures]
    rows: tuple[StaticRow, ...]

    @property
    def note(self) -> str:
        """How to read the table: which rows are simulated, and over how many batches the quantiles are."""
        batches = min(run.batches for run in self.runs.values())
        few = "" if batches >= MIN_BATCHES else ", too few for the higher ones"
        beyond = beyond_note(self.cores, [row.instances for row in self.rows])
        if not gained_s(self.runs[1], self.runs[2]) and any(row.source == SIMULATED for row in self.rows):
            one_s, two_s = self.runs[1].seconds, self.runs[2].seconds
            beyond += (
                f"; but n = 2 was no faster than n = 1 ({two_s:.1f} s against {one_s:.1f} s), so the simulator could "
                "not be calibrated: the simulated rows repeat n = 1"
            )
        return f"{beyond}; quantiles are over {batches} batches{few}"

    def to_json(self) -> dict[str, Any]:
        """Return the table as JSON values."""
        any_run = next(iter(self.runs.values()))
        return {
            "events": any_run.events,
            "without_machine": any_run.without_machine,
            "reports": any_run.reports,
            "machines": any_run.machines,
            "cores": self.cores,
            "batches": any_run.batches,
            "note": self.note,
            "rows": [row.to_json() for row in self.rows],
            "runs": {str(n): figures.to_json() for n, figures in self.runs.items()},
        }


def beyond_note(cores: int, instances: Sequence[int]) -> str:
    """Say which rows need more cores than this machine has.

    >>> beyond_note(2, (1, 2, 4, 8))
    'this machine has 2 cores; n = 4, 8 are simulated from the measured n = 1 and 2'
    """
    has = f"this machine has {cores} core{'s' if cores > 1 else ''}"
    beyond = [str(n) for n in instances if n > cores]
    if not beyond:
        return f"{has}; all rows are measured"
    if cores < 2:
        return (
            f"{has}; n = {', '.join(beyond)} need more: n = 2 ran on it all the same, and rows simulated from it show "
            "no speed-up of more cores"
        )
    verb = "are" if len(beyond) > 1 else "is"
    return f"{has}; n = {', '.join(beyond)} {verb} simulated from the measured n = 1 and 2"


def run_static(
    folder: Path,
    instances: Sequence[int] = INSTANCES,
    *,
    cores: int | None = None,
    on_run: Callable[[int], None] | None = None,
    run: Callable[[int], JobFigures] | None = None,
) -> StaticResult:
    """Run each n for which there are cores in a process of its own; n = 1 and 2 always, to calibrate the simulator."""
    if not instances or min(instances) < 1:
        raise InputError(
            f"invalid instances {list(instances)}; use whole numbers of at least 1, such as 1,2,4,8"
        )
    cores = cores or cores_here()
    runs: dict[int, JobFigures] = {}
    for n in sorted({1, 2, *(n for n in instances if n <= cores)}):
        if on_run is not None:
            on_run(n)
        runs[n] = run(n) if run is not None else run_in_a_process(input=folder, instances=n)
    return StaticResult(cores=cores, runs=runs, rows=tuple(_row(n, runs, cores) for n in instances))


def _row(n: int, runs: dict[int, JobFigures], cores: int) -> StaticRow:
    if n in runs:
        seconds, source, rates = runs[n].seconds, MEASURED if n <= cores else CROWDED, runs[n].rates_per_s
    else:
        source, (seconds, rates) = SIMULATED, simulated(runs[1], runs[2], n)
    first_s = runs[1].seconds
    return StaticRow(
        instances=n, source=source, seconds=seconds, speed_up=first_s / seconds, rates_per_s=rates
    )


def gained_s(one: JobFigures, two: JobFigures) -> float:
    """Return how much shorter a batch is with two instances, or 0 if it is not."""
    return max(0.0, one.seconds / one.batches - two.seconds / two.batches)


def simulated(one: JobFigures, two: JobFigures, instances: int) -> tuple[float, tuple[float, ...]]:
    """Return (seconds, throughput quantiles) with more instances, from the engine that the two runs calibrate."""
    mean_events = one.events / one.batches
    one_s = one.seconds / one.batches
    per_slot_s = 2 * gained_s(one, two)
    engine = MicroBatch(
        pipeline=Pipeline.chain("google-cluster", "machine"),
        driver_s=max(0.0, one_s - per_slot_s),
        stages=(Stage(tasks=instances, per_row_s=per_slot_s / mean_events),),
    )
    batches = [(events, engine.batch_s(events, instances)) for events in one.batch_events]
    return sum(seconds for _, seconds in batches), quantiles(
        [events / seconds for events, seconds in batches]
    )
