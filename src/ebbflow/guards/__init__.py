"""Guards restrain the decisions of strategies. Safety lives here, not in each strategy.

They run in order, each on what the one before left. A guard that changes nothing returns the decision it was given. To
add one of your own, subclass ``Guard`` and pass it to ``attach(guards=[…])``, or publish it by entry point and add its
name to the option ``guards.add``:

    [project.entry-points."ebbflow.guards"]
    business-hours = "my_package:BusinessHours"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint
from types import MappingProxyType
from typing import Any

from ebbflow.core.expression import Call, parse_call
from ebbflow.core.parameters import arguments, read_arguments
from ebbflow.core.plugins import installed, load, make
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
    "load_guard",
    "make_guard",
    "read_guard",
    "topology_guards",
]

ENTRY_POINT_GROUP = "ebbflow.guards"
BUILT_IN: Mapping[str, type[Guard]] = MappingProxyType(
    {kind.name.replace(" ", "-"): kind for kind in (FreezeScaleInOnBacklog, CoolDown, StepCap)}
)
"""Guards with parameters, by the name of their table in the configuration."""
_NAMES = {*BUILT_IN, "add", "bounds", "missing-data"}
"""Names that an installed guard cannot have; ``guards.add`` is an option."""

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


def installed_guards() -> dict[str, EntryPoint]:
    """Guards that other distributions publish, by name. They cannot take the name of a built-in one."""
    return installed(ENTRY_POINT_GROUP, "guard", _NAMES)


def load_guard(entry_point: EntryPoint) -> Callable[..., Guard]:
    """The class or function of an installed guard."""
    return load(entry_point, "guard", Guard)


def read_guard(expression: str) -> Call:
    """The name and arguments of an installed guard, checked."""
    call = parse_call("guard", expression)
    read_arguments(f"guard {call.name}", _factory(call), call.arguments)
    return call


def make_guard(expression: str, settings: Settings | None = None) -> Guard:
    """Create an installed guard from its name, or from an expression like ``business-hours(opens=8)``."""
    call = parse_call("guard", expression)
    factory = _factory(call)
    values = read_arguments(f"guard {call.name}", factory, call.arguments)
    return make("guard", call.name, factory, Guard, {**(settings or {}).get(call.name, {}), **values})


def _factory(call: Call) -> Callable[..., Guard]:
    found = installed_guards()
    if call.name not in found:
        if not found:
            raise InputError(f"unknown guard '{call.name}': no distribution with guards is installed")
        raise UnknownNameError("guard", call.name, found)
    return load_guard(found[call.name])
