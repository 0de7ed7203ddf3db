"""Forecasters by name.

A factory takes the length of a step in seconds and a random seed, and returns a ``Forecaster``. Slow libraries are
imported only when a factory that needs them is called. Other distributions add theirs by entry point:

    [project.entry-points."ebbflow.forecasters"]
    mine = "my_package:make_mine"
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from ebbflow.errors import InputError, UnknownNameError
from ebbflow.forecasting.port import Forecaster

ENTRY_POINT_GROUP = "ebbflow.forecasters"
DEFAULT = "mixture"

Factory = Callable[[float, int], Forecaster]

BUILT_IN: dict[str, str] = {
    "mixture": "ebbflow.forecasting.cheap:mixture",
    "last-value": "ebbflow.forecasting.cheap:last_value",
    "moving-mean": "ebbflow.forecasting.cheap:moving_mean",
    "moving-maximum": "ebbflow.forecasting.cheap:moving_maximum",
    "damped-trend": "ebbflow.forecasting.cheap:damped_trend",
    "smoothing": "ebbflow.forecasting.cheap:smoothing",
    "holt-winters": "ebbflow.forecasting.cheap:holt_winters",
    "seasonal-naive": "ebbflow.forecasting.cheap:seasonal_naive",
    "jumps": "ebbflow.forecasting.cheap:jumps",
    "autoregression": "ebbflow.forecasting.cheap:autoregression",
    "arima": "ebbflow.forecasting.trained.factories:arima",
    "boosting": "ebbflow.forecasting.trained.factories:boosting",
    "net": "ebbflow.forecasting.trained.factories:pascal_net",
    "elysium-net": "ebbflow.forecasting.trained.factories:elysium_net",
    "press": "ebbflow.forecasting.trained.factories:press",
}
"""Where each factory is: ``module:function(step_s, seed)``. To add a forecaster, add its line."""


class Registry(Mapping[str, Factory]):
    """Factories by name: built-in ones, then those of entry points, which cannot replace a built-in one."""

    @cached_property
    def _entries(self) -> dict[str, str | EntryPoint]:
        entries: dict[str, str | EntryPoint] = dict(BUILT_IN)
        for entry_point in entry_points(group=ENTRY_POINT_GROUP):
            entries.setdefault(entry_point.name, entry_point)
        return entries

    def __getitem__(self, name: str) -> Factory:
        entry = self._entries[name]
        if isinstance(entry, str):
            module, _, function = entry.partition(":")
            factory: Factory = getattr(import_module(module), function)
            return factory
        try:
            loaded: Factory = entry.load()
        except Exception as error:
            raise InputError(f"forecaster {name!r} cannot be loaded from {entry.value}: {error}") from error
        return loaded

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


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
    made = FORECASTERS[name](step_s, seed)
    if not isinstance(made, Forecaster):
        raise InputError(f"forecaster {name!r}: its entry point returned {made!r}, which is not a Forecaster")
    return made
