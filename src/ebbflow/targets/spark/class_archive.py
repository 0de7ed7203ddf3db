"""Executors that start faster: a class data archive for the JVM, made once and kept.

Much of an executor's start is reading the same ten thousand classes from the same jars. The JVM can keep
them ready to map (JEP 350). A first executor, run with ``recording_option``, writes the archive when it
exits; later ones, run with ``using_option``, map it. An archive that does not fit (another Spark, another
Java) is ignored by the JVM, so nothing can break.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from ebbflow.targets.spark.java import find_java
from ebbflow.targets.spark.local_cluster import spark_home


def archive_path() -> Path:
    """Where the archive for this Spark and this Java is kept; it need not exist yet."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    java = find_java()
    version = subprocess.run([java, "-version"], capture_output=True, check=False).stderr if java else b""
    jars = sorted(path.name for path in (spark_home() / "jars").glob("*.jar"))
    identity = hashlib.sha256(version + str(spark_home()).encode() + "".join(jars).encode()).hexdigest()
    return caches / "ebbflow" / f"executor-{identity[:16]}.jsa"


def using_option(archive: Path) -> str:
    """The JVM option under which an executor uses the archive; nothing where there is none."""
    return f"-XX:SharedArchiveFile={archive}" if archive.exists() and " " not in str(archive) else ""


def recording_option(archive: Path) -> str:
    """The JVM option under which an executor writes the archive when it exits."""
    archive.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return f"-XX:ArchiveClassesAtExit={archive}"
