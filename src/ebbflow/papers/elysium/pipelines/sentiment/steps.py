"""Feature extraction and classification of tokens, whole Arrow batches at a time.

Travels to executors by value, so it imports nothing of ours. No loop runs over rows or tokens: a batch is a
few calls into Arrow and numpy, about a microsecond a tweet each.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SCOPE = 3
"""So many words behind a negator are meant the other way around."""
FEATURES = pa.list_(pa.field("element", pa.int32()))  # named as Spark names it


def feature_ids(tokens: pa.ListArray, words: pa.StringArray, negators: npt.NDArray[np.bool_]) -> pa.ListArray:
    """For each token that is a known word its number, plus the number of words if it is negated.

    >>> words, negators = pa.array(["good", "not"]), np.array([False, True])
    >>> feature_ids(pa.array([["not", "so", "good"], ["good"], []]), words, negators).to_pylist()
    [[1, 2], [0], []]
    """
    row = _row_of_each(tokens)
    ids = pc.fill_null(pc.index_in(tokens.flatten(), value_set=words), -1).to_numpy(zero_copy_only=False)
    known = ids >= 0
    turns = known & negators[ids]  # an unknown word looks at the last one, and is masked
    turned = np.zeros(len(ids), dtype=bool)
    for distance in range(1, SCOPE + 1):
        turned[distance:] |= turns[:-distance] & (row[distance:] == row[:-distance])
    found = (ids + len(words) * turned)[known].astype(np.int32)
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
    """The row that each element of the flat values is in."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    return np.repeat(np.arange(len(lists)), lengths)


def extract(
    batches: Iterator[pa.RecordBatch], words: pa.StringArray, negators: npt.NDArray[np.bool_]
) -> Iterator[pa.RecordBatch]:
    """Rows with ``features`` in place of ``tokens``."""
    for batch in batches:
        yield _with(batch, "tokens", {"features": feature_ids(batch.column("tokens"), words, negators)})


def classify(
    batches: Iterator[pa.RecordBatch], weights: Floats, bias: Floats, names: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Rows with ``sentiment`` and how likely it is, ``certainty``, in place of ``features``."""
    for batch in batches:
        found = scores(batch.column("features"), weights, bias)
        best = found.argmax(axis=1)
        certainty = 1.0 / np.exp(found - found.max(axis=1, keepdims=True)).sum(axis=1)
        sentiment = pa.array(names).take(pa.array(best))
        yield _with(batch, "features", {"sentiment": sentiment, "certainty": pa.array(certainty)})


def _with(batch: pa.RecordBatch, without: str, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    kept = [name for name in batch.schema.names if name != without]
    return pa.RecordBatch.from_arrays(
        [*(batch.column(name) for name in kept), *columns.values()], [*kept, *columns]
    )
