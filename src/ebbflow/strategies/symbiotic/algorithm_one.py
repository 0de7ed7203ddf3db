"""Elysium's Algorithm 1 (§3.2): how many instances each operator needs, then the fewest nodes that hold them all.

    p_i = min { p : cores_i(rate_i / p) ≤ core_max },  p ≤ max_i;  one less while cores_i(rate_i / p) < core_min
    n   = min { n : for all nodes x of allocate({p_i}, n):  share(Σ cores on x) ≤ cpu_max }

``allocate`` is the target's own scheduler, here the even one (``core.placement``). The seed tries p = 1, 2, 3, … and
n = 1, 2, 3, …; the answers here are the same, found sooner. CPU never falls as the rate rises, so p is found by
halving. How full the fullest node is can go up and down with n, so n cannot be halved for; but no n below
Σ p_i · cores_i ÷ (cpu_max · cores of a node) can be enough, as a node is never less busy than its instances. From
there on sizes are tried in turn, each in a few microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt

from ebbflow.core.parameters import Flag, Share, Whole
from ebbflow.core.snapshot import Snapshot
from ebbflow.errors import InputError

SLACK = 1e-9
"""Sums of floats: what is over a threshold by no more than this is not."""


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """When instances and nodes are stressed (Elysium §2; values found by Q-learning there, Table 1).

    >>> Thresholds(core_min=0.7)
    Traceback (most recent call last):
    ...
    ebbflow.errors.InputError: core_min 0.7 and core_max 0.65: they must rise, from above 0 to at most 1
    """

    cpu_max: Annotated[float, Share("Share of its cores above which a node is stressed.")] = 0.80
    core_min: Annotated[float, Share("Share of a core below which an instance has too little to do.")] = 0.25
    core_max: Annotated[float, Share("Share of a core above which an instance is stressed.")] = 0.65

    def __post_init__(self) -> None:
        if not 0 < self.core_min < self.core_max <= 1:
            raise InputError(
                f"core_min {self.core_min:g} and core_max {self.core_max:g}: they must rise, from above 0 to at most 1"
            )
        if not 0 < self.cpu_max <= 1:
            raise InputError(f"cpu_max {self.cpu_max:g}: it must be above 0 and at most 1")


@dataclass(frozen=True, kw_only=True)
class Dimensions:
    """Which of the two may be scaled, and how many instances an operator may have at most."""

    operators: Annotated[bool, Flag("Whether operators are scaled.")] = True
    nodes: Annotated[bool, Flag("Whether nodes are scaled.")] = True
    most_instances: Annotated[
        Mapping[str, int] | int | None,
        Whole("Most instances of an operator; by default the slots of the most nodes.", at_least=1),
    ] = None
    """Of every operator, or by name; where not told, as many as there are slots on the most nodes."""

    def most(self, operator: str, snapshot: Snapshot) -> int:
        """Instances that an operator may have."""
        told = self.most_instances
        if isinstance(told, Mapping):
            told = told.get(operator, told.get(operator.rpartition("/")[2]))
        if told is None:
            told = snapshot.limits.max_nodes * max(1, snapshot.slots_per_node)
        return max(1, told)


@dataclass(frozen=True)
class Instances:
    """The instances of one operator."""

    operator: str
    count: int
    cores: float
    """CPU that each of them uses, in cores."""


@dataclass(frozen=True)
class Fit:
    """A number of nodes for some instances."""

    nodes: int
    share: float
    """Of its cores that the fullest node uses."""
    fits: bool
    """Whether that is within the threshold; where no size is, this one has the least full fullest node."""


def fewest_instances(
    cores: Callable[[float], float], rate_per_s: float, most: int, thresholds: Thresholds
) -> int:
    """Instances that an operator needs (lines 5 to 9). ``cores``: CPU of one at its rate, which never falls.

    >>> fewest_instances(lambda rate: 0.002 * rate, 1000.0, 8, Thresholds())  # 2 cores: 3 × 0.67, 4 × 0.5
    4
    >>> fewest_instances(lambda rate: 0.002 * rate, 1000.0, 3, Thresholds())
    3
    """
    low, high = 1, max(1, most)
    while low < high:
        middle = (low + high) // 2
        if cores(rate_per_s / middle) > thresholds.core_max + SLACK:
            low = middle + 1
        else:
            high = middle
    while low > 1 and cores(rate_per_s / low) < thresholds.core_min - SLACK:
        low -= 1
    return low


def fewest_nodes(
    instances: Sequence[Instances],
    *,
    share: Callable[[float], float],
    cores_per_node: int,
    cpu_max: float,
    most: int,
) -> Fit:
    """Nodes that hold the instances (lines 10 to 16). ``share``: of its cores that a node uses whose instances
    use so many; never less than that ÷ cores, and never falling.

    >>> three = [Instances("a", 3, 0.5), Instances("b", 1, 1.0)]
    >>> fewest_nodes(three, share=lambda cores: cores / 2, cores_per_node=2, cpu_max=0.8, most=10)
    Fit(nodes=2, share=0.75, fits=True)
    """
    counts = np.asarray([each.count for each in instances], dtype=np.int64)
    cores = np.asarray([each.cores for each in instances], dtype=np.float64)
    # On more nodes than instances some are empty, and the fullest is as full as before.
    most = max(1, min(most, int(counts.sum())))
    total = float(counts @ cores)
    fewest = min(most, max(1, math.ceil(total / (cpu_max * cores_per_node) - SLACK)))
    tried: list[Fit] = []
    for nodes in range(fewest, most + 1):
        used = share(fullest(counts, cores, nodes))
        if used <= cpu_max + SLACK:
            return Fit(nodes, used, True)
        tried.append(Fit(nodes, used, False))
    # No size is enough, and none below the fewest can be; but instances may be dealt out better on one of them.
    tried += [Fit(nodes, share(fullest(counts, cores, nodes)), False) for nodes in range(1, fewest)]
    least = min(fit.share for fit in tried)
    return min((fit for fit in tried if fit.share <= least + SLACK), key=lambda fit: fit.nodes)


def fullest(counts: npt.NDArray[np.int64], cores: npt.NDArray[np.float64], nodes: int) -> float:
    """CPU of the instances on the fullest node when ``even`` deals them out, in cores.

    What an operator has beyond whole rounds lies on neighbouring nodes: a step up at the first of them and down
    behind the last. The sum of all steps is what each node has, in O(operators + nodes).

    >>> fullest(np.asarray([3, 2, 1]), np.asarray([0.5, 0.25, 1.0]), 2)  # (2, 1, 0) and (1, 1, 1)
    1.75
    """
    rounds, more = np.divmod(counts, nodes)
    first = (np.cumsum(counts) - counts) % nodes
    behind = first + more
    steps = np.bincount(first, weights=cores, minlength=nodes + 1)
    steps -= np.bincount(np.minimum(behind, nodes), weights=cores, minlength=nodes + 1)
    over = behind > nodes  # dealt past the last node, and on from the first
    if over.any():
        steps[0] += float(cores[over].sum())
        steps -= np.bincount((behind - nodes)[over], weights=cores[over], minlength=nodes + 1)
    return float(rounds @ cores + np.cumsum(steps[:nodes]).max())
