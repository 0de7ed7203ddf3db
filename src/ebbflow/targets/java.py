"""Checks for Java, which Spark and Cassandra run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from ebbflow.errors import InputError

JAVA_NEEDED = 17
_ADVICE = "on Debian: apt-get install openjdk-17-jre-headless"


def find_java() -> str | None:
    """The Java that Spark's scripts would run: that of JAVA_HOME, else the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else shutil.which("java")


def check_java(product: str) -> str:
    """The path of a Java 17 or later. Raises ``InputError`` if there is none; ``product`` is what needs it."""
    java = find_java()
    if java is None:
        raise InputError(
            f"{product} needs Java {JAVA_NEEDED} or later, and there is none on the PATH; {_ADVICE}"
        )
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    except OSError as error:
        raise InputError(f"JAVA_HOME leads to {java}, which cannot be run ({error}); {_ADVICE}") from None
    version = java_version(output)
    if version is None or version < JAVA_NEEDED:
        first = output.strip().splitlines()[0] if output.strip() else "an unknown version"
        raise InputError(f"{product} needs Java {JAVA_NEEDED} or later, but {java} is {first}; {_ADVICE}")
    return java


def java_version(output: str) -> int | None:
    """The feature release in the output of ``java -version``.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_202"')
    (17, 8)
    """
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match[1]) if match else None
