"""Scaling strategies, by name.

A strategy is a subclass of ``Strategy`` with a ``name``, ``decide`` and defaults for all constructor parameters. To add
one, write a module or package in ``strategies/`` or ``strategies/baselines/`` that defines the class, and a test. There
is no list to edit. Other distributions add theirs by entry point:

    [project.entry-points."ebbflow.strategies"]
    mine = "my_package:Mine"
"""

from __future__ import annotations

import inspect
import logging
import pkgutil
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ebbflow.core.expression import Call, parse_call
from ebbflow.core.parameters import read_arguments
from ebbflow.core.plugins import installed, load, make
from ebbflow.core.plural import listed
from ebbflow.core.ports import Strategy
from ebbflow.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from ebbflow.profiling.estimator import Estimator

__all__ = [
    "STRATEGIES", "Factory", "StrategyRegistry", "make_strategy", "parameters_of", "read_strategy", "takes_profiles",
]  # fmt: skip

log = logging.getLogger(__name__)

PACKAGES = ("ebbflow.strategies", "ebbflow.strategies.baselines")
ENTRY_POINT_GROUP = "ebbflow.strategies"

Factory = Callable[..., Strategy]


class StrategyRegistry(MutableMapping[str, Factory]):
    """Strategy classes by name: those of ``PACKAGES``, then those of entry points.

    Modules are imported on first use, and third-party classes when they are looked up. A third-party strategy cannot
    replace a built-in one; that is a warning.
    """

    @cached_property
    def _entries(self) -> dict[str, Factory | EntryPoint]:
        entries: dict[str, Factory | EntryPoint] = {}
        for package in map(import_module, PACKAGES):
            for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
                entries |= _strategies_in(import_module(info.name))
        return entries | installed(ENTRY_POINT_GROUP, "strategy", entries)

    def __getitem__(self, name: str) -> Factory:
        entry = self._entries[name]
        if isinstance(entry, EntryPoint):
            entry = self._entries[name] = load(entry, "strategy", Strategy)
        return entry

    @cached_property
    def _unusable(self) -> set[str]:
        return set()

    def usable(self) -> list[str]:
        """The names of all strategies but those that cannot be loaded; each of these is warned about once."""
        names = []
        for name in list(self._entries):
            if name in self._unusable:
                continue
            try:
                self[name]
            except InputError as error:
                self._unusable.add(name)
                log.warning("%s", error)
            else:
                names.append(name)
        return names

    def comparable(self, *, clusters: bool) -> list[str]:
        """The usable strategies for pipelines on one cluster; with ``clusters`` also those that need several."""
        kinds = {name: _strategy_class(self[name]) for name in self.usable()}
        return [
            name
            for name, kind in kinds.items()
            if (clusters or not kind.handles_clusters) and not kind.for_datastores
        ]

    def __setitem__(self, name: str, factory: Factory) -> None:
        self._entries[name] = factory

    def __delitem__(self, name: str) -> None:
        del self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


STRATEGIES = StrategyRegistry()
"""Every strategy that can be chosen by name."""


def make_strategy(
    strategy: str, estimators: Mapping[str, Estimator] | None = None, **parameters: Any
) -> Strategy:
    """Create a strategy from its name, or from an expression like ``capacity(budget_out=0.5)``.

    ``estimators``: profiles to size by, for each pipeline. ``parameters``: keyword arguments of its constructor.

    >>> make_strategy("capacity(hold_in=1m)", budget_out=0.5).name
    'capacity'
    >>> make_strategy("capacity(budgetout=0.5)")
    Traceback (most recent call last):
    ...
    ebbflow.errors.InputError: strategy capacity has no parameter 'budgetout'; did you mean 'budget_out'? It has: \
budget_out, budget_in, busy_limit, busy_limit_in, hold_in, rate_window
    """
    call = read_strategy(strategy)
    factory, known = STRATEGIES[call.name], parameters_of(call.name)
    for parameter in parameters:
        if not known:
            raise InputError(f"strategy {call.name} has no parameters, and got {parameter}")
        if parameter not in known:
            raise UnknownNameError(f"parameter of {call.name}", parameter, known)
    if estimators:
        if not takes_profiles(call.name):
            usable = listed(each for each in STRATEGIES.usable() if takes_profiles(each))
            raise InputError(f"a profile is for {usable}, not for {call.name}; leave one of them out")
        parameters["estimators"] = estimators
    written = read_arguments(f"strategy {call.name}", factory, call.arguments)
    return make("strategy", call.name, factory, Strategy, written, parameters)


def read_strategy(text: str) -> Call:
    """The name and arguments of a strategy expression, checked.

    >>> str(read_strategy("capacity( budget_out=0.5 )"))
    'capacity(budget_out=0.5)'
    """
    call = parse_call("strategy", text)
    if call.name not in STRATEGIES:
        raise UnknownNameError("strategy", call.name, STRATEGIES)
    read_arguments(f"strategy {call.name}", STRATEGIES[call.name], call.arguments)
    return call


def parameters_of(name: str) -> Mapping[str, inspect.Parameter]:
    """The constructor parameters of a strategy."""
    if name not in STRATEGIES:
        raise UnknownNameError("strategy", name, STRATEGIES)
    return inspect.signature(STRATEGIES[name]).parameters


def takes_profiles(strategy: str) -> bool:
    """Whether a strategy, given by name or as an expression, can be given profiles."""
    return "estimators" in parameters_of(read_strategy(strategy).name)


def _strategies_in(module: ModuleType) -> dict[str, Factory]:
    """The strategies that a module defines, or that a package exports from its own modules, in their order there."""
    return {
        each.name: each
        for each in vars(module).values()
        if inspect.isclass(each)
        and issubclass(each, Strategy)
        and f"{each.__module__}.".startswith(f"{module.__name__}.")
        and "name" in vars(each)
    }


def _strategy_class(factory: Factory) -> type[Strategy]:
    """The class that a factory is; ``Strategy`` itself, with its defaults, for a function."""
    return factory if inspect.isclass(factory) and issubclass(factory, Strategy) else Strategy
