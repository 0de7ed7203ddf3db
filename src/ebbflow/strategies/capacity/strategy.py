"""The default strategy: the fewest nodes that keep freshness within the objective.

It learns online what the work costs, takes the arrival rate with its upward slope, the rows that wait and
the nodes already under way, plays the near future forward for every size worth looking at, and takes the
smallest whose worst predicted freshness stays within a budget of the objective:

    n* = min { n : worst_freshness(n, rate, waiting, under way) ≤ T + β · (SLO − T)  and  busy(n) ≤ ρ }

with T the trigger interval, which every row may have to wait whatever the size; without batches, the pause
that a change costs. Where no size keeps the budget, it is the smallest that ends up as well as the largest,
or nearly, and the decision says what is in the way. How work is learned and played depends on the engine:
``capacity_batches`` where it runs in batches, ``capacity_flow`` where rows flow from operator to operator.
The restraint is the same.

It spends the objective's slack instead of keeping a fixed head-room: on real traces that was the
biggest lever by far. Shrinking needs more: the same test with a tighter budget, passed by every
decision of ``hold_in_s``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Annotated, Any, Protocol

from ebbflow.core.decision import Constraint, Decision, Effect, Rounded
from ebbflow.core.metrics import Metric
from ebbflow.core.parameters import Duration, Number, Share
from ebbflow.core.ports import Strategy
from ebbflow.core.signals import flows
from ebbflow.core.snapshot import Snapshot
from ebbflow.strategies.capacity.batches import LearnedBatches
from ebbflow.strategies.capacity.flow import LearnedFlow
from ebbflow.strategies.capacity.sizing import Size, Sizing

# A batch of a query that nothing is known of yet, and that goes on and on.


FIRST_BATCH_S = 15.0
"""A first batch starts Python and loads classes: so long it says nothing about the size."""


class FirstBatch:
    """Doubles while a batch runs on that no model can judge, and again after each step of time.

        n = n₀ · 2^(1 + ⌊(running − max(w, step)) / step⌋),  step = max(SLO / 2, lead)

    A step is half the objective, or the time in which more nodes come if that is longer: before it is over,
    nobody can say that the last doubling was not enough.
    """

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None
        """(start, nodes planned then) of the batch that has run longest."""

    def doubled(self, snapshot: Snapshot, unlearned: Mapping[str, float | None]) -> Decision | None:
        """The decision to double; None while there is no need to. ``unlearned``: queries by the start of their
        batch, as in a snapshot."""
        running = {name: since_s for name, since_s in unlearned.items() if since_s is not None}
        if not running:
            self._first = None
            return None
        name = min(running, key=lambda each: running[each])
        since_s, now, slo_s = running[name], snapshot.planned.main_nodes, snapshot.slo.freshness_s
        if self._first is None or self._first[0] != since_s:
            self._first = (since_s, now)
        step_s, running_s = max(slo_s / 2, snapshot.lead_time_s), snapshot.now_s - since_s
        doublings = min(int(1 + (running_s - max(FIRST_BATCH_S, step_s)) // step_s), 20)
        wanted = snapshot.limits.clamp(self._first[1] * 2 ** max(0, doublings))
        if wanted <= now or not snapshot.observed.main_nodes:
            return None
        return Decision(
            wanted=snapshot.planned.with_nodes(wanted),
            reason=(
                f"learning, and a batch of {name} has run for {running_s:.0f} s at an objective of {slo_s:g} s: "
                f"doubled, and again every {step_s:g} s"
            ),
            formula="n = n₀ · 2^(1 + ⌊(running − max(w, step)) / step⌋), step = max(SLO / 2, lead)",
            inputs={"running_s": round(running_s, 1), "w_s": FIRST_BATCH_S, "step_s": round(step_s, 1)},
        )


HOLD_LEADS = 0.5
"""Shrinking must have been right for this part of a lead time at least: what is given up comes back no sooner."""
DIGITS: dict[str, int | None] = {
    "rate_per_s": 2, "slope_per_s2": 3, "queue_rows": None, "backlog_rows": None, "freshness_s": 2, "ahead_s": 1,
    "driver_s": 3, "batch_fixed_s": 3, "batch_per_row_ms": 4, "row_cpu_ms": 4, "slot_cpu": 3, "capacity_per_s": 1,
    "pause_s": 2, "reserve_s": 2, "lead_time_s": 2, "busy": 3, "predicted_freshness_s": 2, "budget_s": 2,
}  # fmt: skip
"""How the numbers behind a decision are rounded."""
FORMULA = "n* = min { n : worst freshness(n) ≤ T + β·(SLO − T) and busy(n) ≤ ρ }"


class Learned(Protocol):
    """What was learned of a pipeline on one kind of engine."""

    @property
    def hold_s(self) -> float:
        """How long shrinking must have been right at least, by what a change costs on this engine."""
        ...

    @property
    def ready(self) -> bool:
        """Whether it has learned enough to be asked."""
        ...

    @property
    def unlearned(self) -> Mapping[str, float | None]:
        """Queries of which too little is known to size for them, by the start of their batch."""
        ...

    def learn(self, snapshot: Snapshot) -> None:
        """Take in what is new."""
        ...

    def start_over(self, now_s: float) -> None:
        """The clock was set back."""
        ...

    def held_up(self) -> str:
        """Why nothing may leave now; empty where it may."""
        ...

    def sizing(self, snapshot: Snapshot, *, budget: float, busy_limit: float, shrinking: bool) -> Any:
        """What sizes would bring."""
        ...

    def bottleneck(self, sizing: Any, size: Size) -> Constraint | None:
        """What keeps more nodes from helping."""
        ...

    def inputs(self, sizing: Any, size: Size) -> Mapping[str, float | str]:
        """The numbers behind a decision that only this engine has."""
        ...


class Capacity(Strategy):
    """Sized for an objective, by a learned model of the work. See the module's text for the rule.

    ``budget_out`` and ``budget_in`` are β for growing and shrinking. ``busy_limit`` is the ρ up to which a size is
    kept; ``busy_limit_in`` is the ρ of a new size, lower so that noise in the load does not make it change back.
    """

    name = "capacity"

    def __init__(
        self,
        *,
        budget_out: Annotated[
            float,
            Share("Scale out when predicted freshness uses more than this share of the slack in the SLO."),
        ] = 0.4,
        budget_in: Annotated[
            float,
            Share("Scale in when predicted freshness uses at most this share of the slack in the SLO."),
        ] = 0.3,
        busy_limit: Annotated[
            float, Number("Scale out when the busy share of the trigger interval is above this.", above=0)
        ] = 1.0,
        busy_limit_in: Annotated[
            float, Number("Busy share that a new size may have at most.", above=0)
        ] = 0.9,
        hold_in_s: Annotated[
            float, Duration("How long every decision must find fewer nodes sufficient before scaling in.")
        ] = 10.0,
        rate_window_s: Annotated[
            float, Duration("Window over which the slope of the arrival rate is taken.", above=0)
        ] = 30.0,
    ) -> None:
        self._budget_out = budget_out
        self._budget_in = budget_in
        self._busy_limit = busy_limit
        self._busy_limit_in = busy_limit_in
        self._hold_in_s = hold_in_s
        self._rate_window_s = rate_window_s
        self._learned: Learned = LearnedBatches(rate_window_s=rate_window_s)
        self._first_batch = FirstBatch()
        self._would_do: deque[tuple[float, int]] = deque()
        """(time, nodes) of the decisions in a row that found fewer nodes enough."""

    # -- the decision --------------------------------------------------------------------------

    def decide(self, snapshot: Snapshot) -> Decision:
        """The fewest nodes that keep the objective."""
        learned = self._learned
        if not learned.ready and flows(snapshot) and not isinstance(learned, LearnedFlow):
            learned = self._learned = LearnedFlow(rate_window_s=self._rate_window_s)
        learned.learn(snapshot)
        doubled = self._first_batch.doubled(snapshot, learned.unlearned)
        if not learned.ready:
            reason = "learning: too little work has been seen yet to know what rows cost"
            return doubled or Decision(wanted=snapshot.planned, reason=reason, formula=FORMULA)
        sized = self._sized(snapshot, learned)
        # What was learned of some queries says nothing of one that was not, and whose batch goes on and on.
        return doubled if doubled and doubled.wanted.main_nodes > sized.wanted.main_nodes else sized

    def start_over(self, now_s: float) -> None:
        """The clock was set back: how long a smaller size would do counts from now, and readings are new again."""
        self._would_do.clear()
        self._learned.start_over(now_s)

    def _sized(self, snapshot: Snapshot, learned: Learned) -> Decision:
        now = snapshot.planned.main_nodes
        growing = self._sizing(snapshot, shrinking=False)
        needed = growing.smallest()
        # Where instances of an operator are what is missing, nodes stay as they are.
        reshaped = growing.layout(now) != snapshot.planned
        if needed.nodes > _had(snapshot) or reshaped:
            self._would_do.clear()
            # A size may be kept until it is full; one that is asked for gets room, so that few are asked for.
            roomy = learned.sizing(
                snapshot, budget=self._budget_out, busy_limit=self._busy_limit_in, shrinking=False
            ).smallest()
            nodes = max(needed.nodes, roomy.nodes, now if reshaped else 0)
            return self._grow(growing, growing.judge(nodes))
        held_up = learned.held_up()
        if needed.nodes < now and not held_up:
            shrinking = self._sizing(snapshot, shrinking=True)
            enough = shrinking.smallest()
            if enough.nodes < needed.nodes:  # never below what growing would ask for again at once
                enough = shrinking.judge(needed.nodes)
            if enough.nodes < now:
                return self._shrink(growing, shrinking, enough)
        self._would_do.clear()
        return self._keep(growing, held_up)

    def _sizing(self, snapshot: Snapshot, *, shrinking: bool) -> Sizing:
        sizing: Sizing = self._learned.sizing(
            snapshot,
            budget=self._budget_in if shrinking else self._budget_out,
            busy_limit=self._busy_limit_in if shrinking else self._busy_limit,
            shrinking=shrinking,
        )
        return sizing

    def _grow(self, sizing: Sizing, needed: Size) -> Decision:
        snapshot = sizing.snapshot
        now = _had(snapshot)
        here, wanted = sizing.judge(now), sizing.layout(needed.nodes)
        more = "".join(
            f", {name} ×{new}" for name, (_, new) in wanted.difference(snapshot.planned).parallelism.items()
        )
        return Decision(
            wanted=wanted,
            reason=(
                f"grow {now} → {needed.nodes}{more}: {sizing.rate_per_s:.0f} rows/s would take freshness to "
                f"{_seconds(here.freshness_s)} on {now}, {_seconds(needed.freshness_s)} on {needed.nodes} "
                f"(objective {snapshot.slo.freshness_s:g} s, to be kept below {sizing.budget_s - here.reserve_s:.1f} s)"
            ),
            formula=FORMULA,
            inputs=self._inputs(sizing, needed),
            bound_by=self._bottleneck(sizing, needed),
            expected=_effect(sizing, needed),
            instead=_effects(sizing, now, needed.nodes),
        )

    def _shrink(self, growing: Sizing, sizing: Sizing, enough: Size) -> Decision:
        snapshot = sizing.snapshot
        now, now_s = snapshot.planned.main_nodes, snapshot.now_s
        hold_s = max(self._hold_in_s, self._learned.hold_s, HOLD_LEADS * snapshot.lead_time_s)
        self._would_do.append((now_s, enough.nodes))
        while len(self._would_do) > 1 and self._would_do[1][0] <= now_s - hold_s:
            self._would_do.popleft()
        held_s = now_s - self._would_do[0][0]
        nodes = max(nodes for _, nodes in self._would_do)
        inputs = self._inputs(sizing, enough)
        if held_s < hold_s or nodes >= now:
            return Decision(
                wanted=snapshot.planned,
                reason=f"{enough.nodes} would do; shrinking waits until that held for {hold_s:g} s",
                formula=FORMULA,
                inputs=inputs,
                bound_by=(
                    Constraint(name="hold", why=f"held for {held_s:.0f} s so far"),
                    *self._bottleneck(growing, enough),
                ),
                expected=_effect(sizing, sizing.judge(now)),
            )
        size, here = sizing.judge(nodes), sizing.judge(now)
        return Decision(
            wanted=snapshot.planned.with_nodes(nodes),
            reason=(
                f"shrink {now} → {nodes}: {sizing.rate_per_s:.0f} rows/s at most; freshness "
                f"{_seconds(size.freshness_s)} on {nodes}, {_seconds(here.freshness_s)} on {now} "
                f"(objective {snapshot.slo.freshness_s:g} s)"
            ),
            formula=FORMULA,
            inputs=inputs,
            bound_by=self._bottleneck(growing, size),
            expected=_effect(sizing, size),
            instead=_effects(sizing, nodes, now),
        )

    def _keep(self, sizing: Sizing, held_up: str) -> Decision:
        snapshot = sizing.snapshot
        here = sizing.judge(snapshot.planned.main_nodes)
        limit: tuple[Constraint, ...] = ()
        expected = f"{_seconds(here.freshness_s)} expected on {here.nodes} at {sizing.rate_per_s:.0f} rows/s"
        if held_up:
            reason = held_up
        elif sizing.fits(here):
            reason = f"right size: {expected}"
        else:
            limit = self._bottleneck(sizing, here)
            reason = f"{expected}, kept: {limit[0].why}"
        return Decision(
            wanted=snapshot.planned,
            reason=reason,
            formula=FORMULA,
            inputs=self._inputs(sizing, here),
            bound_by=limit,
            expected=_effect(sizing, here),
        )

    # -- saying why ----------------------------------------------------------------------------

    def _bottleneck(self, sizing: Sizing, size: Size) -> tuple[Constraint, ...]:
        """What keeps more nodes from helping, where the size misses the budget."""
        if sizing.fits(sizing.judge(size.nodes)):
            return ()
        found = self._learned.bottleneck(sizing, size)
        if found is None:
            found = Constraint(name="objective", why=_what_no_size_keeps(sizing))
        return (found,)

    def _inputs(self, sizing: Sizing, size: Size) -> Rounded:
        snapshot = sizing.snapshot
        numbers = {
            "rate_per_s": sizing.rate_per_s,
            **self._learned.inputs(sizing, size),
            "lead_time_s": snapshot.lead_time_s,
            "observed_nodes": snapshot.observed.main_nodes,
            "requested_nodes": snapshot.requested.main_nodes,
            "busy": size.busy,
            "predicted_freshness_s": size.freshness_s,
            "budget_s": sizing.budget_s,
        }
        return Rounded(numbers, DIGITS)


def _had(snapshot: Snapshot) -> int:
    """Nodes of the plan that are there or asked for. What could not be had is no part of it: it is wanted again, and
    said so. What is there is, whether or not anyone still asks for it: fewer would be a shrink."""
    return min(snapshot.planned.main_nodes, max(snapshot.requested.main_nodes, snapshot.observed.main_nodes))


def _what_no_size_keeps(sizing: Sizing) -> str:
    snapshot = sizing.snapshot
    largest = sizing.judge(snapshot.limits.max_nodes)
    up_to = f"no size up to {largest.nodes}"
    nearly = f"and this one does nearly as well as {largest.nodes}"
    if largest.freshness_s > snapshot.slo.freshness_s:
        return f"{up_to} keeps the objective, {nearly}"
    if largest.busy > sizing.busy_limit:
        return f"{up_to} does the work of an interval in less, {nearly}"
    return f"{up_to} leaves enough of the objective for what a change would cost, {nearly}"


def _effect(sizing: Sizing, size: Size) -> Effect:
    return Effect(metric=Metric.FRESHNESS, value=round(size.freshness_s, 3), at_s=sizing.judge_from_s)


def _effects(sizing: Sizing, fewest: int, most: int) -> dict[int, Effect]:
    """What is expected on the sizes between two, both included; a few of them where there are many."""
    between = [nodes for nodes in sizing.sizes() if fewest < nodes < most]
    chosen = {fewest, most, *between[:: max(1, len(between) // 6)]}
    return {nodes: _effect(sizing, sizing.judge(nodes)) for nodes in sorted(chosen)}


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 1000 else "far beyond 1000 s"
