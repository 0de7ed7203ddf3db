"""The models that strategies start with: profiles learned before the runs, and forecasters trained on earlier days.

As in the paper, a strategy knows only what it could have measured. The profile of an application comes from half an
hour of a stair on an over-provisioned cluster (§5.1), the forecaster of a load from the past of that load.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ebbflow.control.loop import CycleReport
from ebbflow.core.machine import cores
from ebbflow.core.ports import Strategy
from ebbflow.errors import UnknownNameError
from ebbflow.forecasting.load_forecast import STEP_S
from ebbflow.forecasting.port import Forecaster
from ebbflow.forecasting.registry import DEFAULT, make_forecaster
from ebbflow.papers.elysium.calibration import COSTED, LIMITS, MOST_PARALLEL, storm
from ebbflow.papers.elysium.cases import TWITTER_DAY, Case, twitter_load
from ebbflow.papers.elysium.published import (
    JOINT,
    ONLY_OPERATORS,
    ONLY_RESOURCES,
    PROACTIVE,
    STATIC,
    SYMBIOTIC,
    Key,
)
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.fitting import ALL
from ebbflow.profiling.profile import Profile
from ebbflow.profiling.profile_learner import ProfileLearner
from ebbflow.runs.parallel import parallel_map
from ebbflow.runs.profiling import LayoutSchedule
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies.joint import Joint
from ebbflow.strategies.static import Static
from ebbflow.strategies.symbiotic import Dimensions, Symbiotic, SymbioticProactive, UsageThresholds
from ebbflow.workloads import Load, Noise, parse_load

PROFILED_WITH = "stair(base=50, peak=850, steps=8, hold=105s)"
"""The load of the profiling phase."""
PROFILED_S = 1785.0
REBALANCED_AT_S = 1500.0
HISTORY_MINUTES = 240
"""Minutes of a generated load that a forecaster learns from."""
MOST_INSTANCES = {
    **{name: MOST_PARALLEL for costed in COSTED.values() for name in costed.pipeline.order},
    **{name: most for costed in COSTED.values() for name, most in costed.max_parallelism.items()},
}


@dataclass(frozen=True, kw_only=True)
class Models:
    """Learned once, used in all runs."""

    profiles: Mapping[str, Profile]
    """By application."""
    forecasts: Mapping[tuple[str, str], Forecaster]
    """By application and load."""

    @classmethod
    def learned(
        cls, cases: Sequence[Case], *, trace: str | None = None, workers: int | None = None
    ) -> Models:
        """Learn the models that these cases need, on all cores by default."""
        adaptive = [case for case in cases if case.key.strategy != STATIC]
        applications = dict.fromkeys(application for case in adaptive for application, _ in case.loads)
        proactive = [case for case in adaptive if case.key.strategy == PROACTIVE]
        items: list[str | Case] = [*proactive, *applications]  # forecasters take longest
        with parallel_map(trace, workers=min(len(items), workers or cores())) as work:
            learned = work(_learn, items, lambda *_: None)
        for each in learned:
            if isinstance(each, BaseException):
                raise each
        forecasters, profiles = learned[: len(proactive)], learned[len(proactive) :]
        return cls(
            profiles=dict(zip(applications, profiles, strict=True)),
            forecasts={
                (case.key.application, case.key.load): forecaster
                for case, forecaster in zip(proactive, forecasters, strict=True)
            },
        )

    def strategy(self, case: Case) -> Strategy:
        """A new strategy for one run of the case."""
        key = case.key
        if key.strategy == STATIC:
            return Static()
        if key.strategy == JOINT:
            return Joint(most_instances=MOST_INSTANCES)
        if key.strategy in (SYMBIOTIC, PROACTIVE):
            return self.symbiotic(case, proactive=key.strategy == PROACTIVE)
        if key.strategy == ONLY_OPERATORS:
            return self.symbiotic(case, dimensions=Dimensions(nodes=False, most_instances=MOST_INSTANCES))
        if key.strategy == ONLY_RESOURCES:
            return self.symbiotic(case, dimensions=Dimensions(operators=False, most_instances=MOST_INSTANCES))
        raise UnknownNameError("strategy", key.strategy, (STATIC, JOINT, SYMBIOTIC, PROACTIVE))

    def symbiotic(
        self,
        case: Case,
        *,
        proactive: bool = False,
        dimensions: Dimensions | None = None,
        thresholds: UsageThresholds | None = None,
    ) -> Symbiotic:
        """Algorithm 1 with the profiles, in one dimension or both."""
        estimators = {}
        for application, _ in case.loads:
            pipeline = COSTED[application].pipeline
            # a forecaster continues to learn during its run
            forecaster = copy.deepcopy(self.forecasts[application, case.key.load]) if proactive else None
            estimators[pipeline.name] = Estimator(pipeline, self.profiles[application], forecaster=forecaster)
        kind = SymbioticProactive if proactive else Symbiotic
        return kind(
            estimators,
            thresholds=thresholds,
            dimensions=dimensions or Dimensions(most_instances=MOST_INSTANCES),
        )


def _learn(trace: str | None, item: str | Case) -> Profile | Forecaster:
    if isinstance(item, str):
        return learn_profile(item)
    return train_forecaster(item.loads[0][1], item, trace)


def learn_profile(application: str, seed: int = 99) -> Profile:
    """Run the profiling phase: a stair on four nodes with parallelism 3, and one rebalance to learn its duration."""
    case = Case(
        key=Key(application, "stair", STATIC, "4 nodes, parallelism 3"),
        loads=((application, parse_load(PROFILED_WITH)),),
        seconds=PROFILED_S,
        initial_nodes=4,
        initial_parallelism=3,
    )
    learner = ProfileLearner(COSTED[application].pipeline, kinds=ALL, target="simulator")

    def learn(report: CycleReport) -> None:
        if report.observation is not None:
            learner.learn(report.observation.readings, report.observation.batches)

    sizes = storm(application, MOST_PARALLEL).parallelism
    rebalance = LayoutSchedule([(REBALANCED_AT_S, sizes, LIMITS.max_nodes)])
    run_simulation(case.scenario(seed), rebalance, guards=(), on_cycle=learn)
    return learner.profile()


def train_forecaster(load: Load, case: Case, trace: str | None) -> Forecaster:
    """A forecaster that has learned the past of a load: four days of the trace, or hours of a generated load."""
    forecaster = make_forecaster(DEFAULT, STEP_S)
    for end_s, rate_per_s in history(load, case, trace):
        forecaster.learn(end_s, rate_per_s)
    return forecaster


def history(load: Load, case: Case, trace: str | None) -> list[tuple[float, float]]:
    """(end, rows per second) of each step before the run, the last at second 0."""
    past: list[float] = []
    if case.key.load == "twitter" and trace is not None:
        for day in range(int(TWITTER_DAY[0] // 86_400.0)):
            start_s = day * 86_400.0
            past += _steps(twitter_load(trace, (start_s, start_s + TWITTER_DAY[1] - TWITTER_DAY[0])), case)
    else:
        while len(past) * STEP_S < HISTORY_MINUTES * 60.0:
            past += _steps(Noise(load=load, amount=0.05, seed=1000 + len(past)), case)
    return [(STEP_S * (k - len(past) + 1), rate) for k, rate in enumerate(past)]


def _steps(load: Load, case: Case) -> list[float]:
    edges_s = np.arange(0.0, case.seconds + 1e-9, STEP_S)
    return [float(rows) / STEP_S for rows in load.rows_between(edges_s)]
