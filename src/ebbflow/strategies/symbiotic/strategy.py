"""Elysium's symbiotic scaling: operators and nodes are two dimensions, scaled alone or together, in one step.

Once every assessment period (a minute, Elysium §5.2) the layout that the load needs is computed by Algorithm 1
(``algorithm_one``; on batches ``symbiotic_batches``), of all applications that share the nodes together. Reactive, the
load is the one that arrives; proactive, the highest that is forecast for the next five minutes (§3.2).

    layout there stressed → the layout with the fewest nodes that is not, whatever the change costs;
                            where all are, one with no more nodes only if it is better by a twentieth
    else                  → a smaller one, if it saves more until the next assessment than the change costs

The second line is not the seed's, which changes whenever Algorithm 1 gives something else, be it an instance that
nobody pays for (``reconfiguration`` has the formula). Nor is the tolerance: the layout that is there counts as stressed
only when it is past a threshold by so much, so that noise in the load does not carry it to and fro.

Without estimators it learns what operators cost from the snapshots it is shown; with them, their profiles go on
learning (``symbiotic_knowledge``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from ebbflow.core.decision import Constraint, Decision, Effect, hold
from ebbflow.core.duration import format_duration
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.parameters import Duration, Number, Part
from ebbflow.core.periods import Every
from ebbflow.core.ports import Strategy
from ebbflow.core.snapshot import ActionKind, Snapshot
from ebbflow.errors import InputError
from ebbflow.forecasting.forecast import Forecast
from ebbflow.forecasting.load_net import LoadNet
from ebbflow.profiling.estimator import Estimator
from ebbflow.strategies.symbiotic.algorithm_one import SLACK, Dimensions, Thresholds
from ebbflow.strategies.symbiotic.knowledge import Knowledge
from ebbflow.strategies.symbiotic.reconfiguration import Refusals, Stops, Worth, weigh
from ebbflow.strategies.symbiotic.view import AS_GOOD, Judged, View

# When nodes may be given up: at once; or, where the load has come back after falls, when it was low for longer.
#
# Giving up nodes costs a stop, and where the load comes back, a second one, with rows piling up until then. Whether it
# does, the past tells: a *dip* is an assessment that needed fewer nodes than the one before and was followed
# by one that
# needed more, within ``WITHIN``. While one of the last ``REMEMBER`` assessments was a dip, a smaller layout has to be
# enough for the highest load since ``WAIT`` assessments ago.
#
# The seed has nothing like it. On a load that goes up and comes down slowly there is no dip, and nothing changes.
# docs/symbiotic.md has what it brought on five days of Twitter's load.


WITHIN = 3
WAIT = 2
REMEMBER = 10
"""All three in assessments."""


class Patience:
    """Follows how many nodes assessments needed.

    >>> patience = Patience()
    >>> for nodes in (1, 4, 4, 2, 1):
    ...     patience.note(nodes)
    >>> patience.wanted  # it only fell so far
    False
    >>> patience.note(3)
    >>> patience.wanted
    True
    """

    def __init__(self) -> None:
        self._needed: deque[int] = deque(maxlen=REMEMBER)

    def note(self, nodes: int) -> None:
        """So many were needed at an assessment."""
        self._needed.append(nodes)

    def forget_last(self) -> None:
        """The last assessment is made again."""
        self._needed.pop()

    @property
    def wanted(self) -> bool:
        """Whether a fall was followed by a rise lately."""
        needed = list(self._needed)
        return any(
            after < before and max(needed[at + 1 : at + 1 + WITHIN], default=0) > after
            for at, (before, after) in enumerate(pairwise(needed), start=1)
        )


FORMULA = "p_i = min { p : cores_i(r_i/p) ≤ core_max }, n = min { n : share of every node ≤ cpu_max }"


@dataclass(frozen=True)
class _Choice:
    """A layout, what it would be like, and what going there costs and saves."""

    layout: Layout
    judged: Judged
    worth: Worth


class Symbiotic(Strategy):
    """Algorithm 1, reactive or proactive. See the module's text for the rule.

    Parameters: ``estimators`` by the name of the application (learned where there is none); ``thresholds``;
    ``dimensions`` (only operators, only nodes, most instances); ``assess_s``; ``tolerance`` beyond a threshold in which
    the layout there is kept; ``forecast`` makes a forecaster for each application whose estimator has none.
    """

    name = "symbiotic"
    brings_own_guards = True
    proactive = False
    """Whether it sizes for the forecast load."""

    def __init__(
        self,
        estimators: Mapping[str, Estimator] | None = None,
        *,
        thresholds: Annotated[Thresholds | None, Part(Thresholds)] = None,
        dimensions: Annotated[Dimensions | None, Part(Dimensions)] = None,
        assess_s: Annotated[float, Duration("Time between two assessments.", above=0)] = 60.0,
        tolerance: Annotated[
            float, Number("Relative change of the load below which the layout is kept.", at_least=0)
        ] = 0.05,
        forecast: Callable[[], Forecast] = LoadNet,
    ) -> None:
        if not assess_s > 0 or not tolerance >= 0:
            raise InputError(
                f"an assessment every {assess_s:g} s with a tolerance of {tolerance:g}; "
                "the first must be above 0, the other 0 or more"
            )
        self._tolerance, self._assess_s = tolerance, assess_s
        self._every = Every(assess_s, at_once=False)
        self._due = False
        self._waited = False
        """Whether this assessment has waited for another reading already."""
        given = estimators or {}
        self._known = Knowledge(
            given,
            thresholds=thresholds or Thresholds(),
            dimensions=dimensions or Dimensions(),
            window_s=assess_s,
            forecast=forecast if self.proactive else None,
        )
        self._refusals = Refusals()
        self._patience = Patience()
        costs = [each.profile.costs for each in given.values() if each.profile.costs is not None]
        known_s = [cost.restart_s for cost in costs if cost.restart_s is not None]
        self._stops = Stops(max(known_s) if known_s else None)

    # -- the decision --------------------------------------------------------------------------

    def decide(self, snapshot: Snapshot) -> Decision:
        """The layout that the load needs, once in every assessment period."""
        self._stops.look(snapshot, [snapshot.pipeline.name, *snapshot.queries])
        self._refusals.look(snapshot.planned, snapshot.now_s)
        self._known.look(snapshot)
        self._due = bool(self._every.due(snapshot.now_s)) or self._due
        if not self._due:
            return hold(snapshot, "waits for its next assessment", FORMULA)
        if any(action.kind is not ActionKind.SHRINK for action in snapshot.under_way):
            return hold(snapshot, "a change is under way; it is assessed when that is done", FORMULA)
        self._known.assess(snapshot, self._refusals.kept(snapshot.now_s))
        loads = self._known.loads(snapshot.now_s)
        view = self._known.view(snapshot, loads)
        if view is None:
            return hold(snapshot, "learning: too little was read yet to know what rows cost", FORMULA)
        decision = self._assess(snapshot, view, loads)
        if not self._waited and decision.wanted != snapshot.planned and self._half_new(snapshot, decision):
            self._waited = True
            self._patience.forget_last()
            why = "the load changed in the last reading; waits for one that has all of it"
            return hold(snapshot, why, FORMULA)
        self._due = self._waited = False
        self._refusals.asked(snapshot.planned, decision.wanted)
        return decision

    def _half_new(self, snapshot: Snapshot, decision: Decision) -> bool:
        """Whether the last reading may have counted rows of before a jump and after it: a size for what lies in between
        would be the wrong one, and corrected by a second stop at the next assessment.

        A rise that showed in the reading before as well is read in full; so is a fall of which both tell the same.
        """
        last, before = (self._known.view(snapshot, self._known.read(k)) for k in (1, 2))
        if last is None or before is None:
            return False
        planned = snapshot.planned
        if decision.wanted.main_nodes < planned.main_nodes:
            return [a.main_nodes for a in last.layouts()] != [b.main_nodes for b in before.layouts()]
        return before.judge(planned).over <= 1 + self._tolerance

    def _assess(self, snapshot: Snapshot, view: View, loads: Mapping[str, float]) -> Decision:
        planned = snapshot.planned
        here = view.judge(planned)
        choices = [self._choice(snapshot, view, layout, loads) for layout in view.layouts()]
        self._patience.note(min(c.layout.main_nodes for c in choices))
        held_up = self._known.held_up()
        if here.over > 1 + self._tolerance:
            if held_up:  # too little is known for anybody to leave
                choices = [c for c in choices if c.layout.main_nodes >= planned.main_nodes]
            if not choices:
                return self._stay(snapshot, view, loads, here, held_up)
            best = self._best(choices)
            if best.layout.difference(planned) and _relieves(best, here, planned):
                return self._go(snapshot, view, loads, best, f"stressed: {here.where}; {self._what(best)}")
            if best.judged.over <= (1 + AS_GOOD) * here.over and best.worth.worth_it:
                reason = f"stressed, and nodes do not help: {here.where}; as good are {self._what(best)}"
                return self._go(snapshot, view, loads, best, reason)
            bound = Constraint(
                name="limit",
                why=f"{here.where}, and no layout that is allowed is so much better that it is worth a stop",
            )
            return self._stay(
                snapshot, view, loads, here, f"stressed, and more is not to be had: {here.where}", bound
            )
        if held_up:
            return self._stay(snapshot, view, loads, here, held_up)
        smaller = _smaller(choices, planned)
        if not smaller:
            return self._stay(snapshot, view, loads, here, f"right size: {here.where}")
        if self._patience.wanted and not self.proactive:  # a forecast looks for what comes back itself
            wait_s = WAIT * self._assess_s
            patient = self._known.view(snapshot, self._known.highest(loads, snapshot.now_s - wait_s))
            fewer = self._what(smaller[0])
            smaller = _smaller(
                [self._choice(snapshot, patient, each, loads) for each in patient.layouts()]
                if patient
                else [],
                planned,
            )
            if not smaller:
                why = f"in the last {format_duration(wait_s)} the load was higher, and it has come back after falls"
                bound = Constraint(name="patience", why=why)
                return self._stay(snapshot, view, loads, here, f"{fewer} would do, but {why}", bound)
        best = max(smaller, key=lambda c: c.worth.saved_node_s - c.worth.cost_node_s)
        if not best.worth.worth_it:
            bound = Constraint(name="cost", why=f"{best.layout.difference(planned)} {best.worth}")
            return self._stay(
                snapshot, view, loads, here, f"{self._what(best)} would do, but it is not worth it", bound
            )
        return self._go(snapshot, view, loads, best, f"too large: {self._what(best)} will do")

    def _best(self, choices: Sequence[_Choice]) -> _Choice:
        """Of the least stressed what costs least in a period, its own change included: however soon the next assessment
        is, what is grown to will be there for longer."""
        least = min(max(c.judged.over, 1.0) for c in choices)
        nearly = (1 + AS_GOOD) * least if least > 1 + SLACK else 1 + SLACK
        return min(
            [c for c in choices if c.judged.over <= nearly],
            key=lambda c: c.layout.main_nodes * self._assess_s + c.worth.cost_node_s,
        )

    def _choice(self, snapshot: Snapshot, view: View, layout: Layout, loads: Mapping[str, float]) -> _Choice:
        judged = view.judge(layout)
        stops = view.stops(layout.difference(snapshot.planned))
        worth = weigh(
            snapshot.planned.main_nodes,
            layout.main_nodes,
            stop_s=self._stops.stop_s if stops else 0.0,
            busy=judged.busy,
            rate_per_s=sum(loads.values()),
            until_s=self._every.left_s(snapshot.now_s),
        )
        return _Choice(layout, judged, worth)

    def start_over(self, now_s: float) -> None:
        """The clock was set back: a full period until the next assessment, and readings are new again. What was learned
        of costs stays."""
        self._every, self._due, self._waited = Every(self._assess_s, at_once=False), False, False
        self._known.start_over(now_s)
        self._stops.start_over()
        self._refusals.start_over(now_s)

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
        guessed = view.guessed(choice.layout)
        expected = Effect(
            metric=Metric.FRESHNESS,
            value=round(choice.judged.freshness_s, 2),
            at_s=snapshot.now_s + worth.stop_s + min(worth.drain_s, self._assess_s),
        )
        return Decision(
            wanted=choice.layout,
            reason=f"{change}: {reason}; {worth}{f'; a guess: {guessed}' if guessed else ''}",
            formula=FORMULA,
            inputs=self._inputs(snapshot.now_s, view, loads, choice.judged, worth, guessed),
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
            inputs=self._inputs(snapshot.now_s, view, loads, here, None, view.guessed(snapshot.planned)),
            bound_by=bound,
        )

    def _inputs(
        self,
        now_s: float,
        view: View,
        loads: Mapping[str, float],
        judged: Judged,
        worth: Worth | None,
        guessed: str,
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
        if guessed:
            numbers["guess"] = guessed
        if told := self._refusals.told(now_s):
            numbers["kept"] = told
        numbers.update(self._known.inputs())
        return numbers


def _relieves(choice: _Choice, here: Judged, planned: Layout) -> bool:
    """Whether a layout is better by so much that it is worth its stop.

    One that is not stressed always is. Nodes that are added work on for as long as the load stays; but instances dealt
    out otherwise on nodes that remain too few win a hundredth, and a stop loses a tenth of a minute's rows.
    """
    over = choice.judged.over
    if over <= 1 + SLACK or choice.layout.main_nodes > planned.main_nodes or not choice.worth.stop_s:
        return over < here.over - SLACK
    return (1 + AS_GOOD) * over < here.over


def _smaller(choices: Sequence[_Choice], planned: Layout) -> list[_Choice]:
    """Those with fewer nodes that are not stressed."""
    return [c for c in choices if c.layout.main_nodes < planned.main_nodes and c.judged.over <= 1 + SLACK]


class SymbioticProactive(Symbiotic):
    """Algorithm 1, sized for the load that is forecast."""

    name = "symbiotic-proactive"
    proactive = True
