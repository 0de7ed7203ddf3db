"""What the symbiotic strategy knows: loads that were read or are forecast, what rows cost, and views made of both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ebbflow.core.signals import flows
from ebbflow.core.snapshot import Snapshot
from ebbflow.forecasting.forecast import Forecast
from ebbflow.forecasting.load_net import LoadNet, load_learner
from ebbflow.profiling.batch.profiles import BatchProfiles
from ebbflow.profiling.batch.stage_match import StageMatch
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.profile import Profile
from ebbflow.strategies.capacity.batches import LearnedBatches
from ebbflow.strategies.symbiotic.algorithm_one import Dimensions, Thresholds
from ebbflow.strategies.symbiotic.applications import Arrivals, Split
from ebbflow.strategies.symbiotic.batches import BatchView
from ebbflow.strategies.symbiotic.estimator import LearnedEstimator, Overhead
from ebbflow.strategies.symbiotic.flow import FlowView
from ebbflow.strategies.symbiotic.profiles import KeptProfiles
from ebbflow.strategies.symbiotic.view import View


class Knowledge:
    """Of the applications of a snapshot, with batches or without.

    ``given``: estimators by application; learned where there is none. ``forecast``: None where what arrives now is
    sized for; else it makes a forecaster for each application whose estimator has none.
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
            load_learner()  # a second, here rather than in a look
        self._forecasts: dict[str, Forecast] = {}
        self._profiles = KeptProfiles(self._given)
        self._learned: dict[str, LearnedEstimator] = {}
        self._overhead = Overhead(window_s=window_s)
        self._split = Split()
        self._arrivals: dict[str, Arrivals] = {}
        self._match = StageMatch()
        self._batch_profiles = BatchProfiles(self._given, self._match)
        self._batches = LearnedBatches(rate_window_s=window_s, given=self._batch_profiles)
        self._in_batches = False
        self._estimators: Mapping[str, Estimator] = {}
        self._kept: Collection[str] = ()

    # -- learning ------------------------------------------------------------------------------

    def look(self, snapshot: Snapshot) -> None:
        """Take in what is new."""
        self._in_batches = not flows(snapshot)
        if self._in_batches:
            self._batches.learn(snapshot)
            for batch in snapshot.batches:
                for run in batch.operators:
                    if run.stage is not None:
                        self._match.tell(batch.query, run.name, run.stage)
            for name, (_, rate, _) in self._batches.known().items():
                self._arrivals_of(name).minutes.add(snapshot.now_s, rate)
            return
        self._overhead.watch(snapshot)
        for part in self._split.look(snapshot):
            name = part.pipeline.name
            self._arrivals_of(name).look(part)
            if name not in self._profiles:
                if name not in self._learned:
                    self._learned[name] = LearnedEstimator()
                self._learned[name].learn(part)
        if self._given:
            self._profiles.look(snapshot, self._split.parts)

    def _arrivals_of(self, name: str) -> Arrivals:
        if name not in self._arrivals:
            self._arrivals[name] = Arrivals()
        return self._arrivals[name]

    def assess(self, snapshot: Snapshot, kept: Collection[str]) -> None:
        """Make estimators for the views that follow. ``kept``: operators that are to stay as they are."""
        self._kept = kept
        if self._in_batches:
            self._batch_profiles.look_for(snapshot.queries)
            return
        self._overhead.look(snapshot)
        node = self._overhead.profile(snapshot.slots_per_node)
        estimators = self._profiles.now(self._split.parts)
        for part in self._split.parts:
            if part.name not in estimators:
                learned = self._learned[part.name].estimator(part, node)
                if learned is None and self._arrivals_of(part.name).idle:  # what never comes costs nothing
                    learned = Estimator(part, Profile(pipeline=part.name, cpu={}, node=node))
                if learned is not None:
                    estimators[part.name] = learned
        self._estimators = estimators

    def start_over(self, now_s: float) -> None:
        """The clock was set back: readings are new again. What was learned of costs stays."""
        self._arrivals.clear()
        self._batches.start_over(now_s)
        for learned in self._learned.values():
            learned.start_over()
        self._profiles.start_over()

    # -- asking --------------------------------------------------------------------------------

    def loads(self, now_s: float) -> dict[str, float]:
        """Rows per second to size for: those that arrive, or the most that will."""
        loads = {name: rate for name, (_, rate, _) in self._batches.known().items()}
        loads.update({name: each.level_per_s for name, each in self._arrivals.items() if each.known})
        if self._make_forecast is not None:
            for name in loads:
                ahead = self._forecast_of(name).predict(self._arrivals[name].minutes.all(), now_s)
                loads[name] = max(0.0, *ahead) if len(ahead) else loads[name]
        return loads

    def highest(self, loads: Mapping[str, float], since_s: float) -> dict[str, float]:
        """These loads, or those of the busiest minute since then, where that was higher."""
        return {
            name: max([rate, *(load for at_s, load in self._arrivals[name].minutes.all() if at_s >= since_s)])
            for name, rate in loads.items()
        }

    def read(self, back: int) -> dict[str, float]:
        """What the newest reading said (1), or the one before it (2). Nothing where that is not what is sized for."""
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

    def view(self, snapshot: Snapshot, loads: Mapping[str, float]) -> View | None:
        """What layouts would be like at some loads; None while too little is known to say."""
        if self._in_batches:
            known = self._batches.known()
            if not known or not loads:
                return None
            return BatchView(
                snapshot, known, loads,
                thresholds=self._thresholds, dimensions=self._dimensions, kept=self._kept, match=self._match,
            )  # fmt: skip
        if any(part.name not in loads or part.name not in self._estimators for part in self._split.parts):
            return None
        return FlowView(
            snapshot, self._split.parts, self._estimators, loads,
            thresholds=self._thresholds, dimensions=self._dimensions, kept=self._kept,
        )  # fmt: skip

    def held_up(self) -> str:
        """Why nothing may leave now; empty where it may."""
        return self._batches.held_up() if self._in_batches else ""

    def inputs(self) -> dict[str, float | str]:
        """What was noticed to have changed, what profile is of no use, and by what forecasts went."""
        found: dict[str, float | str] = {}
        if drift := self._profiles.drift or self._batch_profiles.drift:
            found["drift"] = drift
        if self._batch_profiles.unused:
            found["profile"] = self._batch_profiles.unused
        if self._make_forecast is not None:
            found.update({f"{name} forecast": self._forecast_of(name).said for name in self._arrivals})
        return found
