"""What ``symbiotic`` and ``proactive`` know: loads, measured and forecast; what rows cost; and evaluators."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.signals import flows
from ebbflow.core.snapshot import STALE_AFTER_S, Snapshot
from ebbflow.forecasting.load_forecast import LoadForecast
from ebbflow.forecasting.port import Forecast, Forecaster
from ebbflow.forecasting.steps import Steps
from ebbflow.forecasting.training import Background
from ebbflow.profiling.batch.profiles import BatchProfiles
from ebbflow.profiling.batch.stage_match import StageMatch
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.profile import Profile
from ebbflow.strategies.capacity.batches import LearnedBatches
from ebbflow.strategies.symbiotic.algorithm_one import Dimensions, UsageThresholds
from ebbflow.strategies.symbiotic.costs import LearnedCosts, LearnedOverhead, UpdatedProfiles
from ebbflow.strategies.symbiotic.evaluation import BatchEvaluator, Evaluator, FlowEvaluator

MINUTES = 60
"""Minutes of loads to keep."""


class ArrivalRates:
    """The arrival rate of an application: the level to size for now, the mean of each recent minute, and a forecast.

    >>> arrivals = ArrivalRates()
    >>> for time_s, rate in ((10.0, 900.0), (20.0, 100.0), (30.0, 100.0)):
    ...     arrivals.add(time_s, rate)
    >>> arrivals.level_per_s
    100.0
    """

    def __init__(self, forecast: LoadForecast | None = None) -> None:
        self.last: deque[float] = deque(maxlen=3)
        """The last rates, the newest last."""
        self.forecast = forecast
        self.minutes: deque[tuple[float, float]] = deque(maxlen=MINUTES)
        """(end, mean) of each of the last minutes."""
        self.read_s: float | None = None
        """Time of the newest reading."""
        self._minutes = Steps(60.0)

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
        if self.read_s is not None:
            for time_s, rate in window.after(self.read_s):
                self.add(time_s, rate)
        self.read_s = window.last_time_s

    def add(self, time_s: float, rate_per_s: float) -> None:
        """Add a rate."""
        self.last.append(rate_per_s)
        self.minutes.extend(self._minutes.add(time_s, rate_per_s))
        if self.forecast is not None:
            self.forecast.add(time_s, rate_per_s)


class Knowledge:
    """Loads and costs of the applications in the snapshots, with batches or without.

    ``given``: estimators by application; costs are learned for those without. ``forecaster``: makes a forecaster for
    each application whose estimator has none; None if nothing is forecast.
    """

    def __init__(
        self,
        given: Mapping[str, Estimator],
        *,
        thresholds: UsageThresholds,
        dimensions: Dimensions,
        window_s: float,
        forecaster: Callable[[], Forecaster] | None,
    ) -> None:
        self._given = dict(given)
        self._thresholds, self._dimensions = thresholds, dimensions
        self._make_forecaster = forecaster
        self._trainer: Background | None = None
        self._pipeline: Pipeline | None = None
        self._parts: Sequence[Pipeline] = ()
        """The applications of ``_pipeline``."""
        self._arrivals: dict[str, ArrivalRates] = {}
        self._profiles = UpdatedProfiles(self._given)
        self._learned: dict[str, LearnedCosts] = {}
        self._overhead = LearnedOverhead(window_s=window_s)
        self._match = StageMatch()
        self._batch_profiles = BatchProfiles(self._given, self._match)
        self._batches = LearnedBatches(rate_window_s=window_s, given=self._batch_profiles)
        self.in_batches = False
        self._estimators: Mapping[str, Estimator] = {}
        self._fixed: Collection[str] = ()

    def train_in_background(self) -> Background | None:
        """Train forecasters with the trainer that is returned; None if nothing is forecast."""
        if self._make_forecaster is not None:
            self._trainer = Background()
            for each in self._arrivals.values():
                if each.forecast is not None:
                    each.forecast.forecaster.train_with(self._trainer)
        return self._trainer

    # -- learning ------------------------------------------------------------------------------

    def learn(self, snapshot: Snapshot) -> None:
        """Learn from what is new. Call it in every cycle."""
        self.in_batches = not flows(snapshot)
        if self.in_batches:
            self._batches.learn(snapshot)
            for batch in snapshot.batches:
                for run in batch.operators:
                    if run.stage is not None:
                        self._match.note(batch.query, run.name, run.stage)
            for each in self._batches.new_rates:
                self._arrivals_of(each.query).add(each.time_s, each.rate_per_s)
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

    def _arrivals_of(self, name: str) -> ArrivalRates:
        if name not in self._arrivals:
            forecast = None
            if self._make_forecaster is not None:
                given = self._given.get(name)
                known = None if given is None else given.forecaster
                forecast = LoadForecast(known or self._make_forecaster())
                if self._trainer is not None:
                    forecast.forecaster.train_with(self._trainer)
            self._arrivals[name] = ArrivalRates(forecast)
        return self._arrivals[name]

    def prepare(self, snapshot: Snapshot, fixed: Collection[str]) -> None:
        """Make the estimators for an assessment. ``fixed``: operators that keep their parallelism."""
        self._fixed = fixed
        if self.in_batches:
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

    def loads(self) -> dict[str, float]:
        """Rows per second that arrive now, by application."""
        if self.in_batches:
            return {name: query.rate_per_s for name, query in self._batches.known().items()}
        return {name: each.level_per_s for name, each in self._arrivals.items() if each.last}

    def lasting_loads(self) -> dict[str, float]:
        """The present loads without bursts: where every change stops the stream, the lower of the last two readings."""
        if self.in_batches:
            return self.loads()
        return {name: min(list(each.last)[-2:]) for name, each in self._arrivals.items() if each.last}

    def last_loads(self) -> dict[str, float]:
        """The last reading of each load, by application."""
        if self.in_batches:
            return self.loads()
        return {name: each.last[-1] for name, each in self._arrivals.items() if each.last}

    def forecasts(self, until_s: float, levels: Sequence[float]) -> dict[str, Forecast]:
        """Forecasts of the loads, by application; without those of which nothing is known yet."""
        found = {}
        for name, each in self._arrivals.items():
            ahead = None if each.forecast is None else each.forecast.until(until_s, levels)
            if ahead is not None:
                found[name] = ahead
        return found

    def backlogs(self, snapshot: Snapshot) -> dict[str, float]:
        """Rows that should not wait, by application: queued ones, or those of batches that outlast their trigger."""
        if self.in_batches:
            return self._batches.backlogs(snapshot.observed_s)
        queued = {name: snapshot.windows.of(name, Metric.QUEUE_LENGTH).last for name in self._arrivals}
        return {name: rows for name, rows in queued.items() if rows is not None}

    def why_stale(self, snapshot: Snapshot) -> str:
        """Which load was not read lately; empty if all were. Batches come when they end, and are never stale."""
        if self.in_batches:
            return ""
        for part in self._parts:
            read_s = self._arrivals_of(part.name).read_s
            if read_s is None or read_s < snapshot.observed_s - STALE_AFTER_S:
                return f"no reading of the load of {part.name} within the last {STALE_AFTER_S:g} s"
        return ""

    def highest(self, loads: Mapping[str, float], since_s: float) -> dict[str, float]:
        """These loads, or those of the busiest minute since a time, whichever are higher."""
        return {
            name: max([rate, *(load for end_s, load in self._arrivals[name].minutes if end_s > since_s)])
            for name, rate in loads.items()
        }

    def reading(self, back: int) -> dict[str, float]:
        """The rates of the newest reading (1) or the one before (2). Empty if these are not what is sized for."""
        if self._make_forecaster is not None or self.in_batches:
            return {}
        return {name: each.last[-back] for name, each in self._arrivals.items() if len(each.last) >= back}

    # -- evaluating layouts --------------------------------------------------------------------

    def evaluator(self, snapshot: Snapshot, loads: Mapping[str, float]) -> Evaluator | None:
        """An evaluator of layouts at some loads; None while too little is known."""
        if self.in_batches:
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
        return self._batches.why_no_scale_in() if self.in_batches else ""

    def inputs(self) -> dict[str, float | str]:
        """Drift that was detected, and a profile that is ignored."""
        found: dict[str, float | str] = {}
        if drift := self._profiles.drift or self._batch_profiles.drift:
            found["drift"] = drift
        if self._batch_profiles.unused:
            found["profile"] = self._batch_profiles.unused
        return found
