"""RightScale's voting: each node votes, and a majority decides.

    node busy > 70 % over 3 min: votes to grow,  busy < 30 %: votes to shrink,  else none
    votes / nodes ≥ 51 %: n + 2 (grow) or n − 1 (shrink), then 15 min of calm

Reference: RightScale, *Understanding the Voting Process* and *Set up Autoscaling using Voting Tags*: decision threshold
51 %, resize up by 2, resize down by 1, resize calm time 15 min, a vote to grow when a CPU is less than 30 % idle.

Modelled: a node's busy share is its ``task-time`` over the period (Spark), else the mean of its ``node-cpu`` (agents
and the continuous engine). A node counts as a voter as soon as it has joined, and votes when it has been observed for
the whole period. Where nothing is measured by node (the simulated micro-batch engine), all vote alike, by the mean busy
share of the slots over the period. Two defaults are ours. The tutorial's period is 15 min, for web servers; a stream
would be late long before. And it shows a vote to grow only, so the one to shrink is its mirror image.
"""

from __future__ import annotations

from collections import deque
from typing import Annotated

from ebbflow.core.decision import Decision, hold, want
from ebbflow.core.metrics import Metric
from ebbflow.core.parameters import Duration, Number, Share, Whole, check_order
from ebbflow.core.periods import SLACK_S
from ebbflow.core.plural import counted
from ebbflow.core.ports import Strategy
from ebbflow.core.readings import Series
from ebbflow.core.signals import Signals
from ebbflow.core.snapshot import STALE_AFTER_S, Snapshot

FORMULA = "votes / nodes ≥ threshold: n + resize_up or n − resize_down, then calm"
ALL = "all"
"""The voter that stands for every node where nothing is measured by node."""


class _Voter:
    """The busy share of a node over the last ``period_s``."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._points: deque[tuple[float, float]] = deque()
        """(time, busy seconds of a slot so far)"""
        self._sum_s = 0.0

    @property
    def last_s(self) -> float:
        return self._points[-1][0] if self._points else float("-inf")

    def add_total(self, time_s: float, total_s: float) -> None:
        """Add the busy seconds of a slot so far."""
        if self._points and total_s < self._points[-1][1]:
            self._points.clear()  # another node of the same name
        self._points.append((time_s, total_s))
        while len(self._points) > 1 and self._points[1][0] <= time_s - self._period_s + SLACK_S:
            self._points.popleft()

    def add_share(self, time_s: float, share: float) -> None:
        """Add the busy share since the previous call."""
        if self._points:
            self._sum_s += share * (time_s - self.last_s)
        self.add_total(time_s, self._sum_s)

    @property
    def busy(self) -> float | None:
        """The mean busy share; None if it does not cover the period."""
        if not self._points:
            return None
        (from_s, before_s), (to_s, after_s) = self._points[0], self._points[-1]
        covered = to_s > from_s and to_s - from_s >= self._period_s - SLACK_S
        return (after_s - before_s) / (to_s - from_s) if covered else None


class RightScale(Strategy):
    """A majority of the nodes decides. The module docstring has the rule."""

    name = "rightscale"
    brings_own_guards = True

    def __init__(
        self,
        *,
        grow_busy: Annotated[
            float, Number("A node votes to grow above this busy share.", above=0, unit="share")
        ] = 0.7,
        shrink_busy: Annotated[
            float, Number("A node votes to shrink below this busy share.", above=0, unit="share")
        ] = 0.3,
        period_s: Annotated[float, Duration("Period over which a node is judged.", above=0)] = 180.0,
        decision_threshold: Annotated[float, Share("Share of the nodes that decides.")] = 0.51,
        resize_up: Annotated[int, Whole("Nodes to add.", at_least=1)] = 2,
        resize_down: Annotated[int, Whole("Nodes to remove.", at_least=1)] = 1,
        calm_s: Annotated[float, Duration("No vote is counted for this time after a change.")] = 900.0,
    ) -> None:
        check_order("shrink_busy", shrink_busy, "grow_busy", grow_busy)
        self._grow_busy, self._shrink_busy = grow_busy, shrink_busy
        self._period_s, self._calm_s = period_s, calm_s
        self._threshold = decision_threshold
        self._resize_up, self._resize_down = resize_up, resize_down
        self._signals = Signals()
        self._voters: dict[str, _Voter] = {}
        self._changed_s = float("-inf")

    @property
    def needed_series(self) -> tuple[Series, ...]:
        """The CPU of every node, where agents run."""
        return (Series("*", Metric.NODE_CPU),)

    def decide(self, snapshot: Snapshot) -> Decision:
        """Count the votes."""
        missing = self._signals.update(snapshot)
        self._observe(snapshot)
        nodes, planned = snapshot.observed.main_nodes, snapshot.planned.main_nodes
        shares = [voter.busy for voter in self._voters.values()]
        known = [share for share in shares if share is not None]
        if not known or nodes == 0:
            reason = missing or f"no data: no node was observed for {self._period_s:g} s"
            return hold(snapshot, reason, FORMULA)
        each = nodes if ALL in self._voters else 1
        grow = each * sum(share > self._grow_busy for share in known)
        shrink = each * sum(share < self._shrink_busy for share in known)
        voters = max(nodes, len(known) * each)
        inputs: dict[str, float | str] = {
            "grow_votes": grow,
            "shrink_votes": shrink,
            "voters": voters,
            "busy": round(sum(known) / len(known), 4),
        }
        votes = f"{grow} of {counted(voters, 'node')} vote to grow, {shrink} to shrink"
        left_s = self._changed_s + self._calm_s - snapshot.now_s
        if left_s > SLACK_S:
            return hold(snapshot, f"{votes}; {left_s:.0f} s of calm left", FORMULA, inputs)
        needed = self._threshold * voters
        if grow >= needed and planned < snapshot.limits.max_nodes:
            change = self._resize_up
        elif shrink >= needed and planned > snapshot.limits.min_nodes:
            change = -self._resize_down
        else:
            return hold(snapshot, f"{votes}; {self._threshold:.0%} are needed", FORMULA, inputs)
        self._changed_s = snapshot.now_s
        verb = "more" if change > 0 else "fewer"
        reason = f"{votes}: {counted(abs(change), 'node')} {verb}"
        return want(snapshot, planned + change, reason, FORMULA, inputs)

    def _observe(self, snapshot: Snapshot) -> None:
        """Update the voters: nodes that are measured, or one for all of them."""
        measured = self._measured(snapshot)
        if not measured:
            busy_slots = self._signals.busy_slots
            if busy_slots is not None and snapshot.observed.main_nodes:
                if ALL not in self._voters:
                    self._voters = {ALL: _Voter(self._period_s)}
                self._voters[ALL].add_share(snapshot.observed_s, busy_slots / snapshot.slots)
            else:
                self._voters.clear()
            return
        self._voters = {name: self._voters.get(name) or _Voter(self._period_s) for name in measured}
        for name, metric in measured.items():
            voter = self._voters[name]
            for time_s, value in snapshot.windows.of(name, metric).after(voter.last_s):
                if metric is Metric.TASK_TIME:
                    voter.add_total(time_s, value / snapshot.slots_per_node)
                else:
                    voter.add_share(time_s, value)

    def _measured(self, snapshot: Snapshot) -> dict[str, Metric]:
        """The nodes with recent readings, each with the metric to judge it by."""
        found: dict[str, Metric] = {}
        for name, metric in snapshot.windows.series():
            if metric is Metric.TASK_TIME or (metric is Metric.NODE_CPU and name not in found):
                last_s = snapshot.windows.of(name, metric).last_time_s
                if last_s is not None and last_s >= snapshot.observed_s - STALE_AFTER_S:
                    found[name] = metric
        return found
