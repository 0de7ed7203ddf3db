"""Kubernetes' Horizontal Pod Autoscaler (HPA) on the busy share of the slots.

    n' = ceil(n × metric / target), unchanged within a tolerance of 10 %

Every 15 s. Up at once, by at most max(100 %, 4 pods) per 15 s; down to the highest recommendation of the last 300 s, of
which the initial size is the first. Reference: Kubernetes, Horizontal Pod Autoscaling; autoscaling/v2.

Modelled: a pod is a node. The metric is the mean busy share of its slots, the counterpart of CPU (on a micro-batch
target Σ task_time / (slots × max(duration, trigger))). The target is 70 %, a usual choice, since Kubernetes has no
default. Pods that have not joined count as idle, as Kubernetes counts unready pods when it scales up: the work is
divided by the planned size. If several syncs are due at once all are made, those before the last with the load of the
previous snapshot.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Annotated

from ebbflow.core.decision import Decision, hold, want
from ebbflow.core.parameters import Duration, Number, Whole
from ebbflow.core.periods import SLACK_S, Every
from ebbflow.core.plural import counted
from ebbflow.core.ports import Strategy
from ebbflow.core.signals import Signals
from ebbflow.core.snapshot import Snapshot

FORMULA = "n' = ceil(n · busy / target), tolerance; up ≤ max(2n, n + 4); down to the max of the window"


class Behaviour:
    """The scaling behaviour of an HPA: its limit upwards, its stabilisation window downwards."""

    def __init__(self, *, up_share: float = 1.0, up_pods: int = 4, down_window_s: float = 300.0) -> None:
        self._up_share = up_share
        self._up_pods = up_pods
        self._down_window_s = down_window_s
        self._recommended: deque[tuple[float, int]] = deque()

    def restrain(self, now_s: float, nodes: int, recommended: int) -> int:
        """The size that may be requested now."""
        if not self._recommended:
            self._recommended.append((now_s, nodes))
        self._recommended.append((now_s, recommended))
        while len(self._recommended) > 1 and self._recommended[0][0] < now_s - self._down_window_s + SLACK_S:
            self._recommended.popleft()
        if recommended >= nodes:
            return min(recommended, max(math.floor(nodes * (1 + self._up_share)), nodes + self._up_pods))
        return min(nodes, max(size for _, size in self._recommended))


class Hpa(Strategy):
    """Nodes in proportion to how busy they are. The module docstring has the rule."""

    name = "hpa"
    brings_own_guards = True

    def __init__(
        self,
        *,
        target: Annotated[float, Number("Target busy share of a node.", unit="share", above=0)] = 0.7,
        tolerance: Annotated[
            float, Number("Relative deviation from the target that is tolerated.", unit="share", at_least=0)
        ] = 0.1,
        interval_s: Annotated[float, Duration("Time between two evaluations.", above=0)] = 15.0,
        up_share: Annotated[
            float, Number("Most growth in one period, as a share of the nodes.", unit="share", at_least=0)
        ] = 1.0,
        up_pods: Annotated[
            int, Whole("Growth that one period always allows, in nodes.", unit="nodes", at_least=0)
        ] = 4,
        down_window_s: Annotated[float, Duration("Stabilisation window for scaling in.")] = 300.0,
    ) -> None:
        self._target = target
        self._tolerance = tolerance
        self._every = Every(interval_s)
        self._behaviour = Behaviour(up_share=up_share, up_pods=up_pods, down_window_s=down_window_s)
        self._signals = Signals()
        self._previous_slots: float | None = None
        """Busy slots at the previous snapshot."""

    def decide(self, snapshot: Snapshot) -> Decision:
        """The size at which the slots would be as busy as the target."""
        missing = self._signals.update(snapshot)
        syncs = self._every.due(snapshot.now_s)
        busy_slots, planned = None if missing else self._signals.busy_slots, snapshot.planned.main_nodes
        previous_slots, self._previous_slots = self._previous_slots, busy_slots
        if not syncs:
            return hold(snapshot, "waiting for the next sync", FORMULA)
        if busy_slots is None or planned == 0:
            return hold(snapshot, missing or "no data: busy time or nodes unknown", FORMULA)
        nodes = planned
        if previous_slots is not None:
            for sync_s in syncs[:-1]:
                earlier = self._recommend(nodes, previous_slots / snapshot.slots_per_node)
                nodes = self._behaviour.restrain(sync_s, nodes, earlier)
        busy = busy_slots / (planned * snapshot.slots_per_node)
        recommended = self._recommend(nodes, busy_slots / snapshot.slots_per_node)
        nodes = self._behaviour.restrain(syncs[-1], nodes, recommended)
        inputs: dict[str, float | str] = {
            "busy": round(busy, 4),
            "target": self._target,
            "nodes": planned,
            "recommended": recommended,
        }
        reason = f"{counted(planned, 'node')} {busy:.0%} busy, target {self._target:.0%}: {recommended} recommended"
        if nodes == planned:
            return hold(snapshot, reason, FORMULA, inputs)
        return want(snapshot, nodes, reason, FORMULA, inputs)

    def _recommend(self, nodes: int, busy_nodes: float) -> int:
        """ceil(n · metric / target), or n within the tolerance."""
        ratio = busy_nodes / nodes / self._target
        within = abs(ratio - 1) <= self._tolerance + SLACK_S
        return nodes if within else max(1, math.ceil(nodes * ratio - SLACK_S))
