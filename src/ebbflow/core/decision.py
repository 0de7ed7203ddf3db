"""Decisions of strategies and their entries in the ledger. ``hold`` and ``want`` make the two usual decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.plural import counted
from ebbflow.core.snapshot import Snapshot


class Effect(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The value a decision is expected to bring for a metric of the pipeline, and when that can be checked."""

    metric: Metric
    value: float
    at_s: float


class Constraint(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something that made a decision smaller, larger or later than the strategy wanted."""

    name: str
    why: str


class Rounded(Mapping[str, float | str]):
    """Inputs of a decision, rounded on access. Most decisions are holds whose inputs are never read.

    ``digits``: by name, the digits to round to; None rounds to an integer.

    >>> dict(Rounded({"rate_per_s": 812.345, "queue_rows": 7.9, "nodes": 3}, {"rate_per_s": 1, "queue_rows": None}))
    {'rate_per_s': 812.3, 'queue_rows': 8, 'nodes': 3}
    """

    def __init__(self, exact: Mapping[str, float | str], digits: Mapping[str, int | None]) -> None:
        self._exact, self._digits = exact, digits

    def __getitem__(self, name: str) -> float | str:
        value = self._exact[name]
        return (
            value if isinstance(value, str) or name not in self._digits else round(value, self._digits[name])
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._exact)

    def __len__(self) -> int:
        return len(self._exact)


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The wanted layout, with reason, formula, inputs and expected effect.

    A hold is a decision as well: its layout is the planned one, and it has a reason.
    """

    wanted: Layout
    reason: str
    formula: str = ""
    inputs: Mapping[str, float | str] = msgspec.field(default_factory=dict)
    bound_by: tuple[Constraint, ...] = ()
    expected: Effect | None = None
    instead: Mapping[int, Effect] = msgspec.field(default_factory=dict)
    """Expected effects by number of nodes, in case a guard restrains the decision to one of them."""

    def bound(self, wanted: Layout, name: str, why: str) -> Decision:
        """Restrain the decision to another layout and note the constraint.

        The expected effect becomes that of the new size, or of the next smaller size with a known effect; none if
        there is no such size.
        """
        known = [nodes for nodes in self.instead if nodes <= wanted.main_nodes]
        return msgspec.structs.replace(
            self,
            wanted=wanted,
            bound_by=(*self.bound_by, Constraint(name=name, why=why)),
            expected=self.instead[max(known)] if known else None,
        )


def hold(
    snapshot: Snapshot, reason: str, formula: str, inputs: Mapping[str, float | str] | None = None
) -> Decision:
    """Keep the planned layout."""
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
    """Ask for ``nodes`` nodes, or for the nearest size within the limits, which then appear in ``bound_by``.

    ``layout``: the parallelism and placement to ask for; by default those planned.
    """
    allowed = snapshot.limits.clamp(nodes)
    bound: tuple[Constraint, ...] = ()
    if allowed != nodes:
        why = f"{counted(nodes, 'node')} wanted, {snapshot.limits} allowed"
        bound = (Constraint(name="limits", why=why),)
    return Decision(
        wanted=(layout or snapshot.planned).with_nodes(allowed),
        reason=reason,
        formula=formula,
        inputs=inputs,
        bound_by=bound,
        expected=expected,
    )


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A target's answer to ``apply``: the layout now requested, and how many nodes cannot come or leave, and why."""

    requested: Layout
    infeasible_nodes: int = 0
    note: str = ""


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An entry of the ledger: a decision, its outcome, and later its measured effect."""

    entry_id: int
    time_s: float
    strategy: str
    verdict: str
    """``act`` or ``hold``."""
    before: Layout
    decision: Decision
    outcome: Outcome | None = None
    achieved: float | None = None
    """Measured value of ``decision.expected.metric`` at the expected time."""

    @property
    def changed(self) -> bool:
        """Whether the requested layout differs from the one before: a reconfiguration."""
        return self.outcome is not None and bool(self.outcome.requested.difference(self.before))

    def settled(self, achieved: float) -> LedgerEntry:
        """The entry with its measured effect."""
        return msgspec.structs.replace(self, achieved=achieved)

    def to_json(self) -> dict[str, Any]:
        """The entry as JSON values."""
        decision = self.decision
        return {
            "id": self.entry_id,
            "time_s": self.time_s,
            "strategy": self.strategy,
            "verdict": self.verdict,
            "before": self.before.to_json(),
            "wanted": decision.wanted.to_json(),
            "reason": decision.reason,
            "formula": decision.formula,
            "inputs": dict(decision.inputs),
            "bound_by": [{"name": c.name, "why": c.why} for c in decision.bound_by],
            "expected": decision.expected
            and {
                "metric": decision.expected.metric.key,
                "value": decision.expected.value,
                "at_s": decision.expected.at_s,
            },
            "achieved": self.achieved,
            "outcome": self.outcome
            and {
                "requested": self.outcome.requested.to_json(),
                "infeasible_nodes": self.outcome.infeasible_nodes,
                "note": self.outcome.note,
            },
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> LedgerEntry:
        """Read an entry from JSON values, which do not include ``instead``."""
        expected, outcome = body["expected"], body["outcome"]
        decision = Decision(
            wanted=Layout.from_json(body["wanted"]),
            reason=body["reason"],
            formula=body["formula"],
            inputs=body["inputs"],
            bound_by=tuple(Constraint(name=c["name"], why=c["why"]) for c in body["bound_by"]),
            expected=expected
            and Effect(metric=Metric.of(expected["metric"]), value=expected["value"], at_s=expected["at_s"]),
        )
        return cls(
            entry_id=body["id"],
            time_s=body["time_s"],
            strategy=body["strategy"],
            verdict=body["verdict"],
            before=Layout.from_json(body["before"]),
            decision=decision,
            outcome=outcome
            and Outcome(
                requested=Layout.from_json(outcome["requested"]),
                infeasible_nodes=outcome["infeasible_nodes"],
                note=outcome["note"],
            ),
            achieved=body["achieved"],
        )
