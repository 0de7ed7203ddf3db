"""What a strategy answers, and what the ledger keeps of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What a decision should do to a metric of the pipeline, and by when that can be checked."""

    metric: Metric
    value: float
    at_s: float


@dataclass(frozen=True, kw_only=True)
class Constraint:
    """Something that made the decision smaller, larger or later than the strategy wanted."""

    name: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The wanted layout, why, from which numbers, by which formula, and what it should bring.

    A hold is a decision too: its layout is the one already planned, and it has its reason.
    """

    wanted: Layout
    reason: str
    formula: str = ""
    inputs: Mapping[str, float | str] = field(default_factory=dict)
    bound_by: tuple[Constraint, ...] = ()
    expected: Effect | None = None
    instead: Mapping[int, Effect] = field(default_factory=dict)
    """What is expected on other numbers of nodes, in case the decision is restrained to one of them."""

    def bound(self, wanted: Layout, name: str, why: str) -> Decision:
        """The same decision, restrained to another layout, with the constraint written down.

        What is expected is then what that layout brings: the effect known for its size, or for the next
        smaller one; nothing where none is known.
        """
        known = [nodes for nodes in self.instead if nodes <= wanted.main_nodes]
        return replace(
            self,
            wanted=wanted,
            bound_by=(*self.bound_by, Constraint(name=name, why=why)),
            expected=self.instead[max(known)] if known else None,
        )


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of asking: the layout now requested, and what cannot be had, with the reason."""

    requested: Layout
    infeasible_nodes: int = 0
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """One line of the ledger: a decision, what was done about it, and later what it achieved."""

    entry_id: int
    time_s: float
    strategy: str
    verdict: str
    """``act`` or ``hold``."""
    before: Layout
    decision: Decision
    outcome: Outcome | None = None
    achieved: float | None = None
    """Measured value of ``decision.expected.metric`` when its time had come."""

    @property
    def changed(self) -> bool:
        """Whether the target was asked for something else than there was: a reconfiguration."""
        return self.outcome is not None and bool(self.outcome.requested.difference(self.before))

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> LedgerEntry:
        """The entry that ``to_json`` wrote; what was expected of other layouts is not in it."""
        expected, outcome = document["expected"], document["outcome"]
        return cls(
            entry_id=document["id"],
            time_s=document["time_s"],
            strategy=document["strategy"],
            verdict=document["verdict"],
            before=Layout(**document["before"]),
            decision=Decision(
                wanted=Layout(**document["wanted"]),
                reason=document["reason"],
                formula=document["formula"],
                inputs=document["inputs"],
                bound_by=tuple(Constraint(**each) for each in document["bound_by"]),
                expected=expected and Effect(**{**expected, "metric": Metric.of(expected["metric"])}),
            ),
            outcome=outcome and Outcome(**{**outcome, "requested": Layout(**outcome["requested"])}),
            achieved=document["achieved"],
        )

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
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
