"""The words that generated tweets are made of, and how often each is used.

Nothing here comes from real tweets: the frequent words are those of any English text, the rare ones are made
up from syllables so that they can be pronounced.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.workloads.hashing import hashed, uniform

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
"""Words that say nothing about what a text is about; pipelines drop them. All are in the vocabulary."""

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

SIZE = 5000
EXPONENT = 1.0
SHIFT = 2.7
_MAKER = 20_110_501


@functools.cache
def words() -> tuple[str, ...]:
    """All words, the most frequent first: stop words, then common words, then made-up ones.

    >>> words()[:3], len(words())
    (('to', 'the', 'i'), 5000)
    """
    known = dict.fromkeys((*_STOP_TEXT.split(), *_COMMON_TEXT.split()))
    for word in _made_up():
        if len(known) == SIZE:
            break
        known.setdefault(word)
    return tuple(known)


def _made_up() -> Iterator[str]:
    """Pronounceable words, the same in every process: one to three syllables and perhaps a last consonant."""
    rolls = uniform(hashed(_MAKER, np.arange(3 * SIZE * 10, dtype=np.uint64))).reshape(-1, 10)
    for count, *pairs, last in rolls.tolist():
        syllables = 1 + int(count * 3)
        dice = zip(pairs[:syllables], pairs[4 : 4 + syllables], strict=True)
        yield "".join(_pick(_ONSETS, a) + _pick(_NUCLEI, b) for a, b in dice) + _pick(_CODAS, last)


def _pick(sounds: tuple[str, ...], die: float) -> str:
    return sounds[int(die * len(sounds))]


@functools.cache
def shares() -> Floats:
    """Share of each word in all text, by its rank r = 1, 2, …: Zipf–Mandelbrot, ∝ 1 / (r + 2.7).

    With these constants the first, tenth, hundredth and thousandth word have about 3.7, 1.1, 0.13 and
    0.014 % of all words; in real tweets they have 3.6, 1.4, 0.16 and 0.010 %.

    >>> [round(100 * float(shares()[rank - 1]), 3) for rank in (1, 10, 100, 1000)]
    [3.677, 1.071, 0.132, 0.014]
    """
    weights = (np.arange(1, SIZE + 1) + SHIFT) ** -EXPONENT
    return np.asarray(weights / weights.sum(), dtype=np.float64)
