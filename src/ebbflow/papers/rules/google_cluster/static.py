"""The static scaling test (§5.3.4): how long the trace takes with n instances of the machine operator.

n instances have n slots, as in the seed each had a node; the source shares them. What needs more cores than this
machine has is not run but computed by the simulator's micro-batch engine, with the two costs that the measured
n = 1 and n = 2 determine: c, what an event costs on one slot, and d, what a batch costs on none of them (driver,
cluster operator, sink), from T(n) = d + c · events / n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebbflow.core.machine import cores as cores_here
from ebbflow.core.pipeline import Pipeline
from ebbflow.errors import InputError
from ebbflow.papers.rules.google_cluster.job import FEWEST_BATCHES, Figures, quantiles, run_in_a_process
from ebbflow.papers.rules.google_cluster.rates import STATIC_MINUTES, STATIC_RATES_PER_S
from ebbflow.targets.simulator import MicroBatch, Stage

MEASURED, CROWDED, SIMULATED = "measured", "measured on too few cores", "simulated"
INSTANCES = (1, 2, 4, 8)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One n of the table, and the same of the seed."""

    instances: int
    source: str
    """``measured``, or where this machine has too few cores ``simulated``; n = 2 is always run, for the simulator."""
    seconds: float
    speed_up: float
    rates_per_s: tuple[float, ...]
    """Median, 75th, 90th and 95th percentile over the batches."""

    @property
    def efficiency(self) -> float:
        """Speed-up ÷ instances."""
        return self.speed_up / self.instances

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        seed_minutes = STATIC_MINUTES.get(self.instances)
        seed_speed_up = STATIC_MINUTES[1] / seed_minutes if seed_minutes else None
        return {
            "instances": self.instances,
            "from": self.source,
            "seconds": round(self.seconds, 2),
            "speed_up": round(self.speed_up, 3),
            "efficiency": round(self.efficiency, 3),
            "throughput_per_s": [round(rate) for rate in self.rates_per_s],
            "seed": {
                "minutes": seed_minutes,
                "speed_up": None if seed_speed_up is None else round(seed_speed_up, 2),
                "efficiency": None if seed_speed_up is None else round(seed_speed_up / self.instances, 2),
                "throughput_per_s": list(STATIC_RATES_PER_S.get(self.instances, ())),
            },
        }


@dataclass(frozen=True, kw_only=True)
class StaticResult:
    """The table."""

    cores: int
    runs: dict[int, Figures]
    rows: tuple[Row, ...]

    @property
    def note(self) -> str:
        """What is to be known of the table."""
        batches = min(run.batches for run in self.runs.values())
        few = "" if batches >= FEWEST_BATCHES else ": few, so the higher ones say little"
        beyond = beyond_note(self.cores, [row.instances for row in self.rows])
        if not gained_s(self.runs[1], self.runs[2]) and any(row.source == SIMULATED for row in self.rows):
            one_s, two_s = self.runs[1].seconds, self.runs[2].seconds
            beyond += (
                f"; but n = 2 was no faster than n = 1 ({two_s:.1f} s against {one_s:.1f} s), so the simulator could "
                "not be calibrated: the simulated rows only repeat n = 1, and say nothing of more cores"
            )
        return f"{beyond}; quantiles are those of {batches} batches{few}"

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
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
    """What is said of a machine with too few cores.

    >>> beyond_note(2, (1, 2, 4, 8))
    'this machine has 2 cores: n = 4, 8 are beyond them, and simulated from the measured n = 1 and 2'
    """
    has = f"this machine has {cores} core{'s' if cores > 1 else ''}"
    beyond = [str(n) for n in instances if n > cores]
    if not beyond:
        return f"{has}: all measured"
    told = f"{has}: n = {', '.join(beyond)} {'are' if len(beyond) > 1 else 'is'} beyond"
    if cores < 2:
        return f"{told}; n = 2 was run all the same, and what is simulated from it shows no speed-up of more cores"
    return f"{told} them, and simulated from the measured n = 1 and 2"


def run_static(
    folder: Path,
    instances: Sequence[int] = INSTANCES,
    *,
    cores: int | None = None,
    on_run: Callable[[int], None] | None = None,
    run: Callable[[int], Figures] | None = None,
) -> StaticResult:
    """Run each n in a process of its own as far as there are cores; n = 1 and 2 always, for the simulator."""
    if not instances or min(instances) < 1:
        raise InputError(f"instances {list(instances)} make no sense; write 1,2,4,8")
    cores = cores or cores_here()
    runs: dict[int, Figures] = {}
    for n in sorted({1, 2, *(n for n in instances if n <= cores)}):
        if on_run is not None:
            on_run(n)
        runs[n] = run(n) if run is not None else run_in_a_process(input=folder, instances=n)
    return StaticResult(cores=cores, runs=runs, rows=tuple(_row(n, runs, cores) for n in instances))


def _row(n: int, runs: dict[int, Figures], cores: int) -> Row:
    if n in runs:
        seconds, source, rates = runs[n].seconds, MEASURED if n <= cores else CROWDED, runs[n].rates_per_s
    else:
        source, (seconds, rates) = SIMULATED, simulated(runs[1], runs[2], n)
    first_s = runs[1].seconds
    return Row(instances=n, source=source, seconds=seconds, speed_up=first_s / seconds, rates_per_s=rates)


def gained_s(one: Figures, two: Figures) -> float:
    """By how much a batch is shorter with two instances; 0 if it is not, and then nothing is known of more of them."""
    return max(0.0, one.seconds / one.batches - two.seconds / two.batches)


def simulated(one: Figures, two: Figures, instances: int) -> tuple[float, tuple[float, ...]]:
    """(seconds, throughput quantiles) of the trace with more instances, batch by batch, by the engine that the two
    runs determine."""
    mean_events = one.events / one.batches
    one_s = one.seconds / one.batches
    per_slot_s = 2 * gained_s(one, two)
    engine = MicroBatch(
        pipeline=Pipeline.chain("google-cluster", "machine"),
        driver_s=max(0.0, one_s - per_slot_s),
        stages=(Stage(tasks=instances, per_row_s=per_slot_s / mean_events),),
    )
    took_s = [(events, engine.batch_s(events, instances)) for events in one.batch_events]
    return sum(seconds for _, seconds in took_s), quantiles([events / seconds for events, seconds in took_s])
