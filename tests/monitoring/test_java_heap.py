"""The heap is read from HotSpot's counters file; any other file is refused."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from ebbflow.monitoring.java_heap import Heap, JavaHeap

SERIAL = {
    "sun.gc.collector.0.name": "Copy",
    "sun.gc.generation.0.maxCapacity": 200,
    "sun.gc.generation.0.space.0.used": 30,
    "sun.gc.generation.0.space.1.used": 4,
    "sun.gc.generation.1.maxCapacity": 400,
    "sun.gc.generation.1.space.0.used": 100,
    "sun.gc.generation.1.space.0.capacity": 380,
    "sun.gc.metaspace.used": 9999,
}
G1 = {
    "sun.gc.collector.0.name": "G1 young collection pauses",
    "sun.gc.generation.0.maxCapacity": 1024,
    "sun.gc.generation.0.space.0.used": 24,
    "sun.gc.generation.1.maxCapacity": 1024,
    "sun.gc.generation.1.space.0.used": 100,
}


def counters(values: dict[str, int | str], order: str = "<", *, ready: int = 1) -> bytes:
    """A file with HotSpot's layout (perfMemory.hpp, perfData.hpp)."""
    entries = b""
    for name, value in values.items():
        text = name.encode() + b"\0"
        data_at = (20 + len(text) + 7) & ~7
        if isinstance(value, int):
            data, kind, vector = struct.pack(f"{order}q", value), b"J", 0
        else:
            data, kind, vector = value.encode() + b"\0", b"B", len(value) + 1
        length = (data_at + len(data) + 7) & ~7
        head = struct.pack(f"{order}iiicBBBi", length, 20, vector, kind, 0, 2, 2, data_at)
        entries += (head + text).ljust(data_at, b"\0") + data.ljust(length - data_at, b"\0")
    header = struct.pack(">IBBBB", 0xCAFEC0C0, int(order == "<"), 2, 0, ready)
    header += struct.pack(f"{order}iiqii", 32 + len(entries), 0, 0, 32, len(values))
    return header + entries


def put(folder: Path, data: bytes, pid: int = 42) -> Path:
    home = folder / "hsperfdata_me"
    home.mkdir(exist_ok=True)
    (home / str(pid)).write_bytes(data)
    return home / str(pid)


def read(folder: Path) -> Heap | None:
    heap = JavaHeap.open(42, os.getuid(), "me", folder)
    if heap is None:
        return None
    try:
        return heap.read()
    finally:
        heap.close()


@pytest.mark.parametrize("order", ["<", ">"])
def test_spaces_are_summed_and_generations_share_the_heap(tmp_path: Path, order: str) -> None:
    put(tmp_path, counters(SERIAL, order))
    assert read(tmp_path) == Heap(134.0, 600.0)


def test_in_g1_each_generation_may_grow_to_the_whole_heap(tmp_path: Path) -> None:
    put(tmp_path, counters(G1))
    assert read(tmp_path) == Heap(124.0, 1024.0)


def test_the_heap_is_read_each_time(tmp_path: Path) -> None:
    path = put(tmp_path, counters(SERIAL))
    heap = JavaHeap.open(42, os.getuid(), "me", tmp_path)
    assert heap is not None
    with path.open("r+b") as file:
        file.write(counters({**SERIAL, "sun.gc.generation.1.space.0.used": 300}))
    assert heap.read() == Heap(334.0, 600.0)
    path.write_bytes(b"")  # truncated: the reading is missing
    assert heap.read() is None
    heap.close()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xca\xfe",
        b"x" * 4096,
        counters(SERIAL, ready=0),
        counters(SERIAL)[:200],
        counters({"sun.gc.generation.0.maxCapacity": 5}),
        counters(SERIAL).replace(b"\xca\xfe", b"\xca\xff"),
        counters(SERIAL)[:32] + b"\0" * 5000,
        counters(SERIAL)[:32] + b"\xff" * 5000,
        counters(SERIAL) + b"\0" * (2 << 20),
    ],
    ids=["empty", "two bytes", "text", "not ready", "cut", "no spaces", "magic", "zeros", "ones", "huge"],
)
def test_an_invalid_counters_file_gives_nothing(tmp_path: Path, data: bytes) -> None:
    put(tmp_path, data)
    assert read(tmp_path) is None


def test_no_file_gives_nothing(tmp_path: Path) -> None:
    assert read(tmp_path) is None


def test_a_link_or_another_users_file_is_not_followed(tmp_path: Path) -> None:
    path = put(tmp_path, counters(SERIAL))
    assert JavaHeap.open(42, os.getuid() + 1, "me", tmp_path) is None
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert read(tmp_path) is None


def test_a_heap_above_its_maximum_is_not_reported(tmp_path: Path) -> None:
    put(tmp_path, counters({**SERIAL, "sun.gc.generation.1.space.0.used": 10_000}))
    assert read(tmp_path) is None
