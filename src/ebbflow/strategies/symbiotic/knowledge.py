"""What the symbiotic strategy knows: loads, measured or forecast; what rows cost; and evaluators made from both."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.signals import flows
from ebbflow.core.snapshot import Snapshot
from ebbflow.forecasting.forecast import Forecast
from ebbflow.forecasting.load_net import LoadNet, load_learner
from ebbflow.forecasting.minutes import MinuteLoads
from ebbflow.profiling.batch.profiles import BatchProfiles
from ebbflow.profiling.batch.stage_match import StageMatch
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.profile import Profile
from ebbflow.strategies.capacity.batches import LearnedBatches
from ebbflow.strategies.symbiotic.algorithm_one import Dimensions, Thresholds
from ebbflow.strategies.symbiotic.costs import LearnedCosts, LearnedOverhead, UpdatedProfiles
from ebbflow.strategies.symbiotic.evaluation import BatchEvaluator, Evaluator, FlowEvaluator


class Arrivals:
    """The arrival rate of an application: the level to size for now, and the mean of every minute so far.

    >>> arrivals = Arrivals()
    >>> for time_s, rate in ((10.0, 900.0), (20.0, 100.0), (30.0, 100.0)):
    ...     arrivals.add(time_s, rate)
    >>> arrivals.level_per_s
    100.0
    """

    def __init__(self) -> None:
        self.last: deque[float] = deque(maxlen=3)
        """The last rates, the newest last."""
        self.minutes = MinuteLoads()
        self._seen_s: float | None = None

    @property
    def idle(self) -> bool:
        """Whether rates are known, and the last ones were all 0."""
        return bool(self.last) and not any(self.last)

    @property
    def level_per_s(self) -> float:
        """The higher of the last rate and the median of the last three: a rise counts at once, a fall at its second
        reading. A single reading may have counted rows from before and after a jump."""
        return max(self.last[-1], statistics.median(self.last))

    def update(self, snapshot: Snapshot) -> None:
        """Add the rates since the last update. The very first has no interval over which it counted rows."""
        window = snapshot.windows.of(snapshot.pipeline.name, Metric.ARRIVAL_RATE)
        if window.last_time_s is None:
            return
        if self._seen_s is not None:
            for time_s, rate in window.after(self._seen_s):
                self.add(time_s, rate)
        self._seen_s = window.last_time_s

    def add(self, time_s: float, rate_per_s: float) -> None:
        """Add a rate."""
        self.last.append(rate_per_s)
        self.minutes.add(time_s, rate_per_s)


class Knowledge:
    """Loads and costs of the applications in the snapshots, with batches or without.

    ``given``: estimators by application; costs are learned for those without. ``forecast``: None to size for the
    present load; else it makes a forecaster for each application whose estimator has none.
    """

    def __init__(
        self,
        given: Mapping[str, Estimator],
        *,
        thresholds: Thresholds,
        dimensions: Dimensions,
        window_s: float,
        forecast: Callable[[], Forecast] | None,
    ) -> None:
        self._given = dict(given)
        self._thresholds, self._dimensions = thresholds, dimensions
        self._make_forecast = forecast
        if forecast is LoadNet:
            load_learner()  # importing it takes a second: not in a cycle
        self._forecasts: dict[str, Forecast] = {}
        self._pipeline: Pipeline | None = None
        self._parts: Sequence[Pipeline] = ()
        """The applications of ``_pipeline``."""
        self._arrivals: dict[str, Arrivals] = {}
        self._profiles = UpdatedProfiles(self._given)
        self._learned: dict[str, LearnedCosts] = {}
        self._overhead = LearnedOverhead(window_s=window_s)
        self._match = StageMatch()
        self._batch_profiles = BatchProfiles(self._given, self._match)
        self._batches = LearnedBatches(rate_window_s=window_s, given=self._batch_profiles)
        self._in_batches = False
        self._estimators: Mapping[str, Estimator] = {}
        self._fixed: Collection[str] = ()

    # -- learning ------------------------------------------------------------------------------

    def learn(self, snapshot: Snapshot) -> None:
        """Learn from what is new. Call it in every cycle."""
        self._in_batches = not flows(snapshot)
        if self._in_batches:
            self._batches.learn(snapshot)
            for batch in snapshot.batches:
                for run in batch.operators:
                    if run.stage is not None:
                        self._match.note(batch.query, run.name, run.stage)
            for name, (_, rate, _) in self._batches.known().items():
                self._arrivals_of(name).minutes.add(snapshot.now_s, rate)
            return
        self._overhead.note_changes(snapshot)
        if snapshot.pipeline is not self._pipeline:
            self._pipeline, self._parts = snapshot.pipeline, snapshot.pipeline.applications()
        for part in self._parts:
            own = snapshot if len(self._parts) == 1 else replace(snapshot, pipeline=part)
            self._arrivals_of(part.name).update(own)
            if part.name not in self._profiles:
                if part.name not in self._learned:
                    self._learned[part.name] = LearnedCosts()
                self._learned[part.name].learn(own)
        if self._given:
            self._profiles.learn(snapshot, self._parts)

    def _arrivals_of(self, name: str) -> Arrivals:
        if name not in self._arrivals:
            self._arrivals[name] = Arrivals()
        return self._arrivals[name]

    def prepare(self, snapshot: Snapshot, fixed: Collection[str]) -> None:
        """Make the estimators for an assessment. ``fixed``: operators that keep their parallelism."""
        self._fixed = fixed
        if self._in_batches:
            self._batch_profiles.warn_unused(snapshot.queries)
            return
        self._overhead.learn(snapshot)
        node = self._overhead.profile(snapshot.slots_per_node)
        estimators = self._profiles.estimators(self._parts)
        for part in self._parts:
            if part.name not in estimators:
                learned = self._learned[part.name].estimator(part, node)
                if learned is None and self._arrivals_of(part.name).idle:  # no rows, no cost
                    learned = Estimator(part, Profile(pipeline=part.name, cpu={}, node=node))
                if learned is not None:
                    estimators[part.name] = learned
        self._estimators = estimators

    # -- loads ---------------------------------------------------------------------------------

    def loads(self, now_s: float) -> dict[str, float]:
        """Rows per second to size for, by application: the present rate, or the highest of the forecast."""
        loads = {name: rate for name, (_, rate, _) in self._batches.known().items()}
        loads.update({name: each.level_per_s for name, each in self._arrivals.items() if each.last})
        if self._make_forecast is not None:
            for name in loads:
                ahead = self._forecast_of(name).predict(self._arrivals[name].minutes.all(), now_s)
                loads[name] = max(0.0, *ahead) if len(ahead) else loads[name]
        return loads

    def highest(self, loads: Mapping[str, float], since_s: float) -> dict[str, float]:
        """These loads, or those of the busiest minute since a time, whichever are higher."""
        return {
            name: max([rate, *(load for at_s, load in self._arrivals[name].minutes.all() if at_s >= since_s)])
            for name, rate in loads.items()
        }

    def reading(self, back: int) -> dict[str, float]:
        """The rates of the newest reading (1) or the one before (2). Empty if these are not what is sized for."""
        if self._make_forecast is not None or self._in_batches:
            return {}
        return {name: each.last[-back] for name, each in self._arrivals.items() if len(each.last) >= back}

    def _forecast_of(self, name: str) -> Forecast:
        given = self._given.get(name)
        if given is not None and given.forecast is not None:
            return given.forecast
        if name not in self._forecasts:
            assert self._make_forecast is not None
            self._forecasts[name] = self._make_forecast()
        return self._forecasts[name]

    # -- evaluating layouts --------------------------------------------------------------------

    def evaluator(self, snapshot: Snapshot, loads: Mapping[str, float]) -> Evaluator | None:
        """An evaluator of layouts at some loads; None while too little is known."""
        if self._in_batches:
            known = self._batches.known()
            if not known or not loads:
                return None
            return BatchEvaluator(
                snapshot, known, loads,
                thresholds=self._thresholds, dimensions=self._dimensions, fixed=self._fixed, match=self._match,
            )  # fmt: skip
        if any(part.name not in loads or part.name not in self._estimators for part in self._parts):
            return None
        return FlowEvaluator(
            snapshot, self._parts, self._estimators, loads,
            thresholds=self._thresholds, dimensions=self._dimensions, fixed=self._fixed,
        )  # fmt: skip

    def why_no_scale_in(self) -> str:
        """Why no node may be released now; empty if it may."""
        return self._batches.why_no_scale_in() if self._in_batches else ""

    def inputs(self) -> dict[str, float | str]:
        """Drift that was detected, a profile that is ignored, and what the forecasts used."""
        found: dict[str, float | str] = {}
        if drift := self._profiles.drift or self._batch_profiles.drift:
            found["drift"] = drift
        if self._batch_profiles.unused:
            found["profile"] = self._batch_profiles.unused
        if self._make_forecast is not None:
            found.update({f"{name} forecast": self._forecast_of(name).basis for name in self._arrivals})
        return found
