"""Guards restrain what strategies want; safety lives here and not in each strategy.

They are asked in order, each seeing what the one before left. A guard that changes nothing returns
the decision it was given. To add one: a file with one class that has ``restrain``, a line here, a test.
"""

from __future__ import annotations

from ebbflow.core.ports import Guard, Strategy
from ebbflow.guards.backlog import FreezeScaleInOnBacklog
from ebbflow.guards.bounds import Bounds
from ebbflow.guards.cooldown import CoolDown
from ebbflow.guards.missing_data import HoldOnMissingData
from ebbflow.guards.step_cap import StepCap

__all__ = [
    "Bounds",
    "CoolDown",
    "FreezeScaleInOnBacklog",
    "HoldOnMissingData",
    "StepCap",
    "default_guards",
    "guards_for",
]


def default_guards() -> tuple[Guard, ...]:
    """The guards of every loop, in their order.

    Bounds come after all that restrain a size, because nothing may go past them, whatever the others
    left. Missing data comes last, because nothing at all may be done on it, not even to keep the bounds.
    """
    return (FreezeScaleInOnBacklog(), CoolDown(), StepCap(), Bounds(), HoldOnMissingData())


def guards_for(strategy: Strategy) -> tuple[Guard, ...]:
    """All guards; only bounds and missing data for a strategy that ``brings_own_guards``."""
    if strategy.brings_own_guards:
        return (Bounds(), HoldOnMissingData())
    return default_guards()
