"""Claims on a checkpoint: who may run its query, written beside the data that two hosts must not both write.

A start with token t creates the file ``CHECKPOINT.claims/000000000t``. A claim with a higher token makes every lower
one void, whatever the coordination service says or forgot. So a host with an old copy of the store, or a second fleet
that names the same checkpoint, is refused as well. Claims name their process, so that `ebbflow fleet check` can tell
whether a checkpoint is in use.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from ebbflow.core.folders import Owner
from ebbflow.errors import TargetError

KEPT = 20
"""Old claims that are kept, to see who ran a query before."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim on a checkpoint."""

    token: int
    query: str
    fleet: str
    """Folder of the fleet."""
    application: str
    owner: Owner
    jvm: Owner | None = None
    """The JVM that runs the query. It may outlive a host that was killed by a second."""


def claims_folder(checkpoint: Path) -> Path:
    """Where the claims on a checkpoint are; beside it, because Spark owns what is inside."""
    return checkpoint.with_name(f"{checkpoint.name}.claims")


def holder_of(checkpoint: Path) -> Claim | None:
    """The newest claim; None if there is none."""
    newest = _newest_file(claims_folder(checkpoint))
    try:
        return None if newest is None else msgspec.json.decode(newest.read_bytes(), type=Claim)
    except (OSError, msgspec.MsgspecError):
        return None


def newest_token(checkpoint: Path) -> int:
    """Token of the newest claim; 0 if there is none."""
    newest = _newest_file(claims_folder(checkpoint))
    return 0 if newest is None else int(newest.name)


def claim(checkpoint: Path, wanted: Claim) -> None:
    """Claim a checkpoint; ``TargetError`` if the same or a higher token has been used on it.

    The file is complete before it appears under its name, and appears only if there is none of that name.
    """
    folder = claims_folder(checkpoint)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{wanted.token:012d}"
        draft = folder / f".{wanted.token}.{os.getpid()}"
        draft.write_bytes(msgspec.json.encode(wanted))
        try:
            os.link(draft, file)
        finally:
            draft.unlink()
    except FileExistsError:
        raise TargetError(
            f"token {wanted.token} of query {wanted.query} has been used on {checkpoint}"
        ) from None
    except OSError as error:
        raise TargetError(f"cannot claim {checkpoint}: {(error.strerror or str(error)).lower()}") from None
    newest = newest_token(checkpoint)
    if newest > wanted.token:
        raise TargetError(
            f"token {wanted.token} of query {wanted.query} is outdated: {checkpoint} was claimed with token {newest}"
        )
    for old in sorted(_files(folder))[:-KEPT]:
        old.unlink(missing_ok=True)
        old.with_name(f"{old.name}.ended").unlink(missing_ok=True)


def release(checkpoint: Path, token: int) -> None:
    """Note that the query of a claim has ended, so that nobody needs to wait for its process."""
    with contextlib.suppress(OSError):
        (claims_folder(checkpoint) / f"{token:012d}.ended").touch()


def still_writing(checkpoint: Path) -> Claim | None:
    """The newest claim if its query has not ended and its JVM exists on this machine; None otherwise."""
    found = holder_of(checkpoint)
    if found is None or found.jvm is None or found.jvm.is_gone:
        return None
    ended = claims_folder(checkpoint) / f"{found.token:012d}.ended"
    same = found.jvm.namespace == Owner.this_process().namespace
    return found if same and not ended.exists() else None


def _files(folder: Path) -> list[Path]:
    try:
        return [each for each in folder.iterdir() if each.name.isdecimal()]
    except OSError:
        return []


def _newest_file(folder: Path) -> Path | None:
    return max(_files(folder), key=lambda each: int(each.name), default=None)
