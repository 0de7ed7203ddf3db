"""Folders that results go to: made before anything is started, and written to by one run at a time."""

from __future__ import annotations

import fcntl
import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ebbflow.errors import InputError

log = logging.getLogger(__name__)

LOCK_FILE = ".lock"


def make_folder(folder: Path) -> None:
    """Make a folder, or take one that is there; ``InputError`` where nothing can be written.

    >>> make_folder(Path("/dev/null/results"))
    Traceback (most recent call last):
    ebbflow.errors.InputError: cannot write to /dev/null/results: not a directory; name a folder that can be made
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()  # asking for rights is not enough: see /proc
    except OSError as error:
        raise _refused(folder, error) from None


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold a folder, made if need be; ``InputError`` if another run does.

    The system holds the lock for as long as the file is open, so a run that was killed leaves none. The file stays: who
    removed it would let one in that has just made a new one, beside one that waits at the old.
    """
    make_folder(folder)
    try:
        file = (folder / LOCK_FILE).open("ab")
    except OSError as error:
        raise _refused(folder / LOCK_FILE, error) from None
    with file as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another run writes to {folder}; wait for its end, or name another folder"
            ) from None
        except OSError as error:  # a file system without locks is no reason not to run
            log.warning("%s cannot be locked (%s); take care that no other run writes to it", folder, error)
        yield


def _refused(path: Path, error: OSError) -> InputError:
    why = (error.strerror or str(error)).lower()
    return InputError(f"cannot write to {path}: {why}; name a folder that can be made")
