"""Policies among the strategies of a comparison: each is a row named after its file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ebbflow.core.pipeline import Pipeline
from ebbflow.errors import InputError
from ebbflow.policy.files import load_policy
from ebbflow.policy.model import EACH_OPERATOR, NODES, Policy
from ebbflow.targets.simulator.scenario import Scenario


def read_policies(files: Iterable[Path]) -> dict[str, Policy]:
    """Policies by the names of their files; sound ones only, and no two of one name."""
    policies: dict[str, Policy] = {}
    for file in files:
        if file.name in policies:
            raise InputError(
                f"two policies are called '{file.name}'; rows are named after their files, so name them differently"
            )
        policies[file.name] = load_policy(file)
    return policies


def check_operators(policy: Policy, scenario: Scenario, *, remedy: str = "") -> None:
    """Every operator that a policy names must be there: a rule about another would never fire, silently."""
    pipelines = [scenario.engine.pipeline]
    if scenario.others:
        engines = [scenario.engine, *(tenant.engine for tenant in scenario.others)]
        pipelines = [engine.with_qualified_operators.pipeline for engine in engines]
    operators = [name for pipeline in pipelines for name in pipeline.order]
    named = [(rule.name, rule.operator) for rule in policy.rules]
    named += [(bounds.name, bounds.operator) for bounds in policy.bounds]
    for name, operator in named:
        if operator not in (NODES, EACH_OPERATOR, *operators):
            text = f"'{name}' names operator '{operator}', which {_called(pipelines)} does not have "
            text += f"({', '.join(operators)})"
            raise InputError(text + (f"; {remedy.format(operator=operator)}" if remedy else ""))


def _called(pipelines: Sequence[Pipeline]) -> str:
    return "pipeline " + " or ".join(pipeline.name for pipeline in pipelines)
