"""Policies in simulated runs: read them, check them against a scenario, and try one on a load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebbflow.core.pipeline import Pipeline
from ebbflow.core.run import Run
from ebbflow.errors import InputError
from ebbflow.guards import guards_for
from ebbflow.policy.files import load_policy
from ebbflow.policy.model import EACH_OPERATOR, NODES, Policy
from ebbflow.runs.simulation import run_simulation
from ebbflow.runs.sweep import GuardsOf
from ebbflow.strategies.rules import Rules
from ebbflow.targets.simulator import Continuous, Scenario


def read_policies(files: Iterable[Path]) -> dict[str, Policy]:
    """Policies by file name, which is the name of their row in tables."""
    policies: dict[str, Policy] = {}
    for file in files:
        if file.name in policies:
            raise InputError(
                f"two policies are called '{file.name}'; rows are named after their files, so rename one"
            )
        policies[file.name] = load_policy(file)
    return policies


def check_operators(policy: Policy, scenario: Scenario, *, remedy: str = "") -> None:
    """Check that the scenario has every operator that a policy names: other rules would never fire."""
    pipelines = [scenario.engine.pipeline]
    if scenario.others:
        engines = [scenario.engine, *(tenant.engine for tenant in scenario.others)]
        pipelines = [engine.with_qualified_operators.pipeline for engine in engines]
    operators = [name for pipeline in pipelines for name in pipeline.order]
    named = [(rule.name, rule.operator) for rule in policy.rules]
    named += [(bounds.name, bounds.operator) for bounds in policy.bounds]
    for name, operator in named:
        if operator not in (NODES, EACH_OPERATOR, *operators):
            text = f"'{name}' names operator '{operator}', which pipeline "
            text += " or ".join(pipeline.name for pipeline in pipelines)
            text += f" does not have ({', '.join(operators)})"
            raise InputError(text + (f"; {remedy.format(operator=operator)}" if remedy else ""))


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


def try_policy(policy: Policy, scenario: Scenario, guards: GuardsOf = guards_for) -> Trial:
    """Simulate a policy on a scenario. ``guards``: returns the guards of a strategy.

    >>> from ebbflow.runs.spec import Spec
    >>> from ebbflow.strategies.rules import default_policy
    >>> spec = Spec(load="step(base=100, peak=900, at=1m)", seconds="5m", initial_nodes=1)
    >>> try_policy(default_policy(), spec.scenario()).firings[0].change
    'main +1 node'
    """
    check_operators(policy, scenario, remedy="describe yours with --operators {operator}=RATE,…")
    rules = Rules(policy, begins_at_s=scenario.begins_at_s)
    run = run_simulation(scenario, rules, guards(rules)).run
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
