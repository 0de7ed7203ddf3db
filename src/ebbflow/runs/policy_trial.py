"""Try a policy on a load in the simulator: when each rule fires, and what it changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ebbflow.core.pipeline import Pipeline
from ebbflow.core.run import Run
from ebbflow.policy.model import Policy
from ebbflow.runs.leaderboard.policies import check_operators
from ebbflow.runs.simulation import play
from ebbflow.strategies.rules import Rules
from ebbflow.targets.simulator import Continuous, Scenario


@dataclass(frozen=True, kw_only=True)
class Firing:
    """A change that a rule made; ``rule`` is empty if bounds made it."""

    time_s: float
    rule: str
    change: str
    because: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """The result of trying a policy."""

    run: Run
    firings: tuple[Firing, ...]
    counts: dict[str, int]
    """How many times each rule fired."""
    unread: Mapping[str, tuple[str, ...]]
    """The measures without any reading, by rule."""

    def to_json(self) -> dict[str, Any]:
        """The result as plain values."""
        return {
            "fired": [
                {"time_s": f.time_s, "rule": f.rule, "change": f.change, "because": f.because}
                for f in self.firings
            ],
            "times": self.counts,
            "unheard": {name: list(measures) for name, measures in self.unread.items()},
        }


def chain(rates_per_s: Mapping[str, float]) -> Continuous:
    """A chain of operators on a continuous engine, each with the rows per second one instance processes."""
    return Continuous(
        pipeline=Pipeline.chain("tried", *rates_per_s),
        row_cost_s={name: 1.0 / rate for name, rate in rates_per_s.items()},
    )


def rule_names(text: str, known: Sequence[str]) -> list[str]:
    """Split a ledger entry at "; " into known rule names, which may contain "; " themselves.

    >>> rule_names("busy; grow; grow", ["busy; grow", "grow", "busy"])
    ['busy; grow', 'grow']
    """
    for name in known:
        if text == name:
            return [name]
        if text.startswith(f"{name}; ") and (rest := rule_names(text[len(name) + 2 :], known)):
            return [name, *rest]
    return []


def try_policy(policy: Policy, scenario: Scenario) -> Trial:
    """Simulate a policy on a scenario.

    >>> from ebbflow.runs.spec import Spec
    >>> from ebbflow.strategies.rules import default_policy
    >>> spec = Spec(load="step(base=100, peak=900, at=1m)", seconds="5m", initial_nodes=1)
    >>> try_policy(default_policy(), spec.scenario()).firings[0].change
    'main +1 nodes'
    """
    check_operators(policy, scenario, remedy="describe yours with --operators {operator}=RATE,…")
    rules = Rules(policy, begins_at_s=scenario.begins_at_s)
    run = play(scenario, rules).run
    firings = tuple(
        Firing(
            time_s=entry.time_s,
            rule=str(entry.decision.inputs.get("rule", "")),
            change=str(entry.decision.wanted.difference(entry.before)),
            because="; ".join(
                str(value)
                for name, value in entry.decision.inputs.items()
                if name != "rule" and not name.startswith("readings of ")
            )
            or entry.decision.reason,
        )
        for entry in run.decisions
        if entry.verdict == "act"
    )
    known = sorted((rule.name for rule in policy.rules), key=len, reverse=True)
    fired = [name for firing in firings for name in rule_names(firing.rule, known)]
    return Trial(
        run=run,
        firings=firings,
        counts={rule.name: fired.count(rule.name) for rule in policy.rules},
        unread=rules.unread,
    )
