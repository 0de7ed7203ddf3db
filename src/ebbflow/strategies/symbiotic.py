"""Elysium's symbiotic scaling: operators and nodes are two dimensions, scaled alone or together, in one step.

Once every assessment period (a minute, Elysium §5.2) the layout that the load needs is computed by Algorithm 1
(``algorithm_one``; on batches ``symbiotic_batches``), of all applications that share the nodes together. Reactive, the
load is the one that arrives; proactive, the highest that is forecast for the next five minutes (§3.2).

    layout there stressed → the layout with the fewest nodes that is not, whatever the change costs
    else                  → a smaller one, if it saves more until the next assessment than the change costs

The second line is not the seed's, which changes whenever Algorithm 1 gives something else, be it an instance that
nobody pays for (``reconfiguration`` has the formula). Nor is the tolerance: the layout that is there counts as stressed
only when it is past a threshold by so much, so that noise in the load does not carry it to and fro.

Without estimators it learns what operators cost from the snapshots it is shown; with them, their profiles go on
learning (``kept_profiles``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ebbflow.core.decision import Constraint, Decision, Effect
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.snapshot import ActionKind, Snapshot
from ebbflow.errors import InputError
from ebbflow.forecasting.forecast import Forecast
from ebbflow.forecasting.load_net import LoadNet
from ebbflow.profiling.estimator import Estimator
from ebbflow.strategies.algorithm_one import Thresholds
from ebbflow.strategies.applications import Arrivals, Split
from ebbflow.strategies.capacity_batches import LearnedBatches
from ebbflow.strategies.capacity_flow import flows
from ebbflow.strategies.kept_profiles import KeptProfiles
from ebbflow.strategies.learned_estimator import LearnedEstimator, Overhead
from ebbflow.strategies.peers.answers import hold
from ebbflow.strategies.peers.signals import blind
from ebbflow.strategies.peers.timing import Every
from ebbflow.strategies.reconfiguration import Stops, Worth, weigh
from ebbflow.strategies.symbiotic_batches import BatchView
from ebbflow.strategies.symbiotic_flow import FlowView
from ebbflow.strategies.symbiotic_view import Dimensions, Judged, View

FORMULA = "p_i = min { p : cores_i(r_i/p) ≤ core_max }, n = min { n : share of every node ≤ cpu_max }"


@dataclass(frozen=True)
class _Choice:
    """A layout, what it would be like, and what going there costs and saves."""

    layout: Layout
    judged: Judged
    worth: Worth


class Symbiotic:
    """Algorithm 1, reactive or proactive. See the module's text for the rule.

    Parameters: ``estimators`` by the name of the application (learned where there is none); ``thresholds``;
    ``dimensions`` (only operators, only nodes, most instances); ``assess_s``; ``tolerance`` beyond a threshold in which
    the layout there is kept; ``forecast`` makes a forecaster for each application whose estimator has none.
    """

    own_restraint = True

    def __init__(
        self,
        estimators: Mapping[str, Estimator] | None = None,
        *,
        thresholds: Thresholds | None = None,
        proactive: bool = False,
        dimensions: Dimensions | None = None,
        assess_s: float = 60.0,
        tolerance: float = 0.05,
        forecast: Callable[[], Forecast] = LoadNet,
    ) -> None:
        if not assess_s > 0 or not tolerance >= 0:
            raise InputError(
                f"an assessment every {assess_s:g} s with a tolerance of {tolerance:g}; "
                "the first must be above 0, the other 0 or more"
            )
        self.name = "symbiotic-proactive" if proactive else "symbiotic"
        self._given = dict(estimators or {})
        self._kept = KeptProfiles(self._given)
        self._thresholds = thresholds or Thresholds()
        self._dimensions = dimensions or Dimensions()
        self._proactive, self._assess_s, self._tolerance = proactive, assess_s, tolerance
        self._make_forecast = forecast
        self._forecasts: dict[str, Forecast] = {}
        self._every = Every(assess_s, at_once=False)
        self._due = False
        self._split = Split()
        self._arrivals: dict[str, Arrivals] = {}
        self._learned: dict[str, LearnedEstimator] = {}
        self._overhead = Overhead(window_s=assess_s)
        self._batches = LearnedBatches(rate_window_s=assess_s)
        self._asked: Mapping[str, int] = {}
        self._caps: dict[str, int] = {}
        """Instances of operators that asked for more and did not get them."""
        costs = [e.profile.costs for e in self._given.values() if e.profile.costs is not None]
        known_s = [cost.restart_s for cost in costs if cost.restart_s is not None]
        self._stops = Stops(max(known_s) if known_s else None)

    # -- the decision --------------------------------------------------------------------------

    def decide(self, snapshot: Snapshot) -> Decision:
        """The layout that the load needs, once in every assessment period."""
        if why := blind(snapshot):
            return hold(snapshot, why, FORMULA)
        in_batches = not flows(snapshot)
        self._look(snapshot, in_batches=in_batches)
        self._due = bool(self._every.due(snapshot.now_s)) or self._due
        if not self._due:
            return hold(snapshot, "waits for its next assessment", FORMULA)
        if any(action.kind is not ActionKind.SHRINK for action in snapshot.under_way):
            return hold(snapshot, "a change is under way; it is assessed when that is done", FORMULA)
        loads = self._loads(snapshot)
        view = self._view(snapshot, loads, in_batches=in_batches)
        if view is None:
            return hold(snapshot, "learning: too little was read yet to know what rows cost", FORMULA)
        self._due = False
        decision = self._assess(snapshot, view, loads)
        self._asked = decision.wanted.parallelism
        return decision

    def _assess(self, snapshot: Snapshot, view: View, loads: Mapping[str, float]) -> Decision:
        planned = snapshot.planned
        here = view.judge(planned)
        choices = [self._choice(snapshot, view, layout, loads) for layout in view.layouts()]
        if here.over > 1 + self._tolerance:
            # The least stressed first; then what costs least until the next assessment, its own change included.
            best = min(
                choices,
                key=lambda c: (
                    max(c.judged.over, 1.0),
                    c.layout.main_nodes * self._assess_s + c.worth.cost_node_s,
                ),
            )
            if best.layout.difference(planned) and best.judged.over < here.over:
                return self._go(snapshot, view, loads, best, f"stressed: {here.where}; {self._what(best)}")
            bound = Constraint(name="limit", why=f"{here.where}, and no layout that is allowed is better")
            return self._stay(
                snapshot, view, loads, here, f"stressed, and more is not to be had: {here.where}", bound
            )
        if held_up := "" if flows(snapshot) else self._batches.held_up():
            return self._stay(snapshot, view, loads, here, held_up)
        smaller = [
            c for c in choices if c.layout.main_nodes < planned.main_nodes and c.judged.over <= 1 + 1e-9
        ]
        if not smaller:
            return self._stay(snapshot, view, loads, here, f"right size: {here.where}")
        best = max(smaller, key=lambda c: c.worth.saved_node_s - c.worth.cost_node_s)
        if not best.worth.worth_it:
            bound = Constraint(name="cost", why=f"{best.layout.difference(planned)} {best.worth}")
            return self._stay(
                snapshot, view, loads, here, f"{self._what(best)} would do, but it is not worth it", bound
            )
        return self._go(snapshot, view, loads, best, f"too large: {self._what(best)} will do")

    def _choice(self, snapshot: Snapshot, view: View, layout: Layout, loads: Mapping[str, float]) -> _Choice:
        judged = view.judge(layout)
        stops = view.stops(layout.difference(snapshot.planned))
        worth = weigh(
            snapshot.planned.main_nodes,
            layout.main_nodes,
            stop_s=self._stops.stop_s if stops else 0.0,
            busy=judged.busy,
            rate_per_s=sum(loads.values()),
            until_s=self._assess_s,
        )
        return _Choice(layout, judged, worth)

    # -- learning ------------------------------------------------------------------------------

    def _look(self, snapshot: Snapshot, *, in_batches: bool) -> None:
        self._stops.look(snapshot, [snapshot.pipeline.name, *snapshot.queries])
        for name, count in self._asked.items():
            if (now := snapshot.planned.parallelism.get(name, count)) < count:
                self._caps[name] = now
        self._asked = {}
        if in_batches:
            self._batches.learn(snapshot)
            for name, (_, rate, _) in self._batches.known().items():
                self._arrivals_of(name).minutes.add(snapshot.now_s, rate)
            return
        for part in self._split.look(snapshot):
            name = part.pipeline.name
            self._arrivals_of(name).look(part)
            if name not in self._kept:
                if name not in self._learned:
                    self._learned[name] = LearnedEstimator()
                self._learned[name].learn(part)
        if self._given:
            self._kept.look(snapshot, self._split.parts)

    def _arrivals_of(self, name: str) -> Arrivals:
        if name not in self._arrivals:
            self._arrivals[name] = Arrivals()
        return self._arrivals[name]

    def _loads(self, snapshot: Snapshot) -> dict[str, float]:
        """Rows per second to size for: those that arrive, or the most that will."""
        known = self._batches.known()
        loads = {name: rate for name, (_, rate, _) in known.items()}
        loads.update({name: each.level_per_s for name, each in self._arrivals.items() if each.known})
        if self._proactive:
            for name in loads:
                ahead = self._forecast_of(name).predict(self._arrivals[name].minutes.all(), snapshot.now_s)
                loads[name] = max(ahead, default=loads[name])
        return loads

    def _forecast_of(self, name: str) -> Forecast:
        given = self._given.get(name)
        if given is not None and given.forecast is not None:
            return given.forecast
        if name not in self._forecasts:
            self._forecasts[name] = self._make_forecast()
        return self._forecasts[name]

    def _view(self, snapshot: Snapshot, loads: Mapping[str, float], *, in_batches: bool) -> View | None:
        """What is known, at these loads; None while something is not."""
        if in_batches:
            known = self._batches.known()
            if not known:
                return None
            return BatchView(
                snapshot, known, loads,
                thresholds=self._thresholds, dimensions=self._dimensions, caps=self._caps,
            )  # fmt: skip
        self._overhead.look(snapshot)
        node = self._overhead.profile(snapshot.slots_per_node)
        estimators = self._kept.now(self._split.parts)
        for part in self._split.parts:
            if part.name not in estimators:
                learned = self._learned[part.name].estimator(part, node)
                if learned is None:
                    return None
                estimators[part.name] = learned
            if part.name not in loads:
                return None
        return FlowView(
            snapshot, self._split.parts, estimators, loads,
            thresholds=self._thresholds, dimensions=self._dimensions,
        )  # fmt: skip

    # -- saying why ----------------------------------------------------------------------------

    @staticmethod
    def _what(choice: _Choice) -> str:
        nodes = choice.layout.main_nodes
        return f"{nodes} node{'s' * (nodes != 1)} ({choice.judged.where})"

    def _go(
        self, snapshot: Snapshot, view: View, loads: Mapping[str, float], choice: _Choice, reason: str
    ) -> Decision:
        worth = choice.worth
        change = choice.layout.difference(snapshot.planned)
        expected = Effect(
            metric=Metric.FRESHNESS,
            value=round(choice.judged.freshness_s, 2),
            at_s=snapshot.now_s + worth.stop_s + min(worth.drain_s, self._assess_s),
        )
        return Decision(
            wanted=choice.layout,
            reason=f"{change}: {reason}; {worth}",
            formula=FORMULA,
            inputs=self._inputs(view, loads, choice.judged, worth),
            expected=expected,
        )

    def _stay(
        self,
        snapshot: Snapshot,
        view: View,
        loads: Mapping[str, float],
        here: Judged,
        reason: str,
        *bound: Constraint,
    ) -> Decision:
        return Decision(
            wanted=snapshot.planned,
            reason=reason,
            formula=FORMULA,
            inputs=self._inputs(view, loads, here, None),
            bound_by=bound,
        )

    def _inputs(
        self, view: View, loads: Mapping[str, float], judged: Judged, worth: Worth | None
    ) -> dict[str, float | str]:
        numbers: dict[str, float | str] = {
            f"{name} rate_per_s": round(rate, 2) for name, rate in loads.items()
        }
        numbers.update(view.inputs())
        numbers["busy"] = round(judged.busy, 3)
        if worth is not None:
            numbers["stop_s"] = round(worth.stop_s, 2)
            numbers["drain_s"] = round(min(worth.drain_s, self._assess_s), 2)
            numbers["cost_node_s"] = round(worth.cost_node_s, 1)
            numbers["saved_node_s"] = round(worth.saved_node_s, 1)
        if self._kept.drift:
            numbers["drift"] = self._kept.drift
        if self._proactive:
            numbers.update({f"{name} forecast": self._forecast_of(name).said for name in loads})
        return numbers
