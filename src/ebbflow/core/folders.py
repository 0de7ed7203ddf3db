"""Folders that results go to: made before anything is started, and written to by one run at a time."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil

from ebbflow.errors import InputError

# Temporary folders that go with the run that made them; if it was killed, when the next one begins.
#
# Each says inside whose it is: the id of the process and when that began, because ids are used again. When: in ticks
# since the machine was started, where the system tells; the time of day changes when its clock is set.


log = logging.getLogger(__name__)

PREFIX = "ebbflow-"
OWNER_FILE = ".ebbflow-owner"
SAME_START_S = 60.0
"""Start times closer than this are one, where they are read off clocks. A folder too many is the smaller harm."""


class Owner(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A process."""

    pid: int
    started_s: float
    namespace: int
    """Of process ids: in another container the same id is another process."""
    boot: str = ""
    """Which start of the machine ``ticks`` count from."""
    ticks: int = -1
    """When it began; -1 where nobody tells."""

    @classmethod
    def this_process(cls) -> Owner:
        """We ourselves."""
        process = psutil.Process()
        return cls(
            pid=process.pid,
            started_s=process.create_time(),
            namespace=_namespace(),
            boot=_boot(),
            ticks=_ticks(process.pid),
        )

    @property
    def is_gone(self) -> bool:
        """Whether it is certain that the process has ended."""
        if self.namespace != _namespace() or self.pid <= 0:
            return False
        try:
            process = psutil.Process(self.pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                return True
            if self.ticks >= 0 and (ticks := _ticks(self.pid)) >= 0:
                return (self.boot, self.ticks) != (_boot(), ticks)
            return abs(process.create_time() - self.started_s) > SAME_START_S
        except psutil.NoSuchProcess:
            return True
        except psutil.Error:
            return False


def scratch_folder(kind: str) -> tempfile.TemporaryDirectory[str]:
    """A temporary folder, for a ``with`` or to be cleaned up by its method; those that others left are removed first.

    >>> with scratch_folder("example") as folder:
    ...     Path(folder).name.startswith("ebbflow-example-")
    True
    """
    sweep()
    folder = tempfile.TemporaryDirectory(prefix=f"{PREFIX}{kind}-", ignore_cleanup_errors=True)
    (Path(folder.name) / OWNER_FILE).write_bytes(msgspec.json.encode(Owner.this_process()))
    return folder


def sweep() -> None:
    """Remove the scratch folders whose process is gone, and nothing else."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if _is_abandoned(path):
            log.info("removing %s, which a run that was killed has left", path)
            shutil.rmtree(path, ignore_errors=True)


def _is_abandoned(path: Path) -> bool:
    """Whether it is a folder of this user with an owner written inside that is gone."""
    try:
        seen = path.lstat()
        if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid():
            return False
        return msgspec.json.decode((path / OWNER_FILE).read_bytes(), type=Owner).is_gone
    except (OSError, msgspec.MsgspecError):
        return False


def _namespace() -> int:
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:  # no Linux: there is one
        return 0


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _ticks(pid: int) -> int:
    """When a process began, in ticks since the machine did: the 22nd field of its line, the 20th after its name."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return -1


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
