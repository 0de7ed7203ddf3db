"""The ports: what the loop needs of a strategy, a guard and a target. Small on purpose."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from ebbflow.core.batches import Batch
from ebbflow.core.decision import Decision, Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading, Series
from ebbflow.core.snapshot import ActionUnderWay, Snapshot

DEFAULT_LEAD_TIME_S = 12.0
"""The lead time where nobody has told or seen another: what an executor of a standalone cluster takes. Simulations are
played with it too, so that a strategy is tried with what it is told on Spark."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What a monitor saw in one look."""

    time_s: float
    pipeline: Pipeline
    layout: Layout
    """Nodes that are there and can work, not those asked for."""
    requested: Layout
    """Nodes asked for and not taken back."""
    slots_per_node: int
    lead_time_s: float
    readings: Sequence[Reading] = ()
    batches: Sequence[Batch] = ()
    first_batches: Sequence[Batch] = ()
    """Those with which a query began, or began again. They start cold, and nothing says over what time their rows came:
    for who counts rows, not for who learns."""
    under_way: Sequence[ActionUnderWay] = ()
    queries: Mapping[str, float | None] = msgspec.field(default_factory=dict)
    """As in the snapshot: the queries that run, and since when their current batch does."""
    read_limited: frozenset[str] = frozenset()
    """Queries that a read limit keeps from taking all there is, so that a batch can leave rows behind; and the
    pipeline, if that is so of all its queries."""
    held_nodes: int | None = None
    """Nodes paid for: those there, those leaving, and those asked for that have not come."""
    given_up_nodes: int = 0
    """Requests that were not met for so long that they were taken back."""
    active: bool = True
    """False while there is nothing to scale: no query runs."""


class Strategy(ABC):
    """Decides on a layout from a snapshot.

    Subclasses need a ``name`` and ``decide``. ``decide`` is pure: no I/O, no clock, no globals. A strategy may keep
    what it learned from earlier snapshots.

    >>> class AlwaysTwo(Strategy):
    ...     name = "always-two"
    ...
    ...     def decide(self, snapshot: Snapshot) -> Decision:
    ...         return Decision(wanted=snapshot.planned.with_nodes(2), reason="two nodes are enough")
    >>> AlwaysTwo().brings_own_guards
    False
    """

    name: str
    brings_own_guards: bool = False
    """True if the strategy has its own periods, cool-downs and step limits. The loop then applies only the guards
    for bounds and missing data."""

    @abstractmethod
    def decide(self, snapshot: Snapshot) -> Decision:
        """Return the wanted layout and the reason for it."""

    @property
    def needed_series(self) -> Sequence[Series]:
        """Series the strategy reads that only agents on the worker hosts measure. Agents send no others."""
        return ()


class Guard(ABC):
    """Restrains decisions, for safety.

    Guards run one after the other. Each returns the decision unchanged, or ``decision.bound(layout, self.name, why)``.
    """

    name: str
    """Names the constraint in the ledger."""

    @abstractmethod
    def restrain(self, snapshot: Snapshot, decision: Decision) -> Decision:
        """Return the decision that may be carried out."""


class Target(Protocol):
    """What is scaled: a monitor and an actuator behind one door."""

    def observe(self) -> Observation:
        """Look once. Raises ``TargetError`` when nothing can be seen, ``TargetGoneError`` when it has ended."""
        ...

    def apply(self, planned: Layout) -> Outcome:
        """Ask for a layout. Returns at once; what is still to come shows in the next observations."""
        ...

    def close(self) -> None:
        """Let go of the target, leaving it running as it is."""
        ...
