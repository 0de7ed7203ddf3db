"""Proactive scaling of nodes: Pascal's Algorithm 1 for streams.

F. Lombardi, A. Muti, L. Aniello, R. Baldoni, S. Bonomi, L. Querzoni: PASCAL: an Architecture for Proactive Auto-Scaling
of Distributed Services, §5.1. The parallelism of operators is fixed; the number of nodes follows the forecast load:

    n = min { n : for all nodes x of allocate(n):  share(x, λ) < max_threshold }

``allocate`` is the scheduler of the target (``core.placement``), so nodes may be unequally loaded, and ``share`` comes
from the profiles of operators and nodes, given or learned. On queries that run in batches, a node is a slot's share of
the batch model (``symbiotic.evaluation``). λ is the highest load from now to the horizon:

    growing     λ = max(present, upper quantile of the forecast over H, backlog),      H = lead + stop + decision period
    shrinking   λ = max(present, upper quantile of the forecast over max(H, hold), backlog)

Lead time and stop of a reconfiguration are learned from the target. A forecast is made once per assessment period and
reaches beyond the next one; in between, each cycle reads off it. *Present* and *backlog* are the reactive safety net. A
backlog of Q rows counts as the load that works it off within the SLO, with all of a node: max_threshold · (present +
Q / SLO). Rows that gather while a reconfiguration stops the stream are no backlog.

Where a change stops the stream, more nodes can come too late for a burst: it is over before they work, and the stop
makes the queue longer. If the planned nodes hold the lower of the last two readings, and the median of a new forecast
after the horizon, the wait of all rows decides (``symbiotic.reconfiguration``): as it is, or with two stops, there and
back.

Fewer nodes are taken only if forecast and present allow it, no rows wait, and the change saves more node-seconds over
the hold time than its stop costs.

``forecaster=last-value`` makes it reactive: the same decisions for the load as it is. The paper compares with that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from ebbflow.core.decision import Constraint, Decision, Effect, hold
from ebbflow.core.duration import format_duration
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.parameters import Duration, Kind, Number, Share
from ebbflow.core.periods import Every
from ebbflow.core.plural import counted
from ebbflow.core.ports import BackgroundWork, Strategy
from ebbflow.core.snapshot import ActionKind, Snapshot
from ebbflow.errors import InputError
from ebbflow.forecasting.load_forecast import STEP_S, highest
from ebbflow.forecasting.port import Forecast
from ebbflow.forecasting.registry import make_forecaster
from ebbflow.profiling.estimator import Estimator
from ebbflow.strategies.symbiotic.algorithm_one import Dimensions, UsageThresholds
from ebbflow.strategies.symbiotic.evaluation import Evaluator
from ebbflow.strategies.symbiotic.knowledge import Knowledge
from ebbflow.strategies.symbiotic.reconfiguration import LearnedStop, wait_of, weigh

FORMULA = "n = min { n : share of every node at max(present, forecast, backlog) ≤ max_threshold }"
TOLERANCE = 0.02
"""How far above the threshold the planned size still stays, as a share of it: noise moves no node."""

MEDIAN = 0.5
WAITING_S = 1.0
"""Seconds of arrivals that may wait when nodes are released."""


@dataclass(frozen=True)
class _Load:
    """The load of one application to size for."""

    per_s: float
    why: str
    """What determines it: the present, the forecast or the backlog."""


@dataclass(frozen=True, kw_only=True)
class _LoadsAhead:
    """What a decision works on, by application."""

    snapshot: Snapshot
    present_per_s: Mapping[str, float]
    queued: Mapping[str, float]
    """Rows that wait."""
    backlog_per_s: Mapping[str, float]
    """Load that stands for them."""
    forecasts: Mapping[str, Forecast]
    horizon_s: float

    def ahead(self, level: float, since_s: float, until_s: float) -> dict[str, float]:
        """The highest load that is forecast between two times from now on, at a quantile."""
        now_s = self.snapshot.now_s
        return {
            name: highest(forecast, level, since_s=now_s + since_s, until_s=now_s + until_s)
            for name, forecast in self.forecasts.items()
        }

    def loads(self, level: float, ahead_s: float) -> dict[str, _Load]:
        """The highest load in the next seconds, at a quantile of the forecast."""
        return {name: self._load(name, level, ahead_s) for name in self.present_per_s}

    def _load(self, name: str, level: float, ahead_s: float) -> _Load:
        now_s, forecast = self.snapshot.now_s, self.forecasts.get(name)
        ahead_per_s = (
            None if forecast is None else highest(forecast, level, since_s=now_s, until_s=now_s + ahead_s)
        )
        parts = {
            "present": self.present_per_s[name],
            "forecast": ahead_per_s or 0.0,
            "backlog": self.backlog_per_s.get(name, 0.0),
        }
        largest = max(parts, key=lambda part: parts[part])
        text = {
            "present": "arrive now",
            "forecast": f"are forecast within {format_duration(ahead_s)} at quantile {level:g}",
            "backlog": f"arrive or wait, to be processed within {format_duration(self.snapshot.slo.freshness_s)}",
        }
        return _Load(parts[largest], f"{parts[largest]:.0f} rows/s of {name} {text[largest]}")


class Proactive(Strategy):
    """The fewest nodes for the highest load until new ones could help. The module docstring has the rule.

    ``estimators``: by application; costs are learned for those without.
    """

    name = "proactive"
    brings_own_guards = True

    def __init__(
        self,
        estimators: Mapping[str, Estimator] | None = None,
        *,
        forecaster: Annotated[
            str, Kind("Forecaster of the load; `last-value` makes the strategy reactive.")
        ] = "mixture",
        max_threshold: Annotated[float, Share("Share of its cores that a node may use.")] = 0.80,
        assess_s: Annotated[float, Duration("Time between two forecasts.", above=0)] = 10.0,
        hold_s: Annotated[float, Duration("How long fewer nodes must suffice.")] = 60.0,
        grow_level: Annotated[float, Number("Quantile of the forecast to grow for.", above=0, below=1)] = 0.7,
        shrink_level: Annotated[
            float, Number("Quantile of the forecast that must allow fewer nodes.", above=0, below=1)
        ] = 0.75,
    ) -> None:
        if not assess_s > 0 or not hold_s >= 0:
            raise InputError(
                f"an assessment period of {assess_s:g} s and a hold time of {hold_s:g} s; "
                "the period must be above 0, the hold time 0 or more"
            )
        if not 0 < grow_level < 1 or not 0 < shrink_level < 1:
            raise InputError(
                f"quantiles of {grow_level:g} to grow and {shrink_level:g} to shrink; both must be between 0 and 1"
            )
        self._max_threshold, self._hold_s = max_threshold, hold_s
        self._assess_s, self._every = assess_s, Every(assess_s)
        self._grow_level, self._shrink_level = grow_level, shrink_level
        self._forecasts: Mapping[str, Forecast] = {}
        self._decided_s: float | None = None
        make_forecaster(forecaster, STEP_S)  # fail on an unknown name now, not at the first reading
        given = estimators or {}
        self._known = Knowledge(
            given,
            thresholds=UsageThresholds(cpu_max=max_threshold),
            dimensions=Dimensions(operators=False),
            window_s=60.0,
            forecaster=lambda: make_forecaster(forecaster, STEP_S),
        )
        self._stop = LearnedStop.of(given.values())

    def in_background(self) -> BackgroundWork | None:
        """Train forecasters between cycles."""
        return self._known.train_in_background()

    def decide(self, snapshot: Snapshot) -> Decision:
        """The fewest nodes for present, forecast and backlog."""
        self._stop.learn(snapshot, [snapshot.pipeline.name, *snapshot.queries])
        self._known.learn(snapshot)
        due = bool(self._every.due(snapshot.now_s))
        before_s, self._decided_s = self._decided_s, snapshot.now_s
        if stale := self._known.why_stale(snapshot):
            return hold(snapshot, stale, FORMULA)
        if any(action.kind is ActionKind.RESTART for action in snapshot.under_way):
            return hold(snapshot, "a reconfiguration is under way; deciding when it is done", FORMULA)
        self._known.prepare(snapshot, ())
        present = self._known.loads()
        if self._known.evaluator(snapshot, present) is None:
            return hold(snapshot, "learning: too few readings yet to know what rows cost", FORMULA)
        stop_s = 0.0 if self._known.in_batches else self._stop.stop_s
        decided_every_s = STEP_S if before_s is None else max(STEP_S, snapshot.now_s - before_s)
        horizon_s = snapshot.lead_time_s + stop_s + min(decided_every_s, self._assess_s)
        if due or not self._forecasts:
            self._forecasts = self._forecast(snapshot.now_s + self._assess_s + max(horizon_s, self._hold_s))
        at = _LoadsAhead(
            snapshot=snapshot,
            present_per_s=present,
            queued=self._known.backlogs(snapshot),
            backlog_per_s=self._backlogs(snapshot, present, stop_s),
            forecasts=self._forecasts,
            horizon_s=horizon_s,
        )
        return self._grow(at) or self._shrink(at)

    def _forecast(self, until_s: float) -> Mapping[str, Forecast]:
        return self._known.forecasts(until_s, tuple(sorted({MEDIAN, self._grow_level, self._shrink_level})))

    def _backlogs(self, snapshot: Snapshot, present: Mapping[str, float], stop_s: float) -> dict[str, float]:
        """The load that stands for the backlog of each application that has one."""
        found = {}
        for name, rows in self._known.backlogs(snapshot).items():
            behind = rows - stop_s * present.get(name, 0.0)
            if behind > 0:
                whole_per_s = present.get(name, 0.0) + behind / snapshot.slo.freshness_s
                found[name] = self._max_threshold * whole_per_s
        return found

    # -- deciding ------------------------------------------------------------------------------

    def _grow(self, at: _LoadsAhead) -> Decision | None:
        """More nodes, if those planned do not hold the load; None if they do."""
        loads = at.loads(self._grow_level, at.horizon_s)
        evaluator = self._evaluator(at, loads)
        planned = at.snapshot.planned
        stress = evaluator.evaluate(planned).stress
        if stress <= 1 + TOLERANCE:
            return None
        (wanted, *_) = evaluator.candidates()
        if wanted.main_nodes <= planned.main_nodes:
            limits = at.snapshot.limits
            why = f"no size within {limits} holds the load"
            if planned.main_nodes < limits.max_nodes:
                why = "more nodes do not relieve the fullest one"
            return self._stay(at, evaluator, loads, why, Constraint(name="limit", why=why))
        bottleneck = (
            f"{counted(planned.main_nodes, 'node')} would have {evaluator.evaluate(planned).bottleneck}"
        )
        if burst := self._passes(at, evaluator, loads, wanted):
            return self._stay(at, evaluator, loads, "more nodes come too late for a burst", burst)
        return self._change(at, evaluator, loads, wanted, bottleneck)

    def _passes(
        self, at: _LoadsAhead, evaluator: Evaluator, loads: Mapping[str, _Load], wanted: Layout
    ) -> Constraint | None:
        """Why more nodes come too late for a burst; None if they help, or if the load lasts."""
        planned, lead_s, stop_s = at.snapshot.planned, at.snapshot.lead_time_s, self._stop.stop_s
        if not evaluator.needs_stop(wanted.difference(planned)):
            return None
        until_s = at.horizon_s + self._hold_s
        ahead = self._forecast(at.snapshot.now_s + until_s)
        if ahead.keys() != loads.keys():
            return None
        lasting = self._known.lasting_loads()
        later = replace(at, forecasts=ahead).ahead(MEDIAN, at.horizon_s, until_s)
        later = {name: max(load, lasting[name]) for name, load in later.items()}
        if self._evaluator_of(at, later).evaluate(planned).stress > 1 + TOLERANCE:
            return None
        load_per_s = sum(load.per_s for load in loads.values())
        before_per_s, after_per_s = (load_per_s / evaluator.evaluate(each).busy for each in (planned, wanted))
        course = np.sum([each.at(MEDIAN) for each in ahead.values()], axis=0).tolist()
        queued = sum(at.queued.values())
        stay = wait_of(course, STEP_S, [(0.0, before_per_s)], queued)
        change = [(0.0, before_per_s), (lead_s, 0.0), (lead_s + stop_s, after_per_s)]
        there = wait_of(course, STEP_S, change, queued)
        back = wait_of([sum(later.values())], stop_s, [(0.0, 0.0), (stop_s, before_per_s)])
        if there.row_s + back.row_s < stay.row_s or stay.longest_s > at.snapshot.slo.freshness_s / 2:
            return None
        return Constraint(
            name="burst",
            why=f"all rows together wait {stay.row_s:.0f} s as it is, and "
            f"{there.row_s + back.row_s:.0f} s with {wanted.difference(planned)} and back",
        )

    def _shrink(self, at: _LoadsAhead) -> Decision:
        """Fewer nodes, if the load allows it for as long as makes it worth the change."""
        ahead_s = max(at.horizon_s, self._hold_s)
        at = replace(at, present_per_s=self._known.last_loads())
        loads = at.loads(self._shrink_level, ahead_s)
        evaluator, planned = self._evaluator(at, loads), at.snapshot.planned
        if why := self._known.why_no_scale_in() or self._why_waiting(at):
            return self._stay(at, evaluator, loads, why)
        (wanted, *_) = evaluator.candidates()
        if wanted.main_nodes >= planned.main_nodes:
            return self._stay(at, evaluator, loads, f"right size: {evaluator.evaluate(planned).bottleneck}")
        evaluation = evaluator.evaluate(wanted)
        change = weigh(
            planned.main_nodes,
            wanted.main_nodes,
            stop_s=self._stop.stop_s if evaluator.needs_stop(wanted.difference(planned)) else 0.0,
            busy=evaluation.busy,
            rate_per_s=sum(at.present_per_s.values()),
            until_s=ahead_s,
        )
        if not change.pays_off:
            why = f"{wanted.difference(planned)} {change}"
            return self._stay(
                at, evaluator, loads, "fewer nodes do not pay off", Constraint(name="cost", why=why)
            )
        return self._change(at, evaluator, loads, wanted, f"then {evaluation.bottleneck}")

    def _why_waiting(self, at: _LoadsAhead) -> str:
        """Why nodes are still needed although the load is not: they work off a queue."""
        if self._known.in_batches:
            return ""
        rows, load_per_s = sum(at.queued.values()), sum(at.present_per_s.values())
        return f"{rows:.0f} rows wait" if rows > WAITING_S * load_per_s else ""

    def _evaluator(self, at: _LoadsAhead, loads: Mapping[str, _Load]) -> Evaluator:
        return self._evaluator_of(at, {name: load.per_s for name, load in loads.items()})

    def _evaluator_of(self, at: _LoadsAhead, loads_per_s: Mapping[str, float]) -> Evaluator:
        found = self._known.evaluator(at.snapshot, loads_per_s)
        assert found is not None  # it was not for the present load
        return found

    # -- decisions -----------------------------------------------------------------------------

    def _change(
        self, at: _LoadsAhead, evaluator: Evaluator, loads: Mapping[str, _Load], wanted: Layout, why: str
    ) -> Decision:
        evaluation = evaluator.evaluate(wanted)
        extrapolated = evaluator.extrapolated(wanted)
        note = f"; extrapolated: {extrapolated}" if extrapolated else ""
        because = ", ".join(load.why for load in loads.values())
        return Decision(
            wanted=wanted,
            reason=f"{wanted.difference(at.snapshot.planned)}: {because}; {why}{self._basis(at)}{note}",
            formula=FORMULA,
            inputs=self._inputs(at, evaluator, loads, extrapolated),
            expected=Effect(
                metric=Metric.FRESHNESS,
                value=round(evaluation.freshness_s, 2),
                at_s=at.snapshot.now_s + at.horizon_s,
            ),
        )

    def _stay(
        self,
        at: _LoadsAhead,
        evaluator: Evaluator,
        loads: Mapping[str, _Load],
        why: str,
        *bound: Constraint,
    ) -> Decision:
        because = ", ".join(load.why for load in loads.values())
        return Decision(
            wanted=at.snapshot.planned,
            reason=f"{why}; {because}{self._basis(at)}",
            formula=FORMULA,
            inputs=self._inputs(at, evaluator, loads, evaluator.extrapolated(at.snapshot.planned)),
            bound_by=bound,
        )

    def _basis(self, at: _LoadsAhead) -> str:
        """What the forecasts are based on, for the reason."""
        found = dict.fromkeys(forecast.basis for forecast in at.forecasts.values())
        return f"; forecast: {', '.join(found)}" if found else ""

    def _inputs(
        self, at: _LoadsAhead, evaluator: Evaluator, loads: Mapping[str, _Load], extrapolated: str
    ) -> dict[str, float | str]:
        numbers: dict[str, float | str] = {"horizon_s": round(at.horizon_s, 1)}
        for name, load in loads.items():
            numbers[f"{name} rate_per_s"] = round(load.per_s, 2)
            numbers[f"{name} present_per_s"] = round(at.present_per_s[name], 2)
            if (forecast := at.forecasts.get(name)) is not None:
                now_s = at.snapshot.now_s
                ahead_per_s = highest(forecast, self._grow_level, since_s=now_s, until_s=now_s + at.horizon_s)
                numbers[f"{name} forecast_per_s"] = round(ahead_per_s, 2)
                numbers[f"{name} forecast"] = forecast.basis
            if name in at.backlog_per_s:
                numbers[f"{name} backlog_per_s"] = round(at.backlog_per_s[name], 2)
        numbers.update(evaluator.inputs())
        if extrapolated:
            numbers["extrapolated"] = extrapolated
        numbers.update(self._known.inputs())
        return numbers
