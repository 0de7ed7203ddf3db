"""The ports: strategies, guards and targets, as the loop uses them. Subclass or implement these to extend Ebbflow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Protocol

import msgspec

from ebbflow.core.batches import Batch
from ebbflow.core.decision import Decision, Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading, Series
from ebbflow.core.snapshot import ActionUnderWay, Snapshot
from ebbflow.core.topology import Topology
from ebbflow.errors import InputError

DEFAULT_LEAD_TIME_S = 12.0
"""Lead time assumed until one has been measured; typical for an executor on a standalone cluster. Simulations use it as
well, so that strategies see the same value there as on Spark."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """One observation of a target. Times are wall times."""

    time_s: float
    pipeline: Pipeline
    layout: Layout
    """Nodes that are running and ready for work, as opposed to those requested."""
    requested: Layout
    """Nodes requested and not cancelled."""
    slots_per_node: int
    lead_time_s: float
    readings: Sequence[Reading] = ()
    batches: Sequence[Batch] = ()
    first_batches: Sequence[Batch] = ()
    """First batches after a start or restart of a query. They start cold and their rows arrived over an unknown time:
    count their rows, but do not learn from them."""
    under_way: Sequence[ActionUnderWay] = ()
    queries: Mapping[str, float | None] = msgspec.field(default_factory=dict)
    """Running queries, each with the start of its current batch; None between batches."""
    read_limited: frozenset[str] = frozenset()
    """Queries with a read limit, whose batches can leave rows behind; and the pipeline, if all its queries have one."""
    held_nodes: int | None = None
    """Nodes paid for: running, leaving, or requested and not started yet. None means the running nodes."""
    given_up_nodes: int = 0
    """Requested nodes that were cancelled because they did not arrive in time."""
    topology: Topology | None = None
    """The nodes of a datastore, for its guards; None for targets whose nodes hold no data."""
    changed_placements: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Operators whose place was changed by something else than a plan, and what: a move that failed, or a user. The
    plan follows ``requested``."""
    active: bool = True
    """False while no query runs, so there is nothing to scale."""


class BackgroundWork(Protocol):
    """Work of a strategy that takes longer than a decision may, such as the training of a forecaster."""

    def step(self) -> None:
        """Start what is to be done, and collect what is done. Takes milliseconds; the loop calls it between cycles."""
        ...

    def close(self) -> None:
        """End what runs."""
        ...


class DecidesOn(Enum):
    """The measurements that a strategy decides on."""

    BATCHES = "batches"
    """Finished batches. A query whose batches fall behind gets more nodes."""
    READINGS = "readings"
    """Readings only, such as the load of operators and hosts."""
    NOTHING = "nothing"
    """No measurement: the size is constant or follows the calendar."""


class Strategy(ABC):
    """Decides on a layout from a snapshot.

    Subclasses need a ``name`` and ``decide``. ``decide`` has no side effects outside the strategy: no I/O, no
    clock, no globals. The strategy itself may keep what it learned from earlier snapshots.

    >>> class AlwaysTwo(Strategy):
    ...     name = "always-two"
    ...
    ...     def decide(self, snapshot: Snapshot) -> Decision:
    ...         two = snapshot.planned.with_nodes(2)
    ...         return Decision(wanted=two, reason="two nodes are enough", formula="n = 2")
    >>> AlwaysTwo().brings_own_guards
    False
    """

    name: str
    brings_own_guards: bool = False
    """True if the strategy has its own periods, cool-downs and step limits. The loop then applies only added guards,
    bounds and missing data."""
    decides_on: DecidesOn = DecidesOn.BATCHES
    """What the strategy measures. ``ebbflow.testing.check_strategy`` checks it accordingly."""
    handles_clusters: bool = False
    """True if the strategy decides on all clusters. Others see only the operators and batches of the cluster ``main``
    and decide on its size; the ledger says so."""
    for_datastores: bool = False
    """True if it scales datastores only. Comparisons on pipelines leave it out."""

    @abstractmethod
    def decide(self, snapshot: Snapshot) -> Decision:
        """Return the wanted layout and the reason for it."""

    spark_prefix: str = ""
    """Another prefix of its parameters in the Spark configuration, beside ``spark.ebbflow.strategy.NAME.``."""

    @property
    def state_file(self) -> Path | None:
        """Where its state is kept; None if it keeps none. The strategy reads it when it is made. On Spark, the loop
        writes it, but never while the strategy decides."""
        return None

    def state(self) -> str | None:
        """What to keep across restarts of the job, as text for ``state_file``; None if that has not changed since the
        last call."""
        return None

    def restore(self, state: str) -> None:
        """Continue from a state, as after a restart. Raises ``InputError`` if it does not fit."""
        del state
        raise InputError(f"strategy {self.name} keeps no state")

    def in_background(self) -> BackgroundWork | None:
        """Do work that takes longer than a decision may in the background from now on; None if there is none.

        On Spark, the loop calls this before its first cycle. In simulations it is not called, and ``decide`` does
        the work itself, so that runs can be repeated.
        """
        return None

    @property
    def needed_series(self) -> Sequence[Series]:
        """Series the strategy needs from agents on the worker hosts. Agents send only these."""
        return ()


class Guard(ABC):
    """Restrains decisions, for safety.

    Guards run one after the other. Each returns the decision unchanged, or ``decision.bound(layout, self.name, why)``.
    """

    name: str
    """Name of the constraint in the ledger."""

    @abstractmethod
    def restrain(self, snapshot: Snapshot, decision: Decision) -> Decision:
        """Return the decision that may be carried out."""


class Target(Protocol):
    """What is scaled: a monitor and an actuator in one."""

    def observe(self) -> Observation:
        """Observe once. Raises ``TargetError`` if that fails, ``TargetGoneError`` if the target has ended."""
        ...

    def apply(self, planned: Layout) -> Outcome:
        """Request a layout and return at once; later observations show the progress."""
        ...

    def close(self) -> None:
        """Release the target and leave it running unchanged."""
        ...
