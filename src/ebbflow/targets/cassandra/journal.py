"""What the actuator must remember across its own death: the requested size, the step under way, and due cleanups.

The file is written before each step. It says what was intended; what has come of it, the cluster says.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import msgspec

from ebbflow.core.folders import replace_file
from ebbflow.errors import InputError

VERSION = 1


class StepKind(StrEnum):
    """What a step does to one node."""

    ADD = "add"
    REMOVE = "remove"
    CLEANUP = "cleanup"
    RESTART = "restart"


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step under way."""

    kind: StepKind
    host: str
    since_s: float
    attempts: int = 1
    seen: bool = False
    """Add: whether the node was seen joining."""
    leaving: bool = False
    """The step is to be ended by stopping the host: it has left, or it failed to join."""
    retry_s: float = 0.0
    """Not to be tried again before this time."""
    why: str = ""
    """Why the last attempt failed."""


class Journal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is remembered."""

    version: int = VERSION
    cluster: str
    requested: int | None = None
    step: Step | None = None
    needs_cleanup: tuple[str, ...] | None = None
    """Hosts that handed ranges over; None if unknown, which means all."""
    joined_s: float = 0.0
    """When the last node joined."""

    def write(self, path: Path) -> None:
        """Replace the file."""
        replace_file(path, msgspec.json.format(msgspec.json.encode(self), indent=1).decode() + "\n")

    @classmethod
    def read(cls, path: Path, cluster: str) -> Journal:
        """Read the file, or begin one. Raises ``InputError`` if it is damaged or of another cluster."""
        if not path.exists():
            return cls(cluster=cluster)
        try:
            found = msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, msgspec.MsgspecError) as error:
            raise InputError(
                f"{path} is not a journal of a datastore ({error}); name another file, or remove it to begin anew"
            ) from None
        if found.version != VERSION or found.cluster != cluster:
            raise InputError(
                f"{path} is the journal of cluster '{found.cluster}' (version {found.version}), but this is cluster "
                f"'{cluster}'; name another file"
            )
        return found
