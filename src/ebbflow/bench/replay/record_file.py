"""The JSON objects of a recorded run: in lines, plain or packed; in one list; in the folder of a rolled event log."""

from __future__ import annotations

import gzip
import io
import logging
import re
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ebbflow.errors import InputError

log = logging.getLogger("ebbflow")

FORM = "write one progress.json of a query a line, or name a store of Ebbflow"

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ROLLED = re.compile(r"events_(\d+)_.*")
"""Spark 4 writes its event log so unless told otherwise: ``eventlog_v2_<application>/events_1_<application>.zstd``."""


class Told(NamedTuple):
    """One JSON object, and where it stands."""

    file: Path
    place: str
    """``line 7``, or ``entry 7`` of a list."""
    document: dict[str, Any]


def documents(path: Path) -> Iterator[Told]:
    """Every JSON object of a file, or of all files of a rolled event log, in their order."""
    empty = True
    for file in files_of(path):
        for number, line in enumerate(_lines(file), start=1):
            text = line.strip().removeprefix(b"\xef\xbb\xbf")
            if not text:
                continue
            try:
                document = msgspec.json.decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError):
                if not empty and not line.endswith(b"\n"):  # the last, as a driver that was killed leaves it
                    log.warning("%s, line %d was not written to its end and is left out", file, number)
                    continue
                shown = text[:40].decode(errors="replace")
                raise InputError(f"{file}, line {number} is not JSON: '{shown}'; {FORM}") from None
            empty = False
            if isinstance(document, list):
                yield from (_told(file, f"entry {i}", entry) for i, entry in enumerate(document, 1))
            else:
                yield _told(file, f"line {number}", document)
    if empty:
        raise InputError(f"{path} is empty; {FORM}")


def files_of(path: Path) -> list[Path]:
    """The file itself, or those of a rolled event log in their order."""
    if not path.is_dir():
        return [path]
    rolled = {int(found[1]): each for each in path.iterdir() if (found := _ROLLED.fullmatch(each.name))}
    if not rolled:
        raise InputError(f"{path} is a folder and no event log of Spark; name a file")
    return [rolled[index] for index in sorted(rolled)]


def _told(file: Path, place: str, document: Any) -> Told:
    if not isinstance(document, dict):
        raise InputError(f"{file}, {place} is JSON but no object; {FORM}")
    return Told(file, place, document)


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a file; how it is packed shows in its first bytes."""
    try:
        with ExitStack() as stack:
            file = stack.enter_context(path.open("rb"))
            magic = file.read(4)
            file.seek(0)
            if magic.startswith(_GZIP_MAGIC):
                yield from io.BufferedReader(gzip.GzipFile(fileobj=file))
            elif magic == _ZSTD_MAGIC:
                import pyarrow as pa

                yield from io.BufferedReader(pa.CompressedInputStream(file, "zstd"))
            else:
                yield from file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is not a whole gzip file: {error}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
