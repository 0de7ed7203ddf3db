"""Limit the size of one step."""

from __future__ import annotations

import math
from typing import Annotated

from ebbflow.core.decision import Decision
from ebbflow.core.parameters import Number, Share, Whole
from ebbflow.core.ports import Guard
from ebbflow.core.snapshot import Snapshot


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
        out_factor: Annotated[float, Number("Largest growth in one step, as a factor.", at_least=1)] = 2.0,
        out_nodes: Annotated[int, Whole("Growth that one step always allows, in nodes.", at_least=1)] = 2,
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
