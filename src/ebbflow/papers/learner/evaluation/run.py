"""Run studies: each contender once per seed on all loads that any study needs, then means with confidence intervals.

The interval of a mean over n seeds is Student's: m ± t · s / √n, where t is the 97.5 % quantile with n − 1 degrees of
freedom and s the standard deviation over the seeds. Seeds are independent: each has its own arrivals, task times,
exploration and search. All contenders meet the same arrivals.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ebbflow.papers import SIMULATOR
from ebbflow.papers.learner.evaluation.contenders import Contender, Measured, passes_of
from ebbflow.papers.learner.evaluation.loads import ALL_FIVE, Loads
from ebbflow.papers.learner.evaluation.studies import CAPACITY, Study
from ebbflow.papers.rows import run_rows


@dataclass(frozen=True, kw_only=True)
class MeanOfSeeds:
    """A mean, and half the width of its 95 % confidence interval (None with one seed)."""

    mean: float
    half: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> MeanOfSeeds:
        """Student's interval.

        >>> three = MeanOfSeeds.of([1.0, 2.0, 3.0])
        >>> three.mean, round(three.half, 3)
        (2.0, 2.484)
        >>> MeanOfSeeds.of([2.0])
        MeanOfSeeds(mean=2.0, half=None)
        """
        count = len(values)
        if count < 2:
            return cls(mean=values[0], half=None)
        from scipy.stats import t

        half = float(t.ppf(0.975, count - 1)) * statistics.stdev(values) / math.sqrt(count)
        return cls(mean=math.fsum(values) / count, half=half)

    def interval(self, digits: int) -> list[float] | None:
        """Lower and upper end."""
        if self.half is None:
            return None
        return [round(self.mean - self.half, digits), round(self.mean + self.half, digits)]


@dataclass(frozen=True, kw_only=True)
class StudyRow:
    """A setting of a study on a load: means over the seeds."""

    study: str
    setting: str
    load: str
    phase: str
    hours: float
    node_seconds: MeanOfSeeds
    violation: MeanOfSeeds
    cost_ratio: MeanOfSeeds | None
    """Node-seconds ÷ those of ``capacity`` on the same load with the same seed; None without them."""
    reconfigurations: float
    seeds: int
    converged_after_h: MeanOfSeeds | None = None
    target: str = SIMULATOR

    def to_json(self) -> dict[str, Any]:
        """A row of ``ebbflow bench learner --json``."""
        ratio, converged = self.cost_ratio, self.converged_after_h
        return {
            "study": self.study,
            "setting": self.setting,
            "load": self.load,
            "phase": self.phase or "after",
            "target": self.target,
            "hours": round(self.hours, 3),
            "node_seconds": round(self.node_seconds.mean, 1),
            "violation": round(self.violation.mean, 6),
            "cost_ratio": None if ratio is None else round(ratio.mean, 4),
            "reconfigurations": round(self.reconfigurations, 1),
            "converged_after_h": None if converged is None else round(converged.mean, 2),
            "ci95": {
                "node_seconds": self.node_seconds.interval(1),
                "violation": self.violation.interval(6),
                "cost_ratio": None if ratio is None else ratio.interval(4),
                "converged_after_h": None if converged is None else converged.interval(2),
            },
            "seeds": self.seeds,
        }


@dataclass(frozen=True, kw_only=True)
class _Work:
    """A contender with all loads that it is judged on."""

    contender: Contender
    loads: tuple[str, ...]


def works_of(studies: Sequence[Study]) -> list[_Work]:
    """Each contender once, the longest first, so that no core waits long at the end."""
    needed: dict[Contender, dict[str, None]] = {}
    for study in studies:
        for contender in (CAPACITY, *study.settings.values()):
            needed.setdefault(contender, {}).update(dict.fromkeys(study.loads))

    def weight(work: _Work) -> int:
        return getattr(work.contender, "passes", 0) * 5 + len(work.loads) * 4

    works = [_Work(contender=each, loads=tuple(loads)) for each, loads in needed.items()]
    return sorted(works, key=weight, reverse=True)


def run_studies(
    studies: Sequence[Study],
    loads: Loads,
    *,
    seeds: int,
    workers: int | None = None,
    on_done: Callable[[], None] = lambda: None,
) -> list[StudyRow]:
    """The rows of all studies. ``on_done`` is called for each of the ``works_of`` studies and each seed."""
    works = works_of(studies)
    done = run_rows(_run, loads, works, name=_name, seeds=seeds, workers=workers, on_done=on_done)
    by_contender = {work.contender: runs for work, (runs, _) in zip(works, done, strict=True)}
    return [
        row
        for study in studies
        for label, contender in study.settings.items()
        for row in _rows(study, label, by_contender[contender], by_contender[CAPACITY])
    ]


def _run(loads: Loads, work: _Work, seed: int) -> tuple[list[Measured], None]:
    return work.contender.run(loads, work.loads, seed), None


def _name(work: _Work) -> str:
    return str(work.contender)


def _rows(
    study: Study, label: str, runs: Sequence[Sequence[Measured]], reference: Sequence[Sequence[Measured]]
) -> list[StudyRow]:
    """A row for each load and phase of the study that the contender has."""
    found = []
    for load in study.loads:
        for phase in study.phases:
            pairs = [
                (part, other)
                for run, other in zip(runs, reference, strict=True)
                for part in run
                if (part.load, part.phase) == (load, phase)
            ]
            if not pairs:
                continue
            parts = [part for part, _ in pairs]
            known = [cost for part, other in pairs if (cost := _cost(part, other)) is not None]
            hours = [part.converged_after_h for part in parts if part.converged_after_h is not None]
            found.append(
                StudyRow(
                    study=study.name,
                    setting=label,
                    load=load,
                    phase=phase,
                    hours=parts[0].hours,
                    node_seconds=MeanOfSeeds.of([part.node_seconds for part in parts]),
                    violation=MeanOfSeeds.of([part.violation for part in parts]),
                    cost_ratio=MeanOfSeeds.of(known) if known else None,
                    reconfigurations=statistics.fmean(part.reconfigurations for part in parts),
                    seeds=len(parts),
                    converged_after_h=MeanOfSeeds.of(hours) if hours else None,
                )
            )
    return found


def _cost(part: Measured, reference: Sequence[Measured]) -> float | None:
    """The cost of an hour ÷ that of ``capacity``: on the same load, for learning loads in its own pass over them."""
    phase = passes_of(1) if part.load == ALL_FIVE else part.phase
    same = [each for each in reference if (each.load, each.phase) == (part.load, phase)]
    if not same:
        return None
    return part.node_seconds / part.hours / (same[0].node_seconds / same[0].hours)
