"""The default strategy: the fewest nodes that keep freshness within the SLO.

    n* = min { n : worst_freshness(n, rate, waiting rows, nodes under way) ≤ T + β · (SLO − T)  and  busy(n) ≤ ρ }

One decision has four steps, each in a module of this package:

1. observe and learn   what rows cost, and how fast they arrive: ``batches`` where the engine runs batches, ``flow``
                       where rows flow from operator to operator
2. size                predict freshness on every useful number of nodes, take the smallest that fits: ``sizing``
3. delay               grow at once, shrink only after a hold time: here
4. explain             the reason, the numbers behind it, and what more nodes would not cure: here and ``diagnosis``

T is the trigger interval, which a row may have to wait at any size; without batches, it is the pause that a
change costs. If no size fits, the strategy picks the smallest that does nearly as well as the largest, and reports
the bottleneck.

The strategy spends the slack of the SLO instead of keeping fixed headroom. On real traces, this saved the most. For
shrinking, the budget is tighter, and every decision within ``hold_in_s`` must allow it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Annotated, Protocol

from ebbflow.core.decision import Constraint, Decision, Effect, Rounded
from ebbflow.core.metrics import Metric
from ebbflow.core.parameters import PYTHON_ONLY, Duration, Number, Share, in_order
from ebbflow.core.ports import Strategy
from ebbflow.core.signals import flows
from ebbflow.core.snapshot import Snapshot
from ebbflow.strategies.capacity.batches import LearnedBatches
from ebbflow.strategies.capacity.flow import LearnedFlow
from ebbflow.strategies.capacity.sizing import Size, Sizing

BUDGETS = (0.3, 0.4)
"""Default β for shrinking and growing."""
BUSY_LIMITS = (0.9, 1.0)
"""Default ρ of a new size and of one to keep."""
HOLD_LEADS = 0.5
"""Minimum hold time before shrinking, in lead times: replacing a released node takes one lead time."""
DIGITS: dict[str, int | None] = {
    "rate_per_s": 2, "slope_per_s2": 3, "queue_rows": None, "backlog_rows": None, "freshness_s": 2, "ahead_s": 1,
    "driver_s": 3, "batch_fixed_s": 3, "batch_per_row_ms": 4, "row_cpu_ms": 4, "slot_cpu": 3, "capacity_per_s": 1,
    "pause_s": 2, "reserve_s": 2, "lead_time_s": 2, "busy": 3, "predicted_freshness_s": 2, "budget_s": 2,
}  # fmt: skip
"""How the inputs of a decision are rounded."""
FORMULA = "n* = min { n : worst freshness(n) ≤ T + β·(SLO − T) and busy(n) ≤ ρ }"
LEARNING = "learning: not enough work observed yet to know what rows cost"


class Learned(Protocol):
    """What the strategy has learned of a pipeline on one kind of engine."""

    @property
    def in_batches(self) -> bool:
        """Whether it learns from batches, and not from a flow of rows."""
        ...

    @property
    def hold_s(self) -> float:
        """Minimum hold time before shrinking, from what a change costs on this engine."""
        ...

    @property
    def ready(self) -> bool:
        """Whether it knows enough to size."""
        ...

    def learn(self, snapshot: Snapshot) -> None:
        """Learn from a new snapshot."""
        ...

    def doubled(self, snapshot: Snapshot) -> Decision | None:
        """The decision to double the nodes because work of unknown cost takes too long, or None."""
        ...

    def why_no_scale_in(self) -> str:
        """Why no node may be released now; empty if one may."""
        ...

    def sizing(self, snapshot: Snapshot, *, budget: float, busy_limit: float, shrinking: bool) -> Sizing:
        """Predictions for each number of nodes."""
        ...


class Capacity(Strategy):
    """Chooses the size that keeps the SLO, by a learned cost model. See the module docstring for the rule.

    ``budget_out`` and ``budget_in`` are β for growing and shrinking. ``busy_limit`` is the ρ up to which a size is
    kept; ``busy_limit_in`` is the ρ of a new size, lower so that noise in the load does not make it change back. Of
    each pair, one that is not given follows the other: see ``in_order``.

    >>> strict = Capacity(budget_out=0.2)
    >>> strict.budget_out, round(strict.budget_in, 3)
    (0.2, 0.15)
    """

    name = "capacity"

    def __init__(
        self,
        *,
        budget_out: Annotated[
            float | None,
            Share(
                "Scale out when predicted freshness uses more than this share of the slack in the SLO.",
                unset="0.4, or 4/3 of budget_in if that is more, at most 1",
            ),
        ] = None,
        budget_in: Annotated[
            float | None,
            Share(
                "Scale in when predicted freshness uses at most this share of the slack in the SLO.",
                unset="0.3, or 3/4 of budget_out if that is less",
            ),
        ] = None,
        busy_limit: Annotated[
            float | None,
            Number(
                "Scale out when the busy share of the trigger interval is above this.",
                above=0,
                unit="share",
                unset="1, or 10/9 of busy_limit_in if that is more",
            ),
        ] = None,
        busy_limit_in: Annotated[
            float | None,
            Number(
                "Maximum busy share of a new size.",
                above=0,
                unit="share",
                unset="0.9, or 9/10 of busy_limit if that is less",
            ),
        ] = None,
        hold_in_s: Annotated[
            float, Duration("How long every decision must find fewer nodes sufficient before scaling in.")
        ] = 10.0,
        rate_window_s: Annotated[
            float, Duration("Window over which the slope of the arrival rate is estimated.", above=0)
        ] = 30.0,
        learned: Annotated[Learned | None, PYTHON_ONLY] = None,
    ) -> None:
        """``learned``: a model that learns from the snapshots; by default the one for the engine."""
        self.budget_in, most = in_order("budget_in", budget_in, "budget_out", budget_out, defaults=BUDGETS)
        self.budget_out = min(1.0, most)
        self.busy_limit_in, self.busy_limit = in_order(
            "busy_limit_in", busy_limit_in, "busy_limit", busy_limit, defaults=BUSY_LIMITS
        )
        self._hold_in_s = hold_in_s
        self._rate_window_s = rate_window_s
        self._learned: Learned = learned or LearnedBatches(rate_window_s=rate_window_s)
        self._enough: deque[tuple[float, int]] = deque()
        """(time, nodes) of the latest consecutive decisions that found fewer nodes enough."""

    def decide(self, snapshot: Snapshot) -> Decision:
        """Learn from the snapshot, choose a size, and explain it."""
        learned = self._learned
        if not learned.ready and learned.in_batches and flows(snapshot):
            learned = self._learned = LearnedFlow(rate_window_s=self._rate_window_s)
        learned.learn(snapshot)
        doubled = learned.doubled(snapshot)
        if not learned.ready:
            return doubled or Decision(wanted=snapshot.planned, reason=LEARNING, formula=FORMULA)
        sized = self._size(snapshot, learned)
        # Sizing ignores a query of unknown cost, even if its batch takes too long.
        return doubled if doubled and doubled.wanted.main_nodes > sized.wanted.main_nodes else sized

    def _size(self, snapshot: Snapshot, learned: Learned) -> Decision:
        now = snapshot.planned.main_nodes
        growing = learned.sizing(
            snapshot, budget=self.budget_out, busy_limit=self.busy_limit, shrinking=False
        )
        needed = growing.smallest()
        more_instances = growing.layout(now) != snapshot.planned  # then no node is released
        if needed.nodes > _obtained(snapshot) or more_instances:
            self._enough.clear()
            # The current size is kept until fully busy. A new one gets slack, so that scale-outs stay rare.
            with_slack = learned.sizing(
                snapshot, budget=self.budget_out, busy_limit=self.busy_limit_in, shrinking=False
            ).smallest()
            nodes = max(needed.nodes, with_slack.nodes, now if more_instances else 0)
            return _grow(growing, growing.predict(nodes))
        blocker = learned.why_no_scale_in()
        if needed.nodes < now and not blocker:
            shrinking = learned.sizing(
                snapshot, budget=self.budget_in, busy_limit=self.busy_limit_in, shrinking=True
            )
            enough = shrinking.smallest()
            if enough.nodes < needed.nodes:  # otherwise the next decision would scale out again
                enough = shrinking.predict(needed.nodes)
            if enough.nodes < now:
                hold_s = max(self._hold_in_s, learned.hold_s, HOLD_LEADS * snapshot.lead_time_s)
                return self._shrink_after(hold_s, growing, shrinking, enough)
        self._enough.clear()
        return _keep(growing, blocker)

    def _shrink_after(self, hold_s: float, growing: Sizing, shrinking: Sizing, enough: Size) -> Decision:
        """Shrink to the largest size that was enough within the hold time, once that has passed."""
        snapshot = shrinking.snapshot
        now, now_s = snapshot.planned.main_nodes, snapshot.now_s
        self._enough.append((now_s, enough.nodes))
        while len(self._enough) > 1 and self._enough[1][0] <= now_s - hold_s:
            self._enough.popleft()
        held_s = now_s - self._enough[0][0]
        nodes = max(nodes for _, nodes in self._enough)
        if held_s >= hold_s and nodes < now:
            return _shrink(growing, shrinking, nodes, _inputs(shrinking, enough))
        return Decision(
            wanted=snapshot.planned,
            reason=f"{enough.nodes} would be enough; scale-in waits until this has been true for {hold_s:g} s",
            formula=FORMULA,
            inputs=_inputs(shrinking, enough),
            bound_by=(
                Constraint(name="hold", why=f"held for {held_s:.0f} s so far"),
                *_bottleneck(growing, enough),
            ),
            expected=_effect(shrinking, shrinking.predict(now)),
        )


def _obtained(snapshot: Snapshot) -> int:
    """Planned nodes that are running or requested.

    Nodes that could not be obtained do not count: they are wanted again, and the reason says so. Nodes already running
    count even if no longer requested: fewer would be a shrink.
    """
    return min(snapshot.planned.main_nodes, max(snapshot.requested.main_nodes, snapshot.observed.main_nodes))


# -- explaining ----------------------------------------------------------------------------------------


def _grow(sizing: Sizing, needed: Size) -> Decision:
    snapshot = sizing.snapshot
    now = _obtained(snapshot)
    here, wanted = sizing.predict(now), sizing.layout(needed.nodes)
    instances = wanted.difference(snapshot.planned).parallelism.items()
    more = "".join(f", {name} ×{new}" for name, (_, new) in instances)
    return Decision(
        wanted=wanted,
        reason=(
            f"grow {now} → {needed.nodes}{more}: at {sizing.rate_per_s:.0f} rows/s freshness would reach "
            f"{_seconds(here.freshness_s)} on {now}, {_seconds(needed.freshness_s)} on {needed.nodes} "
            f"(objective {snapshot.slo.freshness_s:g} s, budget {sizing.budget_s - here.reserve_s:.1f} s)"
        ),
        formula=FORMULA,
        inputs=_inputs(sizing, needed),
        bound_by=_bottleneck(sizing, needed),
        expected=_effect(sizing, needed),
        instead=_effects(sizing, now, needed.nodes),
    )


def _shrink(growing: Sizing, sizing: Sizing, nodes: int, inputs: Rounded) -> Decision:
    snapshot = sizing.snapshot
    now = snapshot.planned.main_nodes
    size, here = sizing.predict(nodes), sizing.predict(now)
    return Decision(
        wanted=snapshot.planned.with_nodes(nodes),
        reason=(
            f"shrink {now} → {nodes}: at {sizing.rate_per_s:.0f} rows/s freshness is "
            f"{_seconds(size.freshness_s)} on {nodes}, {_seconds(here.freshness_s)} on {now} "
            f"(objective {snapshot.slo.freshness_s:g} s)"
        ),
        formula=FORMULA,
        inputs=inputs,
        bound_by=_bottleneck(growing, size),
        expected=_effect(sizing, size),
        instead=_effects(sizing, nodes, now),
    )


def _keep(sizing: Sizing, blocker: str) -> Decision:
    snapshot = sizing.snapshot
    here = sizing.predict(snapshot.planned.main_nodes)
    bottleneck: tuple[Constraint, ...] = ()
    expected = f"{_seconds(here.freshness_s)} expected on {here.nodes} at {sizing.rate_per_s:.0f} rows/s"
    if blocker:
        reason = blocker
    elif sizing.fits(here):
        reason = f"right size: {expected}"
    else:
        bottleneck = _bottleneck(sizing, here)
        reason = f"{expected}, kept: {bottleneck[0].why}"
    return Decision(
        wanted=snapshot.planned,
        reason=reason,
        formula=FORMULA,
        inputs=_inputs(sizing, here),
        bound_by=bottleneck,
        expected=_effect(sizing, here),
    )


def _bottleneck(sizing: Sizing, size: Size) -> tuple[Constraint, ...]:
    """What keeps more nodes from helping, if the size misses the budget."""
    if sizing.fits(sizing.predict(size.nodes)):
        return ()
    return (sizing.bottleneck(size) or Constraint(name="objective", why=_why_no_size_fits(sizing)),)


def _why_no_size_fits(sizing: Sizing) -> str:
    snapshot = sizing.snapshot
    largest = sizing.predict(snapshot.limits.max_nodes)
    if largest.freshness_s > snapshot.slo.freshness_s:
        why = "keeps the objective"
    elif largest.busy > sizing.busy_limit:
        why = "processes the rows of an interval within it"
    else:
        why = "leaves enough of the objective for the cost of a change"
    return f"no size up to {largest.nodes} {why}; this one does nearly as well as {largest.nodes}"


def _inputs(sizing: Sizing, size: Size) -> Rounded:
    snapshot = sizing.snapshot
    numbers: Mapping[str, float | str] = {
        "rate_per_s": sizing.rate_per_s,
        **sizing.inputs(size),
        "lead_time_s": snapshot.lead_time_s,
        "observed_nodes": snapshot.observed.main_nodes,
        "requested_nodes": snapshot.requested.main_nodes,
        "busy": size.busy,
        "predicted_freshness_s": size.freshness_s,
        "budget_s": sizing.budget_s,
    }
    return Rounded(numbers, DIGITS)


def _effect(sizing: Sizing, size: Size) -> Effect:
    return Effect(metric=Metric.FRESHNESS, value=round(size.freshness_s, 3), at_s=sizing.judge_from_s)


def _effects(sizing: Sizing, fewest: int, most: int) -> dict[int, Effect]:
    """The effect expected on sizes from ``fewest`` to ``most``; if there are many, on some of them."""
    between = [nodes for nodes in sizing.sizes() if fewest < nodes < most]
    chosen = {fewest, most, *between[:: max(1, len(between) // 6)]}
    return {nodes: _effect(sizing, sizing.predict(nodes)) for nodes in sorted(chosen)}


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 1000 else "far beyond 1000 s"
