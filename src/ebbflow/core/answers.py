"""How a peer says what it wants: within the limits it was configured with, never below one node."""

from __future__ import annotations

from collections.abc import Mapping

from ebbflow.core.decision import Constraint, Decision, Effect
from ebbflow.core.layout import Layout
from ebbflow.core.snapshot import Snapshot


def hold(
    snapshot: Snapshot, reason: str, formula: str, inputs: Mapping[str, float | str] | None = None
) -> Decision:
    """Everything stays as it is planned."""
    return Decision(wanted=snapshot.planned, reason=reason, formula=formula, inputs=inputs or {})


def want(
    snapshot: Snapshot,
    nodes: int,
    reason: str,
    formula: str,
    inputs: Mapping[str, float | str],
    *,
    layout: Layout | None = None,
    expected: Effect | None = None,
) -> Decision:
    """That many nodes, or the nearest size the limits allow: every peer has a minimum and a maximum."""
    allowed = snapshot.limits.clamp(nodes)
    bound: tuple[Constraint, ...] = ()
    if allowed != nodes:
        bound = (Constraint(name="limits", why=f"{nodes} nodes wanted, {snapshot.limits} allowed"),)
    return Decision(
        wanted=(layout or snapshot.planned).with_nodes(allowed),
        reason=reason,
        formula=formula,
        inputs=inputs,
        bound_by=bound,
        expected=expected,
    )
