"""The studies of §7.1.2 to §7.1.4 and Figure 7: load imbalance, accuracy of estimator and forecasts, cost of changes.

- *Imbalance* (Figure 9): a sine on three nodes. Four instances of every operator do not divide by three, so some nodes
  are fuller than others. Measured: the CPU of each node.
- *Estimator* (Figures 10 and 11): 25 minutes of a sine that the profile was not learned from, without scaling.
  Estimated and measured: the CPU of all instances of an operator, and of nodes.
- *Forecasts* (Figure 7): each load forecast 10 s to 5 minutes ahead from its past, compared with what came.
- *Reconfigurations* (Figure 12): the topology over-provisioned on nine minutes of a sine, rebalanced needlessly at
  every assessment, for several assessment periods.
- *Assessment period*: proactive and reactive scaling for other periods than the paper's 5 minutes. Not in the paper.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ebbflow.core.limits import Limits
from ebbflow.core.machine import cores
from ebbflow.core.metrics import Metric
from ebbflow.core.placement import even
from ebbflow.forecasting.load_forecast import STEP_S
from ebbflow.papers.elysium.calibration import LIMITS
from ebbflow.papers.elysium.run import unsmoothed_degradation
from ebbflow.papers.pascal.calibration import PARALLELISM, PIPELINE, scenario
from ebbflow.papers.pascal.loads import PastAndPresent
from ebbflow.papers.pascal.published import IMBALANCE, PROACTIVE, REACTIVE
from ebbflow.papers.pascal.run import Metrics, learn_workload, run_load, strategy_for
from ebbflow.papers.studies import EstimatorAccuracy, Points, ReadingsRecorder, ReconfigurationCost, Restless
from ebbflow.profiling.profile import Profile
from ebbflow.runs.parallel import parallel_map
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies.static import Static
from ebbflow.workloads import parse_load

SINE = ("sine(base=200, peak=1400, period=25m)", 1500.0)
CHANGED_SINE = ("sine(base=300, peak=1000, period=9m)", 540.0)
"""No node is ever overloaded."""
PERIODS_S: tuple[float, ...] = (60.0, 120.0, 180.0, 240.0, 300.0)
ASSESSED_EVERY_S: tuple[float, ...] = (10.0, 60.0, 300.0)
DRAWN = ("counter", "stop-words")
AHEAD_STEPS = (1, 6, 30)
"""Forecasts are judged 10 s, a minute and five minutes ahead."""


def _static_readings(text: str, seconds: float, *, nodes: int, seed: int) -> ReadingsRecorder:
    """The readings of a run without scaling."""
    recorder = ReadingsRecorder()
    made = scenario(parse_load(text), seconds, nodes=nodes, seed=seed)
    fixed = replace(made, limits=Limits(min_nodes=nodes, max_nodes=nodes))
    run_simulation(fixed, Static(), on_cycle=recorder.record)
    return recorder


# -- imbalance ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Imbalance:
    """The CPU of three nodes under a sine."""

    spouts: tuple[int, ...]
    """Instances of the spout on each node."""
    nodes: Mapping[str, Points]
    """Used share of each node over time."""
    ratio: float
    """Mean CPU of the fullest node ÷ that of the emptiest."""

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"spouts": list(self.spouts), "ratio": round(self.ratio, 3), "published": IMBALANCE}


def imbalance(nodes: int = 3, seed: int = 7) -> Imbalance:
    """Measure how unequally nodes are loaded."""
    readings = _static_readings(*SINE, nodes=nodes, seed=seed)
    names = [f"node-{k}" for k in range(nodes)]
    measured: dict[str, Points] = {name: [] for name in names}
    for time_s, values in zip(readings.times_s[1:], readings.readings[1:], strict=True):
        for name in names:
            measured[name].append((time_s, round(values[name, Metric.NODE_CPU], 4)))
    means = [statistics.fmean(share for _, share in measured[name]) for name in names]
    placement = even([PARALLELISM] * len(PIPELINE.order), nodes)
    return Imbalance(spouts=placement[0], nodes=measured, ratio=max(means) / min(means))


# -- estimator ---------------------------------------------------------------------------------------------------


def estimator_accuracy(profile: Profile, nodes: int = 3, seed: int = 8) -> EstimatorAccuracy:
    """Compare estimates with measurements on unequally loaded nodes."""
    readings = _static_readings(*SINE, nodes=nodes, seed=seed)
    parallelism = dict.fromkeys(PIPELINE.order, PARALLELISM)
    return EstimatorAccuracy.of(profile, readings, parallelism, nodes=nodes, drawn=DRAWN, from_estimates=True)


# -- forecasts ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ForecastAccuracy:
    """Forecasts of one load compared with what came."""

    load: str
    errors: Mapping[float, float]
    """Mean square error on a load scaled to [0, 1], by seconds ahead."""
    came: Points
    forecast: Points
    """A minute ahead, at the time it is for."""

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "load": self.load,
            "mean_square_error": {f"{s:g}": round(e, 5) for s, e in self.errors.items()},
        }


def forecast_accuracy(load: PastAndPresent) -> ForecastAccuracy:
    """Forecast a load step by step after its past; nothing of the future is known."""
    forecaster = learn_workload(load, "mixture")
    noisy = scenario(load.load, load.seconds).load
    came = noisy.rows_between(np.arange(0.0, load.seconds + 1e-9, STEP_S)) / STEP_S
    span = max(float(came.max() - came.min()), 1e-9)
    misses: dict[int, list[float]] = {steps: [] for steps in AHEAD_STEPS}
    ahead: Points = []
    for at in range(len(came)):
        found = forecaster.forecast(max(AHEAD_STEPS), (0.5,))
        if found is not None:
            for steps in AHEAD_STEPS:
                if at + steps <= len(came):
                    value = float(found.at(0.5)[steps - 1])
                    misses[steps].append(((value - float(came[at + steps - 1])) / span) ** 2)
                    if steps == AHEAD_STEPS[1]:
                        ahead.append((STEP_S * (at + steps), round(value, 1)))
        forecaster.learn(STEP_S * (at + 1), float(came[at]))
    return ForecastAccuracy(
        load=load.name,
        errors={STEP_S * steps: statistics.fmean(each) for steps, each in misses.items() if each},
        came=[(STEP_S * (k + 1), round(float(rate), 1)) for k, rate in enumerate(came)],
        forecast=ahead,
    )


# -- reconfigurations --------------------------------------------------------------------------------------------


def reconfiguration_costs(periods_s: Sequence[float] = PERIODS_S) -> list[ReconfigurationCost]:
    """The cost without a rebalance, and for each period."""
    costs = []
    text, seconds = CHANGED_SINE
    for period_s in (None, *periods_s):
        made = scenario(parse_load(text), seconds, nodes=LIMITS.max_nodes)
        run = run_simulation(made, Restless(period_s)).run
        metrics = Metrics.of(run)
        costs.append(
            ReconfigurationCost(
                period_s=period_s,
                throughput_degradation=metrics.throughput_degradation,
                throughput_degradation_unsmoothed=unsmoothed_degradation(run) or 0.0,
                latency_mean_s=metrics.latency_mean_s,
            )
        )
    return costs


# -- assessment period -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PeriodResult:
    """A load under proactive or reactive scaling with an assessment period."""

    load: str
    strategy: str
    assess_s: float
    metrics: Metrics

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "load": self.load,
            "strategy": self.strategy,
            "assess_s": self.assess_s,
            **self.metrics.to_json(),
        }


def assessment_periods(
    loads: Sequence[PastAndPresent],
    profile: Profile,
    *,
    workers: int | None = None,
    on_done: Callable[[], None] = lambda: None,
) -> list[PeriodResult]:
    """Every load, strategy and period once."""
    items = [
        (load, name, assess_s)
        for load in loads
        for name in (PROACTIVE, REACTIVE)
        for assess_s in ASSESSED_EVERY_S
    ]
    with parallel_map(profile, workers=min(len(items), workers or cores())) as work:
        found = work(_assessed, items, lambda *_: on_done())
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return list(found)


def _assessed(profile: Profile, item: tuple[PastAndPresent, str, float]) -> PeriodResult:
    load, name, assess_s = item
    metrics, _ = run_load(load, strategy_for(name, load, profile, assess_s=assess_s))
    return PeriodResult(load=load.name, strategy=name, assess_s=assess_s, metrics=metrics)


# -- all studies -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Studies:
    """The results of all studies."""

    imbalance: Imbalance
    estimator: EstimatorAccuracy
    forecasts: Sequence[ForecastAccuracy]
    reconfigurations: Sequence[ReconfigurationCost]
    periods: Sequence[PeriodResult]

    @classmethod
    def run(
        cls,
        loads: Sequence[PastAndPresent],
        profile: Profile,
        *,
        workers: int | None = None,
        on_done: Callable[[], None] = lambda: None,
    ) -> Studies:
        """Run the studies; calls ``on_done`` after each of the ``study_runs`` runs of the assessment periods."""
        return cls(
            imbalance=imbalance(),
            estimator=estimator_accuracy(profile),
            forecasts=[forecast_accuracy(load) for load in loads],
            reconfigurations=reconfiguration_costs(),
            periods=assessment_periods(loads, profile, workers=workers, on_done=on_done),
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "imbalance": self.imbalance.to_json(),
            "estimator": self.estimator.to_json(),
            "forecasts": [each.to_json() for each in self.forecasts],
            "reconfigurations": [each.to_json() for each in self.reconfigurations],
            "assessment_periods": [each.to_json() for each in self.periods],
        }


def study_runs(loads: Sequence[PastAndPresent]) -> int:
    """Runs of the assessment periods."""
    return 2 * len(ASSESSED_EVERY_S) * len(loads)
