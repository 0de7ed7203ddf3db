"""Executors that start faster: a class data archive for the JVM, made once and kept.

Much of an executor's start is reading the same ten thousand classes from the same jars. The JVM can keep
them ready to map (JEP 350). A first executor writes the archive when it exits (``record_archive``); later ones,
run with ``using_option``, map it. An archive that does not fit (another Spark, another
Java) is ignored by the JVM, so nothing can break. Those of other Sparks and Javas go when nobody has used them for a
month: each is a hundred megabytes.
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

from ebbflow.targets.spark.launch.java import find_java
from ebbflow.targets.spark.launch.local_cluster import spark_home

log = logging.getLogger(__name__)

KEPT_UNUSED_S = 30 * 86400.0


def archive_path() -> Path | None:
    """Where the archive for this Spark and this Java is kept; it need not exist yet. None without a home."""
    try:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # nobody knows where home is
        return None
    java = find_java()
    version = subprocess.run([java, "-version"], capture_output=True, check=False).stderr if java else b""
    jars = sorted(path.name for path in (spark_home() / "jars").glob("*.jar"))
    identity = hashlib.sha256(version + str(spark_home()).encode() + "".join(jars).encode()).hexdigest()
    path = caches / "ebbflow" / f"executor-{identity[:16]}.jsa"
    return None if " " in str(path) else path  # Spark splits Java options at blanks


def using_option() -> str:
    """The JVM option under which an executor uses the archive; nothing where there is none."""
    archive = archive_path()
    if archive is None or not archive.exists():
        return ""
    with contextlib.suppress(OSError):
        os.utime(archive)  # when it was last used: what `_drop_unused` looks at
    return f"-XX:SharedArchiveFile={archive}"


def record_archive(run_executor: Callable[[str, Callable[[], bool]], None], settle_s: float = 2.0) -> bool:
    """Make the archive unless it is there. False where it cannot be kept or was not finished.

    ``run_executor`` runs an executor with a JVM option, ends it, and gives it time until the condition holds:
    it writes the archive on its way out.
    """
    archive = archive_path()
    if archive is None:
        return False
    _drop_unused(archive)
    if archive.exists():
        return True
    fresh = archive.with_suffix(f".{os.getpid()}")
    try:
        archive.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh.unlink(missing_ok=True)
        run_executor(f"-XX:ArchiveClassesAtExit={fresh}", lambda: _rests(fresh, settle_s))
        if not _rests(fresh, settle_s):
            return False
        fresh.replace(archive)
    except OSError as error:
        log.info("no class archive: %s", error)
        return False
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
    return True


def _drop_unused(current: Path) -> None:
    """Remove the archives beside the current one, and what was left of making one, that were not used for long."""
    for path in current.parent.glob("executor-*"):
        with contextlib.suppress(OSError):
            if path != current and time.time() - path.lstat().st_mtime > KEPT_UNUSED_S:
                path.unlink()
                log.info("removed %s, which was not used for a month", path)


def _rests(archive: Path, settle_s: float) -> bool:
    """The JVM makes the file read-only as it creates it and writes it in one go; it is done when it rests."""
    try:
        seen = archive.stat()
    except FileNotFoundError:
        return False
    return seen.st_size > 0 and time.time() - seen.st_mtime > settle_s
