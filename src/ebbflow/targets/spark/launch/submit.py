"""Runs an unmodified PySpark script, and reports each session that it opens.

The script runs in this process as ``__main__``, with its own arguments and its own folder first on the path, as under
``spark-submit``. Settings reach its session as ``spark-submit`` would pass them, so the script's own settings win.
"""

from __future__ import annotations

import logging
import os
import runpy
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any

from ebbflow.errors import InputError
from ebbflow.targets.spark.launch.session import deferred_signals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"


def check_script(script: Path) -> None:
    """Raise ``InputError`` unless the script is a file."""
    if not script.exists():
        raise InputError(f"there is no script {script}; name a PySpark script to run")
    if script.is_dir():
        raise InputError(f"{script} is a folder; name a PySpark script to run")


def run_script(
    script: Path,
    arguments: Sequence[str],
    *,
    master: str,
    settings: Mapping[str, str],
    defaults: Mapping[str, str] = MappingProxyType({}),
    settings_file: Path | None = None,
    on_session: Callable[[SparkSession], None],
) -> int:
    """Run the script to its end; returns its exit code. ``on_session`` is called once for each application it opens.

    ``settings_file`` holds settings that must not appear on a command line. ``defaults`` are settings that the user's
    properties file overrides.
    """
    known = set(threading.enumerate())
    with (
        _submit_arguments(master, settings, settings_file, defaults),
        _launch_not_interrupted(),
        _session_hook(on_session),
        _as_main(script, arguments),
        _terminable(),
    ):
        try:
            code = _run_main(script)
            _await_threads(known)
        except _Terminated as end:
            return _exit_code(end)
        except KeyboardInterrupt:
            return 130
    return code


class _Terminated(SystemExit):
    """A signal asked this process to end."""


def _run_main(script: Path) -> int:
    try:
        runpy.run_path(str(script), run_name="__main__")
    except _Terminated:
        raise
    except SystemExit as end:
        return _exit_code(end)
    except Exception:
        traceback.print_exc()  # as Python itself would
        return 1
    return 0


@contextmanager
def _submit_arguments(
    master: str, settings: Mapping[str, str], settings_file: Path | None, defaults: Mapping[str, str]
) -> Iterator[None]:
    """Set the arguments of spark-submit in the variable with which PySpark starts its JVM."""
    key = SUBMIT_ARGUMENTS
    before = os.environ.get(key)
    words, users = ["--master", master], _users_arguments(before)
    if settings_file is not None:  # Spark reads one file only, the last
        users_files = _take_option(users, "--properties-file")
        words += ["--properties-file", str(settings_file)]
        if users_files:
            own = settings_file.read_text()  # it has the secret, so it comes last
            settings_file.write_text(f"{_properties(defaults)}{_read_properties(users_files[-1])}\n{own}")
        else:
            settings_file.write_text(f"{_properties(defaults)}{settings_file.read_text()}")
            words.append("--load-spark-defaults")
    else:
        settings = {**defaults, **settings}
    for name, value in settings.items():
        words += ["--conf", f"{name}={value}"]
    os.environ[key] = shlex.join([*words, *users, "pyspark-shell"])
    try:
        yield
    finally:
        if before is None:
            del os.environ[key]
        else:
            os.environ[key] = before


def check_submit_arguments() -> None:
    """Raise ``InputError`` if the arguments in the user's environment cannot be read."""
    for file in _take_option(_users_arguments(os.environ.get(SUBMIT_ARGUMENTS)), "--properties-file")[-1:]:
        _read_properties(file)


def _users_arguments(text: str | None) -> list[str]:
    """The user's arguments, without ``--master``: that of ``ebbflow submit`` counts."""
    try:
        words = [word for word in shlex.split(text or "") if word != "pyspark-shell"]
    except ValueError as error:
        raise InputError(f"{SUBMIT_ARGUMENTS} is invalid: {str(error).lower()}; it is {text}") from None
    _take_option(words, "--master")
    return words


def _properties(settings: Mapping[str, str]) -> str:
    return "".join(f"{name} {value}\n" for name, value in settings.items())


def _take_option(words: list[str], option: str) -> list[str]:
    """Remove an option from the words of a command line; returns its values.

    >>> words = ["--master", "local[2]", "--packages", "a:b:1", "--master=yarn"]
    >>> _take_option(words, "--master"), words
    (['local[2]', 'yarn'], ['--packages', 'a:b:1'])
    """
    values, rest, remaining = [], [], iter(words)
    for word in remaining:
        if word == option:
            values += [value for value in (next(remaining, None),) if value is not None]
        elif word.startswith(f"{option}="):
            values.append(word.removeprefix(f"{option}="))
        else:
            rest.append(word)
    words[:] = rest
    return values


def _read_properties(properties: str) -> str:
    try:
        return Path(properties).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InputError(
            f"{SUBMIT_ARGUMENTS} names the properties file {properties}, which cannot be read: {why}"
        ) from None


@contextmanager
def _launch_not_interrupted() -> Iterator[None]:
    """Defer signals while the script's session launches its JVM: a partly launched one would be left behind."""
    from pyspark import SparkContext

    where: Any = sys.modules[SparkContext.__module__]
    original = where.launch_gateway

    def launch(*arguments: Any, **options: Any) -> Any:
        with deferred_signals():
            return original(*arguments, **options)

    where.launch_gateway = launch
    try:
        yield
    finally:
        where.launch_gateway = original


@contextmanager
def _session_hook(on_session: Callable[[SparkSession], None]) -> Iterator[None]:
    """Call ``on_session`` for each application that the script opens. Its failures never reach the script."""
    from pyspark.sql import SparkSession

    hooked: Any = SparkSession
    original = hooked.__init__
    reported: set[str] = set()

    # Both the builder and SparkSession(context) end up here.
    def opened(session: SparkSession, *arguments: Any, **options: Any) -> None:
        original(session, *arguments, **options)
        try:
            application = str(session.sparkContext.applicationId)
            if application not in reported:
                reported.add(application)
                on_session(session)
        except Exception:
            log.exception("not scaling because of an internal error; the job runs on unchanged")

    hooked.__init__ = opened
    try:
        yield
    finally:
        hooked.__init__ = original


def _await_threads(known: set[threading.Thread]) -> None:
    """Wait for threads that the script has left running, as Python does at exit."""
    while running := [t for t in threading.enumerate() if not t.daemon and t not in known]:
        running[0].join()


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
    """Let SIGTERM and SIGHUP end the script like an exit, so that reports are written and clusters stopped."""

    def leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise _Terminated(128 + number)

    handled = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]
    before = {number: signal.signal(number, leave) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_code(end: SystemExit) -> int:
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code & 0xFF
    sys.stderr.write(f"{end.code}\n")
    return 1
