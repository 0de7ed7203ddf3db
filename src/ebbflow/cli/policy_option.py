"""``--policy FILE``, where a command lets a strategy decide."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ebbflow.errors import InputError
from ebbflow.policy.files import load_policy
from ebbflow.strategies import Rules, make_strategy

PolicyOption = Annotated[
    Path | None,
    typer.Option(
        help="A policy in TOML or YAML: its rules decide, and it is followed while it runs.", metavar="FILE"
    ),
]


def chosen_strategy(strategy: str, policy: Path | None) -> str:
    """The name of the strategy that will decide; both must be sound before anything is started."""
    if policy is None:
        return make_strategy(strategy).name
    if strategy not in ("capacity", Rules.name):
        raise InputError(f"--policy is for the strategy rules, not for {strategy}; leave one of them out")
    load_policy(policy)
    return Rules.name
