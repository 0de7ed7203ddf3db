"""Triggers and rules that follow readings, in amortised O(1) per reading however long their history is.

A trigger fires when *all* readings of its duration are past the threshold and the readings span that duration. This
is the text of the Rules thesis; its printed algorithms differ (Algorithm 4.2 never fires, 4.3 fires on any reading).
No history is needed for it: the start and the end of an unbroken run of such readings are enough.

Missing readings prove nothing. A gap longer than ``gap_s`` (15 s, or three times the usual interval if that is longer)
ends the run, and a trigger whose last reading is that old does not hold. If a trigger reads all nodes, this applies to
each running node (``coverage``): the run ends with the last reading of the node that has been silent longest, and a
statistic is not compared while readings of one node are missing.
"""

from __future__ import annotations

import math
from collections import deque

import msgspec

from ebbflow.core.duration import format_duration
from ebbflow.core.snapshot import STALE_AFTER_S
from ebbflow.policy.evaluation.ahead import ConditionForecast, Forecasts
from ebbflow.policy.evaluation.coverage import Coverage
from ebbflow.policy.evaluation.measures import running_measure
from ebbflow.policy.language.english import (
    compared_in_english,
    measured_in_english,
    requirement_in_english,
    trigger_in_english,
)
from ebbflow.policy.model import AllOf, Condition, Rule, Trigger
from ebbflow.policy.values import MeasureKind

_TOLERANCE_S = 0.01
"""Clocks jitter: 29.99 s counts as 30 s."""


class TriggerState:
    """One trigger and the readings of one series, or of all nodes together."""

    def __init__(
        self, trigger: Trigger, starts_s: float = -math.inf, forecast: ConditionForecast | None = None
    ) -> None:
        """Readings up to ``starts_s`` are ignored. ``forecast``: that of the load, if it is about a load's future."""
        self.trigger = trigger
        self._starts_s = starts_s
        self._measure = running_measure(trigger, forecast)
        self._needed_s = (
            trigger.for_at_least.seconds - _TOLERANCE_S if trigger.for_at_least is not None else 0.0
        )
        occurrences = trigger.in_at_least
        self._last_n: deque[tuple[bool, float]] | None = (
            deque(maxlen=occurrences.of) if occurrences is not None else None
        )
        """For m of n: whether each of the last n was past the threshold, and where its readings start."""
        self._is_run = occurrences is None and trigger.measure.kind is MeasureKind.EACH
        self._is_line = trigger.measure.kind in (MeasureKind.RATE, MeasureKind.FORECAST)
        self._hits = 0
        self._last_s = -math.inf
        self._interval_s = 0.0
        self.coverage: Coverage | None = None
        """For a trigger that reads all nodes: the node that has been silent longest."""
        self._end_run()

    def _end_run(self) -> None:
        self._since_s: float | None = None
        self._from_s = math.inf
        """The oldest reading that the first value of the run depends on."""
        self._low = self._high = math.nan
        self._count = 0
        self._hits = 0
        if self._last_n is not None:
            self._last_n.clear()

    def reset(self) -> None:
        """Forget all readings; the trigger needs a full new period to hold."""
        self._end_run()
        self._measure.clear()

    @property
    def gap_s(self) -> float:
        """The longest time between two readings of a run."""
        return max(STALE_AFTER_S, 3.0 * self._interval_s)

    def add(self, time_s: float, value: float) -> None:
        """Take a reading.

        A reading that is slightly late (of another node) ends or extends a run at the current time; a statistic counts
        it at its own time.
        """
        last_s = self._last_s
        if time_s > last_s:
            interval_s = time_s - last_s
            if interval_s > STALE_AFTER_S and interval_s > 3.0 * self._interval_s:
                if time_s <= self._starts_s:  # checked for the first reading only; later ones are newer
                    return
                self.reset()
            if last_s > -math.inf:
                self._interval_s = (
                    interval_s if not self._interval_s else 0.8 * self._interval_s + 0.2 * interval_s
                )
            self._last_s = last_s = time_s
        elif last_s - time_s > STALE_AFTER_S or time_s <= self._starts_s:
            return
        measure = self._measure
        past = measure.add(time_s, value)
        if past is None:
            return
        if self._last_n is not None:
            if len(self._last_n) == self._last_n.maxlen:
                self._hits -= self._last_n[0][0]
            self._last_n.append((past, measure.since_s))
            self._hits += past
        if not past:
            self._since_s = None
            return
        compared = measure.compared
        if self._since_s is None:
            self._since_s = last_s
            self._from_s = measure.since_s
            self._count = 1
            if compared is not None:
                self._low = self._high = compared
            return
        self._count += 1
        if compared is not None:
            if compared < self._low:
                self._low = compared
            elif compared > self._high:
                self._high = compared

    @property
    def has_readings(self) -> bool:
        """Whether any reading has ever arrived."""
        return self._last_s > -math.inf

    def stale(self, now_s: float) -> bool:
        """Whether readings have been missing for too long, of any running node if it reads all nodes."""
        return now_s - self._last_s > self.gap_s or self._node_is_silent(now_s)

    def _node_is_silent(self, now_s: float) -> bool:
        """Whether readings of a running node have been missing for too long.

        A statistic of all nodes is biased as soon as some readings of one are missing, and a line with the first.
        """
        coverage = self.coverage
        if coverage is None:
            return False
        usual_s = coverage.interval_s * (1.5 if self._is_line else 3.0)
        allowed_s = max(STALE_AFTER_S, usual_s) if self._is_run or not usual_s else usual_s
        return now_s - coverage.last_s > allowed_s + _TOLERANCE_S

    def cover(self, coverage: Coverage | None, now_s: float) -> None:
        """Set the node that has been silent longest.

        If it has been silent for too long, forget what the others reported meanwhile: after the usual gap for a run,
        after a quarter of its span for a statistic.
        """
        self.coverage = coverage
        if coverage is None or coverage.last_s == -math.inf:
            return
        usual_s = 3.0 * coverage.interval_s
        allowed_s = max(STALE_AFTER_S, usual_s)
        if not self._is_run:
            span = self.trigger.measure.span
            first_s = self._last_n[0][1] if self._last_n else self._last_s
            span_s = span.seconds if span is not None else self._last_s - first_s
            allowed_s = min(allowed_s, max(usual_s, span_s / 4))
        if now_s - coverage.last_s > allowed_s + _TOLERANCE_S:
            self.reset()

    def _run_s(self) -> float:
        """The length of the run, up to the last reading of the node that has been silent longest."""
        assert self._since_s is not None
        end_s = self._last_s
        if self.coverage is not None and self._is_run:
            end_s = min(end_s, self.coverage.last_s)
        return end_s - self._since_s

    def holds(self, now_s: float) -> bool:
        """Whether the condition holds."""
        if self.stale(now_s):
            return False
        if self._last_n is not None:
            assert self.trigger.in_at_least is not None
            return self._hits >= self.trigger.in_at_least.times and len(self._last_n) == self._last_n.maxlen
        return self._since_s is not None and self._run_s() >= self._needed_s

    def progress(self, now_s: float) -> float:
        """How close the condition is to holding, 0 to 1: half for the value, half for the duration."""
        if self.holds(now_s):
            return 1.0
        if self.stale(now_s):
            return 0.0
        if self._last_n is not None:
            assert self.trigger.in_at_least is not None
            return min(0.99, self._hits / self.trigger.in_at_least.times)
        if self._since_s is not None:
            return 0.5 + 0.49 * max(0.0, self._run_s()) / max(self._needed_s, 1e-9)
        return 0.49 * self._measure.nearness()

    def describe(self, now_s: float) -> str:
        """The current value, and for how long or how often it has been past the threshold."""
        trigger, value = self.trigger, self._measure.value()
        if self.has_readings and self.stale(now_s):
            last_s, node = self._last_s, ""
            if self.coverage is not None and self._node_is_silent(now_s):
                last_s, node = self.coverage.last_s, f" of {self.coverage.subject}"
            duration = f" for {now_s - last_s:.0f} s" if last_s > -math.inf else ""
            return f"{measured_in_english(trigger)} has no reading{node}{duration}"
        if value is None:
            few = self.has_readings and trigger.measure.span
            readings = f"too few readings in {trigger.measure.span}" if few else "no readings"
            return f"{measured_in_english(trigger)} has {readings}"
        text = f"{measured_in_english(trigger)} is {trigger.threshold.like(value)}"
        if self._measure.basis:
            text += f" ({self._measure.basis})"
        if self._last_n is not None:
            return f"{text}, {compared_in_english(trigger)} in {self._hits} of {len(self._last_n)} readings"
        if self._since_s is None:
            return text
        return f"{text}, {self._describe_run()}"

    def _describe_run(self) -> str:
        compared = compared_in_english(self.trigger)
        if self._count == 1:
            return f"{compared} (1 reading)"
        readings = f"{self._count} readings"
        if not math.isnan(self._low):  # unknown for a percentile
            low, high = (self.trigger.threshold.like(each) for each in (self._low, self._high))
            readings += f", all {low}" if low == high else f", {low} to {high}"
        return f"{compared} for {format_duration(max(0.0, self._run_s()))} ({readings})"

    @property
    def evidence_since_s(self) -> float:
        """The oldest reading that made it hold: of the last n, of the run, or of the first statistic of the run."""
        if self._last_n:
            return self._last_n[0][1]
        return self._last_s if self._since_s is None else self._from_s


class Evidence(msgspec.Struct, frozen=True):
    """Why a trigger holds."""

    condition: str
    observed: str
    since_s: float
    state: TriggerState


class _Group:
    """All or any of several conditions."""

    def __init__(self, condition: Condition, parts: list[TriggerState | _Group]) -> None:
        self._all = isinstance(condition, AllOf)
        self._parts = parts

    def holds(self, now_s: float) -> bool:
        return (all if self._all else any)(part.holds(now_s) for part in self._parts)

    def progress(self, now_s: float) -> float:
        return (min if self._all else max)(part.progress(now_s) for part in self._parts)


class RuleState:
    """One rule, applied to one operator or to the nodes."""

    def __init__(
        self, rule: Rule, operator: str, starts_s: float = -math.inf, forecasts: Forecasts | None = None
    ) -> None:
        """``forecasts``: those that it may share with other rules."""
        self.rule, self.operator = rule, operator
        self.triggers: list[TriggerState] = []
        shared = forecasts or Forecasts()

        def state_of(condition: Condition) -> TriggerState | _Group:
            if isinstance(condition, Trigger):
                state = TriggerState(condition, starts_s, shared.of(condition, operator))
                self.triggers.append(state)
                return state
            parts = condition.all_of if isinstance(condition, AllOf) else condition.any_of
            return _Group(condition, [state_of(part) for part in parts])

        self._parts = [state_of(condition) for condition in rule.when]

    def fires(self, now_s: float) -> bool:
        """Whether all of its conditions hold."""
        return all(part.holds(now_s) for part in self._parts)

    def progress(self, now_s: float) -> float:
        """How close it is to firing, 0 to 1: the progress of the condition that is furthest from holding."""
        return min(part.progress(now_s) for part in self._parts)

    def reset(self) -> None:
        """The rule has acted; it needs a full new period to fire again."""
        for state in self.triggers:
            state.reset()

    def evidence(self, now_s: float) -> list[Evidence]:
        """The triggers that hold, and why."""
        return [
            Evidence(trigger_in_english(state.trigger), state.describe(now_s), state.evidence_since_s, state)
            for state in self.triggers
            if state.holds(now_s)
        ]

    def missing(self, now_s: float) -> str:
        """What keeps it from firing: the trigger that is furthest from holding."""
        furthest = min(self.triggers, key=lambda state: state.progress(now_s))
        return f"{furthest.describe(now_s)}; it must be {requirement_in_english(furthest.trigger)}"
