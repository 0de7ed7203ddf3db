"""Baselines of constant size: for the peak of the load, and for its mean."""

from __future__ import annotations

import math
from typing import Annotated

from ebbflow.core.decision import Decision, want
from ebbflow.core.parameters import Whole
from ebbflow.core.plural import counted
from ebbflow.core.ports import DecidesOn, Strategy
from ebbflow.core.snapshot import Snapshot


class Static(Strategy):
    """Always the most nodes allowed: what a pipeline sized for its peak costs."""

    name = "static"
    brings_own_guards = True
    decides_on = DecidesOn.NOTHING

    def decide(self, snapshot: Snapshot) -> Decision:
        """The maximum of the limits."""
        wanted = snapshot.planned.with_nodes(snapshot.limits.max_nodes)
        return Decision(wanted=wanted, reason="static: the most nodes, whatever the load", formula="n = max")


class StaticMean(Strategy):
    """Always the same number of nodes: what a pipeline sized for its mean load costs, and how late it is.

    A strategy cannot know the mean in advance, so the benchmark sets ``nodes``.
    """

    name = "static-mean"
    brings_own_guards = True
    decides_on = DecidesOn.NOTHING

    def __init__(
        self,
        *,
        nodes: Annotated[
            int | None,
            Whole("Number of nodes.", unit="nodes", unset="the middle of the limits", at_least=1),
        ] = None,
    ) -> None:
        self._nodes = nodes

    def decide(self, snapshot: Snapshot) -> Decision:
        """The constant size, within the limits."""
        limits = snapshot.limits
        if self._nodes is None:
            nodes, why = math.ceil((limits.min_nodes + limits.max_nodes) / 2), "the middle of the limits"
        else:
            nodes, why = self._nodes, "as configured for the mean rate"
        return want(
            snapshot,
            nodes,
            f"static: {counted(nodes, 'node')}, {why}",
            "n = nodes for the mean rate, else ceil((min + max) / 2)",
            {"nodes": nodes},
        )
