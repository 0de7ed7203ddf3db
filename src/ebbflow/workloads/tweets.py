"""Generated tweets: text for pipelines that count words, with the statistics of real text."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ebbflow.workloads.hashing import GOLDEN, Words, hashed, mix
from ebbflow.workloads.vocabulary import SIZE, STOP_WORDS, shares, words

__all__ = ["STOP_WORDS", "Tweets"]

_Ids = npt.NDArray[np.int32]

_BLOCK_ROWS = 4096
"""Rows made at a time: few enough for the processor's cache."""
_WORD_BITS = 20
_LENGTH_BITS = 16
_SHORTEST, _COMMONEST, _LONGEST = 2, 23, 30

# how a word can stand in a tweet; an id is form · SIZE + rank
_INSIDE, _FIRST, _STOP, _SHOUT, _ASK, _HASHTAG, _MENTION = range(7)
_FORMS = (" {}", "{}", " {}.", " {}!", " {}?", " #{}", "@{}")
_ENDS = np.repeat(
    np.array([_INSIDE, _STOP, _SHOUT, _ASK, _HASHTAG], dtype=np.int32), [90, 67, 32, 23, 44]
)  # of 256: 17 % of tweets end with a hashtag
_MENTIONED_OF_256 = 90
"""35 % of tweets start by addressing somebody."""


class Tweets:
    """Tweets by number: the text of row i depends on (seed, i) alone.

    Word ranks follow Zipf–Mandelbrot (see :mod:`~ebbflow.workloads.vocabulary`), lengths rise linearly from
    2 words to the commonest, 23, and fall to 30, as in a real collection (mean 17.7 words, 104 letters).

    >>> tweets = Tweets(seed=1)
    >>> tweets.texts(0, 100)[40:60] == tweets.texts(40, 20)
    True
    >>> tweets.texts(7, 1)[0].as_py() == Tweets(seed=2).texts(7, 1)[0].as_py()
    False
    """

    def __init__(self, seed: int = 0) -> None:
        if not 0 <= seed < 2**63:
            raise ValueError(f"the seed of tweets is {seed}; it must be a whole number from 0 up, below 2^63")
        self.seed = seed

    def __repr__(self) -> str:
        return f"Tweets(seed={self.seed})"

    def texts(self, first_row: int, count: int) -> pa.StringArray:
        """The texts of ``count`` rows from ``first_row`` on."""
        if first_row < 0 or count < 0:
            raise ValueError(f"rows are counted from 0; there are no {count} rows from row {first_row} on")
        starts = range(first_row, first_row + count, _BLOCK_ROWS)
        blocks = [self._block(start, min(_BLOCK_ROWS, first_row + count - start)) for start in starts]
        return pa.concat_arrays(blocks) if blocks else _forms()[:0]

    def _block(self, first_row: int, count: int) -> pa.StringArray:
        rows = np.arange(first_row, first_row + count, dtype=np.uint64)
        dice = hashed(self.seed, rows)
        lengths = _lengths()[dice >> np.uint64(64 - _LENGTH_BITS)]
        ends = np.cumsum(lengths)
        firsts = ends - lengths
        position = np.arange(ends[-1]) - np.repeat(firsts, lengths)
        ids = self._ranks(np.repeat(dice, lengths), position)
        self._dress(ids, firsts, ends - 1, dice)
        # words in their forms, laid end to end, already are the texts; only the borders differ
        flat = _forms().take(pa.Array.from_buffers(pa.int32(), len(ids), [None, pa.py_buffer(ids)]))
        _, offsets, letters = flat.buffers()
        borders = np.frombuffer(offsets, dtype=np.int32)[np.concatenate(([0], ends))]
        return _strings(borders, letters)

    def _ranks(self, dice: Words, position: npt.NDArray[np.int64]) -> _Ids:
        """Rank of each word, from 0, by the hash of its row's dice and its position."""
        bits = mix(dice + position.astype(np.uint64) * GOLDEN)
        return np.asarray(_ranks()[bits >> np.uint64(64 - _WORD_BITS)], dtype=np.int32)

    def _dress(
        self, ids: _Ids, firsts: npt.NDArray[np.int64], lasts: npt.NDArray[np.int64], dice: Words
    ) -> None:
        """Give the first and last word of each tweet the form it stands in."""
        last_form = _ENDS[(dice & np.uint64(0xFF)).astype(np.intp)]
        hashtag = last_form == _HASHTAG
        mentioned = (dice >> np.uint64(8)) & np.uint64(0xFF) < _MENTIONED_OF_256
        # who is addressed, and what about, is never a stop word
        for where in (lasts[hashtag], firsts[mentioned]):
            ids[where] = _topics()[ids[where]]
        ids[lasts] += last_form * SIZE
        ids[firsts] += np.where(mentioned, _MENTION, _FIRST).astype(np.int32) * SIZE


@functools.cache
def _forms() -> pa.StringArray:
    """Every word in every form."""
    spelled = [form.format(word).encode() for form in _FORMS for word in words()]
    return _strings(np.cumsum([0, *map(len, spelled)], dtype=np.int32), pa.py_buffer(b"".join(spelled)))


def _strings(borders: _Ids, letters: pa.Buffer) -> pa.StringArray:
    # from buffers, because pa.array would import pandas to see whether it was given a series
    return pa.StringArray.from_buffers(len(borders) - 1, pa.py_buffer(borders), letters)


@functools.cache
def _ranks() -> npt.NDArray[np.int16]:
    """A table in which each rank stands as often as its share: a random place has a random rank."""
    return _table(shares(), _WORD_BITS).astype(np.int16)


@functools.cache
def _lengths() -> npt.NDArray[np.int64]:
    """The same for the number of words: linear up from 2 to 23, linear down to 30."""
    counts = np.arange(_SHORTEST, _LONGEST + 1)
    rise = 1.0 + 7.0 * (counts - _SHORTEST) / (_COMMONEST - _SHORTEST)
    fall = 8.0 * (_LONGEST + 1 - counts) / (_LONGEST + 1 - _COMMONEST)
    weights = np.minimum(rise, fall)
    return _table(weights / weights.sum(), _LENGTH_BITS) + _SHORTEST


@functools.cache
def _topics() -> _Ids:
    """For each rank itself, or for that of a stop word some other, as frequent among those that are none."""
    stop = len(STOP_WORDS)
    ranks = np.arange(SIZE, dtype=np.int32)
    return np.where(ranks < stop, stop + 3 * ranks, ranks).astype(np.int32)


def _table(shares_of_each: npt.NDArray[np.float64], bits: int) -> npt.NDArray[np.int64]:
    """Indices 0, 1, … repeated in proportion to their shares, 2^bits in all."""
    borders = np.rint(np.cumsum(shares_of_each) * (1 << bits)).astype(np.int64)
    return np.repeat(np.arange(len(shares_of_each)), np.diff(np.concatenate(([0], borders))))
