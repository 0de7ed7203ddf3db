"""Initial values of the table (§5.3.2): zero, random in (−1, 1), or optimal by region.

With n = latency / target (equation 5.9), the optimal initialiser has

| region | out | none | in | equation |
|---|---|---|---|---|
| 1 | n | 1 − n | 0 | 5.10 |
| 2 | n | n − 1 | −1 | 5.11 |
| 3 | 0 | 1 | −1 | 5.12 |
| 4 | 0 | n | 1 − n | 5.13 |
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from ebbflow.strategies.learner.q_table import Values
from ebbflow.strategies.learner.state import Region, State, StateSpace

Initialiser = Callable[[State], Values]


def zero(_: State) -> Values:
    """All zero."""
    return (0.0, 0.0, 0.0)


def optimal_values(region: Region, n: float) -> Values:
    """Equations 5.10 to 5.13: values of out, in and none.

    >>> optimal_values(Region.BELOW_RISING, 0.75), optimal_values(Region.BELOW_FALLING, 0.25)
    ((0.75, 0.0, 0.25), (0.0, 0.75, 0.25))
    >>> optimal_values(Region.ABOVE_RISING, 1.5), optimal_values(Region.ABOVE_FALLING, 1.5)
    ((1.5, -1.0, 0.5), (0.0, -1.0, 1.0))
    """
    if region is Region.BELOW_RISING:
        return (n, 0.0, 1.0 - n)
    if region is Region.ABOVE_RISING:
        return (n, -1.0, n - 1.0)
    if region is Region.ABOVE_FALLING:
        return (0.0, -1.0, 1.0)
    return (0.0, 1.0 - n, n)


def initialiser(mode: str, space: StateSpace, rng: Random) -> Initialiser:
    """The initialiser of a mode: ``zero``, ``random`` or ``optimal``."""
    if mode == "zero":
        return zero
    if mode == "random":
        return lambda _: (rng.uniform(-1, 1), rng.uniform(-1, 1), rng.uniform(-1, 1))
    return lambda state: optimal_values(space.region(state), space.ratio(state))
