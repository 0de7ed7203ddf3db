"""Brings each reading to the triggers that wait for it, and only there (Rules, Algorithm 4.1).

A table from series to triggers, filled as series show up; a reading that nobody waits for costs one look-up.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator

from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading, Windows
from ebbflow.policy.evaluation import RuleState, TriggerState
from ebbflow.policy.evaluation.coverage import coverages, is_of_each
from ebbflow.policy.evaluation.needs import ANY, Need, sources
from ebbflow.policy.model import EACH_OPERATOR, Policy, Rule

_Series = tuple[str, Metric]


class Router:
    """The rules of a policy, applied to the operators of a pipeline, behind one ``offer``.

    >>> from ebbflow.policy import *
    >>> grow = (rule("grow").scale_out(operator("enrich")).by(absolute(1))
    ...         .when(metric("queue-length")).is_(above(tuples(300))).for_at_least(seconds(30)))
    >>> router = Router(Policy(grow), "words", ["enrich"])
    >>> for t in range(0, 40, 10):
    ...     router.offer(Reading(float(t), "enrich", Metric.OPERATOR_QUEUE, 301.0))
    >>> [state.rule.name for state in router.states if state.fires(30.0)]
    ['grow']
    """

    def __init__(
        self,
        policy: Policy,
        pipeline: str,
        operators: Iterable[str],
        limited: Iterable[str] = (),
        *,
        begins_s: float = -math.inf,
    ) -> None:
        """``limited``: queries with a read limit, whose queue is their backlog (see ``needs``)."""
        self.pipeline = pipeline
        self.operators = tuple(operators)
        self.limited = frozenset(limited)
        self.states: list[RuleState] = []
        self._last_s: dict[_Series, float] = {}
        self.use(policy, begins_s)

    def use(self, policy: Policy, begins_s: float = -math.inf) -> None:
        """Another policy, or the same for other operators. Rules that are the same keep their readings; to others
        only readings after ``begins_s`` count, whatever else is still in the windows."""
        known = {(state.rule, state.operator): state for state in self.states}
        self.states = [
            known.get((rule, name)) or RuleState(rule, name, begins_s)
            for rule in policy.rules
            for name in self._applied(rule)
        ]
        self._sources: list[tuple[TriggerState, tuple[Need, ...]]] = [
            (trigger, sources(trigger.trigger, state.operator, self.pipeline, self.limited))
            for state in self.states
            for trigger in state.states
        ]
        self._of_all: dict[Metric, list[TriggerState]] = {}
        for trigger, needed in self._sources:
            for need in needed:
                if need.subject is ANY and is_of_each(need.metric):
                    self._of_all.setdefault(need.metric, []).append(trigger)
        self._rank: dict[int, int] = {}
        self._routes: dict[_Series, list[TriggerState]] = {}
        if known:  # those that stay are fed from where they were
            for series in list(self._last_s):
                self._route(series, fresh=False)

    def _applied(self, rule: Rule) -> tuple[str, ...]:
        return self.operators if rule.operator == EACH_OPERATOR else (rule.operator,)

    def waits_for(self, subject: str, metric: Metric) -> bool:
        """Whether a reading of this series would reach anyone."""
        series = (subject, metric)
        route = self._routes.get(series)
        return bool(self._route(series) if route is None else route)

    def offer(self, reading: Reading) -> None:
        """A reading. One that is not newer than the last of its series, or no number, is dropped."""
        self.offer_values(reading.subject, reading.metric, ((reading.time_s, reading.value),))

    def offer_values(self, subject: str, metric: Metric, points: Iterable[tuple[float, float]]) -> None:
        """Readings of one series, oldest first."""
        series = (subject, metric)
        route = self._routes.get(series)
        if route is None:
            route = self._route(series)
        if not route:
            return
        last_s = self._last_s.get(series, -math.inf)
        for time_s, value in points:
            if time_s > last_s and math.isfinite(value):
                last_s = time_s
                for state in route:
                    state.offer(time_s, value)
        self._last_s[series] = last_s

    def last_s(self, subject: str, metric: Metric) -> float:
        """When the series was last read; −∞ if never."""
        return self._last_s.get((subject, metric), -math.inf)

    def offer_merged(
        self, series: Iterable[tuple[str, Iterable[tuple[float, float]]]], metric: Metric
    ) -> None:
        """Readings of one metric of some subjects, each oldest first: in the order of their times, because a
        trigger may listen to all of them."""
        subjects = list(series)
        if len(subjects) == 1:
            self.offer_values(subjects[0][0], metric, subjects[0][1])
            return
        for time_s, value, subject in heapq.merge(*(_named(*each) for each in subjects)):
            self.offer_values(subject, metric, ((time_s, value),))

    def cover(self, windows: Windows, now_s: float) -> None:
        """Tell the triggers on all nodes which node is silent longest; once a look, after the readings."""
        found = coverages(windows, self._of_all, now_s)
        for metric, states in self._of_all.items():
            for state in states:
                state.cover(found.get(metric), now_s)

    def heard_by(self, trigger: TriggerState) -> list[tuple[str, Metric]]:
        """The series a trigger listens to: one, or one of each node."""
        return [series for series, route in self._routes.items() if any(each is trigger for each in route)]

    def __len__(self) -> int:
        """How many series are known, heard or not."""
        return len(self._routes)

    def forget_all_but(self, series: Iterable[tuple[str, Metric]]) -> None:
        """Forget series that are gone: nodes come and go for weeks."""
        there = set(series)
        for gone in [each for each in self._routes if each not in there]:
            del self._routes[gone]
            self._last_s.pop(gone, None)

    def _route(self, series: _Series, *, fresh: bool = True) -> list[TriggerState]:
        """Who waits for a series. A trigger listens to the best of its sources that speaks, to no other."""
        route = self._routes[series] = []
        for state, needed in self._sources:
            rank = next((i for i, need in enumerate(needed) if need.matches(*series)), None)
            if rank is None or rank > self._rank.get(id(state), rank):
                continue
            if rank < self._rank.get(id(state), rank):
                for other in self._routes.values():
                    other[:] = [each for each in other if each is not state]
                if fresh:
                    state.reset()
            self._rank[id(state)] = rank
            route.append(state)
        return route


def _named(subject: str, points: Iterable[tuple[float, float]]) -> Iterator[tuple[float, float, str]]:
    return ((time_s, value, subject) for time_s, value in points)
