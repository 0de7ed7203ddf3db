"""Folders for results, written by one run at a time, and temporary folders that are cleaned up after a crash.

A temporary folder names its owner: process id and start time, because ids are reused. The start is in ticks since boot
where the system reports it, because the wall clock may be set. The next run removes folders whose owner has ended.
"""

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

log = logging.getLogger(__name__)

PREFIX = "ebbflow-"
OWNER_FILE = ".ebbflow-owner"
SAME_START_S = 60.0
"""Start times closer than this count as equal if they come from the wall clock: better to keep a folder too many."""


class Owner(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The process that owns a folder."""

    pid: int
    started_s: float
    namespace: int
    """Namespace of process ids: in another container the same id is another process."""
    boot: str = ""
    """The boot that ``ticks`` count from."""
    ticks: int = -1
    """Start of the process; -1 if unknown."""

    @classmethod
    def this_process(cls) -> Owner:
        """The current process."""
        return cls.of(os.getpid())

    @classmethod
    def of(cls, pid: int) -> Owner:
        """A process of this machine; ``psutil.NoSuchProcess`` if it has ended."""
        process = psutil.Process(pid)
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
    """Create a temporary folder, after removing those that killed runs left behind.

    >>> with scratch_folder("example") as folder:
    ...     Path(folder).name.startswith("ebbflow-example-")
    True
    """
    sweep()
    folder = tempfile.TemporaryDirectory(prefix=f"{PREFIX}{kind}-", ignore_cleanup_errors=True)
    (Path(folder.name) / OWNER_FILE).write_bytes(msgspec.json.encode(Owner.this_process()))
    return folder


def cache_folder() -> Path | None:
    """Folder for files that are made or fetched once, whether or not it exists; None without a home folder."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ebbflow"
    except RuntimeError:
        return None


def sweep() -> None:
    """Remove temporary folders whose process has ended."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if _is_abandoned(path):
            log.info("removing %s, left behind by a run that was killed", path)
            shutil.rmtree(path, ignore_errors=True)


def _is_abandoned(path: Path) -> bool:
    """Whether it is a folder of this user whose owner has ended."""
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
    except OSError:  # not Linux: there is only one
        return 0


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _ticks(pid: int) -> int:
    """Start of a process in ticks since boot: field 22 of /proc/PID/stat, the 20th after the name."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return -1


LOCK_FILE = ".lock"


def make_folder(folder: Path) -> None:
    """Create a folder if needed; ``InputError`` if it cannot be written to.

    >>> make_folder(Path("/dev/null/results"))
    Traceback (most recent call last):
    ebbflow.errors.InputError: cannot write to /dev/null/results: not a directory; name a folder that can be created
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()  # checking permissions is not enough: see /proc
    except OSError as error:
        raise _refused(folder, error) from None


def replace_file(path: Path, text: str) -> None:
    """Write a temporary file in the same directory and rename it, so that no reader sees a partial file.

    A symbolic link stays; its target is replaced. Raises ``InputError`` if the file cannot be written.
    """
    path = path.resolve()
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o644)
        Path(temporary).replace(path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise InputError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Lock a folder, created if needed; ``InputError`` if another run has locked it.

    The system releases the lock when the process ends. The file is not removed: a run that waits on the old file and
    one that created a new file would both get the lock.
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
                f"another run writes to {folder}; wait until it ends, or name another folder"
            ) from None
        except OSError as error:  # the file system has no locks
            log.warning("%s cannot be locked (%s); make sure that no other run writes to it", folder, error)
        yield


def _refused(path: Path, error: OSError) -> InputError:
    why = (error.strerror or str(error)).lower()
    return InputError(f"cannot write to {path}: {why}; name a folder that can be created")
