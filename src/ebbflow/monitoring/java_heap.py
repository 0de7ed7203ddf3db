"""Heap usage of a Java process, read from outside at almost no cost.

HotSpot keeps its counters in a file that other processes of the same user may read, as ``jstat`` does:
``/tmp/hsperfdata_USER/PID``, a header of 32 bytes followed by named entries. Their offsets are looked up once; after
that a reading is one ``pread``. The file is read, not mapped: reading past the end of a truncated mapped file would
kill the agent. There is no such file with ``-XX:-UsePerfData``, and no visible one with ``-XX:+PerfDisableSharedMem``
or in another container.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from pathlib import Path
from typing import NamedTuple

LARGEST_FILE = 1 << 20
_MAGIC = 0xCAFEC0C0
_USED = re.compile(r"sun\.gc\.generation\.\d+\.space\.\d+\.used")
_MOST = re.compile(r"sun\.gc\.generation\.\d+\.maxCapacity")


class Heap(NamedTuple):
    """Bytes in use, garbage included, and the maximum size."""

    used: float
    most: float


class _Counter(NamedTuple):
    offset: int
    value: int


class JavaHeap:
    """Reads the heap of one Java process."""

    def __init__(self, descriptor: int, order: str, used: list[int], most: float) -> None:
        self._descriptor = descriptor
        self._first = min(used)
        self._length = max(used) + 8 - self._first
        self._used = [offset - self._first for offset in used]
        self._number = struct.Struct(f"{order}q")
        self._most = most

    @classmethod
    def open(cls, pid: int, uid: int, user: str, folder: Path = Path("/tmp")) -> JavaHeap | None:  # noqa: S108
        """Open the counters of a user's process; None if they are not visible."""
        path = folder / f"hsperfdata_{user}" / str(pid)
        try:
            # Anyone may create the folder, so links and files of other users are not trusted.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            about = os.fstat(descriptor)
            if stat.S_ISREG(about.st_mode) and about.st_uid == uid and about.st_size <= LARGEST_FILE:
                order, counters, names = _counters(os.pread(descriptor, LARGEST_FILE, 0))
                used = [c.offset for name, c in counters.items() if _USED.fullmatch(name)]
                most = [float(c.value) for name, c in counters.items() if _MOST.fullmatch(name)]
                if used and most:
                    # In G1 each generation may become the whole heap; elsewhere they share it.
                    together = max if names.get("sun.gc.collector.0.name", "").startswith("G1") else sum
                    return cls(descriptor, order, used, together(most))
        except (OSError, ValueError, struct.error):
            pass
        os.close(descriptor)
        return None

    def read(self) -> Heap | None:
        """Read the current heap usage."""
        try:
            data = os.pread(self._descriptor, self._length, self._first)
            used = sum(self._number.unpack_from(data, offset)[0] for offset in self._used)
        except (OSError, struct.error):
            return None
        return Heap(float(used), self._most) if 0 <= used <= self._most else None

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _counters(data: bytes) -> tuple[str, dict[str, _Counter], dict[str, str]]:
    """Parse a counters file (version 2, since Java 5) into byte order, numbers and texts."""
    if struct.unpack_from(">I", data)[0] != _MAGIC or data[5] != 2 or not data[7]:
        raise ValueError("not a counters file, or not ready yet")
    order = "<" if data[4] else ">"
    at, entries = struct.unpack_from(f"{order}ii", data, 24)
    numbers: dict[str, _Counter] = {}
    texts: dict[str, str] = {}
    for _ in range(entries):
        length, name_at, vector, kind, _, _, _, data_at = struct.unpack_from(f"{order}iiiBBBBi", data, at)
        if length <= 0 or name_at <= 0 or data_at <= 0:
            raise ValueError("an entry without length")
        name = data[at + name_at : data.index(0, at + name_at)].decode("ascii", "replace")
        if kind == ord("J") and vector == 0:
            numbers[name] = _Counter(at + data_at, struct.unpack_from(f"{order}q", data, at + data_at)[0])
        elif kind == ord("B"):
            texts[name] = (
                data[at + data_at : at + data_at + vector].split(b"\0")[0].decode("ascii", "replace")
            )
        at += length
    return order, numbers, texts
