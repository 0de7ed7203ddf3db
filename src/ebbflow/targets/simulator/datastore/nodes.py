"""Nodes that hold data: they join and leave one at a time, each for as long as its data streams (Pascal §3.1, §6).

The life of a node: inactive → joining → active → decommissioning → inactive. A joining node serves nothing, a
decommissioning one serves until it is gone. When the last join of a change is done, the other nodes drop the data that
is no longer theirs, the *cleanup*. A further change begins only when nothing joins, leaves or is cleaned up. A step
that has begun ends; steps that have not begun can be withdrawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from ebbflow.errors import InputError
from ebbflow.profiling.datastore.profile import DatastoreProfile
from ebbflow.targets.simulator.faults import Fault
from ebbflow.targets.simulator.nodes import NodeCounts, NodeKind, NodePool


class StepKind(StrEnum):
    """What nodes of a datastore can be busy with."""

    JOIN = "join"
    LEAVE = "leave"
    CLEANUP = "cleanup"


@dataclass(frozen=True)
class DataStep:
    """A step of a change, from its begin to its end."""

    kind: StepKind
    from_s: float
    until_s: float


@dataclass(frozen=True, kw_only=True)
class DataNodes(NodeKind):
    """Nodes of a datastore. Times are by the number of active nodes before the change.

    >>> from ebbflow.profiling.datastore.profile import paper_profile
    >>> nodes = DataNodes.of(paper_profile(), data_gb=2.0)
    >>> nodes.join_s[3], nodes.leave_s[5], nodes.cleanup_s
    (190.0, 290.0, 120.0)
    """

    join_s: Mapping[int, float] = field(default_factory=dict, hash=False)
    leave_s: Mapping[int, float] = field(default_factory=dict, hash=False)
    cleanup_s: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        times_s = [*self.join_s.values(), *self.leave_s.values(), self.cleanup_s]
        if not self.join_s or not self.leave_s or not all(0 <= s < math.inf for s in times_s):
            raise InputError("nodes of a datastore need finite times to join and to leave, of 0s or more")

    @classmethod
    def of(cls, profile: DatastoreProfile, *, data_gb: float | None = None, noise: float = 0.0) -> DataNodes:
        """The nodes that a profile describes, with another amount of data if given.

        ``noise``: σ of the lognormal factor on each time.
        """
        sizes = profile.sizes
        joins = {n: profile.change_s(n, n + 1, data_gb) for n in sizes}
        return cls(
            lead_time_s=joins[sizes[0]].seconds,
            lead_noise=noise,
            join_s={n: row.seconds for n, row in joins.items()},
            leave_s={n: profile.change_s(n, n - 1, data_gb).seconds for n in sizes},
            cleanup_s=joins[sizes[0]].cleanup_s,
        )

    def pool(
        self, initial: int, rng: np.random.Generator, faults: Sequence[Fault] = (), *, step_s: float = 0.0
    ) -> DataPool:
        """The nodes of one cluster."""
        return DataPool(self, initial, rng, faults, step_s=step_s)

    def seconds(self, kind: StepKind, nodes: int) -> float:
        """How long a step takes on average; that of the nearest number of nodes if it is not known."""
        if kind is StepKind.CLEANUP:
            return self.cleanup_s
        table = self.join_s if kind is StepKind.JOIN else self.leave_s
        return table[min(table, key=lambda size: (abs(size - nodes), size))]


class DataPool(NodePool):
    """The nodes of a datastore."""

    kind: DataNodes

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.steps: list[DataStep] = []
        """Every step so far; the last one may still run."""
        self._wanted = len(self._alive)
        self._at_s = 0.0

    # -- state ---------------------------------------------------------------------------------

    @property
    def requested(self) -> int:
        """The number of nodes requested."""
        return self._wanted

    @property
    def lead_time_s(self) -> float:
        """A decaying mean of the observed times to join; that of the kind before the first."""
        return self.kind.lead_time_s if self._lead_estimate_s is None else self._lead_estimate_s

    def step_at(self, time_s: float) -> DataStep | None:
        """The step that runs at a time."""
        for step in reversed(self.steps):
            if step.from_s <= time_s < step.until_s:
                return step
            if step.until_s <= time_s:
                break
        return None

    def counts(self, time_s: float) -> NodeCounts:
        """The node counts at a time. Nodes whose step has not begun count as joining or leaving, too."""
        working = self.working(time_s)
        joining = self.joining(time_s)
        leaving = [n for n in self.leaving if n.released_s > time_s and not n.died]
        missing = self._wanted - len(working)
        return NodeCounts(
            from_s=time_s,
            until_s=time_s,
            working=len(working),
            joining=max(len(joining), missing),
            last_request_s=max((n.requested_s for n in joining), default=time_s),
            leaving=len(leaving) + max(0, -missing),
            requested=self._wanted,
            held=len([n for n in self._alive if n.requested_s <= time_s < n.released_s]),
        )

    # -- changes -------------------------------------------------------------------------------

    def advance(self, until_s: float) -> None:
        """Begin and end steps up to a time."""
        while True:
            free_s = max(self._at_s, self.steps[-1].until_s if self.steps else 0.0)
            if free_s > until_s:
                break
            super().advance(free_s)
            self._at_s = free_s
            if not self._begin(free_s):
                break
        super().advance(until_s)
        self._at_s = max(self._at_s, until_s)

    def set_nodes(self, now_s: float, wanted: int, *, busy: bool) -> int:
        """Request a number of nodes; returns how many are requested now."""
        del busy
        if wanted != self._wanted:
            self._wanted = wanted
            self._changed()
        self.advance(now_s)
        return self._wanted

    def _begin(self, now_s: float) -> bool:
        """Begin the next step, if there is one."""
        size = len(self.working(now_s))
        joined = bool(self.steps) and self.steps[-1].kind is StepKind.JOIN
        if size < self._wanted:
            until_s = self._step(StepKind.JOIN, now_s, size)
            self._joining.append(self._add(now_s, until_s))
        elif joined and self.kind.cleanup_s:
            self._step(StepKind.CLEANUP, now_s, size)
        elif size > self._wanted:
            node = max(self.working(now_s), key=lambda each: (each.join_s, each.number))
            node.stop_s = node.released_s = self._step(StepKind.LEAVE, now_s, size)
            self.any_leaving = True
            self._last_change_s = max(self._last_change_s, node.stop_s)
            self._changed()
        else:
            return False
        return True

    def _step(self, kind: StepKind, now_s: float, size: int) -> float:
        noise = self.kind.lead_noise
        factor = math.exp(noise * self._rng.standard_normal()) if noise else 1.0
        step = DataStep(kind, now_s, now_s + factor * self.kind.seconds(kind, size))
        self.steps.append(step)
        return step.until_s

    def _request(self, now_s: float) -> None:
        """A node that died is replaced by the next step."""
