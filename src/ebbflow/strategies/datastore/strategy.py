"""Proactive scaling of a datastore: Pascal's Algorithm 2, and ours.

F. Lombardi, A. Muti, L. Aniello, R. Baldoni, S. Bonomi, L. Querzoni: PASCAL: an Architecture for Proactive Auto-Scaling
of Distributed Services, §6.1. Nodes are added and removed one after the other, so x nodes take x · T. A profile has the
bounded throughput X_B(n) = p · X_max(n) and the times T_add and T_rem. With c nodes, and λ(a, b) the largest load
forecast between two times:

    out   the largest x ≤ M for which  λ(now, now + x·T_add) > X_B(c + x − 1), and λ(now + x·T_add) as well
    in    the largest x ≤ M for which  λ(now + k·T_rem, now + (k+1)·T_rem) ≤ X_B(c − k) for k = 1 … x,
          the last one until now + x·T_rem + T_add
    else  no change

So the farthest horizon comes first, and the nodes are complete when they are needed. Nothing is decided while nodes
join or leave. There are at least α (the replication factor) and at most N nodes. The second condition to scale out is
ours: nodes that would come after the peak are not added. Without it, a node that has left when the load fell through
the bound is added again at once.

``forecaster=last-value`` makes it reactive.

**Slips of the printed algorithm**, where it follows the text of §6.1 instead:

- Lines 6 and 21 lack brackets: h = T_add · (N − curr − i).
- Lines 5 and 20 begin at N − curr and curr − α nodes, although at most M are added or removed; the text begins at M.
- Lines 14 and 29 compare *conf*, a number of nodes, with a number of nodes to add or to remove.
- Line 25 compares with the throughput of the present size instead of the smaller one, so it would take a size that
  does not hold the load.
- Line 23: the largest load until the horizon includes the present one. No node could begin to leave before the load
  has fallen, and it would be gone T_rem after its demand point. In Table 5 nodes are gone before it. So scale-in looks
  at the load from when the nodes are gone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Annotated

from ebbflow.core.decision import Constraint, Decision, Effect, hold
from ebbflow.core.duration import format_duration
from ebbflow.core.metrics import Metric
from ebbflow.core.parameters import Duration, File, Kind, Number, Share, Whole
from ebbflow.core.plural import counted
from ebbflow.core.ports import DecidesOn, Strategy
from ebbflow.core.snapshot import STALE_AFTER_S, ActionKind, Snapshot
from ebbflow.core.topology import NoBackgroundWork, NoUnfinishedChange, OneChangeAtATime
from ebbflow.profiling.datastore.profile import DatastoreProfile
from ebbflow.strategies.datastore.ahead import LoadAhead, LoadModel

FORMULA = "out by x: λ(x·T_add) > p·X_max(n + x − 1); in by x: λ(x·T_rem) ≤ p·X_max(n − x)"
MEDIAN = 0.5
JOIN_SPREAD = 0.08
"""σ of the lognormal spread of join times."""


@dataclass(frozen=True, kw_only=True)
class _Situation:
    """What a decision works on."""

    snapshot: Snapshot
    profile: DatastoreProfile
    data_gb: float | None
    nodes: int
    lowest: int
    highest: int
    likely: LoadAhead
    """The median."""
    growing: LoadAhead
    shrinking: LoadAhead

    @property
    def now_s(self) -> float:
        """The time of the decision."""
        return self.snapshot.now_s


class Datastore(Strategy):
    """Pascal's Algorithm 2. The module docstring has the rule."""

    name = "datastore"
    brings_own_guards = True
    decides_on = DecidesOn.READINGS
    for_datastores = True

    def __init__(
        self,
        *,
        profile: Annotated[
            Path | DatastoreProfile | None,
            File(
                "Profile of the datastore, from `ebbflow profile`.",
                DatastoreProfile,
                unset="none; without one it never changes the size",
            ),
        ] = None,
        bound: Annotated[
            float | None,
            Share("p: the share of the highest throughput to use.", unset="that of the profile"),
        ] = None,
        most_at_once: Annotated[int, Whole("M: nodes to add or remove in one action.", at_least=1)] = 3,
        forecaster: Annotated[
            str, Kind("Forecaster of the load; `last-value` makes the strategy reactive.")
        ] = "mixture",
        step_s: Annotated[float, Duration("Length of the steps of the forecast.", above=0)] = 30.0,
        percentile_over_s: Annotated[
            float,
            Duration("Time over which the 95th percentile of the load is taken; 0s takes the load as it is."),
        ] = 3600.0,
        speed: Annotated[
            float, Number("How many times faster than the calendar the load passes, for replays.", above=0)
        ] = 1.0,
    ) -> None:
        self._profile = DatastoreProfile.read(profile) if isinstance(profile, Path) else profile
        if self._profile is not None and bound is not None:
            self._profile = self._profile.with_bound(bound)
        self._most_at_once = most_at_once
        self._reactive = forecaster == "last-value"
        self._load = LoadModel(
            forecaster,
            step_s=step_s,
            percentile_over_s=percentile_over_s,
            speed=speed,
            levels=sorted({MEDIAN, self._grow_level, self._shrink_level}),
        )
        self._read_s = -1.0

    @property
    def _grow_level(self) -> float:
        """The quantile of the forecast to grow for."""
        return MEDIAN

    @property
    def _shrink_level(self) -> float:
        """The quantile of the forecast that must allow fewer nodes."""
        return MEDIAN

    def learn_past(self, steps: Iterable[tuple[float, float]]) -> None:
        """Learn the load before the run, as (end, mean rate) of steps of ``step_s`` that end at 0 or earlier."""
        for end_s, rate_per_s in steps:
            self._load.learn(end_s, rate_per_s)

    # -- deciding ------------------------------------------------------------------------------

    def decide(self, snapshot: Snapshot) -> Decision:
        """The nodes for the largest load until they could be there."""
        window = snapshot.windows.of(snapshot.pipeline.name, Metric.ARRIVAL_RATE)
        self._load.add(window.after(self._read_s))
        self._read_s = max(self._read_s, window.last_time_s or self._read_s)
        why = self._why_hold(snapshot)
        if why or self._profile is None:
            return hold(snapshot, why, FORMULA)
        at = self._situation(snapshot, self._profile)
        return self._grow(at) or self._shrink(at)

    def _why_hold(self, snapshot: Snapshot) -> str:
        """Why nothing can be decided now; empty if it can."""
        profile = self._profile
        if profile is None:
            return "no profile: the throughput of the nodes is unknown; make one with `ebbflow profile`"
        if profile.cluster != snapshot.pipeline.name:
            return f"the profile is of the cluster '{profile.cluster}', not of '{snapshot.pipeline.name}'"
        if self._load.present_per_s is None or self._read_s < snapshot.observed_s - STALE_AFTER_S:
            return "no recent reading of the offered load"
        if snapshot.topology is not None:
            for rule in (NoUnfinishedChange(), OneChangeAtATime(), NoBackgroundWork()):
                if running := rule.reason(snapshot.topology):
                    return f"{running}; deciding when that is done"
        for action in snapshot.under_way:
            what = {ActionKind.GROW: "join", ActionKind.SHRINK: "leave"}.get(action.kind, "change")
            return f"{counted(action.nodes, 'node')} still to {what}; deciding when that is done"
        if snapshot.observed.main_nodes != snapshot.planned.main_nodes:
            return f"{snapshot.observed.main_nodes} of {snapshot.planned.main_nodes} planned nodes run"
        return ""

    def _situation(self, snapshot: Snapshot, profile: DatastoreProfile) -> _Situation:
        size = snapshot.windows.of(snapshot.pipeline.name, Metric.DATA_SIZE).last
        data_gb = None if size is None or not size > 0 else size / 1e9
        reach_s = (self._most_at_once + 1) * max(profile.add_s(data_gb), profile.remove_s(data_gb))
        reach_s += profile.add_s(data_gb)
        until_s = snapshot.now_s + reach_s
        limits = snapshot.limits
        return _Situation(
            snapshot=snapshot,
            profile=profile,
            data_gb=data_gb,
            nodes=snapshot.planned.main_nodes,
            lowest=max(limits.min_nodes, profile.replication),
            highest=min(limits.max_nodes, profile.sizes[-1]),
            likely=self._load.ahead(snapshot.now_s, until_s, MEDIAN),
            growing=self._load.ahead(snapshot.now_s, until_s, self._grow_level),
            shrinking=self._load.ahead(snapshot.now_s, until_s, self._shrink_level),
        )

    def _out_s(self, at: _Situation, more: int) -> float:
        """How long it takes to add nodes; nothing ahead matters to a reactive strategy."""
        return 0.0 if self._reactive else more * at.profile.add_s(at.data_gb)

    def _in_s(self, at: _Situation, fewer: int) -> float:
        """How long it takes to remove nodes."""
        return 0.0 if self._reactive else fewer * at.profile.remove_s(at.data_gb)

    def _grow(self, at: _Situation) -> Decision | None:
        most = min(self._most_at_once, at.highest - at.nodes)
        for more in range(most, 0, -1):
            horizon_s = self._out_s(at, more)
            if self._due(at, more - 1, horizon_s):
                rate_per_s = at.growing.largest(at.now_s, at.now_s + horizon_s)
                return self._change(at, self._extended(at, more, most), rate_per_s, horizon_s)
        return None

    def _due(self, at: _Situation, more: int, horizon_s: float) -> bool:
        """Whether the load will exceed what so many more nodes hold, by the horizon and still then."""
        holds_per_s, then_s = at.profile.bounded_per_s(at.nodes + more), at.now_s + horizon_s
        return (
            at.growing.largest(at.now_s, then_s) > holds_per_s
            and at.growing.largest(then_s, then_s + self._load.step_s) > holds_per_s
        )

    def _extended(self, at: _Situation, more: int, most: int) -> int:
        """How many nodes to add at once if these are due."""
        del at, most
        return more

    def _shrink(self, at: _Situation) -> Decision:
        most = min(self._most_at_once, at.nodes - at.lowest)
        for fewer in range(most, 0, -1):
            rate_per_s = self._rate_after_leaving(at, fewer)
            if rate_per_s is not None:
                return self._change(at, -fewer, rate_per_s, self._in_s(at, fewer))
        horizon_s = self._out_s(at, 1)
        rate_per_s = at.growing.largest(at.now_s, at.now_s + horizon_s)
        holds_per_s = at.profile.bounded_per_s(at.nodes)
        bound: tuple[Constraint, ...] = ()
        reason = f"{counted(at.nodes, 'node')} hold {holds_per_s:.0f} requests/s"
        if rate_per_s > holds_per_s:
            why = f"at most {counted(at.highest, 'node')}"
            bound = (Constraint(name="limit", why=why),)
            reason = f"{why}, which hold {holds_per_s:.0f} requests/s"
        return Decision(
            wanted=at.snapshot.planned,
            reason=f"{reason}; {self._expectation(rate_per_s, horizon_s)}",
            formula=FORMULA,
            inputs=self._inputs(at, rate_per_s, horizon_s),
            bound_by=bound,
        )

    def _rate_after_leaving(self, at: _Situation, fewer: int) -> float | None:
        """The largest load from when these nodes are gone; None if the others do not hold the load at any time."""
        back_s = at.profile.add_s(at.data_gb)
        rate_per_s = 0.0
        for gone in range(1, fewer + 1):
            since_s = at.now_s + self._in_s(at, gone)
            until_s = since_s + back_s if gone == fewer else at.now_s + self._in_s(at, gone + 1)
            rate_per_s = at.shrinking.largest(since_s, until_s)
            if rate_per_s > at.profile.bounded_per_s(at.nodes - gone):
                return None
        return rate_per_s

    # -- decisions -----------------------------------------------------------------------------

    def _change(self, at: _Situation, change: int, rate_per_s: float, horizon_s: float) -> Decision:
        wanted = at.nodes + change
        before, after = at.profile.bounded_per_s(at.nodes), at.profile.bounded_per_s(wanted)
        holds = (
            f"{at.nodes} hold {before:.0f}, {counted(wanted, 'node')} {after:.0f}"
            if change > 0
            else f"{counted(wanted, 'node')} hold {after:.0f}"
        )
        return Decision(
            wanted=at.snapshot.planned.with_nodes(wanted),
            reason=f"{counted(abs(change), 'node')} {'more' if change > 0 else 'fewer'}: "
            f"{self._expectation(rate_per_s, horizon_s)}; {holds}",
            formula=FORMULA,
            inputs=self._inputs(at, rate_per_s, horizon_s),
            expected=Effect(metric=Metric.THROUGHPUT, value=round(rate_per_s, 1), at_s=at.now_s + horizon_s),
        )

    def _expectation(self, rate_per_s: float, horizon_s: float) -> str:
        if not horizon_s:
            return f"{rate_per_s:.0f} requests/s arrive"
        return f"{rate_per_s:.0f} requests/s are forecast within {format_duration(horizon_s)}"

    def _inputs(self, at: _Situation, rate_per_s: float, horizon_s: float) -> dict[str, float | str]:
        found: dict[str, float | str] = {
            "present_per_s": round(self._load.present_per_s or 0.0, 1),
            "rate_per_s": round(rate_per_s, 1),
            "horizon_s": round(horizon_s, 1),
            "bound": at.profile.bound,
            "bounded_per_s": round(at.profile.bounded_per_s(at.nodes), 1),
            "forecast": at.growing.basis,
        }
        if not at.profile.most_per_s(at.nodes).inside:
            found["extrapolated"] = f"{at.nodes} nodes were not profiled"
        if at.data_gb is not None:
            found["data_gb"] = round(at.data_gb, 3)
        return found


class DatastoreCosts(Datastore):
    """Ours: like Algorithm 2, but the quantile of the forecast follows from costs, and times are the expected ones.

    - *Quantile.* Being late by a second costs ``late_cost`` times as much as holding a node for a second. So a node is
      due when the probability that it will be needed by then exceeds 1 / (1 + late_cost): the newsvendor's quantile
      late_cost / (1 + late_cost) of the forecast (Arrow, Harris & Marschak 1951). The same quantile must allow fewer
      nodes.
    - *Times.* Each step has its own expected time in the time table, corrected by what joins took lately, at the same
      quantile, plus the time until the next decision. Nodes serve when they have joined: the cleanup after it is no
      part of the lead time,
    - *Cleanup*, unless a further node is due before the cleanup would end and another one could join. Then both are
      added in one action, with one cleanup after both.
    - *Tolerance.* A load that probably exceeds the bound only until ``tolerance`` seconds of work have piled up, such
      as a peak that just touches it, needs no node.
    """

    name = "datastore-costs"

    def __init__(
        self,
        *,
        profile: Annotated[
            Path | DatastoreProfile | None,
            File(
                "Profile of the datastore, from `ebbflow profile`.",
                DatastoreProfile,
                unset="none; without one it never changes the size",
            ),
        ] = None,
        bound: Annotated[
            float | None,
            Share("p: the share of the highest throughput to use.", unset="that of the profile"),
        ] = None,
        most_at_once: Annotated[int, Whole("Nodes to add or remove in one action.", at_least=1)] = 3,
        late_cost: Annotated[
            float, Number("Cost of being late, in costs of a node for the same time.", above=0)
        ] = 19.0,
        tolerance_s: Annotated[
            float, Duration("Work above the bound that may pile up before it needs a node.")
        ] = 3.0,
        forecaster: Annotated[str, Kind("Forecaster of the load.")] = "mixture",
        step_s: Annotated[float, Duration("Length of the steps of the forecast.", above=0)] = 30.0,
        percentile_over_s: Annotated[
            float,
            Duration("Time over which the 95th percentile of the load is taken; 0s takes the load as it is."),
        ] = 3600.0,
        speed: Annotated[
            float, Number("How many times faster than the calendar the load passes, for replays.", above=0)
        ] = 1.0,
    ) -> None:
        self._late_cost = late_cost
        super().__init__(
            profile=profile,
            bound=bound,
            most_at_once=most_at_once,
            forecaster=forecaster,
            step_s=step_s,
            percentile_over_s=percentile_over_s,
            speed=speed,
        )
        self._tolerance_s = tolerance_s
        self._slower = 1.0
        """Recent join times ÷ those of the profile."""
        self._slack = math.exp(JOIN_SPREAD * NormalDist().inv_cdf(self._grow_level))
        self._joined_s = -1.0
        self._decided_s: float | None = None
        self._period_s = 0.0
        """Time between decisions: what is not due now would be due that much later."""

    @property
    def _grow_level(self) -> float:
        return self._late_cost / (1.0 + self._late_cost)

    @property
    def _shrink_level(self) -> float:
        return self._grow_level

    def decide(self, snapshot: Snapshot) -> Decision:
        """The nodes for the largest load until they could be there."""
        self._learn_joins(snapshot)
        if self._decided_s is not None:
            self._period_s = min(snapshot.now_s - self._decided_s, self._load.step_s)
        self._decided_s = snapshot.now_s
        return super().decide(snapshot)

    def _learn_joins(self, snapshot: Snapshot) -> None:
        """Compare the joins since the last decision with the profile."""
        if self._profile is None:
            return
        usual_s = self._profile.change_s(snapshot.planned.main_nodes - 1, snapshot.planned.main_nodes).seconds
        for subject, metric in snapshot.windows.series():
            if metric in (Metric.LEAD_TIME, Metric.JOIN_TIME):
                for time_s, took_s in snapshot.windows.of(subject, metric).after(self._joined_s):
                    if usual_s > 0:
                        self._slower += 0.3 * (took_s / usual_s - self._slower)
                    self._joined_s = max(self._joined_s, time_s)

    def _due(self, at: _Situation, more: int, horizon_s: float) -> bool:
        holds_per_s, then_s = at.profile.bounded_per_s(at.nodes + more), at.now_s + horizon_s
        expected = at.likely.overload(holds_per_s, self._tolerance_s)
        if expected is None or expected[1] <= then_s:
            return False
        found = at.growing.overload(holds_per_s, 0.0)
        return found is not None and found[0] <= then_s

    def _out_s(self, at: _Situation, more: int) -> float:
        rows = (at.profile.change_s(n, n + 1, at.data_gb) for n in range(at.nodes, at.nodes + more))
        return self._period_s + self._slower * self._slack * sum(row.seconds for row in rows)

    def _in_s(self, at: _Situation, fewer: int) -> float:
        rows = (at.profile.change_s(n, n - 1, at.data_gb) for n in range(at.nodes, at.nodes - fewer, -1))
        return sum(row.seconds for row in rows)

    def _extended(self, at: _Situation, more: int, most: int) -> int:
        """Add a further node as well if it would be due before a second action could add it."""
        while more < most:
            done = at.profile.change_s(at.nodes + more - 1, at.nodes + more, at.data_gb)
            later_s = self._out_s(at, more + 1) + self._slower * done.cleanup_s
            if not self._due(at, more, later_s):
                break
            more += 1
        return more
