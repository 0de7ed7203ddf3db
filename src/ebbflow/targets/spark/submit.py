"""Runs a PySpark script that was not changed in any way, and hands over its session when it opens one.

The script runs in this process as ``__main__``, with its own arguments and its own folder first on the
path, as under ``spark-submit``. Settings reach its session the way ``spark-submit`` would pass them, so what
the script itself sets comes first.
"""

from __future__ import annotations

import logging
import os
import runpy
import shlex
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from ebbflow.errors import InputError, UnreachableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("ebbflow")


def check_script(script: Path) -> None:
    """A script must be there before anything is started for it."""
    if not script.exists():
        raise InputError(f"there is no script {script}; name a PySpark script to run")
    if script.is_dir():
        raise InputError(f"{script} is a folder; name a PySpark script to run")


def check_master(master: str, within_s: float = 3.0) -> None:
    """A master must be one with executors, and a standalone one must answer."""
    if master.startswith("local"):
        raise InputError(
            f"master '{master}' runs everything in one process and has no executors to scale; "
            "leave --master out for a cluster on this machine, or name spark://HOST:PORT, yarn or k8s://…"
        )
    if master == "yarn" or master.startswith("k8s://"):
        return
    if not master.startswith("spark://"):
        raise InputError(f"'{master}' is not a master; write spark://HOST:PORT, yarn or k8s://HOST:PORT")
    failures = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise InputError(f"'{master}' is not a master; write spark://HOST:PORT")
        try:
            with socket.create_connection((host, int(port)), timeout=within_s):
                return
        except (OSError, OverflowError) as error:
            failures.append(str(error))
    raise UnreachableError(
        f"no Spark master answers at {master} ({failures[0]}); is it running, is the port right?"
    )


def run_script(
    script: Path,
    arguments: Sequence[str],
    *,
    master: str,
    settings: Mapping[str, str],
    on_session: Callable[[SparkSession], None],
) -> int:
    """Run the script to its end; returns its exit code. ``on_session`` is called once for each application it opens."""
    with (
        _submit_arguments(master, settings),
        _session_hook(on_session),
        _as_main(script, arguments),
        _terminable(),
    ):
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as end:
            return _exit_code(end)
        except KeyboardInterrupt:
            return 130
        except Exception:
            traceback.print_exc()  # the script's own failure, told the way Python tells it
            return 1
    return 0


@contextmanager
def _submit_arguments(master: str, settings: Mapping[str, str]) -> Iterator[None]:
    """What spark-submit would be called with, in the variable that PySpark starts its JVM by."""
    key = "PYSPARK_SUBMIT_ARGS"
    before = os.environ.get(key)
    words = ["--master", master]
    for name, value in settings.items():
        words += ["--conf", f"{name}={value}"]
    users = shlex.split(before or "")
    os.environ[key] = shlex.join(
        [*words, *(word for word in users if word != "pyspark-shell"), "pyspark-shell"]
    )
    try:
        yield
    finally:
        if before is None:
            del os.environ[key]
        else:
            os.environ[key] = before


@contextmanager
def _session_hook(on_session: Callable[[SparkSession], None]) -> Iterator[None]:
    """Be told of every application the script opens. Nothing that goes wrong there reaches the script."""
    from pyspark.sql import SparkSession

    original = SparkSession.Builder.getOrCreate
    told: set[str] = set()

    def get_or_create(builder: SparkSession.Builder) -> SparkSession:
        session = original(builder)
        application = str(session.sparkContext.applicationId) if hasattr(session, "_jsparkSession") else ""
        if application not in told:
            told.add(application)
            try:
                on_session(session)
            except Exception:
                log.exception("not scaling, because of a fault of ours; the job goes on untouched")
        return session

    hooked: Any = SparkSession.Builder
    hooked.getOrCreate = get_or_create
    try:
        yield
    finally:
        hooked.getOrCreate = original


@contextmanager
def _as_main(script: Path, arguments: Sequence[str]) -> Iterator[None]:
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path = argv, path


@contextmanager
def _terminable() -> Iterator[None]:
    """Let a polite kill end the script like an exit, so that reports are written and clusters stopped."""

    def leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit_code(end: SystemExit) -> int:
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code & 0xFF
    sys.stderr.write(f"{end.code}\n")
    return 1
