"""How commands speak: results on standard output, everything else on standard error."""

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
    """A file that is to be written at the end must be possible before anything is started."""
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
            tempfile.TemporaryFile(dir=path.parent).close()  # asking for rights is not enough: see /proc
    except OSError as error:
        raise InputError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None


def refuse(options: Mapping[str, object], why: str) -> None:
    """An option that would be passed over in silence is an error. Those not given are None or an empty list."""
    for name, value in options.items():
        if value is not None and value != []:
            raise InputError(f"--{name} {why}; leave it out")


def print_json(document: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def say(message: str) -> None:
    """A line for the person watching."""
    errors.print(f"[dim]·[/dim] {message}")


@contextmanager
def standard_output_to_error() -> Iterator[None]:
    """Send to standard error what others print meanwhile, child processes included."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
