"""Output of commands: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ebbflow.errors import InputError

errors = Console(stderr=True, highlight=False)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]


def check_writable(path: Path | None) -> None:
    """Check before a command starts that the file it writes at the end can be written."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder; name a file")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}")
    try:
        if path.exists():
            path.open("ab").close()
        else:
            tempfile.TemporaryFile(dir=path.parent).close()  # permission bits are not enough, as /proc shows
    except OSError as error:
        raise InputError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None


def refuse(options: Mapping[str, object], why: str) -> None:
    """Refuse options that would be ignored. Those not given are None or an empty list."""
    for name, value in options.items():
        if value is not None and value != []:
            raise InputError(f"--{name} {why}; leave it out")


def print_json(document: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def say(message: str) -> None:
    """Print a progress line."""
    errors.print(f"[dim]·[/dim] {message}")


@contextmanager
def standard_output_to_error() -> Iterator[None]:
    """Redirect standard output to standard error, that of child processes included."""
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)
