"""Executors that start faster: a class data archive for the JVM, made once and cached.

Much of an executor's start goes into reading the same ten thousand classes from the same jars. The JVM can map them
from an archive instead (JEP 350). A first executor writes it at its exit (``record_archive``), later ones use it
(``archive_option``). The JVM ignores an archive of another Spark or Java, so nothing can break. Archives of other
versions are removed after a month without use: each is a hundred megabytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from ebbflow.targets.spark.launch.preflight import find_java, spark_home

log = logging.getLogger(__name__)

REMOVE_UNUSED_AFTER_S = 30 * 86400.0


def archive_path() -> Path | None:
    """Path of the archive for this Spark and Java, whether or not it exists; None without a home folder."""
    try:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # no home folder
        return None
    java = find_java()
    version = subprocess.run([java, "-version"], capture_output=True, check=False).stderr if java else b""
    jars = sorted(path.name for path in (spark_home() / "jars").glob("*.jar"))
    identity = hashlib.sha256(version + str(spark_home()).encode() + "".join(jars).encode()).hexdigest()
    path = caches / "ebbflow" / f"executor-{identity[:16]}.jsa"
    return None if " " in str(path) else path  # Spark splits Java options at blanks


def archive_option() -> str:
    """The JVM option with which an executor uses the archive; empty without an archive."""
    archive = archive_path()
    if archive is None or not archive.exists():
        return ""
    with contextlib.suppress(OSError):
        os.utime(archive)  # last use, for _remove_unused
    return f"-XX:SharedArchiveFile={archive}"


def record_archive(run_executor: Callable[[str, Callable[[], bool]], None], settle_s: float = 2.0) -> bool:
    """Make the archive unless it exists; False if it cannot be stored or was not completed.

    ``run_executor`` runs an executor with a JVM option, stops it, and waits until the condition holds: the executor
    writes the archive at its exit.
    """
    archive = archive_path()
    if archive is None:
        return False
    _remove_unused(archive)
    if archive.exists():
        return True
    fresh = archive.with_suffix(f".{os.getpid()}")
    try:
        archive.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh.unlink(missing_ok=True)
        run_executor(f"-XX:ArchiveClassesAtExit={fresh}", lambda: _is_complete(fresh, settle_s))
        if not _is_complete(fresh, settle_s):
            return False
        fresh.replace(archive)
    except OSError as error:
        log.info("no class archive: %s", error)
        return False
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
    return True


def _remove_unused(current: Path) -> None:
    """Remove other archives, and partial ones, that were not used for long."""
    for path in current.parent.glob("executor-*"):
        with contextlib.suppress(OSError):
            if path != current and time.time() - path.lstat().st_mtime > REMOVE_UNUSED_AFTER_S:
                path.unlink()
                log.info("removed %s, unused for a month", path)


def _is_complete(archive: Path, settle_s: float) -> bool:
    """Whether the JVM has stopped writing: it writes the file in one go, read-only from the start."""
    try:
        status = archive.stat()
    except FileNotFoundError:
        return False
    return status.st_size > 0 and time.time() - status.st_mtime > settle_s
