"""Elysium's Algorithm 1 (§3.2): the instances each operator needs, then the fewest nodes that hold them all.

    p_i = min { p : cores_i(rate_i / p) ≤ core_max },  p ≤ max_i;  one less while cores_i(rate_i / p) < core_min
    n   = min { n : for all nodes x of allocate({p_i}, n):  share(Σ cores on x) ≤ cpu_max }

``allocate`` is the scheduler of the target, here round-robin (``core.placement.even``). The paper tries p = 1, 2, 3, …
and n = 1, 2, 3, …. This module returns the same values faster. CPU does not fall as the rate rises, so a binary search
finds p. The load of the fullest node is not monotonic in n, so n is searched linearly, but only from the lower bound
Σ p_i · cores_i ÷ (cpu_max · cores of a node): a node is never less busy than its instances.
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
"""Tolerance for rounding when a sum of floats is compared with a threshold."""


@dataclass(frozen=True, kw_only=True)
class UsageThresholds:
    """When instances and nodes are stressed (Elysium §2). The paper found these values by Q-learning (Table 1).

    >>> UsageThresholds(core_min=0.7)
    Traceback (most recent call last):
    ...
    ebbflow.errors.InputError: core_min 0.7 and core_max 0.65: they must satisfy 0 < core_min < core_max <= 1
    """

    cpu_max: Annotated[float, Share("Share of its cores above which a node is stressed.")] = 0.80
    core_min: Annotated[float, Share("Share of a core below which an instance is underused.")] = 0.25
    core_max: Annotated[float, Share("Share of a core above which an instance is stressed.")] = 0.65

    def __post_init__(self) -> None:
        if not 0 < self.core_min < self.core_max <= 1:
            raise InputError(
                f"core_min {self.core_min:g} and core_max {self.core_max:g}: "
                "they must satisfy 0 < core_min < core_max <= 1"
            )
        if not 0 < self.cpu_max <= 1:
            raise InputError(f"cpu_max {self.cpu_max:g}: it must be above 0 and at most 1")


@dataclass(frozen=True, kw_only=True)
class Dimensions:
    """Which dimensions may be scaled, and the most instances of an operator."""

    operators: Annotated[bool, Flag("Whether operators are scaled.")] = True
    nodes: Annotated[bool, Flag("Whether nodes are scaled.")] = True
    most_instances: Annotated[
        Mapping[str, int] | int | None,
        Whole(
            "Most instances of an operator.",
            unset="the slots of the most nodes",
            unit="instances",
            at_least=1,
        ),
    ] = None
    """For every operator, or by operator name."""

    def most(self, operator: str, snapshot: Snapshot) -> int:
        """The most instances that an operator may have."""
        most = self.most_instances
        if isinstance(most, Mapping):
            most = most.get(operator, most.get(operator.rpartition("/")[2]))
        if most is None:
            most = snapshot.limits.max_nodes * max(1, snapshot.slots_per_node)
        return max(1, most)


@dataclass(frozen=True)
class Instances:
    """The instances of one operator."""

    operator: str
    count: int
    cores: float
    """CPU of each instance, in cores."""


@dataclass(frozen=True)
class Fit:
    """A number of nodes for some instances."""

    nodes: int
    share: float
    """Share of its cores that the fullest node uses."""
    fits: bool
    """Whether ``share`` is within the threshold. If no size fits, this one has the least loaded fullest node."""


def fewest_instances(
    cores: Callable[[float], float], rate_per_s: float, most: int, thresholds: UsageThresholds
) -> int:
    """Instances that an operator needs (lines 5 to 9).

    ``cores``: CPU of one instance at its input rate; must not fall as the rate rises.

    >>> fewest_instances(lambda rate: 0.002 * rate, 1000.0, 8, UsageThresholds())  # 2 cores: 3 × 0.67, 4 × 0.5
    4
    >>> fewest_instances(lambda rate: 0.002 * rate, 1000.0, 3, UsageThresholds())
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
    """Nodes that hold the instances (lines 10 to 16).

    ``share``: share of its cores that a node uses, from the CPU of its instances in cores. Must not fall, and must be
    at least that CPU ÷ ``cores_per_node``.

    >>> instances = [Instances("a", 3, 0.5), Instances("b", 1, 1.0)]
    >>> fewest_nodes(instances, share=lambda cores: cores / 2, cores_per_node=2, cpu_max=0.8, most=10)
    Fit(nodes=2, share=0.75, fits=True)
    """
    counts = np.asarray([each.count for each in instances], dtype=np.int64)
    cores = np.asarray([each.cores for each in instances], dtype=np.float64)
    # More nodes than instances leave some empty, and the fullest as full as before.
    most = max(1, min(most, int(counts.sum())))
    total = float(counts @ cores)
    fewest = min(most, max(1, math.ceil(total / (cpu_max * cores_per_node) - SLACK)))
    tried: list[Fit] = []
    for nodes in range(fewest, most + 1):
        used = share(fullest(counts, cores, nodes))
        if used <= cpu_max + SLACK:
            return Fit(nodes, used, True)
        tried.append(Fit(nodes, used, False))
    # No size fits. Below the lower bound none can, but round-robin may still spread the load better on one of them.
    tried += [Fit(nodes, share(fullest(counts, cores, nodes)), False) for nodes in range(1, fewest)]
    least = min(fit.share for fit in tried)
    return min((fit for fit in tried if fit.share <= least + SLACK), key=lambda fit: fit.nodes)


def fullest(counts: npt.NDArray[np.int64], cores: npt.NDArray[np.float64], nodes: int) -> float:
    """CPU in cores of the instances on the fullest node under ``core.placement.even``, in O(operators + nodes).

    The instances of an operator beyond whole rounds are on consecutive nodes: a step up at the first of these and down
    after the last. The running sum of all steps is what each node has.

    >>> fullest(np.asarray([3, 2, 1]), np.asarray([0.5, 0.25, 1.0]), 2)  # (2, 1, 0) and (1, 1, 1)
    1.75
    """
    rounds, more = np.divmod(counts, nodes)
    first = (np.cumsum(counts) - counts) % nodes
    behind = first + more
    steps = np.bincount(first, weights=cores, minlength=nodes + 1)
    steps -= np.bincount(np.minimum(behind, nodes), weights=cores, minlength=nodes + 1)
    wraps = behind > nodes  # past the last node, continued on the first
    if wraps.any():
        steps[0] += float(cores[wraps].sum())
        steps -= np.bincount((behind - nodes)[wraps], weights=cores[wraps], minlength=nodes + 1)
    return float(rounds @ cores + np.cumsum(steps[:nodes]).max())
