"""Coordination of a fleet: who is there, what runs where, and who leads.

The store (``store``, SQLite) serves one controller and hosts on its machine. ZooKeeper (``zookeeper``) serves several
controllers and hosts anywhere. Both keep one record for each query; changing it is an atomic comparison with the
record that was read, so of two controllers only one can act.

**Lease.** A record has a token, which only grows: every start of a query has a token of its own. A host runs a query
only under the token in the record, checks that before each start, and once a second while it runs. It refuses or stops
when there is a newer token. ``checkpoint`` and Spark's own logs protect the data from a host that was paused and does
not know yet.

**Journal.** The record is the journal of a move as well: its step says what was decided before it was done.

=============  ===============================================  ===================================================
step           what is true                                     what a new controller does
=============  ===============================================  ===================================================
``placed``     it belongs in ``application``, under ``token``   starts it there if it does not run
``stopping``   it is to leave ``source`` for ``application``    stops it in ``source``; then ``starting``
``starting``   ``source`` has stopped it; ``token`` is new      starts it in ``application``; then ``placed``
``returning``  the start failed; ``token`` is new again         starts it in ``source``; then ``placed`` there
=============  ===============================================  ===================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

import msgspec

from ebbflow.core.folders import Owner


class Step(StrEnum):
    """Where a query is in its move."""

    PLACED = "placed"
    STOPPING = "stopping"
    STARTING = "starting"
    RETURNING = "returning"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Where a query belongs, under which token, and how far its move is."""

    query: str
    application: str
    """Where it belongs; in a move, where it goes."""
    token: int
    """Of its newest start; 0 before the first."""
    step: Step = Step.PLACED
    source: str = ""
    """In a move, where it comes from."""
    since_s: float = 0.0
    """When its move was requested, or when it was placed."""
    stopped_s: float = 0.0
    """In a move, when the query had stopped in ``source``."""
    why: str = ""
    """Why its last move was given up."""
    moves: int = 0
    """Moves that were completed."""
    version: int = 0
    """Version of the record; the coordination sets it."""

    @property
    def runs_in(self) -> str:
        """The application that may run it under the token."""
        return self.source if self.step in (Step.STOPPING, Step.RETURNING) else self.application

    @property
    def is_moving(self) -> bool:
        """Whether a move is under way."""
        return self.step is not Step.PLACED


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A host or a controller that is there."""

    name: str
    """Application of a host; name of a controller."""
    boot: str
    """Random text of one start of the process."""
    address: str
    machine: str
    owner: Owner
    jvm: Owner | None = None
    """The driver's JVM, which may outlive its host for a moment."""


class Wish(StrEnum):
    """What users asked of the fleet."""

    RUN = "run"
    PAUSE = "pause"
    """Decide nothing; queries go on."""
    DOWN = "down"


class Coordination(Protocol):
    """The port. Every call raises ``TargetError`` if the service does not answer."""

    def join(self, host: Member) -> None:
        """Announce a host that has started. It takes the place of an earlier host of its application."""
        ...

    def stay(self, host: Member) -> bool:
        """Announce that a host is still there; False if another has taken its place."""
        ...

    def leave(self, host: Member) -> None:
        """Withdraw a host, unless another has taken its place."""
        ...

    def hosts(self) -> Mapping[str, Member]:
        """Hosts that are there, by application."""
        ...

    def lead(self, controller: Member) -> bool:
        """Ask for leadership, or keep it; whether this controller leads."""
        ...

    def leader(self) -> Member | None:
        """The controller that leads."""
        ...

    def resign(self, controller: Member) -> None:
        """Give leadership up."""
        ...

    def records(self) -> Mapping[str, Record]:
        """Records by query."""
        ...

    def record(self, query: str) -> Record | None:
        """The record of a query."""
        ...

    def change(self, before: Record | None, after: Record) -> Record:
        """Replace a record, and return it with its new version. ``OutdatedError`` if it is no longer ``before``."""
        ...

    def remove(self, record: Record) -> None:
        """Remove the record of a query that is no longer part of the fleet."""
        ...

    def wish(self) -> Wish:
        """What users asked for."""
        ...

    def set_wish(self, wish: Wish) -> None:
        """Ask for something."""
        ...

    def close(self) -> None:
        """Release the connection. What was announced ends with it in ZooKeeper, after a while in the store."""
        ...
