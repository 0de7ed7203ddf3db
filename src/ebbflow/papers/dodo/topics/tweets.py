"""Tweets with one topic each, drawn from a Zipf distribution with 5,000 elements and exponent 0.5 (Figure 22)."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pyarrow as pa

from ebbflow.core.curve import Floats
from ebbflow.workloads.hashing import hashed, uniform

TOPICS = 5_000
EXPONENT = 0.5
COLUMNS = "id long, text string"
"""The schema of a stream of tweets."""


@functools.cache
def _cumulative(topics: int, exponent: float) -> Floats:
    weights = np.arange(1, topics + 1) ** -exponent
    return np.asarray(np.cumsum(weights) / weights.sum())


def topics_of(
    first: int, count: int, *, seed: int = 1, topics: int = TOPICS
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The topics, from 1 for the most frequent one, of tweets ``first``, ``first + 1``, …

    Tweet n has the same topic however the tweets are divided into requests.

    >>> topics_of(0, 4).tolist() == topics_of(0, 2).tolist() + topics_of(2, 2).tolist()
    True
    """
    numbers = np.arange(first, first + count, dtype=np.uint64)
    return np.searchsorted(_cumulative(topics, EXPONENT), uniform(hashed(seed, numbers)), side="right") + 1


def tweets(first: int, count: int, *, seed: int = 1) -> pa.Table:
    """Tweets with the columns of ``COLUMNS``.

    >>> tweets(7, 1).to_pylist()[0]["text"].startswith("tweet 7 about #topic")
    True
    """
    found = topics_of(first, count, seed=seed)
    ids = np.arange(first, first + count, dtype=np.int64)
    texts = [f"tweet {i} about #topic{topic}" for i, topic in zip(ids.tolist(), found.tolist(), strict=True)]
    return pa.table({"id": ids, "text": texts})


def write_tweets(folder: Path, first: int, count: int, *, seed: int = 1) -> None:
    """Write tweets as a Parquet file that appears in the folder of a stream at once."""
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".tweets-{first:012d}.parquet"
    pq.write_table(tweets(first, count, seed=seed), hidden)
    hidden.replace(folder / f"tweets-{first:012d}.parquet")
