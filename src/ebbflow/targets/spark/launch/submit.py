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
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any

from ebbflow.errors import InputError
from ebbflow.targets.spark.launch.interrupts import deferred_signals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("ebbflow")

SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"


def check_script(script: Path) -> None:
    """A script must be there before anything is started for it."""
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

    ``settings_file`` holds settings that must not be seen on a command line. ``defaults`` are settings that give way to
    a properties file of the user's.
    """
    ours = set(threading.enumerate())
    with (
        _submit_arguments(master, settings, settings_file, defaults),
        _launched_whole(),
        _session_hook(on_session),
        _as_main(script, arguments),
        _terminable(),
    ):
        try:
            code = _run_main(script)
            _await_threads(ours)
        except _Terminated as end:
            return _exit_code(end)
        except KeyboardInterrupt:
            return 130
    return code


class _Terminated(SystemExit):
    """Somebody asked us to end."""


def _run_main(script: Path) -> int:
    try:
        runpy.run_path(str(script), run_name="__main__")
    except _Terminated:
        raise
    except SystemExit as end:
        return _exit_code(end)
    except Exception:
        traceback.print_exc()  # the script's own failure, told the way Python tells it
        return 1
    return 0


@contextmanager
def _submit_arguments(
    master: str, settings: Mapping[str, str], settings_file: Path | None, defaults: Mapping[str, str]
) -> Iterator[None]:
    """What spark-submit would be called with, in the variable that PySpark starts its JVM by."""
    key = SUBMIT_ARGUMENTS
    before = os.environ.get(key)
    words, users = ["--master", master], _users_words(before)
    if settings_file is not None:  # Spark takes one file: the last
        theirs = _take_option(users, "--properties-file")
        words += ["--properties-file", str(settings_file)]
        if theirs:
            ours = settings_file.read_text()  # with a secret, so it has the last word
            settings_file.write_text(f"{_lines(defaults)}{_read(theirs[-1])}\n{ours}")
        else:
            settings_file.write_text(f"{_lines(defaults)}{settings_file.read_text()}")
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
    """What the user's environment says must be readable before anything is started by it."""
    for file in _take_option(_users_words(os.environ.get(SUBMIT_ARGUMENTS)), "--properties-file")[-1:]:
        _read(file)


def _users_words(text: str | None) -> list[str]:
    """What the variable held before, without a master: the one that was named to us counts."""
    try:
        words = [word for word in shlex.split(text or "") if word != "pyspark-shell"]
    except ValueError as error:
        raise InputError(f"{SUBMIT_ARGUMENTS} cannot be read: {str(error).lower()}; it is {text}") from None
    _take_option(words, "--master")
    return words


def _lines(settings: Mapping[str, str]) -> str:
    return "".join(f"{name} {value}\n" for name, value in settings.items())


def _take_option(words: list[str], option: str) -> list[str]:
    """Take an option out of the words of a command line; returns what it was given, each time.

    >>> words = ["--master", "local[2]", "--packages", "a:b:1", "--master=yarn"]
    >>> _take_option(words, "--master"), words
    (['local[2]', 'yarn'], ['--packages', 'a:b:1'])
    """
    values, kept, left = [], [], iter(words)
    for word in left:
        if word == option:
            values += [value for value in (next(left, None),) if value is not None]
        elif word.startswith(f"{option}="):
            values.append(word.removeprefix(f"{option}="))
        else:
            kept.append(word)
    words[:] = kept
    return values


def _read(properties: str) -> str:
    try:
        return Path(properties).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise InputError(
            f"{SUBMIT_ARGUMENTS} names the properties file {properties}, which cannot be read: {why}"
        ) from None


@contextmanager
def _launched_whole() -> Iterator[None]:
    """Let nobody end us while the script's session launches its JVM: half launched, it would be left behind."""
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
    """Be told of every application the script opens. Nothing that goes wrong there reaches the script."""
    from pyspark.sql import SparkSession

    hooked: Any = SparkSession
    original = hooked.__init__
    told: set[str] = set()

    # Both the builder and SparkSession(context) come through here.
    def opened(session: SparkSession, *arguments: Any, **options: Any) -> None:
        original(session, *arguments, **options)
        try:
            application = str(session.sparkContext.applicationId)
            if application not in told:
                told.add(application)
                on_session(session)
        except Exception:
            log.exception("not scaling, because of a fault of ours; the job goes on untouched")

    hooked.__init__ = opened
    try:
        yield
    finally:
        hooked.__init__ = original


def _await_threads(known: set[threading.Thread]) -> None:
    """A script may end while threads of its own go on; Python would wait for those, so must we."""
    while theirs := [t for t in threading.enumerate() if not t.daemon and t not in known]:
        theirs[0].join()


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
    """Let a polite kill or a hang-up end the script like an exit: reports are written, and clusters stopped."""

    def leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise _Terminated(128 + number)

    heeded = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]
    before = {number: signal.signal(number, leave) for number in heeded}
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
