"""Triggers and rules that follow readings: O(1) amortised per reading, whatever the length of their history.

The printed algorithms of the seed have slips (Algorithm 4.2 never fires, 4.3 fires on any reading); this is its
text: a trigger fires when *all* readings of its time are past the threshold, and readings span that time.
For that no history is needed: an unbroken run of such readings, its start and its end, say the same.

Silence proves nothing. A gap in the readings longer than ``gap_s`` (15 s, or three times their usual
interval where that is longer) ends the run, and a trigger whose last reading is as old does not hold. Where a
trigger listens to all nodes, this goes for each node that is there (``coverage``): its run ends with the last
reading of the one that is silent longest, and nothing is measured while readings of one are missing.
"""

from __future__ import annotations

import math
from collections import deque

import msgspec

from ebbflow.core.snapshot import STALE_AFTER_S
from ebbflow.policy.evaluation.coverage import Coverage
from ebbflow.policy.evaluation.measures import measuring
from ebbflow.policy.language.english import measured_in_english, trigger_in_english
from ebbflow.policy.model import AllOf, Condition, Rule, Trigger
from ebbflow.policy.values import MeasureKind

_TICK_S = 0.01
"""Clocks tick as they like: 29.99 s are 30 s."""


class TriggerState:
    """One trigger, fed with readings of one series (or of all nodes together)."""

    def __init__(self, trigger: Trigger, begins_s: float = -math.inf) -> None:
        """``begins_s``: readings up to then are from before it was wanted, and count for nothing."""
        self.trigger = trigger
        self._begins_s = begins_s
        self._measure = measuring(trigger)
        self._needed_s = trigger.for_at_least.seconds - _TICK_S if trigger.for_at_least is not None else 0.0
        often = trigger.in_at_least
        self._last_n: deque[tuple[bool, float]] | None = deque(maxlen=often.of) if often is not None else None
        """Of m of n: whether each was past the threshold, and since when readings went into it."""
        self._is_run = often is None and trigger.measure.kind is MeasureKind.EACH
        self._is_line = trigger.measure.kind in (MeasureKind.RATE, MeasureKind.FORECAST)
        self._hits = 0
        self._last_s = -math.inf
        self._interval_s = 0.0
        self.coverage: Coverage | None = None
        """Of a trigger that listens to all nodes: the one that is silent longest."""
        self._restart()

    def _restart(self) -> None:
        self._since_s: float | None = None
        self._from_s = math.inf
        """Where the readings begin that the first of the run was made of."""
        self._low = self._high = math.nan
        self._count = 0
        self._hits = 0
        if self._last_n is not None:
            self._last_n.clear()

    def reset(self) -> None:
        """Forget all readings: a fresh full period is needed."""
        self._restart()
        self._measure.clear()

    @property
    def gap_s(self) -> float:
        """How long readings may stay away."""
        return max(STALE_AFTER_S, 3.0 * self._interval_s)

    def offer(self, time_s: float, value: float) -> None:
        """Take in a reading. One from the past (another node's, a moment late) ends a run or prolongs it as of
        now; what is measured of several readings has it at its own time."""
        last_s = self._last_s
        if time_s > last_s:
            interval_s = time_s - last_s
            if interval_s > STALE_AFTER_S and interval_s > 3.0 * self._interval_s:
                if time_s <= self._begins_s:  # asked of the first alone: those that follow are newer
                    return
                self.reset()
            if last_s > -math.inf:
                self._interval_s = (
                    interval_s if not self._interval_s else 0.8 * self._interval_s + 0.2 * interval_s
                )
            self._last_s = last_s = time_s
        elif last_s - time_s > STALE_AFTER_S or time_s <= self._begins_s:
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
        found = measure.found
        if self._since_s is None:
            self._since_s = last_s
            self._from_s = measure.since_s
            self._count = 1
            if found is not None:
                self._low = self._high = found
            return
        self._count += 1
        if found is not None:
            if found < self._low:
                self._low = found
            elif found > self._high:
                self._high = found

    @property
    def heard(self) -> bool:
        """Whether anything was ever read."""
        return self._last_s > -math.inf

    def stale(self, now_s: float) -> bool:
        """Whether nothing was read for too long, or nothing of a node that is there."""
        return now_s - self._last_s > self.gap_s or self._silent(now_s)

    def _silent(self, now_s: float) -> bool:
        """Whether a node that is there was not read for too long. What is measured of the last readings of all
        leans to the others as soon as some of one are missing, and a line through them tilts with the first."""
        coverage = self.coverage
        if coverage is None:
            return False
        usual_s = coverage.interval_s * (1.5 if self._is_line else 3.0)
        allowed_s = max(STALE_AFTER_S, usual_s) if self._is_run or not usual_s else usual_s
        return now_s - coverage.last_s > allowed_s + _TICK_S

    def cover(self, coverage: Coverage | None, now_s: float) -> None:
        """All nodes that are there were read up to then. If one was silent for long, what the others said
        meanwhile is forgotten: of a run after the same gap as ever, of a measure after a quarter of its time."""
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
        if now_s - coverage.last_s > allowed_s + _TICK_S:
            self.reset()

    def _run_s(self) -> float:
        """How long the run is: up to the last reading, of all nodes up to the one that is silent longest."""
        assert self._since_s is not None
        end_s = self._last_s
        if self.coverage is not None and self._is_run:
            end_s = min(end_s, self.coverage.last_s)
        return end_s - self._since_s

    def holds(self, now_s: float) -> bool:
        """Whether the trigger fires."""
        if self.stale(now_s):
            return False
        if self._last_n is not None:
            assert self.trigger.in_at_least is not None
            return self._hits >= self.trigger.in_at_least.times and len(self._last_n) == self._last_n.maxlen
        return self._since_s is not None and self._run_s() >= self._needed_s

    def progress(self, now_s: float) -> float:
        """How near it is to firing, 0 to 1: half for the value, half for the time."""
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

    def told(self, now_s: float) -> str:
        """What it sees, for people: the measure, and how long or how often it has been past the threshold."""
        trigger, value = self.trigger, self._measure.value()
        if self.heard and self.stale(now_s):
            last_s, whose = self._last_s, ""
            if self.coverage is not None and self._silent(now_s):
                last_s, whose = self.coverage.last_s, f" of {self.coverage.subject}"
            for_s = f" for {now_s - last_s:.0f} s" if last_s > -math.inf else ""
            return f"{measured_in_english(trigger)}: no reading{whose}{for_s}"
        if value is None:
            few = f"too few readings in {trigger.measure.span}" if self.heard and trigger.measure.span else ""
            return f"{measured_in_english(trigger)}: {few or 'no readings'}"
        text = f"{measured_in_english(trigger)} is {trigger.threshold.like(value)}"
        if self._last_n is not None:
            return f"{text}, past the threshold in {self._hits} of {len(self._last_n)} readings"
        if self._since_s is None:
            return text
        return f"{text}, {self._run()}"

    def _run(self) -> str:
        assert self._since_s is not None
        like = self.trigger.threshold.like
        seen = f"{self._count} reading{'s' if self._count > 1 else ''}"
        if not math.isnan(self._low):  # of a percentile the range is not known
            seen += f", {like(self._low)} to {like(self._high)}"
        return f"past the threshold for {max(0.0, self._run_s()):.4g} s ({seen})"

    @property
    def since_s(self) -> float:
        """Where the readings begin that made it fire: the n last ones, or those of the run; of a measure also
        those that its first value was made of."""
        if self._last_n:
            return self._last_n[0][1]
        return self._last_s if self._since_s is None else self._from_s


class Evidence(msgspec.Struct, frozen=True):
    """Why a trigger fired."""

    condition: str
    seen: str
    since_s: float
    state: TriggerState


class _Group:
    """All or any of several conditions."""

    def __init__(self, condition: Condition, states: list[TriggerState], begins_s: float) -> None:
        self._all = isinstance(condition, AllOf)
        parts = condition.all_of if isinstance(condition, AllOf) else getattr(condition, "any_of", ())
        self._parts = [_tree(part, states, begins_s) for part in parts]

    def holds(self, now_s: float) -> bool:
        return (all if self._all else any)(part.holds(now_s) for part in self._parts)

    def progress(self, now_s: float) -> float:
        return (min if self._all else max)(part.progress(now_s) for part in self._parts)


def _tree(condition: Condition, states: list[TriggerState], begins_s: float) -> TriggerState | _Group:
    if isinstance(condition, Trigger):
        state = TriggerState(condition, begins_s)
        states.append(state)
        return state
    return _Group(condition, states, begins_s)


class RuleState:
    """One rule, applied to one operator (or to the nodes)."""

    def __init__(self, rule: Rule, operator: str, begins_s: float = -math.inf) -> None:
        self.rule, self.operator = rule, operator
        self.states: list[TriggerState] = []
        self._parts = [_tree(condition, self.states, begins_s) for condition in rule.when]

    def fires(self, now_s: float) -> bool:
        """Whether all its conditions hold."""
        return all(part.holds(now_s) for part in self._parts)

    def progress(self, now_s: float) -> float:
        """How near it is, 0 to 1: as near as the condition that is farthest."""
        return min(part.progress(now_s) for part in self._parts)

    def reset(self) -> None:
        """It has acted: a fresh full period is needed before it fires again."""
        for state in self.states:
            state.reset()

    def evidence(self, now_s: float) -> list[Evidence]:
        """The triggers that hold, and what they saw."""
        return [
            Evidence(trigger_in_english(state.trigger), state.told(now_s), state.since_s, state)
            for state in self.states
            if state.holds(now_s)
        ]

    def missing(self, now_s: float) -> str:
        """What keeps it from firing: the trigger that is farthest."""
        farthest = min(self.states, key=lambda state: state.progress(now_s))
        return f"{farthest.told(now_s)}; needs {trigger_in_english(farthest.trigger)}"
