"""Checks before Spark starts: is there a Java that Spark runs on, is the master valid, does it answer?"""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

from ebbflow.core.machine import cores
from ebbflow.errors import InputError, UnreachableError
from ebbflow.targets import java


def spark_home() -> Path:
    """SPARK_HOME, or else the Spark in the installed PySpark."""
    home = os.environ.get("SPARK_HOME")
    if home:
        return Path(home)
    import pyspark

    return Path(pyspark.__file__).parent


def check_java() -> None:
    """Raise ``InputError`` unless there is a Java that Spark runs on."""
    java.check_java("Spark")


def check_master(master: str, within_s: float = 3.0) -> None:
    """Raise ``InputError`` for an invalid master, ``UnreachableError`` if it does not answer.

    >>> check_master("local[2]")
    >>> check_master("localhost:7077")
    Traceback (most recent call last):
    ebbflow.errors.InputError: 'localhost:7077' is not a master; write local[2], local[*], spark://HOST:PORT, yarn or k8s://…
    """
    if local_slots(master) is not None:
        return
    if master.startswith("local"):
        raise InputError(
            f"'{master}' is not a master; write local[2], local[*], spark://HOST:PORT, yarn or k8s://…"
        )
    if master == "yarn":
        if not any(os.environ.get(name) for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR")):
            raise InputError("master yarn needs HADOOP_CONF_DIR or YARN_CONF_DIR; set one of them")
        return
    if master.startswith("k8s://"):
        _check_kubernetes(master, within_s)
        return
    if not master.startswith("spark://"):
        raise InputError(f"'{master}' is not a master; write spark://HOST:PORT, yarn or k8s://HOST:PORT")
    failures = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise InputError(f"'{master}' is not a master; write spark://HOST:PORT")
        try:
            with socket.create_connection((host, int(port)), timeout=within_s):
                return
        except (OSError, OverflowError) as error:
            failures.append(str(error))
    raise UnreachableError(
        f"no Spark master answers at {master} ({failures[0]}); is it running, is the port right?"
    )


def _check_kubernetes(master: str, within_s: float) -> None:
    """The API server must answer. Spark takes ``k8s://HOST:PORT`` for HTTPS, and 443 is the default port."""
    address = master.removeprefix("k8s://")
    parts = urlsplit(address if "://" in address else f"https://{address}")
    try:
        port = parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError:
        port = 0
    if not parts.hostname or not port or parts.scheme not in ("http", "https"):
        raise InputError(f"'{master}' is not a master; write k8s://HOST:PORT or k8s://https://HOST:PORT")
    try:
        with socket.create_connection((parts.hostname, port), timeout=within_s):
            pass
    except OSError as error:
        raise UnreachableError(f"no Kubernetes API server answers at {master} ({error})") from None


def check_master_to_scale(master: str, within_s: float = 3.0) -> None:
    """As ``check_master``, and the master must have executors to scale."""
    if master.startswith("local"):
        what = (
            "is for tests of Spark"
            if master.startswith("local-cluster")
            else "runs everything in one process"
        )
        raise InputError(
            f"master '{master}' {what} and has no executors to scale; "
            "leave out --master for a cluster on this machine, or name spark://HOST:PORT, yarn or k8s://…"
        )
    check_master(master, within_s)


def local_slots(master: str) -> int | None:
    """Tasks that a ``local`` master runs at once; None for any other master.

    >>> [local_slots(master) for master in ("local", "local[3]", "local[2,4]", "local-cluster[2,3,1024]", "yarn")]
    [1, 3, 2, 6, None]
    """
    if master == "local":
        return 1
    found = re.fullmatch(r"local\[(\*|\d+)(?:\s*,\s*(\d+))?\]", master, re.ASCII)
    if found is not None:
        slots, attempts = cores() if found[1] == "*" else int(found[1]), int(found[2] or 1)
        return slots if slots > 0 and attempts > 0 else None
    found = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\]", master, re.ASCII)
    if found is not None:
        workers, slots, memory_mb = (int(each) for each in found.groups())
        return workers * slots if workers * slots * memory_mb > 0 else None
    return None


def is_on_this_machine(master: str) -> bool:
    """Whether a standalone master, and most likely its workers, run on this machine.

    >>> is_on_this_machine("spark://127.0.0.1:7077"), is_on_this_machine("yarn")
    (True, False)
    """
    host = master.removeprefix("spark://").rpartition(":")[0]
    return master.startswith("spark://") and host in ("localhost", "127.0.0.1", "[::1]", socket.gethostname())
