"""How far a rule may go: its own limit, what the cluster can hold, and the bounds of the calendar.

An operator for which nobody says how far grows up to the slots that all nodes allowed have. Who says so may go past
them, because tasks can wait for their turn, but not to a size that no cluster survives: ``MOST_PER_SLOT``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ebbflow.core.decision import Constraint
from ebbflow.core.snapshot import Snapshot
from ebbflow.policy.model import NODES, Bounds, Rule

MOST_PER_SLOT = 8
"""Instances to a slot, or to one of the original size, past which no limit and no bounds lead. Two or three tasks to a
core is what Spark's own guide advises."""


class InForce(NamedTuple):
    """Bounds that hold now, and what is sized by them."""

    bounds: Bounds
    subject: str


def slots_at_most(snapshot: Snapshot) -> int:
    """Slots of all nodes allowed."""
    return max(1, snapshot.limits.max_nodes * snapshot.slots_per_node)


def _most(subject: str, original: int, snapshot: Snapshot) -> int:
    """The largest size there may be, whatever a policy says."""
    if subject == NODES:
        return snapshot.limits.max_nodes
    return MOST_PER_SLOT * max(slots_at_most(snapshot), original)


def limited(
    rule: Rule, stepped: int, subject: str, original: int, snapshot: Snapshot
) -> tuple[int, Constraint | None]:
    """The size within the rule's own limit, and what held it if anything did."""
    if not rule.out:
        least = 1 if rule.never_below is None else rule.never_below.size(original, most=False)
        least = max(least, snapshot.limits.min_nodes if subject == NODES else 1)
        if stepped >= least:
            return stepped, None
        return least, Constraint(name="never below", why=f"{stepped} would be below {least}")
    largest = _most(subject, original, snapshot)
    if rule.never_above is not None:
        most = rule.never_above.size(original, most=True)
    else:
        most = largest if subject == NODES else slots_at_most(snapshot)
    if stepped <= min(most, largest):
        return stepped, None
    if most > largest and subject != NODES:
        why = f"{stepped} would be above {largest}, {MOST_PER_SLOT} to each slot there can be"
        return largest, Constraint(name="slots", why=why)
    most = min(most, largest)
    return most, Constraint(name="never above", why=f"{stepped} would be above {most}")


def bounded(
    rule: Rule, size: int, subject: str, in_force: Iterable[InForce]
) -> tuple[int, Constraint | None]:
    """The size within all bounds that a rule would go past, and the tightest of those."""
    held: Constraint | None = None
    for bounds, sized in in_force:
        edge = bounds.at_most if rule.out else bounds.at_least
        if sized == subject and edge is not None and ((size > edge) if rule.out else (size < edge)):
            side = "most" if rule.out else "least"
            size, held = (
                edge,
                Constraint(name=bounds.name, why=f"bounds '{bounds.name}' keep at {side} {edge}"),
            )
    return size, held


def kept(bounds: Bounds, wanted: int, subject: str, original: int, snapshot: Snapshot) -> int:
    """The size that bounds leave of the one wanted."""
    size = max(wanted, min(bounds.at_least or 1, _most(subject, original, snapshot)))
    size = min(size, bounds.at_most) if bounds.at_most is not None else size
    return snapshot.limits.clamp(size) if subject == NODES else size
