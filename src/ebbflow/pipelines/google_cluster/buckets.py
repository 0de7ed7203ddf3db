"""Which bucket a machine belongs to, and labels of buckets that Spark deals out evenly.

State is keyed by bucket, and Spark puts key k into partition ``pmod(murmur3(k), n)``. With labels 0, 1, 2 … some of
eight instances would get twice as many buckets as others. So labels are chosen by what Spark makes of them.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

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
