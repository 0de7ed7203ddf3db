"""Tweets: generated ones with the statistics of real text, and labelled ones from a file.

No generated text comes from real tweets: the frequent words are those of any English text, and the rare ones are made
up of syllables.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ebbflow.core.curve import Floats
from ebbflow.errors import InputError
from ebbflow.workloads.hashing import GOLDEN, Words, hashed, mix, uniform

# -- labelled tweets -----------------------------------------------------------------------------

SENTIMENTS = ("negative", "neutral", "positive")
_FORMAT = f"it needs the columns sentiment ({', '.join(SENTIMENTS)}) and text"


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledTweets:
    """Texts and their sentiment labels, in file order."""

    texts: pa.StringArray
    labels: pa.StringArray

    def __len__(self) -> int:
        return len(self.texts)

    def rows(self, first_row: int, count: int) -> tuple[pa.StringArray, pa.StringArray]:
        """Texts and labels of ``count`` rows starting at ``first_row``; after the last tweet it starts over.

        >>> made = LabelledTweets(texts=pa.array(["a", "b", "c"]), labels=pa.array(["positive"] * 3))
        >>> made.rows(2, 3)[0].to_pylist()
        ['c', 'a', 'b']
        """
        places = pa.array(np.arange(first_row, first_row + count) % len(self))
        return self.texts.take(places), self.labels.take(places)


def read_labelled_tweets(file: str | Path) -> LabelledTweets:
    """Read a CSV file, plain or gzipped, with the columns ``sentiment`` and ``text``; ``InputError`` if invalid.

    Other columns are ignored. A quoted text may span several lines. An unchanged file is read only once.
    """
    path = Path(file).expanduser()
    try:
        state = path.stat()
    except OSError:
        raise InputError(
            f"there is no file of labelled tweets '{file}' (looked for {path.absolute()})"
        ) from None
    return _read_once(str(path), state.st_mtime_ns, state.st_size)


@functools.lru_cache(maxsize=2)
def _read_once(file: str, _modified_ns: int, _size: int) -> LabelledTweets:
    # imported here because every executor of every source imports this module
    import pyarrow.compute as pc
    from pyarrow import csv

    try:
        table = csv.read_csv(
            file,
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                include_columns=["sentiment", "text"],
                column_types={"sentiment": pa.string(), "text": pa.string()},
                strings_can_be_null=False,
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError) as error:
        first = (str(error).strip("'\"").splitlines() or ["it cannot be read"])[0]
        raise InputError(f"labelled tweets {file}: {first}; {_FORMAT}") from None
    labels, texts = (table.column(name).combine_chunks() for name in ("sentiment", "text"))
    if len(texts) == 0:
        raise InputError(f"labelled tweets {file}: it has no rows; {_FORMAT}")
    unknown = labels.filter(pc.invert(pc.is_in(labels, value_set=pa.array(SENTIMENTS))))
    if len(unknown):
        raise InputError(f"labelled tweets {file}: '{unknown[0].as_py()}' is not a sentiment; {_FORMAT}")
    return LabelledTweets(texts=texts, labels=labels)


# -- the vocabulary of generated tweets ----------------------------------------------------------

# by falling frequency in short informal English
_STOP_TEXT = """
to the i a you for on and my is in of me it your have was not with that at no this but be from can are we
just so do an will been they our if what when how all there out up now about would am had has were as or
by their them he she his her its who which then than too very because could should did does don't i'm it's
can't you're into over after before only more some any other us off why here where again while during both
each few most such own same through until against between under above below down once further doing being
having these those him himself myself yourself themselves ours yours hers theirs whom nor i've we're
they're isn't wasn't aren't didn't doesn't won't couldn't shouldn't wouldn't
"""

STOP_WORDS: frozenset[str] = frozenset(_STOP_TEXT.split())
"""Words without a topic of their own, which pipelines drop. All are in the vocabulary."""

_COMMON_TEXT = """
get go time day good like know love new one today see need great want people thanks think work back make
last really still right home way night week please got going help best life never better well happy every
year first game look always world team thing next man hope long live feel watch show much come say take
tonight tomorrow morning free big old play call wait keep start stop friend music news video follow read
school house city car phone food coffee money job book story photo party summer winter weekend minute hour
month bad hate worst awful terrible sad angry sorry poor wrong lost late slow broken fail nice amazing
awesome excellent perfect beautiful fun cool fast easy glad proud lucky sweet thank enjoy win won
"""

_ONSET_TEXT = "b bl br c ch cl cr d dr f fl fr g gl gr h j k l m n p pl pr r s sc sh sl sp st t th tr v w z"
_ONSETS = tuple(_ONSET_TEXT.split())
_NUCLEI = ("a", "e", "i", "o", "u", "a", "e", "i", "o", "ai", "ea", "ee", "oo", "ou")
_CODAS = ("", "", "", "n", "r", "l", "s", "t", "m", "nd", "st", "ck", "ng")

_SIZE = 5000
_SYLLABLE_SEED = 20_110_501


@functools.cache
def words() -> tuple[str, ...]:
    """All words, most frequent first: stop words, common words, made-up words.

    >>> words()[:3], len(words())
    (('to', 'the', 'i'), 5000)
    """
    known = dict.fromkeys((*_STOP_TEXT.split(), *_COMMON_TEXT.split()))
    for word in _made_up():
        if len(known) == _SIZE:
            break
        known.setdefault(word)
    return tuple(known)


def _made_up() -> Iterator[str]:
    """Pronounceable words, the same in every process: one to three syllables and an optional final consonant."""
    rolls = uniform(hashed(_SYLLABLE_SEED, np.arange(3 * _SIZE * 10, dtype=np.uint64))).reshape(-1, 10)
    for count, *pairs, last in rolls.tolist():
        syllables = 1 + int(count * 3)
        dice = zip(pairs[:syllables], pairs[4 : 4 + syllables], strict=True)
        yield "".join(_pick(_ONSETS, a) + _pick(_NUCLEI, b) for a, b in dice) + _pick(_CODAS, last)


def _pick(sounds: tuple[str, ...], die: float) -> str:
    return sounds[int(die * len(sounds))]


@functools.cache
def word_shares() -> Floats:
    """Share of each word in all text by its rank r = 1, 2, …: Zipf–Mandelbrot, ∝ 1 / (r + 2.7).

    The words of rank 1, 10, 100 and 1000 have about 3.7, 1.1, 0.13 and 0.014 % of all words; in real tweets
    they have 3.6, 1.4, 0.16 and 0.010 %.

    >>> [round(100 * float(word_shares()[rank - 1]), 3) for rank in (1, 10, 100, 1000)]
    [3.677, 1.071, 0.132, 0.014]
    """
    weights = (np.arange(1, _SIZE + 1) + 2.7) ** -1.0
    return np.asarray(weights / weights.sum(), dtype=np.float64)


# -- generated tweets ----------------------------------------------------------------------------

_Ids = npt.NDArray[np.int32]

_BLOCK_ROWS = 4096
"""Rows generated at a time: few enough for the processor cache."""
_WORD_BITS = 20
_LENGTH_BITS = 16
_SHORTEST, _MODE, _LONGEST = 2, 23, 30

# the forms of a word in a tweet; an id is form · _SIZE + rank
_INSIDE, _FIRST, _STOP, _SHOUT, _ASK, _HASHTAG, _MENTION = range(7)
_FORMS = (" {}", "{}", " {}.", " {}!", " {}?", " #{}", "@{}")
_ENDS = np.repeat(
    np.array([_INSIDE, _STOP, _SHOUT, _ASK, _HASHTAG], dtype=np.int32), [90, 67, 32, 23, 44]
)  # of 256: 17 % of tweets end with a hashtag
_MENTIONED_OF_256 = 90
"""35 % of tweets start with a mention."""


class Tweets:
    """Generated tweets: the text of row i depends only on (seed, i).

    Word ranks follow Zipf–Mandelbrot (``word_shares``). The frequency of lengths rises linearly from 2 words to the
    most common length, 23, and falls to 30, as in a real collection (mean 17.7 words, 104 characters).

    >>> tweets = Tweets(seed=1)
    >>> tweets.texts(0, 100)[40:60] == tweets.texts(40, 20)
    True
    >>> tweets.texts(7, 1)[0].as_py() == Tweets(seed=2).texts(7, 1)[0].as_py()
    False
    """

    def __init__(self, seed: int = 0) -> None:
        if not 0 <= seed < 2**63:
            raise ValueError(f"the seed of tweets is {seed}; it must be a whole number from 0 to 2^63 - 1")
        self.seed = seed

    def __repr__(self) -> str:
        return f"Tweets(seed={self.seed})"

    def texts(self, first_row: int, count: int) -> pa.StringArray:
        """The texts of ``count`` rows starting at ``first_row``."""
        if first_row < 0 or count < 0:
            raise ValueError(f"invalid range of {count} rows from row {first_row}: rows are numbered from 0")
        starts = range(first_row, first_row + count, _BLOCK_ROWS)
        blocks = [self._block(start, min(_BLOCK_ROWS, first_row + count - start)) for start in starts]
        return pa.concat_arrays(blocks) if blocks else _forms()[:0]

    def _block(self, first_row: int, count: int) -> pa.StringArray:
        rows = np.arange(first_row, first_row + count, dtype=np.uint64)
        bits = hashed(self.seed, rows)
        lengths = _lengths()[bits >> np.uint64(64 - _LENGTH_BITS)]
        ends = np.cumsum(lengths)
        firsts = ends - lengths
        position = np.arange(ends[-1]) - np.repeat(firsts, lengths)
        ids = self._ranks(np.repeat(bits, lengths), position)
        self._set_forms(ids, firsts, ends - 1, bits)
        # the words in their forms, end to end, are already the texts; only the borders differ
        flat = _forms().take(pa.Array.from_buffers(pa.int32(), len(ids), [None, pa.py_buffer(ids)]))
        _, offsets, letters = flat.buffers()
        borders = np.frombuffer(offsets, dtype=np.int32)[np.concatenate(([0], ends))]
        return _strings(borders, letters)

    def _ranks(self, bits: Words, position: npt.NDArray[np.int64]) -> _Ids:
        """The rank of each word, from 0: a hash of its row's random bits and its position."""
        bits = mix(bits + position.astype(np.uint64) * GOLDEN)
        return np.asarray(_ranks()[bits >> np.uint64(64 - _WORD_BITS)], dtype=np.int32)

    def _set_forms(
        self, ids: _Ids, firsts: npt.NDArray[np.int64], lasts: npt.NDArray[np.int64], bits: Words
    ) -> None:
        """Set the forms of the first and last word of each tweet."""
        last_form = _ENDS[(bits & np.uint64(0xFF)).astype(np.intp)]
        hashtag = last_form == _HASHTAG
        mentioned = (bits >> np.uint64(8)) & np.uint64(0xFF) < _MENTIONED_OF_256
        # a mention or hashtag is never a stop word
        for where in (lasts[hashtag], firsts[mentioned]):
            ids[where] = _topics()[ids[where]]
        ids[lasts] += last_form * _SIZE
        ids[firsts] += np.where(mentioned, _MENTION, _FIRST).astype(np.int32) * _SIZE


@functools.cache
def _forms() -> pa.StringArray:
    """Every word in every form."""
    spelled = [form.format(word).encode() for form in _FORMS for word in words()]
    return _strings(np.cumsum([0, *map(len, spelled)], dtype=np.int32), pa.py_buffer(b"".join(spelled)))


def _strings(borders: _Ids, letters: pa.Buffer) -> pa.StringArray:
    # from buffers, because pa.array would import pandas to check for a series
    return pa.StringArray.from_buffers(len(borders) - 1, pa.py_buffer(borders), letters)


@functools.cache
def _ranks() -> npt.NDArray[np.int16]:
    """A table with each rank in proportion to its share: a random index gives a random rank."""
    return _table(word_shares(), _WORD_BITS).astype(np.int16)


@functools.cache
def _lengths() -> npt.NDArray[np.int64]:
    """The same for the number of words: linear up from 2 to 23, then linear down to 30."""
    counts = np.arange(_SHORTEST, _LONGEST + 1)
    rise = 1.0 + 7.0 * (counts - _SHORTEST) / (_MODE - _SHORTEST)
    fall = 8.0 * (_LONGEST + 1 - counts) / (_LONGEST + 1 - _MODE)
    weights = np.minimum(rise, fall)
    return _table(weights / weights.sum(), _LENGTH_BITS) + _SHORTEST


@functools.cache
def _topics() -> _Ids:
    """The rank to use for a mention or hashtag: the rank itself, or for a stop word that of a frequent other word."""
    stop = len(STOP_WORDS)
    ranks = np.arange(_SIZE, dtype=np.int32)
    return np.where(ranks < stop, stop + 3 * ranks, ranks).astype(np.int32)


def _table(shares: npt.NDArray[np.float64], bits: int) -> npt.NDArray[np.int64]:
    """Indices 0, 1, … repeated in proportion to their shares, 2^bits in all."""
    borders = np.rint(np.cumsum(shares) * (1 << bits)).astype(np.int64)
    return np.repeat(np.arange(len(shares)), np.diff(np.concatenate(([0], borders))))
