"""What the source gives to Spark: events as rows, or as columns in rows, and what is to be said beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ebbflow.papers.rules.google_cluster.folder import Slice
from ebbflow.papers.rules.google_cluster.part import Part

if TYPE_CHECKING:
    import pyarrow as pa


# Which bucket a machine belongs to, and labels of buckets that Spark deals out evenly.
#
# State is keyed by bucket, and Spark puts key k into partition ``pmod(murmur3(k), n)``. With labels 0, 1, 2 … some of
# eight instances would get twice as many buckets as others. So labels are chosen by what Spark makes of them.


BUCKETS = 48
"""Divides evenly among 1, 2, 3, 4, 6, 8, 12 and 16 instances; a bucket of 12,000 machines has 250."""
_SHARED_AMONG = (3, 5, 6, 7, 16)  # and with 16 also 1, 2, 4 and 8
_SEED = 42


def spark_hash(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Spark's ``hash`` of an int column: Murmur3, 32 bits, seed 42.

    >>> spark_hash(np.array([0, 1]))
    array([ 933211791, -559580957])
    """
    with np.errstate(over="ignore"):
        mixed = values.astype(np.uint32) * np.uint32(0xCC9E2D51)
        mixed = _rotated(mixed, 15) * np.uint32(0x1B873593)
        hashed = _rotated(np.uint32(_SEED) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        hashed ^= np.uint32(4)
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
            hashed = (hashed ^ (hashed >> np.uint32(shift))) * np.uint32(factor)
        hashed ^= hashed >> np.uint32(16)
    return hashed.astype(np.int32).astype(np.int64)


@lru_cache(maxsize=1)
def labels() -> npt.NDArray[np.int32]:
    """The key of each bucket: of 1 to 8, or of 16 instances none has more buckets than it must."""
    candidates = np.arange(1 << 17)
    hashed = spark_hash(candidates)
    shares = {n: hashed % n for n in _SHARED_AMONG}
    room = {n: np.full(n, -(-BUCKETS // n)) for n in _SHARED_AMONG}
    chosen: list[int] = []
    for candidate in candidates.tolist():
        if all(room[n][shares[n][candidate]] > 0 for n in _SHARED_AMONG):
            chosen.append(candidate)
            for n in _SHARED_AMONG:
                room[n][shares[n][candidate]] -= 1
            if len(chosen) == BUCKETS:
                break
    return np.array(chosen, np.int32)


def bucket_of(machine: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """The key of each machine's bucket; neighbouring ids end up in different ones.

    >>> len(set(bucket_of(np.arange(1000)).tolist())) == BUCKETS
    True
    """
    with np.errstate(over="ignore"):
        mixed = machine.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    index = ((mixed >> np.uint64(33)) % np.uint64(BUCKETS)).astype(np.int64)
    return labels()[index]


def _rotated(values: npt.NDArray[np.uint32], by: int) -> npt.NDArray[np.uint32]:
    return (values << np.uint32(by)) | (values >> np.uint32(32 - by))


SCHEMA = (
    "bucket int, position long, time_us long, machine long, job long, task long, event int, "
    "cpu double, memory double, disk double, note string"
)
PACKED_SCHEMA = "bucket int, event int, time_us long, events binary, note string"
PACKED = 0
"""The event of a row that holds many."""
MARK, REJECTED, COUNTED = -1, -2, -3
_ARROW_ROWS = 50_000
_PACKED_ROWS = 20_000
_PART_SHIFT = 40
"""A position is the part and, in the lower bits, the row within it."""


def as_rows(part: Part, number: int) -> Iterator[pa.RecordBatch]:
    """One row for each event."""
    import numpy as np
    import pyarrow as pa

    from ebbflow.papers.rules.google_cluster.source_rows import bucket_of

    for first in range(0, len(part.row), _ARROW_ROWS):
        cut = slice(first, first + _ARROW_ROWS)
        machine = part.machine[cut]
        columns = [
            pa.array(bucket_of(machine)),
            pa.array(part.row[cut] + (number << _PART_SHIFT)),
            *(pa.array(each[cut]) for each in (part.time_us, part.machine, part.job, part.task)),
            pa.array(part.event[cut].astype(np.int32)),
            *(pa.array(each[cut]) for each in (part.cpu, part.memory, part.disk)),
            pa.nulls(len(machine), pa.string()),
        ]
        yield pa.RecordBatch.from_arrays(columns, names(SCHEMA))


def as_columns(part: Part, number: int) -> Iterator[pa.RecordBatch]:
    """One row for each bucket, with the columns of its events."""
    import numpy as np
    import pyarrow as pa

    from ebbflow.papers.rules.google_cluster.machine import Events, in_units
    from ebbflow.papers.rules.google_cluster.source_rows import bucket_of

    bucket = bucket_of(part.machine)
    order = np.argsort(bucket, kind="stable")
    events = Events(
        position=part.row + (number << _PART_SHIFT),
        **{name: getattr(part, name) for name in ("time_us", "machine", "job", "task", "event")},
        **{name: in_units(getattr(part, name)) for name in ("cpu", "memory", "disk")},
    ).take(order)
    bucket = bucket[order]
    edges = np.flatnonzero(np.diff(bucket)) + 1
    rows = []
    for first, end in pairwise((0, *edges.tolist(), len(bucket))):
        for cut in range(first, end, _PACKED_ROWS):
            piece = events.take(slice(cut, min(cut + _PACKED_ROWS, end)))
            rows.append((int(bucket[first]), PACKED, int(piece.time_us[0]), piece.to_bytes(), None))
    if rows:
        types = (pa.int32(), pa.int32(), pa.int64(), pa.binary(), pa.string())
        columns = [pa.array(c, t) for c, t in zip(zip(*rows, strict=True), types, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, names(PACKED_SCHEMA))


def beside(part: Part, piece: Slice, mark_us: int | None, schema: str) -> pa.RecordBatch:
    """Marks, rejected rows and counts, as rows."""
    import numpy as np
    import pyarrow as pa

    from ebbflow.papers.rules.google_cluster.source_rows import bucket_of, labels

    name = Path(piece.path).name
    rows: list[tuple[int, int, int, str | None]] = []
    if mark_us is not None:
        rows += [(int(label), MARK, mark_us, None) for label in labels()]
    own = int(bucket_of(np.array([piece.part]))[0])
    for bad in part.rejected:
        why = {"part": name, "line": bad.line, "reason": bad.reason, "text": bad.text}
        rows.append((own, REJECTED, bad.time_us, json.dumps(why)))
    counted = {
        "part": name,
        "from_us": piece.from_us,
        "events": len(part.row) + len(part.elsewhere_us),
        "without_machine": len(part.elsewhere_us),
        "rejected": len(part.rejected),
    }
    rows.append((own, COUNTED, piece.from_us, json.dumps(counted)))
    bucket, event, time_us, note = zip(*rows, strict=True)
    told = {
        "bucket": pa.array(bucket, pa.int32()),
        "event": pa.array(event, pa.int32()),
        "time_us": pa.array(time_us, pa.int64()),
        "events": pa.nulls(len(rows), pa.binary()),
        "note": pa.array(note, pa.string()),
    }
    whole, part_of_one = pa.array(np.zeros(len(rows), np.int64)), pa.array(np.zeros(len(rows)))
    columns = [
        told.get(name, part_of_one if name in ("cpu", "memory", "disk") else whole) for name in names(schema)
    ]
    return pa.RecordBatch.from_arrays(columns, names(schema))


def names(schema: str) -> list[str]:
    """The columns of a schema as it is written here."""
    return [field.split()[0] for field in schema.split(", ")]
