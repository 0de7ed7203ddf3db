"""The Python steps of both pipelines, on Arrow batches.

This module is pickled by value, so that executors need pyarrow and numpy but not Ebbflow. It must import nothing of
Ebbflow. No loop runs over rows or tokens: a batch is a few calls into Arrow and numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# -- top words: lookup -------------------------------------------------------------------------------------------

REGIONS = ("north", "east", "south", "west")


def regions(
    batches: Iterator[pa.RecordBatch], wait_s: float, wait: Callable[[float], None]
) -> Iterator[pa.RecordBatch]:
    """Add a region to each row. Imitates a call to another service: it waits ``wait_s`` per row and uses no CPU."""
    for batch in batches:
        wait(wait_s * batch.num_rows)
        found = pa.array([REGIONS[row % len(REGIONS)] for row in batch.column("row").to_pylist()])
        yield pa.RecordBatch.from_arrays([*batch.columns, found], [*batch.schema.names, "region"])


# -- top words: ranking ------------------------------------------------------------------------------------------

ROW_MARK = "\x01"
"""First character of a mark, which counts a tweet beside its words for an audit. Marks are not ranked."""


def best(batches: Iterator[pa.RecordBatch], top: int) -> Iterator[pa.RecordBatch]:
    """The ``top`` most frequent words of each window among the rows of one instance: (ends_s, word, count).

    Ties are broken by the alphabet, so that the result does not depend on how rows were distributed. Marks of tweets
    pass, once each.

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
    parts = [_best_of_window(words.filter(pc.equal(words["ends_s"], end)), top) for end in _ends(words)]
    if len(words) < len(rows):
        parts.append(_once_each(rows.filter(is_mark)).cast(rows.schema))  # a column may be declared not null
    yield from pa.concat_tables(parts).combine_chunks().to_batches()


def _ends(words: pa.Table) -> list[int]:
    return sorted(pc.unique(words["ends_s"]).to_pylist())


def _best_of_window(window: pa.Table, top: int) -> pa.Table:
    if len(window) > top:  # rows below the last place need no sorting
        counts = window["count"].to_numpy()
        last = np.partition(counts, len(counts) - top)[len(counts) - top]
        window = window.filter(pc.greater_equal(window["count"], int(last)))
    return window.sort_by([("count", "descending"), ("word", "ascending")])[:top]


def _once_each(marks: pa.Table) -> pa.Table:
    """A tweet is in every window that slides over it, with the same count in each."""
    found = marks.group_by("word").aggregate([("ends_s", "max"), ("count", "max")])
    return found.select(["ends_s_max", "word", "count_max"]).rename_columns(["ends_s", "word", "count"])


# -- sentiment ---------------------------------------------------------------------------------------------------

SCOPE = 3
"""A negator reverses this many words after it."""
FEATURES = pa.list_(pa.field("element", pa.int32()))  # named as Spark names it


def feature_ids(tokens: pa.ListArray, words: pa.StringArray, negators: npt.NDArray[np.bool_]) -> pa.ListArray:
    """The index of each token that is a known word, plus the number of words if it is negated.

    >>> words, negators = pa.array(["good", "not"]), np.array([False, True])
    >>> feature_ids(pa.array([["not", "so", "good"], ["good"], []]), words, negators).to_pylist()
    [[1, 2], [0], []]
    """
    row = _row_of_each(tokens)
    ids = pc.fill_null(pc.index_in(tokens.flatten(), value_set=words), -1).to_numpy(zero_copy_only=False)
    known = ids >= 0
    negates = known & negators[ids]  # an unknown word reads the last entry and is masked
    negated = np.zeros(len(ids), dtype=bool)
    for distance in range(1, SCOPE + 1):
        negated[distance:] |= negates[:-distance] & (row[distance:] == row[:-distance])
    found = (ids + len(words) * negated)[known].astype(np.int32)
    ends = np.cumsum(np.bincount(row[known], minlength=len(tokens)))
    borders = np.concatenate(([0], ends)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(borders), pa.array(found), type=FEATURES)


def scores(features: pa.ListArray, weights: Floats, bias: Floats) -> Floats:
    """A row of scores for each tweet, one for each class: bias + Σ of the weights of its features."""
    row, ids = _row_of_each(features), features.flatten().to_numpy(zero_copy_only=False)
    columns = [
        np.bincount(row, weights=weights[ids, each], minlength=len(features)) for each in range(len(bias))
    ]
    return np.column_stack(columns) + bias


def _row_of_each(lists: pa.ListArray) -> Ints:
    """The row of each element of the flattened lists."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    return np.repeat(np.arange(len(lists)), lengths)


def extract(
    batches: Iterator[pa.RecordBatch], words: pa.StringArray, negators: npt.NDArray[np.bool_]
) -> Iterator[pa.RecordBatch]:
    """Replace ``tokens`` by ``features``."""
    for batch in batches:
        yield _replace(batch, "tokens", {"features": feature_ids(batch.column("tokens"), words, negators)})


def classify(
    batches: Iterator[pa.RecordBatch], weights: Floats, bias: Floats, names: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Replace ``features`` by ``sentiment`` and its probability, ``certainty``."""
    for batch in batches:
        found = scores(batch.column("features"), weights, bias)
        best_class = found.argmax(axis=1)
        certainty = 1.0 / np.exp(found - found.max(axis=1, keepdims=True)).sum(axis=1)
        sentiment = pa.array(names).take(pa.array(best_class))
        yield _replace(batch, "features", {"sentiment": sentiment, "certainty": pa.array(certainty)})


def _replace(batch: pa.RecordBatch, removed: str, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    others = [name for name in batch.schema.names if name != removed]
    return pa.RecordBatch.from_arrays(
        [*(batch.column(name) for name in others), *columns.values()], [*others, *columns]
    )
