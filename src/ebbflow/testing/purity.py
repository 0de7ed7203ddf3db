"""Finds code that reads the clock, draws global random numbers or does I/O where it must not.

Two checks complement each other. ``no_side_effects`` watches the calls that a run makes, under whatever name they were
imported: a profile function sees calls of C functions such as ``time.time``, and an audit hook sees files, processes
and sockets. ``clock_calls`` reads the source, and so finds calls on paths that no run took.
"""

from __future__ import annotations

import _thread
import ast
import builtins
import datetime
import gc
import inspect
import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

CLOCK_CALLS = {"time", "time_ns", "monotonic", "perf_counter", "sleep", "now", "utcnow", "today"}

ONLY = "it may use only the snapshot"

_FUNCTIONS = {
    getattr(module, name): f"{module.__name__}.{name}"
    for module, names in (
        (time, ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep")),
        (os, ("stat", "lstat", "access", "urandom", "getcwd")),
        (builtins, ("print", "input")),
        (_thread, ("start_new_thread",)),
    )
    for name in names
}
"""C functions, which no other name for them can hide."""

_GLOBAL_RANDOM: object = random.random.__self__  # type: ignore[attr-defined]
_ENVIRONMENT = {type(os.environ).__getitem__.__code__, type(os.environ).__iter__.__code__}
_AUDITED = (
    "open", "os.", "subprocess.", "socket.", "shutil.", "tempfile.", "glob.", "sqlite3.", "urllib.", "http.",
    "_thread.",
)  # fmt: skip


class _Watch(threading.local):
    """What the current thread did since it is watched; None while it is not."""

    found: list[str] | None = None


_watch = _Watch()
_installed = threading.Lock()  # held from the first use on: an audit hook cannot be removed


@contextmanager
def no_side_effects() -> Iterator[None]:
    """Make the clock, global random numbers, the environment, files, processes and sockets fail in this thread.

    Modules may be imported. A failure that the code swallows is raised at the end.

    >>> from time import time as t
    >>> with no_side_effects():
    ...     t()
    Traceback (most recent call last):
        ...
    AssertionError: a decision called time.time(); it may use only the snapshot
    """
    if _installed.acquire(blocking=False):
        sys.addaudithook(_on_audit)
    if _watch.found is not None:  # already watched
        yield
        return
    found = _watch.found = []
    before, collecting, numpy_state = sys.getprofile(), gc.isenabled(), _numpy_state()
    gc.disable()  # finalizers of objects that others left behind may do I/O
    sys.setprofile(_on_call)
    try:
        yield
    finally:
        sys.setprofile(before)
        _watch.found = None
        if collecting:
            gc.enable()
    if numpy_state != _numpy_state():  # numpy's functions are invisible to a profile function
        found.append(f"a decision drew from numpy.random; {ONLY}")
    if found:
        raise AssertionError(found[0])


def _on_call(frame: FrameType, event: str, called: Any) -> None:
    if event == "c_call":
        name = _FUNCTIONS.get(called) or _forbidden_method(called)
        if name:
            _refuse(f"{name}()", frame)
    elif event == "call" and frame.f_code in _ENVIRONMENT:
        _refuse("os.environ", frame)


def _forbidden_method(called: Any) -> str:
    """The name of a C method that reads the clock or the global random generator; empty for others."""
    owner, name = getattr(called, "__self__", None), called.__name__
    if isinstance(owner, type):
        reads_clock = issubclass(owner, datetime.date) and name in ("now", "utcnow", "today")
        return f"{owner.__module__}.{owner.__name__}.{name}" if reads_clock else ""
    return f"random.{name}" if owner is _GLOBAL_RANDOM else ""


def _on_audit(event: str, details: tuple[Any, ...]) -> None:
    if _watch.found is None or not event.startswith(_AUDITED):
        return
    shown = f"({details[0]!r})" if details and isinstance(details[0], str | bytes) else "()"
    _refuse(f"{event}{shown}", sys._getframe())


def _refuse(name: str, frame: FrameType) -> None:
    if _watch.found is None or _is_importing(frame):
        return
    message = f"a decision called {name}; {ONLY}"
    _watch.found.append(message)
    raise AssertionError(message)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _numpy_state() -> list[str]:
    """The state of numpy's global random generator."""
    return [str(part) for part in np.random.get_state(legacy=True)]


def clock_calls(source: Path, within: str = "") -> list[str]:
    """Calls in a file that read the wall clock, also under another name: ``from time import time as t; t()``.

    ``within``: only in the class of this name.
    """
    tree = ast.parse(source.read_text())
    names = {"time": "time", "datetime": "datetime"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update({a.asname: a.name for a in node.names if a.asname})
        elif isinstance(node, ast.ImportFrom):
            names.update({a.asname or a.name: f"{node.module}.{a.name}" for a in node.names})
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == within]
    found = []
    for node in (each for part in (classes if within else [tree]) for each in ast.walk(part)):
        if isinstance(node, ast.Call):
            dotted = ast.unparse(node.func)
            first, _, rest = dotted.partition(".")
            called = f"{names.get(first, first)}.{rest}".rstrip(".").split(".")
            if called[0] in ("time", "datetime") and called[-1] in CLOCK_CALLS:
                found.append(f"{source.name}:{node.lineno}: {dotted}()")
    return found


def clock_calls_of(kind: type) -> list[str]:
    """Calls in the body of a class that read the wall clock; none if its source is not available."""
    with suppress(OSError, TypeError):
        source = inspect.getsourcefile(kind)
        if source is not None and Path(source).is_file():
            return clock_calls(Path(source), kind.__name__)
    return []
