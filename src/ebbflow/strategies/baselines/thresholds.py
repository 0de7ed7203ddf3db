"""Four thresholds with durations: hysteresis on the busy share of the slots.

    busy > ThrU, then > ThrbU for DurU:  n + step_out        ThrbU is a little below the upper threshold ThrU
    busy < ThrL, then < ThroL for DurL:  n − step_in         ThroL is a little above the lower threshold ThrL

Two levels on each side tell a load that persists from one that touches a threshold once. Nothing changes for a grace
period after an action. Reference: M. Z. Hasan, E. Magana, A. Clemm, L. Tucker, S. L. D. Gudreddi, *Integrated and
autonomic cloud resource scaling*, NOMS 2012, pp. 1327-1334.

Modelled: the metric is the mean busy share of the slots of the nodes that have joined. The outer threshold starts a
period, and the inner one ends it: a value between the two continues a period and never starts one. A cycle without data
ends it. The paper leaves values and steps to the tenant, so the defaults are ours: usual ones, with a quick way out
and a slow way in.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from ebbflow.core.decision import Decision, hold, want
from ebbflow.core.parameters import Duration, Number, Whole, check_order
from ebbflow.core.periods import SLACK_S
from ebbflow.core.plural import counted
from ebbflow.core.ports import Strategy
from ebbflow.core.signals import Signals
from ebbflow.core.snapshot import Snapshot

FORMULA = "busy > ThrU, then > ThrbU for DurU: n + step_out; busy < ThrL, then < ThroL for DurL: n − step_in"


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """Thresholds of the busy share, and their periods."""

    upper: float
    below_upper: float
    lower: float
    above_lower: float
    upper_s: float
    lower_s: float
    grace_s: float


class Hysteresis:
    """When to scale out or in, by four thresholds.

    >>> rule = Hysteresis(Thresholds(upper=0.8, below_upper=0.7, lower=0.3, above_lower=0.4, upper_s=20.0,
    ...                              lower_s=60.0, grace_s=60.0))
    >>> [rule.direction(t, busy) for t, busy in [(0.0, 0.75), (10.0, 0.85), (20.0, 0.75), (30.0, 0.75), (40.0, 0.9)]]
    [0, 0, 0, 1, 0]
    """

    def __init__(self, thresholds: Thresholds) -> None:
        self.thresholds = thresholds
        """May be replaced at any time; periods go on."""
        self._high_since_s: float | None = None
        self._low_since_s: float | None = None
        self._acted_s = float("-inf")

    def grace_left_s(self, now_s: float) -> float:
        """Seconds until an action is possible."""
        return max(0.0, self._acted_s + self.thresholds.grace_s - now_s)

    def interrupt(self) -> None:
        """End the periods, because nothing is known of this time."""
        self._high_since_s = self._low_since_s = None

    def direction(self, now_s: float, busy: float) -> int:
        """1 to scale out, -1 to scale in, or 0. An action starts the grace period."""
        set_to = self.thresholds
        if busy <= set_to.below_upper:
            self._high_since_s = None
        elif self._high_since_s is None and busy > set_to.upper:
            self._high_since_s = now_s
        if busy >= set_to.above_lower:
            self._low_since_s = None
        elif self._low_since_s is None and busy < set_to.lower:
            self._low_since_s = now_s
        if now_s < self._acted_s + set_to.grace_s - SLACK_S:
            return 0
        if self._high_since_s is not None and now_s - self._high_since_s >= set_to.upper_s - SLACK_S:
            direction = 1
        elif self._low_since_s is not None and now_s - self._low_since_s >= set_to.lower_s - SLACK_S:
            direction = -1
        else:
            return 0
        self._acted_s = now_s
        self._high_since_s = self._low_since_s = None
        return direction


class FourThresholds(Strategy):
    """Hasan's four thresholds and two durations. The module docstring has the rule."""

    name = "thresholds"
    brings_own_guards = True

    def __init__(
        self,
        *,
        upper: Annotated[
            float, Number("ThrU: a busy share above this starts a period.", above=0, unit="share")
        ] = 0.8,
        below_upper: Annotated[
            float | None,
            Number(
                "ThrbU: the period goes on while the busy share is above this.",
                above=0,
                unit="share",
                unset="7/8 of upper",
            ),
        ] = None,
        lower: Annotated[
            float, Number("ThrL: a busy share below this starts a period.", above=0, unit="share")
        ] = 0.4,
        above_lower: Annotated[
            float | None,
            Number(
                "ThroL: the period goes on while the busy share is below this.",
                above=0,
                unit="share",
                unset="5/4 of lower",
            ),
        ] = None,
        out_after_s: Annotated[float, Duration("DurU: scale out after a period this long.")] = 30.0,
        in_after_s: Annotated[float, Duration("DurL: scale in after a period this long.")] = 300.0,
        grace_s: Annotated[float, Duration("No action for this time after one.")] = 60.0,
        step_out: Annotated[int, Whole("Nodes to add.", at_least=1)] = 1,
        step_in: Annotated[int, Whole("Nodes to remove.", at_least=1)] = 1,
    ) -> None:
        below_upper = upper * 7 / 8 if below_upper is None else below_upper
        above_lower = lower * 5 / 4 if above_lower is None else above_lower
        check_order("lower", lower, "above_lower", above_lower)
        check_order("above_lower", above_lower, "below_upper", below_upper)
        check_order("below_upper", below_upper, "upper", upper)
        self._rule = Hysteresis(
            Thresholds(
                upper=upper,
                below_upper=below_upper,
                lower=lower,
                above_lower=above_lower,
                upper_s=out_after_s,
                lower_s=in_after_s,
                grace_s=grace_s,
            )
        )
        self._steps = {1: step_out, -1: -step_in}
        self._signals = Signals()

    def decide(self, snapshot: Snapshot) -> Decision:
        """A step out or in once a threshold was passed for long enough."""
        missing = self._signals.update(snapshot)
        busy_slots = None if missing else self._signals.busy_slots
        if busy_slots is None or snapshot.observed.main_nodes == 0:
            self._rule.interrupt()
            return hold(snapshot, missing or "no data: busy time or nodes unknown", FORMULA)
        busy, planned = busy_slots / snapshot.slots, snapshot.planned.main_nodes
        inputs: dict[str, float | str] = {"busy": round(busy, 4), "nodes": planned}
        direction = self._rule.direction(snapshot.now_s, busy)
        set_to = self._rule.thresholds
        if not direction:
            left_s = self._rule.grace_left_s(snapshot.now_s)
            wait = f"; {left_s:.0f} s of the grace period left" if left_s else ""
            return hold(snapshot, f"slots {busy:.0%} busy{wait}", FORMULA, inputs)
        step = self._steps[direction]
        limit, period_s = (
            (f"above {set_to.below_upper:.0%}", set_to.upper_s)
            if step > 0
            else (f"below {set_to.above_lower:.0%}", set_to.lower_s)
        )
        change = f"{counted(abs(step), 'node')} {'more' if step > 0 else 'fewer'}"
        reason = f"slots {busy:.0%} busy, {limit} for {period_s:g} s: {change}"
        return want(snapshot, planned + step, reason, FORMULA, inputs)
