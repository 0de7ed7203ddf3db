"""The rankers' work, on Arrow batches. Travels to executors by value, so it imports nothing of ours."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ROW_MARK = "\x01"
"""First character of the mark by which a tweet is counted beside its words, for an audit. Not ranked."""


def best(batches: Iterator[pa.RecordBatch], top: int) -> Iterator[pa.RecordBatch]:
    """The ``top`` most frequent words of each window among the rows of one instance: (ends_s, word, count).

    Of words with equal counts the alphabetically first counts as more frequent, so that the answer does not
    depend on who ranked what. Marks of tweets pass, once each.

    >>> rows = {"ends_s": [9, 9, 9, 12], "word": ["b", "a", "c", "c"], "count": [2, 2, 1, 5]}
    >>> [batch.to_pydict() for batch in best(iter([pa.RecordBatch.from_pydict(rows)]), 2)]
    [{'ends_s': [9, 9, 12], 'word': ['a', 'b', 'c'], 'count': [2, 2, 5]}]
    """
    tables = [batch for batch in batches if batch.num_rows]
    if not tables:
        return
    rows = pa.Table.from_batches(tables).combine_chunks()
    is_mark = pc.starts_with(rows["word"], ROW_MARK)
    words = rows.filter(pc.invert(is_mark))
    kept = [_best_of_one(words.filter(pc.equal(words["ends_s"], end)), top) for end in _ends(words)]
    if len(words) < len(rows):
        kept.append(
            _one_each(rows.filter(is_mark)).cast(rows.schema)
        )  # a column may be said to have no nulls
    yield from pa.concat_tables(kept).combine_chunks().to_batches()


def _ends(words: pa.Table) -> list[int]:
    return sorted(pc.unique(words["ends_s"]).to_pylist())


def _best_of_one(window: pa.Table, top: int) -> pa.Table:
    if len(window) > top:  # what is below the last place needs no sorting
        counts = window["count"].to_numpy()
        last = np.partition(counts, len(counts) - top)[len(counts) - top]
        window = window.filter(pc.greater_equal(window["count"], int(last)))
    return window.sort_by([("count", "descending"), ("word", "ascending")])[:top]


def _one_each(marks: pa.Table) -> pa.Table:
    """A tweet is in every window that slides over it, as often in each."""
    found = marks.group_by("word").aggregate([("ends_s", "max"), ("count", "max")])
    return found.select(["ends_s_max", "word", "count_max"]).rename_columns(["ends_s", "word", "count"])
