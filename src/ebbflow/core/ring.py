"""A hash ring: assigns keys to shards so that few keys move when a shard comes or goes (DoDo, §7.1.3 and Appendix B).

Every shard has about 200 points on a ring of 2⁶⁴ positions. A key belongs to the shard of the first point at or after
its own position (Karger et al., STOC 1997). If a shard is added to N, about K/(N + 1) of K keys move, all of them to
the new shard. If a shard is removed, only its keys move.

Both hashes are stable across processes, machines and versions:

- point i of a shard: the first 8 bytes of SHA-256 of ``name#i``, as in Appendix B
- a key: XXH64 with seed 42, which Spark computes as ``xxhash64(column, …)``

The upper 16 bits of a key's hash, its *slot*, are its position. So the whole ring is a table of 65,536 bytes, and a
lookup is one array access: in numpy for a column of keys, in Spark as an expression that needs no Python worker
(``targets.fleet.sharding``). Libraries such as uhashring look up one key per call, in Python, with a hash that Spark
does not have. Routing the rows of a stream that way would cost more than most operators.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ebbflow.errors import InputError

POINTS = 200
"""Points of a shard of weight 1 (Appendix B). Shares of equal shards then differ by about 1/√200 = 7 %."""
SLOT_BITS = 16
SLOTS = 1 << SLOT_BITS
MAX_SHARDS = 256
"""The table has one byte per slot."""

Hashes = npt.NDArray[np.uint64]
Owners = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class HashRing:
    """Shards by name, with their weights. A weight of 2 doubles a shard's points, and with them its share of the keys.

    >>> ring = HashRing.of(["a", "b", "c"])
    >>> grown = ring.with_shard("d")
    >>> moves = ring.moves_to(grown)
    >>> {receiver for _, receiver in moves}, round(sum(moves.values()), 2)
    ({'d'}, 0.25)
    >>> grown.without_shard("d") == ring
    True
    >>> ring.shards_of(np.array([0, 2**62], dtype=np.uint64))
    ['c', 'a']
    """

    weights: Mapping[str, float]
    names: tuple[str, ...] = field(init=False)
    owners: Owners = field(init=False, repr=False)
    """For each slot, the position of its shard in ``names``."""

    def __post_init__(self) -> None:
        names = tuple(sorted(self.weights))
        if not names:
            raise InputError("a hash ring needs at least one shard")
        if len(names) > MAX_SHARDS:
            raise InputError(f"{len(names)} shards are too many for a hash ring; the maximum is {MAX_SHARDS}")
        for name in names:
            if not 0 < self.weights[name] <= 100:
                raise InputError(
                    f"shard {name} has the weight {self.weights[name]:g}; write a number from 0.01 to 100, usually 1"
                )
        points = [_points(name, max(1, round(POINTS * self.weights[name]))) for name in names]
        positions = np.concatenate(points)
        of_points = np.repeat(np.arange(len(names), dtype=np.uint8), [len(each) for each in points])
        order = np.argsort(positions, kind="stable")
        starts = np.arange(SLOTS, dtype=np.uint64) << np.uint64(64 - SLOT_BITS)
        following = np.searchsorted(positions[order], starts) % len(order)
        object.__setattr__(self, "weights", {name: float(self.weights[name]) for name in names})
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "owners", of_points[order][following])

    @classmethod
    def of(cls, names: Iterable[str]) -> HashRing:
        """A ring of shards of weight 1."""
        return cls(dict.fromkeys(names, 1.0))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HashRing) and self.weights == other.weights

    def __hash__(self) -> int:
        return hash(tuple(self.weights.items()))

    def with_shard(self, name: str, weight: float = 1.0) -> HashRing:
        """The ring with one more shard."""
        if name in self.weights:
            raise InputError(f"shard {name} is on the ring already; its weight is {self.weights[name]:g}")
        return HashRing({**self.weights, name: weight})

    def without_shard(self, name: str) -> HashRing:
        """The ring with one shard less."""
        if name not in self.weights:
            raise InputError(f"shard {name} is not on the ring; it has {', '.join(self.names)}")
        if len(self.names) == 1:
            raise InputError(f"shard {name} is the only one; add another before you remove it")
        return HashRing({each: weight for each, weight in self.weights.items() if each != name})

    def indices_of(self, hashes: Hashes) -> Owners:
        """For each hash of a key, the position of its shard in ``names``."""
        return np.asarray(self.owners[hashes >> np.uint64(64 - SLOT_BITS)])

    def shards_of(self, hashes: Hashes) -> list[str]:
        """For each hash of a key, the name of its shard."""
        return [self.names[each] for each in self.indices_of(hashes)]

    def slots_of(self, name: str) -> npt.NDArray[np.bool_]:
        """For each slot, whether the shard owns it."""
        return np.asarray(self.owners == self.names.index(name))

    def shares(self) -> dict[str, float]:
        """The share of the ring of each shard."""
        counts = np.bincount(self.owners, minlength=len(self.names))
        return {name: float(count) / SLOTS for name, count in zip(self.names, counts, strict=True)}

    def moves_to(self, after: HashRing) -> dict[tuple[str, str], float]:
        """The share of the ring that goes from one shard to another when this ring becomes another."""
        moves = {}
        for giver in self.names:
            given = after.owners[self.slots_of(giver)]
            for index, count in enumerate(np.bincount(given, minlength=len(after.names))):
                if count and after.names[index] != giver:
                    moves[giver, after.names[index]] = float(count) / SLOTS
        return moves


def _points(name: str, count: int) -> Hashes:
    digests = (hashlib.sha256(f"{name}#{i}".encode()).digest()[:8] for i in range(count))
    return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64)


@functools.lru_cache(maxsize=1024)
def state_moved(before: int, after: int) -> float:
    """Share of the keys that move to another instance when a ring of instances 0, 1, 2, … grows or shrinks.

    About 1 − min/max, as the ring has it: instances own unequal shares.

    >>> round(state_moved(3, 4), 2), round(state_moved(4, 2), 2), state_moved(2, 2), state_moved(0, 2)
    (0.24, 0.51, 0.0, 1.0)
    """
    if before == after or not (before and after):
        return float(before != after)
    return sum(_instances(before).moves_to(_instances(after)).values())


@functools.lru_cache(maxsize=256)
def _instances(count: int) -> HashRing:
    return HashRing.of(str(i) for i in range(min(count, MAX_SHARDS)))
