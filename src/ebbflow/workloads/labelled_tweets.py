"""Real tweets that people labelled, from a file: what a classifier is learned from and held against.

A CSV file, plain or gzipped, with the columns ``sentiment`` (negative, neutral, positive) and ``text``; others are
skipped. A quoted text may run over several lines.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from ebbflow.errors import InputError

SENTIMENTS = ("negative", "neutral", "positive")
_FORM = f"it needs the columns sentiment ({', '.join(SENTIMENTS)}) and text"


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledTweets:
    """Texts and what people said of them, in the order of the file."""

    texts: pa.StringArray
    labels: pa.StringArray

    def __len__(self) -> int:
        return len(self.texts)

    def rows(self, first_row: int, count: int) -> tuple[pa.StringArray, pa.StringArray]:
        """Texts and labels of ``count`` rows from ``first_row`` on; after the last tweet the first comes again.

        >>> made = LabelledTweets(texts=pa.array(["a", "b", "c"]), labels=pa.array(["positive"] * 3))
        >>> made.rows(2, 3)[0].to_pylist()
        ['c', 'a', 'b']
        """
        places = pa.array(np.arange(first_row, first_row + count) % len(self))
        return self.texts.take(places), self.labels.take(places)


def read_labelled_tweets(file: str | Path) -> LabelledTweets:
    """Read the file; ``InputError`` says what is wrong with it. One that has not changed is not read again."""
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
    # here, because every executor of every source imports this module
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
        raise InputError(f"labelled tweets {file}: {first}; {_FORM}") from None
    labels, texts = (table.column(name).combine_chunks() for name in ("sentiment", "text"))
    if len(texts) == 0:
        raise InputError(f"labelled tweets {file}: it has no rows; {_FORM}")
    unknown = labels.filter(pc.invert(pc.is_in(labels, value_set=pa.array(SENTIMENTS))))
    if len(unknown):
        raise InputError(f"labelled tweets {file}: '{unknown[0].as_py()}' is no sentiment; {_FORM}")
    return LabelledTweets(texts=texts, labels=labels)
