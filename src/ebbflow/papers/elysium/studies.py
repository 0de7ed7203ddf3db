"""The studies besides the table (Figures 6 to 8): thresholds, the cost of reconfiguring, the accuracy of the estimator.

Thresholds are in ``threshold_learning``. The other two are here:

- *Accuracy* (§5.2). Figure 7: 25 minutes of a sine on T1, with the CPU of all instances of an operator measured and
  estimated from its input rate. Figure 8: the CPU of a node against the sum of its instances, measured and estimated.
  The profile was learned on another load.
- *Cost of reconfiguring* (Figure 6c): T1 over-provisioned on a sine of nine minutes, rebalanced needlessly at every
  assessment, for several assessment periods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ebbflow.papers.elysium.calibration import STOP_WORDS, storm
from ebbflow.papers.elysium.cases import Case
from ebbflow.papers.elysium.models import Models, learn_profile
from ebbflow.papers.elysium.published import FIGURE_6C, T1, Key
from ebbflow.papers.elysium.run import run_case
from ebbflow.papers.elysium.threshold_learning import ThresholdStudy, study_thresholds
from ebbflow.papers.studies import EstimatorAccuracy, ReadingsRecorder, ReconfigurationCost, Restless
from ebbflow.profiling.profile import Profile
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies.static import Static
from ebbflow.workloads import parse_load

DRAWN = ("counter", STOP_WORDS)
"""The operators of Figure 7."""
SINE = Case(
    key=Key(T1, "sine", "static", "4 nodes, parallelism 3"),
    loads=((T1, parse_load("sine(base=100, peak=800, period=25m)")),),
    seconds=1500.0,
    initial_nodes=4,
    initial_parallelism=3,
)
PERIODS_S: tuple[float, ...] = (60.0, 120.0, 180.0, 240.0)
OVER_PROVISIONED = Case(
    key=Key(T1, "sine", "restless", "4 nodes, parallelism 4"),
    loads=((T1, parse_load("sine(base=100, peak=600, period=9m)")),),
    seconds=540.0,
    initial_nodes=4,
    initial_parallelism=4,
)
"""No node and no operator is ever overloaded."""


def estimator_accuracy(profile: Profile, case: Case = SINE, seed: int = 7) -> EstimatorAccuracy:
    """Run a load that the profile was not learned from, without scaling, and compare estimates with measurements."""
    recorder = ReadingsRecorder()
    run_simulation(case.scenario(seed), Static(), on_cycle=recorder.record)
    parallelism = storm(T1, case.initial_parallelism).parallelism
    return EstimatorAccuracy.of(
        profile, recorder, parallelism, nodes=case.initial_nodes, drawn=DRAWN, from_estimates=False
    )


def reconfiguration_costs(periods_s: Sequence[float] = PERIODS_S) -> list[ReconfigurationCost]:
    """The cost without a rebalance, and for each period."""
    costs = []
    for period_s in (None, *periods_s):
        metrics, _ = run_case(OVER_PROVISIONED, Restless(period_s))
        costs.append(
            ReconfigurationCost(
                period_s=period_s,
                throughput_degradation=metrics.throughput_degradation or 0.0,
                throughput_degradation_unsmoothed=metrics.throughput_degradation_unsmoothed or 0.0,
                latency_mean_s=metrics.latency_mean_s or 0.0,
                published=0.05 if period_s is None else FIGURE_6C.get(period_s),
            )
        )
    return costs


# -- all studies -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Studies:
    """The results of all studies."""

    accuracy: EstimatorAccuracy
    overheads: Sequence[ReconfigurationCost]
    thresholds: Sequence[ThresholdStudy]
    """cpu_max, core_max and core_min."""

    @classmethod
    def run(
        cls, models: Models, *, workers: int | None = None, on_trial: Callable[[], None] = lambda: None
    ) -> Studies:
        """Run the studies with the profile of T1, which is learned if it is missing.

        Calls ``on_trial`` after each of the ``threshold_runs()`` runs for a threshold; the rest takes a second or two.
        """
        profile = models.profiles.get(T1) or learn_profile(T1)
        with_profile = Models(profiles={**models.profiles, T1: profile}, forecasts=models.forecasts)
        return cls(
            accuracy=estimator_accuracy(profile),
            overheads=reconfiguration_costs(),
            thresholds=study_thresholds(with_profile, workers=workers, on_done=on_trial),
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "accuracy": self.accuracy.to_json(),
            "overheads": [each.to_json() for each in self.overheads],
            "thresholds": {each.name: each.to_json() for each in self.thresholds},
        }
