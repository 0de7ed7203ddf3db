"""Which series a policy needs, and which triggers each reading goes to (Rules, Algorithm 4.1 and §5.4).

The subject of a trigger's metric:

=======================  =================================================================================
the trigger has ``of``   that subject
metric of an operator    the rule's operator; every operator for a rule on each operator
``queue-length``         of an operator: its ``operator-queue``. If the target has none (Spark), the queue of
                         the query of that name, else of the pipeline: its ``backlog`` if it has a read
                         limit, else all unprocessed rows (``queue-length``)
``cpu``                  ``instance-cpu`` of the operator; ``node-cpu`` for a rule on nodes
metric of the pipeline   of an operator: the query of that name if there is one; else the pipeline
metric of nodes, hosts   all of them: each reading of each one counts
=======================  =================================================================================

A queue holds rows that are not being processed. For a query with a read limit that is its backlog: the rows of the
running batch are being processed, and rows that arrived since it started would not be queued in an engine without
batches. A query without a limit takes all rows there are and has no backlog, so its unprocessed rows are the best
approximation.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Container, Iterable, Iterator

import msgspec

from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric, SubjectKind
from ebbflow.core.readings import Reading, Windows
from ebbflow.policy.evaluation.ahead import Forecasts
from ebbflow.policy.evaluation.coverage import coverages, is_covered
from ebbflow.policy.evaluation.states import RuleState, TriggerState
from ebbflow.policy.model import CPU, EACH_OPERATOR, NODES, Policy, Rule, Trigger

ANY = None
"""Stands for a subject: every one of its kind."""

_Series = tuple[str, Metric]


class Need(msgspec.Struct, frozen=True):
    """A series that a policy needs, or all series of a metric."""

    metric: Metric
    subject: str | None = ANY

    def matches(self, subject: str, metric: Metric) -> bool:
        """Whether a series is the needed one."""
        return metric is self.metric and self.subject in (ANY, subject)


def needs(policy: Policy, pipeline: str | None = None) -> frozenset[Need]:
    """All series that the rules of a policy compare; of any pipeline if no name is given.

    >>> from ebbflow.policy import *
    >>> grow = (rule("grow").scale_out(operator("enrich")).by(absolute(1))
    ...         .when(metric("cpu")).is_(above(percent(80))).for_at_least(seconds(30)))
    >>> [(need.metric.key, need.subject) for need in needs(Policy(grow))]
    [('instance-cpu', 'enrich')]
    """
    return frozenset(
        need
        for rule in policy.rules
        for trigger in rule.triggers
        for need in sources(trigger, rule.operator, pipeline)
    )


def sources(
    trigger: Trigger, operator: str, pipeline: str | None, read_limited: Container[str] | None = None
) -> tuple[Need, ...]:
    """The series that can supply a trigger, best first.

    ``operator`` is that of the rule, or the one to which a rule on each operator is applied. ``read_limited`` has the
    queries with a read limit, and the pipeline if all of its queries have one; None if unknown, so any may have one.
    """
    own = ANY if operator == EACH_OPERATOR else operator
    if trigger.metric == CPU:
        if operator == NODES and not trigger.of:
            return (Need(Metric.NODE_CPU),)
        if trigger.of:  # an operator or a node
            return (Need(Metric.INSTANCE_CPU, trigger.of), Need(Metric.NODE_CPU, trigger.of))
        return (Need(Metric.INSTANCE_CPU, own),)
    metric = Metric.of(trigger.metric)
    if metric is Metric.QUEUE_LENGTH and (trigger.of or operator != NODES):
        subject = trigger.of or own
        places = (subject,) if trigger.of else (subject, pipeline)
        waiting = (
            Need(kind, place)
            for place in places
            for kind in (Metric.BACKLOG, metric)
            if kind is metric or read_limited is None or place in read_limited
        )
        return (Need(Metric.OPERATOR_QUEUE, subject), *waiting)
    if trigger.of:
        return (Need(metric, trigger.of),)
    if metric.about is SubjectKind.OPERATOR:
        return (Need(metric, own),)
    if metric.about is SubjectKind.PIPELINE:
        query = () if operator == NODES else (Need(metric, own),)
        return (*query, Need(metric, pipeline))
    return (Need(metric, MAIN),) if metric.about is SubjectKind.CLUSTER else (Need(metric),)


class Router:
    """Passes each reading to the triggers that need it: a table from series to triggers, filled as series appear.

    >>> from ebbflow.policy import *
    >>> grow = (rule("grow").scale_out(operator("enrich")).by(absolute(1))
    ...         .when(metric("queue-length")).is_(above(rows(300))).for_at_least(seconds(30)))
    >>> router = Router(Policy(grow), "words", ["enrich"])
    >>> for t in range(0, 40, 10):
    ...     router.add(Reading(float(t), "enrich", Metric.OPERATOR_QUEUE, 301.0))
    >>> [state.rule.name for state in router.states if state.fires(30.0)]
    ['grow']
    """

    def __init__(
        self,
        policy: Policy,
        pipeline: str,
        operators: Iterable[str],
        read_limited: Iterable[str] = (),
        *,
        starts_s: float = -math.inf,
    ) -> None:
        """``read_limited``: queries with a read limit, whose queue is their backlog."""
        self.pipeline = pipeline
        self.operators = tuple(operators)
        self.read_limited = frozenset(read_limited)
        self.states: list[RuleState] = []
        self._last_s: dict[_Series, float] = {}
        self._forecasts = Forecasts()
        self.use(policy, starts_s)

    def use(self, policy: Policy, starts_s: float = -math.inf) -> None:
        """Replace the policy, or apply it to other operators. Unchanged rules keep their readings; others only
        count readings after ``starts_s``, although the windows may hold older ones."""
        known = {(state.rule, state.operator): state for state in self.states}
        self.states = [
            known.get((rule, name)) or RuleState(rule, name, starts_s, self._forecasts)
            for rule in policy.rules
            for name in self._applied(rule)
        ]
        self._sources: list[tuple[TriggerState, tuple[Need, ...]]] = [
            (trigger, sources(trigger.trigger, state.operator, self.pipeline, self.read_limited))
            for state in self.states
            for trigger in state.triggers
        ]
        self._of_all: dict[Metric, list[TriggerState]] = {}
        for trigger, needed in self._sources:
            for need in needed:
                if need.subject is ANY and is_covered(need.metric):
                    self._of_all.setdefault(need.metric, []).append(trigger)
        self._rank: dict[int, int] = {}
        self._routes: dict[_Series, list[TriggerState]] = {}
        if known:  # unchanged rules keep their sources
            for series in list(self._last_s):
                self._route(series, fresh=False)

    def _applied(self, rule: Rule) -> tuple[str, ...]:
        return self.operators if rule.operator == EACH_OPERATOR else (rule.operator,)

    def waits_for(self, subject: str, metric: Metric) -> bool:
        """Whether any trigger needs this series."""
        series = (subject, metric)
        route = self._routes.get(series)
        return bool(self._route(series) if route is None else route)

    def add(self, reading: Reading) -> None:
        """Pass on a reading. One that is not newer than the last of its series, or not finite, is dropped."""
        self.add_points(reading.subject, reading.metric, ((reading.time_s, reading.value),))

    def add_points(self, subject: str, metric: Metric, points: Iterable[tuple[float, float]]) -> None:
        """Pass on readings of one series, oldest first."""
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
                    state.add(time_s, value)
        self._last_s[series] = last_s

    def last_s(self, subject: str, metric: Metric) -> float:
        """The time of the last reading of a series; −∞ without readings."""
        return self._last_s.get((subject, metric), -math.inf)

    def add_merged(self, series: Iterable[tuple[str, Iterable[tuple[float, float]]]], metric: Metric) -> None:
        """Pass on readings of one metric of several subjects in the order of their times, because a trigger may
        read all of them."""
        subjects = list(series)
        if len(subjects) == 1:
            self.add_points(subjects[0][0], metric, subjects[0][1])
            return
        for time_s, value, subject in heapq.merge(*(_labelled(*each) for each in subjects)):
            self.add_points(subject, metric, ((time_s, value),))

    def cover(self, windows: Windows, now_s: float) -> None:
        """Set the node that has been silent longest; called once per cycle, after the readings."""
        found = coverages(windows, self._of_all, now_s)
        for metric, states in self._of_all.items():
            for state in states:
                state.cover(found.get(metric), now_s)

    def series_of(self, trigger: TriggerState) -> list[tuple[str, Metric]]:
        """The series that a trigger reads: one, or one of each node."""
        return [series for series, route in self._routes.items() if any(each is trigger for each in route)]

    def __len__(self) -> int:
        """The number of known series, whether needed or not."""
        return len(self._routes)

    def forget_all_but(self, series: Iterable[tuple[str, Metric]]) -> None:
        """Forget series that no longer exist: nodes come and go for weeks."""
        existing = set(series)
        for removed in [each for each in self._routes if each not in existing]:
            del self._routes[removed]
            self._last_s.pop(removed, None)

    def _route(self, series: _Series, *, fresh: bool = True) -> list[TriggerState]:
        """The triggers that read a series. A trigger reads only the best of its sources that has readings."""
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


def _labelled(subject: str, points: Iterable[tuple[float, float]]) -> Iterator[tuple[float, float, str]]:
    return ((time_s, value, subject) for time_s, value in points)
