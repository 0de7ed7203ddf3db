"""Rows of Figure 9 run in the simulator, on the cores of this machine: every row with every seed."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ebbflow.control.loop import CycleReport
from ebbflow.core.machine import cores
from ebbflow.core.ports import Strategy
from ebbflow.errors import EbbflowError, InputError
from ebbflow.papers.elysium.cases import Case
from ebbflow.papers.elysium.kit import Kit
from ebbflow.papers.elysium.published import SIMULATOR
from ebbflow.papers.elysium.result import Curves, Measured, Points, Result, curves_of
from ebbflow.runs.simulation import play
from ebbflow.runs.workforce import workforce


class RunFailedError(EbbflowError):
    """A row could not be run."""


@dataclass
class Watched:
    """Takes in the cycles of a run: how many instances of each operator were planned, and when that changed."""

    started_s: float = 0.0
    parallelism: dict[str, Points] = field(default_factory=dict)

    def take(self, report: CycleReport) -> None:
        """What one cycle planned."""
        if report.planned is None or report.observation is None:
            return
        time_s = max(0.0, report.observation.time_s - self.started_s)
        for operator, instances in report.planned.parallelism.items():
            steps = self.parallelism.setdefault(operator, [])
            if not steps or steps[-1][1] != instances:
                steps.append((round(time_s, 1), float(instances)))

    def until(self, end_s: float) -> dict[str, Points]:
        """Each with its last value held until the end."""
        return {name: [*steps, (end_s, steps[-1][1])] for name, steps in self.parallelism.items()}


def play_case(
    case: Case, strategy: Strategy, seed: int = 1, *, drawn: bool = False
) -> tuple[Measured, Curves | None]:
    """One run under a strategy; its curves where pictures are made of it."""
    watched = Watched()
    simulation = play(case.scenario(seed), strategy, on_cycle=watched.take)
    measured = Measured.of(simulation.runs)
    if not drawn:
        return measured, None
    applications = [application for application, _ in case.loads]
    runs = dict(zip(applications, simulation.runs, strict=True))
    return measured, curves_of(runs, watched.until(case.seconds))


@dataclass(frozen=True, kw_only=True)
class _Failed:
    error: str


_Answer = tuple[Measured, Curves | None] | _Failed


def _one(kit: Kit, item: tuple[Case, int]) -> _Answer:
    case, seed = item
    try:
        return play_case(case, kit.strategy(case), seed, drawn=seed == 1)
    except Exception as error:
        return _Failed(error=f"{error} ({traceback.format_exc().strip().splitlines()[-2].strip()})")


def run_cases(
    cases: Sequence[Case],
    kit: Kit,
    *,
    seeds: int = 3,
    workers: int | None = None,
    on_done: Callable[[], None] = lambda: None,
) -> list[Result]:
    """Every case with every seed, in the order of the cases; metrics are means over the seeds.

    ``on_done`` is called after each run.
    """
    if seeds < 1:
        raise InputError(f"--seeds {seeds} leaves nothing to compare; the fewest is 1")
    items = [(case, seed) for case in cases for seed in range(1, seeds + 1)]
    with workforce(kit, workers=min(len(items), workers or cores())) as work:
        answers: list[_Answer | BaseException] = work(_one, items, lambda *_: on_done())
    results = []
    for index, case in enumerate(cases):
        own = answers[index * seeds : (index + 1) * seeds]
        measured, curves = [], None
        for answer in own:
            if not isinstance(answer, tuple):
                why = answer.error if isinstance(answer, _Failed) else answer
                raise RunFailedError(f"{case.key} failed: {why}")
            measured.append(answer[0])
            curves = curves or answer[1]
        results.append(
            Result(case=case, target=SIMULATOR, measured=Measured.mean(measured), runs=seeds, curves=curves)
        )
    return results
