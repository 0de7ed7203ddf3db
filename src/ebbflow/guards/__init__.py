"""Guards restrain the decisions of strategies. Safety lives here, not in each strategy.

They run in order, each on what the one before left. A guard that changes nothing returns the decision it was given. To
add one of your own, subclass ``Guard`` and pass it to ``attach(guards=[…])``, or publish it by entry point and add its
name to the option ``guards.add``:

    [project.entry-points."ebbflow.guards"]
    business-hours = "my_package:BusinessHours"
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any

from ebbflow.core.expression import parse_call
from ebbflow.core.parameters import arguments, read_arguments
from ebbflow.core.ports import Guard, Strategy
from ebbflow.errors import InputError, UnknownNameError
from ebbflow.guards.backlog import FreezeScaleInOnBacklog
from ebbflow.guards.limits import Bounds, CoolDown, StepCap
from ebbflow.guards.missing_data import HoldOnMissingData
from ebbflow.guards.topology import TopologyGuard, topology_guards

__all__ = [
    "Bounds",
    "CoolDown",
    "FreezeScaleInOnBacklog",
    "HoldOnMissingData",
    "StepCap",
    "TopologyGuard",
    "default_guards",
    "guards_for",
    "installed_guards",
    "make_guard",
    "topology_guards",
]

ENTRY_POINT_GROUP = "ebbflow.guards"
BUILT_IN: Mapping[str, type[Guard]] = MappingProxyType(
    {kind.name.replace(" ", "-"): kind for kind in (FreezeScaleInOnBacklog, CoolDown, StepCap)}
)
"""Guards with parameters, by the name of their table in the configuration."""

Settings = Mapping[str, Mapping[str, Any]]
"""Values of guard parameters, by guard and key."""


def default_guards(settings: Settings | None = None, added: Sequence[Guard] = ()) -> tuple[Guard, ...]:
    """The guards of every loop, in order.

    Bounds run after all guards that restrain a size, ``added`` ones included: no size may exceed them. Missing data
    runs last: without data nothing may change, not even to return into the bounds.

    >>> [guard.name for guard in default_guards()]
    ['backlog', 'cool-down', 'step cap', 'bounds', 'missing data']
    """
    made = [kind(**arguments(kind, (settings or {}).get(name, {}))) for name, kind in BUILT_IN.items()]
    return (*made, *added, Bounds(), HoldOnMissingData())


def guards_for(
    strategy: Strategy, settings: Settings | None = None, added: Sequence[Guard] = ()
) -> tuple[Guard, ...]:
    """All guards; for a strategy that ``brings_own_guards`` only the added ones, bounds and missing data."""
    if strategy.brings_own_guards:
        return (*added, Bounds(), HoldOnMissingData())
    return default_guards(settings, added)


def installed_guards() -> dict[str, Callable[[], Callable[..., Guard]]]:
    """Guards that other distributions publish: functions that load their class, by name."""
    return {each.name: partial(_load, each) for each in entry_points(group=ENTRY_POINT_GROUP)}


def _load(entry_point: EntryPoint) -> Callable[..., Guard]:
    try:
        factory: Callable[..., Guard] = entry_point.load()
    except Exception as error:
        raise InputError(f"guard '{entry_point.name}' cannot be loaded: {error}") from error
    if not callable(factory) or (inspect.isclass(factory) and not issubclass(factory, Guard)):
        raise InputError(
            f"guard '{entry_point.name}' cannot be loaded: it must be a subclass of Guard or a function that "
            "returns a Guard"
        )
    return factory


def make_guard(expression: str, settings: Settings | None = None) -> Guard:
    """Create an installed guard from its name, or from an expression like ``business-hours(opens=8)``."""
    call, installed = parse_call("guard", expression), installed_guards()
    if call.name not in installed:
        if not installed:
            raise InputError(f"unknown guard '{call.name}': no distribution with guards is installed")
        raise UnknownNameError("guard", call.name, installed)
    factory = installed[call.name]()
    values = read_arguments(f"guard {call.name}", factory, call.arguments)
    return factory(**arguments(factory, {**(settings or {}).get(call.name, {}), **values}))
