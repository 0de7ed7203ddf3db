"""Forecasters by name.

A factory takes the length of a step in seconds and a random seed, and returns a ``Forecaster``. To add one, write a
module in ``experts/`` that names it in ``FORECASTERS``, or one in ``trained/`` that names it in ``METHODS``. There is
no list to edit. Slow libraries are imported when a forecaster that needs them is trained. Other distributions add
theirs by entry point:

    [project.entry-points."ebbflow.forecasters"]
    mine = "my_package:make_mine"
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from importlib import import_module
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import TYPE_CHECKING

from ebbflow.core.plugins import installed, load, make
from ebbflow.errors import InputError, UnknownNameError
from ebbflow.forecasting.port import Forecaster

if TYPE_CHECKING:
    from ebbflow.forecasting.experts.expert import Expert
    from ebbflow.forecasting.trained import AnyMethod

ENTRY_POINT_GROUP = "ebbflow.forecasters"
DEFAULT = "mixture"

Factory = Callable[[float, int], Forecaster]


class Registry(Mapping[str, Factory]):
    """Factories by name: built-in ones, then those of entry points, which cannot replace a built-in one."""

    @cached_property
    def _entries(self) -> dict[str, Factory | EntryPoint]:
        built_in = _built_in()
        return {**built_in, **installed(ENTRY_POINT_GROUP, "forecaster", built_in)}

    def __getitem__(self, name: str) -> Factory:
        entry = self._entries[name]
        return load(entry, "forecaster", Forecaster) if isinstance(entry, EntryPoint) else entry

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _built_in() -> dict[str, Factory]:
    """The mixture, then the experts and the trained methods. They are imported on first use."""
    found: dict[str, Factory] = {DEFAULT: _mixture}
    for module in _modules("ebbflow.forecasting.experts"):
        found |= {
            name: partial(_expert, name, make) for name, make in getattr(module, "FORECASTERS", {}).items()
        }
    for module in _modules("ebbflow.forecasting.trained"):
        found |= {
            name: partial(_trained, name, make) for name, make in getattr(module, "METHODS", {}).items()
        }
    return found


def _modules(package: str) -> Iterator[ModuleType]:
    for info in pkgutil.iter_modules(import_module(package).__path__, f"{package}."):
        yield import_module(info.name)


def _mixture(step_s: float, _seed: int) -> Forecaster:
    from ebbflow.forecasting.mixture import Mixture

    return Mixture(step_s)


def _expert(name: str, make: Callable[[float], Expert], step_s: float, _seed: int) -> Forecaster:
    from ebbflow.forecasting.single import Single

    return Single(name, make(step_s), step_s)


def _trained(name: str, make: Callable[[int], AnyMethod], step_s: float, seed: int) -> Forecaster:
    from ebbflow.forecasting.experts.trained import TrainedExpert
    from ebbflow.forecasting.single import Single

    return Single(name, TrainedExpert(name, make(seed)), step_s)


FORECASTERS = Registry()
"""Every forecaster that can be chosen by name."""


def make_forecaster(name: str, step_s: float, seed: int = 0) -> Forecaster:
    """Create a forecaster for steps of ``step_s`` seconds.

    >>> make_forecaster("last-value", 60.0).name
    'last-value'
    """
    if name not in FORECASTERS:
        raise UnknownNameError("forecaster", name, FORECASTERS)
    if not step_s > 0:
        raise InputError(f"a step of {step_s:g} s; it must be above 0")
    return make("forecaster", name, partial(FORECASTERS[name], step_s, seed), Forecaster, {})
