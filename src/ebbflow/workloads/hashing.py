"""Random numbers by counter: number n of a seed is computed directly, not drawn after n − 1 others.

A load or a row must not depend on the process, the machine or the order of requests. A stateful generator cannot
guarantee that; a hash of (seed, counter) can. The hash is the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast
splittable pseudorandom number generators", OOPSLA 2014), applied to whole arrays.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Floats

Words = npt.NDArray[np.uint64]
"""Arrays of 64-bit words. Arithmetic wraps around, as the hash requires."""

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2⁶⁴ ÷ golden ratio: spreads consecutive counters over all 64 bits."""
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def mix(words: Words) -> Words:
    """Scramble each word so that every output bit depends on every input bit.

    >>> [hex(word) for word in mix(np.array([1, 2], dtype=np.uint64))]
    ['0x5692161d100b05e5', '0xdbd238973a2b148a']
    """
    mixed = words ^ (words >> np.uint64(30))
    mixed *= _FIRST
    mixed ^= mixed >> np.uint64(27)
    mixed *= _SECOND
    mixed ^= mixed >> np.uint64(31)
    return mixed


def hashed(seed: int, counters: Words) -> Words:
    """64 random bits for each (seed, counter): mix(counter · golden + mix(seed + golden)).

    >>> whole = hashed(7, np.arange(5, dtype=np.uint64))
    >>> bool(np.all(hashed(7, np.array([3], dtype=np.uint64)) == whole[3:4]))
    True
    """
    start = mix(np.array([seed], dtype=np.uint64) + GOLDEN)
    return mix(counters * GOLDEN + start)


def uniform(words: Words) -> Floats:
    """Numbers in [0, 1) from the upper 53 bits of each word.

    >>> [float(u) for u in uniform(np.array([0, 2**63], dtype=np.uint64))]
    [0.0, 0.5]
    """
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def normal(seed: int, counters: Words) -> Floats:
    """A standard normal number for each counter, by Box and Muller: √(−2 ln u) · cos 2πv.

    >>> sample = normal(1, np.arange(100_000, dtype=np.uint64))
    >>> round(abs(float(sample.mean())), 1), round(float(sample.std()), 1)
    (0.0, 1.0)
    """
    twice = counters * np.uint64(2)
    radius = np.sqrt(-2.0 * np.log1p(-uniform(hashed(seed, twice))))
    angle = 2.0 * np.pi * uniform(hashed(seed, twice + np.uint64(1)))
    return np.asarray(radius * np.cos(angle))
