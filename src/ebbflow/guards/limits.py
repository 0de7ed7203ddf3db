"""Limits on changes: how often (cool-down), how far (step cap) and how large (bounds)."""

from __future__ import annotations

import math
from typing import Annotated

from ebbflow.core.decision import Decision
from ebbflow.core.duration import format_duration
from ebbflow.core.parameters import Duration, Number, Share, Whole
from ebbflow.core.plural import counted
from ebbflow.core.ports import Guard
from ebbflow.core.snapshot import Snapshot


class CoolDown(Guard):
    """Block scale-out for ``out_s`` after a scale-out, and scale-in for ``in_s`` after any change.

    Short by default: long cool-downs cost nodes and hardly avoid late rows.
    """

    name = "cool-down"

    def __init__(
        self,
        *,
        out_s: Annotated[float, Duration("Time after a scale-out in which the next scale-out waits.")] = 3.0,
        in_s: Annotated[float, Duration("Time after any change in which a scale-in waits.")] = 5.0,
    ) -> None:
        self._out_s = out_s
        self._in_s = in_s

    def restrain(self, snapshot: Snapshot, decision: Decision) -> Decision:
        """Keep the size if the last change is too recent."""
        if decision.wanted is snapshot.planned:
            return decision  # fast path for holds
        for cluster, nodes in decision.wanted.nodes.items():
            now = snapshot.planned.nodes.get(cluster, 0)
            if nodes > now:
                wait_s = self._remaining_s(snapshot.now_s, self._out_s, snapshot.last_out_s)
            elif nodes < now:
                wait_s = self._remaining_s(
                    snapshot.now_s, self._in_s, snapshot.last_out_s, snapshot.last_in_s
                )
            else:
                wait_s = 0.0
            if wait_s > 0:
                decision = decision.bound(
                    decision.wanted.with_nodes(now, cluster),
                    self.name,
                    f"{now} → {nodes} waits {format_duration(wait_s)} more after the last change",
                )
        return decision

    @staticmethod
    def _remaining_s(now_s: float, quiet_s: float, *changes_s: float | None) -> float:
        last_s = max((c for c in changes_s if c is not None), default=None)
        return 0.0 if last_s is None else last_s + quiet_s - now_s


class StepCap(Guard):
    """In one step, grow to at most ``out_factor`` times the size, and release at most ``in_share`` of the nodes.

    Growing by ``out_nodes`` is always allowed.

    A wrong estimate then costs one step and not the whole cluster, and nodes that start together on one machine do not
    starve each other. The next batch, seconds later, can ask for more.
    """

    name = "step cap"

    def __init__(
        self,
        *,
        out_factor: Annotated[
            float, Number("Largest growth in one step, as a factor.", unit="factor", at_least=1)
        ] = 2.0,
        out_nodes: Annotated[
            int, Whole("Growth that one step always allows, in nodes.", unit="nodes", at_least=1)
        ] = 2,
        in_share: Annotated[float, Share("Largest share of the nodes that one step releases.")] = 0.5,
    ) -> None:
        self._out_factor = out_factor
        self._out_nodes = out_nodes
        self._in_share = in_share

    def restrain(self, snapshot: Snapshot, decision: Decision) -> Decision:
        """Take the largest allowed step towards the wanted size."""
        if decision.wanted is snapshot.planned:
            return decision  # fast path for holds
        for cluster, nodes in decision.wanted.nodes.items():
            now = snapshot.planned.nodes.get(cluster, 0)
            most = max(now + self._out_nodes, math.floor(now * self._out_factor))
            fewest = now - max(1, math.ceil(now * self._in_share))
            allowed = min(max(nodes, fewest), most)
            if allowed != nodes:
                decision = decision.bound(
                    decision.wanted.with_nodes(allowed, cluster),
                    self.name,
                    f"{now} → {nodes} is more than one step; {allowed} for now",
                )
        return decision


class Bounds(Guard):
    """Clamp the number of nodes of every cluster to the limits."""

    name = "bounds"

    def restrain(self, snapshot: Snapshot, decision: Decision) -> Decision:
        """Use the nearest allowed size."""
        for cluster, nodes in decision.wanted.nodes.items():
            allowed = snapshot.limits_of(cluster).clamp(nodes)
            if allowed != nodes:
                side = "at most" if nodes > allowed else "at least"
                decision = decision.bound(
                    decision.wanted.with_nodes(allowed, cluster),
                    self.name,
                    f"{counted(nodes, 'node')} wanted, {side} {allowed} allowed",
                )
        return decision
