"""Cassandra's jars, fetched once from Maven Central into the user's cache.

Maven does the fetching, so the user's ``settings.xml`` (mirrors, proxies, credentials) applies.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from ebbflow.core.folders import cache_folder
from ebbflow.errors import InputError, TargetError

VERSION = "5.0.6"
"""The release that ``LocalCassandra`` runs."""
FETCH_WITHIN_S = 900.0
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ebbflow</groupId><artifactId>cassandra</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.apache.cassandra</groupId><artifactId>cassandra-all</artifactId><version>{version}</version>
  </dependency></dependencies>
</project>
"""


def jars_folder(version: str = VERSION) -> Path:
    """Where the jars are kept, whether or not they are there."""
    cache = cache_folder()
    if cache is None:
        raise InputError("there is no home folder to keep Cassandra in; set XDG_CACHE_HOME to a folder")
    return cache / f"cassandra-{version}"


def are_cached(version: str = VERSION) -> bool:
    """Whether nothing has to be fetched."""
    return (jars_folder(version) / f"cassandra-all-{version}.jar").is_file()


def fetch(version: str = VERSION) -> Path:
    """The folder of the jars, fetched if they are not there yet.

    The folder appears as a whole: an interrupted fetch leaves none, and of two fetches one wins.
    """
    folder = jars_folder(version)
    if are_cached(version):
        return folder
    if shutil.which("mvn") is None:
        raise InputError(
            f"Cassandra {version} is not in {folder}, and there is no Maven to fetch it with; "
            "install Maven (on Debian: apt-get install maven)"
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".cassandra-") as work:
            _copy_dependencies(Path(work), version)
            (Path(work) / "lib").rename(folder)
    except OSError as error:
        if not are_cached(version):
            raise InputError(
                f"cannot keep Cassandra in {folder}: {(error.strerror or str(error)).lower()}"
            ) from None
    return folder


def _copy_dependencies(work: Path, version: str) -> None:
    (work / "pom.xml").write_text(_POM.format(version=version))
    command = [
        "mvn",
        "--batch-mode",
        "--quiet",
        "--file",
        str(work / "pom.xml"),
        "dependency:copy-dependencies",
    ]
    command += [f"-DoutputDirectory={work / 'lib'}", "-DincludeScope=runtime"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_WITHIN_S, check=False)
    except subprocess.TimeoutExpired:
        raise TargetError(f"Maven did not fetch Cassandra {version} within {FETCH_WITHIN_S:g} s") from None
    if result.returncode:
        lines = [line for line in (result.stdout + result.stderr).splitlines() if "ERROR" in line]
        why = lines[0].replace("[ERROR]", "").strip() if lines else f"exit code {result.returncode}"
        raise TargetError(f"Maven cannot fetch Cassandra {version}: {why}")
