"""Hold the maximum throughout: what a pipeline sized for its peak costs."""

from __future__ import annotations

import math
from typing import Annotated

from ebbflow.core.decision import Constraint, Decision
from ebbflow.core.parameters import Whole
from ebbflow.core.ports import Strategy
from ebbflow.core.snapshot import Snapshot

# Hold one size throughout: what a pipeline sized for its mean load costs, and how late it is.


class StaticMean(Strategy):
    """Always the same number of nodes, meant to be what the mean rate of the load needs.

    A strategy cannot know that mean beforehand, so ``nodes`` is given by whoever knows the load (the
    benchmark). Without it: the middle of the limits, rounded up.
    """

    name = "static-mean"
    brings_own_guards = True

    def __init__(
        self,
        *,
        nodes: Annotated[
            int | None, Whole("Number of nodes; by default the middle of the limits.", at_least=1)
        ] = None,
    ) -> None:
        self._nodes = nodes

    def decide(self, snapshot: Snapshot) -> Decision:
        """The same size, whatever happens."""
        limits = snapshot.limits
        middle = math.ceil((limits.min_nodes + limits.max_nodes) / 2)
        nodes = middle if self._nodes is None else self._nodes
        allowed = limits.clamp(nodes)
        why = "the middle of the limits" if self._nodes is None else "what it was given for the mean rate"
        bound: tuple[Constraint, ...] = ()
        if allowed != nodes:
            bound = (Constraint(name="limits", why=f"{nodes} nodes wanted, {limits} allowed"),)
        return Decision(
            wanted=snapshot.planned.with_nodes(allowed),
            reason=f"static: {nodes} nodes, {why}",
            formula="n = nodes for the mean rate, else ceil((min + max) / 2)",
            inputs={"nodes": nodes},
            bound_by=bound,
        )


class Static(Strategy):
    """Always the most nodes allowed: the baseline that is never late and never cheap."""

    name = "static"
    brings_own_guards = True

    def decide(self, snapshot: Snapshot) -> Decision:
        """The maximum."""
        wanted = snapshot.planned.with_nodes(snapshot.limits.max_nodes)
        return Decision(wanted=wanted, reason="static: the maximum, whatever the load", formula="n = max")
