"""Elysium's symbiotic scaling: operators and nodes are two dimensions, scaled alone or together in one step.

Once per assessment period (a minute, Elysium §5.2), Algorithm 1 computes the layout that the load needs, for all
applications that share the nodes together. The reactive variant sizes for the present arrival rate. The proactive one
sizes for the highest load forecast until the next assessment (§3.2), and as long after it as a node needs to arrive,
but never for less than arrives now. Where every change stops the stream, that is the highest mean of an assessment
period: a burst of seconds costs less than a stop. On batches it is the highest of 10 s. If the present load exceeds
what the layout holds, it assesses at once; where a change stops the stream, after two readings that agree.

    planned layout stressed → the layout with the fewest nodes that is not, whatever the change costs;
                              if all are, one with no more nodes only if it is better by a twentieth
    else                    → a smaller one, if it saves more until the next assessment than the change costs

The second line differs from the paper, which reconfigures whenever Algorithm 1 finds another layout, be it for an
instance that costs nothing. The tolerance is not in the paper either: the planned layout counts as stressed only if it
exceeds a threshold by that much, so noise in the load does not make it oscillate.

Without estimators the strategy learns what operators cost; given estimators keep learning. Reading order: this module,
then ``algorithm_one``, ``evaluation`` (layouts at a load), ``reconfiguration`` (whether a change is worthwhile),
``knowledge`` and ``costs`` (what is learned from snapshots).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from ebbflow.core.decision import Constraint, Decision, Effect, hold
from ebbflow.core.duration import format_duration
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.parameters import Duration, Flag, Kind, Number, Part
from ebbflow.core.periods import Every
from ebbflow.core.ports import BackgroundWork, Strategy
from ebbflow.core.snapshot import ActionKind, Snapshot
from ebbflow.errors import InputError
from ebbflow.forecasting.load_forecast import STEP_S, highest
from ebbflow.forecasting.port import Forecast
from ebbflow.forecasting.registry import make_forecaster
from ebbflow.profiling.estimator import Estimator
from ebbflow.strategies.symbiotic.algorithm_one import SLACK, Dimensions, UsageThresholds
from ebbflow.strategies.symbiotic.evaluation import EQUALLY_GOOD, Evaluation, Evaluator
from ebbflow.strategies.symbiotic.knowledge import Knowledge
from ebbflow.strategies.symbiotic.reconfiguration import (
    DIP_WAIT,
    CostBenefit,
    Dips,
    LearnedStop,
    Refusals,
    weigh,
)

FORMULA = "p_i = min { p : cores_i(r_i/p) ≤ core_max }, n = min { n : share of every node ≤ cpu_max }"


@dataclass(frozen=True)
class _Assessment:
    """What an assessment works on. ``current``: the planned layout at the load."""

    snapshot: Snapshot
    evaluator: Evaluator
    loads: Mapping[str, float]
    current: Evaluation

    @property
    def planned(self) -> Layout:
        return self.snapshot.planned


@dataclass(frozen=True)
class _Choice:
    """A layout, how it would cope, and what the change costs and saves."""

    layout: Layout
    evaluation: Evaluation
    change: CostBenefit

    def __str__(self) -> str:
        nodes = self.layout.main_nodes
        return f"{nodes} node{'s' * (nodes != 1)} ({self.evaluation.bottleneck})"


class Symbiotic(Strategy):
    """Algorithm 1 for the present load. The module docstring has the rule.

    ``estimators``: by application; costs are learned for those without. One with a forecaster keeps that.
    """

    name = "symbiotic"
    brings_own_guards = True
    is_proactive = False
    """Whether it sizes for the forecast load, unless that is set."""

    def __init__(
        self,
        estimators: Mapping[str, Estimator] | None = None,
        *,
        thresholds: Annotated[UsageThresholds | None, Part(UsageThresholds)] = None,
        dimensions: Annotated[Dimensions | None, Part(Dimensions)] = None,
        assess_s: Annotated[float, Duration("Time between two assessments.", above=0)] = 60.0,
        tolerance: Annotated[
            float,
            Number(
                "How far above a threshold the layout still stays, as a share of it.",
                unit="share",
                at_least=0,
            ),
        ] = 0.05,
        proactive: Annotated[
            bool | None,
            Flag("Whether to size for the highest forecast load.", unset="in symbiotic-proactive only"),
        ] = None,
        forecaster: Annotated[str, Kind("Forecaster of the load, if proactive.")] = "mixture",
        level: Annotated[
            float, Number("Quantile of the forecast to size for, if proactive.", above=0, below=1)
        ] = 0.7,
    ) -> None:
        if not assess_s > 0 or not tolerance >= 0:
            raise InputError(
                f"an assessment period of {assess_s:g} s with a tolerance of {tolerance:g}; "
                "the period must be above 0, the tolerance 0 or more"
            )
        self._tolerance, self._assess_s = tolerance, assess_s
        self._proactive = self.is_proactive if proactive is None else proactive
        self._every = Every(assess_s, at_once=False)
        self._due = False
        self._postponed = False
        """Whether this assessment has already waited for another reading."""
        given = estimators or {}
        self._known = Knowledge(
            given,
            thresholds=thresholds or UsageThresholds(),
            dimensions=dimensions or Dimensions(),
            window_s=assess_s,
            forecaster=(lambda: make_forecaster(forecaster, STEP_S)) if self._proactive else None,
        )
        self._level = level
        self._forecasts: Mapping[str, Forecast] = {}
        self._refusals = Refusals()
        self._dips = Dips()
        self._stop = LearnedStop.of(given.values())

    def in_background(self) -> BackgroundWork | None:
        """Train forecasters between cycles."""
        return self._known.train_in_background()

    def decide(self, snapshot: Snapshot) -> Decision:
        """The layout that the load needs, once per assessment period."""
        self._stop.learn(snapshot, [snapshot.pipeline.name, *snapshot.queries])
        self._refusals.check(snapshot.planned, snapshot.now_s)
        self._known.learn(snapshot)
        self._due = bool(self._every.due(snapshot.now_s)) or self._due
        if not self._due and not self._overloaded(snapshot):
            return hold(snapshot, "waiting for the next assessment", FORMULA)
        if any(action.kind is not ActionKind.SHRINK for action in snapshot.under_way):
            return hold(snapshot, "a change is under way; assessing when it is done", FORMULA)
        self._known.prepare(snapshot, self._refusals.fixed(snapshot.now_s))
        loads = self._loads(snapshot)
        evaluator = self._known.evaluator(snapshot, loads)
        if evaluator is None:
            return hold(snapshot, "learning: too few readings yet to know what rows cost", FORMULA)
        decision = self._assess(_Assessment(snapshot, evaluator, loads, evaluator.evaluate(snapshot.planned)))
        if not self._postponed and decision.wanted != snapshot.planned and self._half_new(snapshot, decision):
            self._postponed = True
            self._dips.drop_last()
            return hold(snapshot, "the load changed within the last reading; waiting for the next", FORMULA)
        self._due = self._postponed = False
        self._refusals.request(snapshot.planned, decision.wanted)
        return decision

    def _overloaded(self, snapshot: Snapshot) -> bool:
        """Whether a proactive strategy has sized for too little: the planned layout is stressed by the present load."""
        if not self._proactive or snapshot.under_way:
            return False
        self._known.prepare(snapshot, self._refusals.fixed(snapshot.now_s))
        evaluator = self._known.evaluator(snapshot, self._known.lasting_loads())
        return evaluator is not None and evaluator.evaluate(snapshot.planned).stress > 1 + self._tolerance

    def _loads(self, snapshot: Snapshot) -> dict[str, float]:
        """Loads to size for: the present ones; proactive, those forecast until a later decision could take effect, if
        these are higher."""
        present = self._known.loads()
        if not self._proactive:
            return present
        until_s = snapshot.now_s + self._every.left_s(snapshot.now_s) + snapshot.lead_time_s
        self._forecasts = self._known.forecasts(until_s, (self._level,))
        over_s = 0.0 if self._known.in_batches else self._assess_s
        return {
            name: max(
                rate,
                highest(
                    self._forecasts[name], self._level, since_s=snapshot.now_s, until_s=until_s, over_s=over_s
                ),
            )
            if name in self._forecasts
            else rate
            for name, rate in present.items()
        }

    def _half_new(self, snapshot: Snapshot, decision: Decision) -> bool:
        """Whether the last reading may have counted rows from before and after a jump. A size for the mean of both
        would be wrong, and need a second stop at the next assessment.

        A rise is complete if the reading before shows it as well; a fall, if both readings need the same size.
        """
        last, before = (self._known.evaluator(snapshot, self._known.reading(k)) for k in (1, 2))
        if last is None or before is None:
            return False
        planned = snapshot.planned
        if decision.wanted.main_nodes < planned.main_nodes:
            return [a.main_nodes for a in last.candidates()] != [b.main_nodes for b in before.candidates()]
        return before.evaluate(planned).stress <= 1 + self._tolerance

    # -- the assessment ------------------------------------------------------------------------

    def _assess(self, at: _Assessment) -> Decision:
        choices = self._choices(at, at.evaluator)
        self._dips.add(min(c.layout.main_nodes for c in choices))
        no_scale_in = self._known.why_no_scale_in()
        if at.current.stress > 1 + self._tolerance:
            if no_scale_in:
                choices = [c for c in choices if c.layout.main_nodes >= at.planned.main_nodes]
            return self._relieve(at, choices) if choices else self._stay(at, no_scale_in)
        return self._stay(at, no_scale_in) if no_scale_in else self._shrink(at, choices)

    def _choices(self, at: _Assessment, evaluator: Evaluator) -> list[_Choice]:
        """The candidates of an evaluator, each with the cost of the change."""
        snapshot, found = at.snapshot, []
        for layout in evaluator.candidates():
            evaluation = evaluator.evaluate(layout)
            change = weigh(
                snapshot.planned.main_nodes,
                layout.main_nodes,
                stop_s=self._stop.stop_s
                if evaluator.needs_stop(layout.difference(snapshot.planned))
                else 0.0,
                busy=evaluation.busy,
                rate_per_s=sum(at.loads.values()),
                until_s=self._every.left_s(snapshot.now_s),
            )
            found.append(_Choice(layout, evaluation, change))
        return found

    def _relieve(self, at: _Assessment, choices: Sequence[_Choice]) -> Decision:
        """The planned layout is stressed: change it, whatever that costs, if another one is better."""
        bottleneck = at.current.bottleneck
        best = self._best(choices)
        if best.layout.difference(at.planned) and _relieves(best, at.current, at.planned):
            return self._change(at, best, f"stressed: {bottleneck}; needs {best}")
        if best.evaluation.stress <= (1 + EQUALLY_GOOD) * at.current.stress and best.change.pays_off:
            return self._change(
                at, best, f"stressed, and more nodes do not help: {bottleneck}; as good with {best}"
            )
        why = f"{bottleneck}, and no allowed layout is so much better that it is worth a stop"
        return self._stay(
            at, f"stressed, but no allowed layout helps: {bottleneck}", Constraint(name="limit", why=why)
        )

    def _shrink(self, at: _Assessment, choices: Sequence[_Choice]) -> Decision:
        """The planned layout is not stressed: take a smaller one, if that pays off."""
        smaller = _smaller(choices, at.planned)
        if not smaller:
            return self._stay(at, f"right size: {at.current.bottleneck}")
        if self._dips.recent and not self._proactive:  # a forecast predicts by itself that a load returns
            wait_s = DIP_WAIT * self._assess_s
            loads = self._known.highest(at.loads, at.snapshot.now_s - wait_s)
            evaluator = self._known.evaluator(at.snapshot, loads)
            now = smaller[0]
            smaller = _smaller(self._choices(at, evaluator) if evaluator else [], at.planned)
            if not smaller:
                why = (
                    f"the load was higher in the last {format_duration(wait_s)}, and earlier dips were short"
                )
                return self._stay(
                    at, f"the load needs only {now}, but {why}", Constraint(name="patience", why=why)
                )
        best = max(smaller, key=lambda c: c.change.saved_node_s - c.change.cost_node_s)
        if not best.change.pays_off:
            why = f"{best.layout.difference(at.planned)} {best.change}"
            return self._stay(
                at,
                f"the load needs only {best}, but the change does not pay off",
                Constraint(name="cost", why=why),
            )
        return self._change(at, best, f"too large: the load needs only {best}")

    def _best(self, choices: Sequence[_Choice]) -> _Choice:
        """Of the least stressed, the one that costs least in a whole period, its own change included."""
        least = min(max(c.evaluation.stress, 1.0) for c in choices)
        nearly = (1 + EQUALLY_GOOD) * least if least > 1 + SLACK else 1 + SLACK
        return min(
            [c for c in choices if c.evaluation.stress <= nearly],
            key=lambda c: c.layout.main_nodes * self._assess_s + c.change.cost_node_s,
        )

    # -- decisions -----------------------------------------------------------------------------

    def _change(self, at: _Assessment, choice: _Choice, reason: str) -> Decision:
        change, evaluation = choice.change, choice.evaluation
        extrapolated = at.evaluator.extrapolated(choice.layout)
        expected = Effect(
            metric=Metric.FRESHNESS,
            value=round(evaluation.freshness_s, 2),
            at_s=at.snapshot.now_s + change.stop_s + min(change.drain_s, self._assess_s),
        )
        note = f"; extrapolated: {extrapolated}" if extrapolated else ""
        return Decision(
            wanted=choice.layout,
            reason=f"{choice.layout.difference(at.planned)}: {reason}; {change}{note}",
            formula=FORMULA,
            inputs=self._inputs(at, evaluation, change, extrapolated),
            expected=expected,
        )

    def _stay(self, at: _Assessment, reason: str, *bound: Constraint) -> Decision:
        return Decision(
            wanted=at.planned,
            reason=reason,
            formula=FORMULA,
            inputs=self._inputs(at, at.current, None, at.evaluator.extrapolated(at.planned)),
            bound_by=bound,
        )

    def _inputs(
        self, at: _Assessment, evaluation: Evaluation, change: CostBenefit | None, extrapolated: str
    ) -> dict[str, float | str]:
        numbers: dict[str, float | str] = {
            f"{name} rate_per_s": round(rate, 2) for name, rate in at.loads.items()
        }
        numbers.update(at.evaluator.inputs())
        numbers["busy"] = round(evaluation.busy, 3)
        if change is not None:
            numbers["stop_s"] = round(change.stop_s, 2)
            numbers["drain_s"] = round(min(change.drain_s, self._assess_s), 2)
            numbers["cost_node_s"] = round(change.cost_node_s, 1)
            numbers["saved_node_s"] = round(change.saved_node_s, 1)
        if extrapolated:
            numbers["extrapolated"] = extrapolated
        if refused := self._refusals.describe(at.snapshot.now_s):
            numbers["refused"] = refused
        for name, ahead in self._forecasts.items():
            numbers[f"{name} forecast"] = ahead.basis
        numbers.update(self._known.inputs())
        return numbers


class SymbioticProactive(Symbiotic):
    """``symbiotic(proactive=true)`` under a name of its own."""

    name = "symbiotic-proactive"
    is_proactive = True


def _relieves(choice: _Choice, current: Evaluation, planned: Layout) -> bool:
    """Whether a layout is so much better that it is worth its stop.

    One that is not stressed always is, and so is one with more nodes, which help for as long as the load stays. But
    another parallelism on nodes that remain too few gains a hundredth, and a stop loses a tenth of a minute's rows.
    """
    stress = choice.evaluation.stress
    if stress <= 1 + SLACK or choice.layout.main_nodes > planned.main_nodes or not choice.change.stop_s:
        return stress < current.stress - SLACK
    return (1 + EQUALLY_GOOD) * stress < current.stress


def _smaller(choices: Sequence[_Choice], planned: Layout) -> list[_Choice]:
    """Those with fewer nodes that are not stressed."""
    return [
        c for c in choices if c.layout.main_nodes < planned.main_nodes and c.evaluation.stress <= 1 + SLACK
    ]
