"""Strategies decide. One file each; to add one: the file, a line in ``STRATEGIES``, a test.

A strategy is a class with a ``name``, a constructor that needs no arguments, and ``decide``. One that sets
``brings_own_guards = True`` brings its own periods, cool-downs and steps (see ``strategies.peers``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from ebbflow.core.ports import Strategy
from ebbflow.errors import InputError, UnknownNameError
from ebbflow.profiling.estimator import Estimator
from ebbflow.strategies.baselines import (
    Dask,
    Dataflow,
    Ds2,
    ElasticScaling,
    Flink,
    Hpa,
    Keda,
    SparkDra,
    SparkLegacy,
)
from ebbflow.strategies.capacity.strategy import Capacity
from ebbflow.strategies.joint import Joint
from ebbflow.strategies.rules.strategy import Rules
from ebbflow.strategies.static import Static, StaticMean
from ebbflow.strategies.symbiotic import Symbiotic

__all__ = [
    "PROFILED", "STRATEGIES", "Capacity", "Joint", "Rules", "Static", "StaticMean", "Symbiotic", "make_strategy",
]  # fmt: skip

PROFILED: dict[str, Callable[..., Strategy]] = {
    "symbiotic": Symbiotic,
    "symbiotic-proactive": partial(Symbiotic, proactive=True),
}
"""Those that can be given estimators of profiles."""
STRATEGIES: dict[str, Callable[[], Strategy]] = {
    Capacity.name: Capacity,
    **PROFILED,
    Joint.name: Joint,
    Rules.name: Rules,
    Static.name: Static,
    StaticMean.name: StaticMean,
    SparkDra.name: SparkDra,
    SparkLegacy.name: SparkLegacy,
    ElasticScaling.name: ElasticScaling,
    Flink.name: Flink,
    Ds2.name: Ds2,
    Hpa.name: Hpa,
    Keda.name: Keda,
    Dataflow.name: Dataflow,
    Dask.name: Dask,
}


def make_strategy(name: str, estimators: Mapping[str, Estimator] | None = None) -> Strategy:
    """A fresh strategy by its name; ``estimators`` by pipeline, where profiles were given to size by.

    >>> make_strategy("capacity").name
    'capacity'
    """
    if name not in STRATEGIES:
        raise UnknownNameError("strategy", name, STRATEGIES)
    if not estimators:
        return STRATEGIES[name]()
    if name not in PROFILED:
        raise InputError(f"a profile is for {' and '.join(PROFILED)}, not for {name}; leave one of them out")
    return PROFILED[name](estimators)
