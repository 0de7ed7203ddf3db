"""Waves of tasks: S slots run the p tasks of a stage in ceil(p / S) rounds."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ebbflow.core.curve import Floats


def waves(tasks: int, slots: int) -> int:
    """ceil(tasks / slots): rounds in which slots run the tasks of a stage.

    >>> [waves(12, slots) for slots in (1, 4, 5, 12, 20)]
    [12, 3, 3, 1, 1]
    """
    return -(-tasks // (slots if slots > 1 else 1))


def waves_on(tasks: int, slots: Floats) -> Floats:
    """The same for an array of slots.

    >>> waves_on(12, np.array([1.0, 5.0, 20.0])).tolist()
    [12.0, 3.0, 1.0]
    """
    return np.asarray(np.ceil(tasks / np.maximum(slots, 1.0)))


@lru_cache(maxsize=256)
def useful_slots(tasks: frozenset[int], most: int) -> tuple[int, ...]:
    """Slot counts up to ``most`` at which a stage with one of these task counts saves a wave, ascending.

    Other counts cost more and take as long: ceil(p / S) changes only at S = ceil(p / k).

    >>> useful_slots(frozenset({12}), 20)
    (1, 2, 3, 4, 6, 12)
    """
    edges = {1}
    for count in tasks:
        edges.update(np.unique(-(-count // np.arange(1, count + 1))).tolist())
    return tuple(sorted(edge for edge in edges if edge <= most))
