"""What runs around a Python step on the executors. Travels there by value, so it imports nothing of ours.

Each instance ends its output with a row for each of its measures: the rows that went in, the rows that came out, and
the CPU seconds of its Python worker. A column before those of the step holds them; in rows of its result it is empty.
One column and no more: every row of the result carries it, and Spark looks at it in every row.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

MEASURE = "__ebbflow_measure"
"""A column of numbers, the first one: Spark lets a frame have more columns than it was declared with, behind them."""


class _Sized(Protocol):
    def __len__(self) -> int: ...


_Rows = TypeVar("_Rows", bound=_Sized)


class _Meter:
    """Counts what a step takes, and the CPU from now on: the step's own, and that of bringing rows to it and away.

    Waiting for rows uses none. The rest is spent for the step alone: over pandas frames most of it is often the
    conversion from Arrow and back, which Spark does between the calls.
    """

    def __init__(self) -> None:
        self._rows_in = self._rows_out = 0
        self._began_s = time.process_time()

    def counted(self, batches: Iterable[_Rows]) -> Iterator[_Rows]:
        for batch in batches:
            self._rows_in += len(batch)
            yield batch

    def gave(self, rows: int) -> None:
        self._rows_out += rows

    @property
    def measures(self) -> tuple[float, float, float]:
        return float(self._rows_in), float(self._rows_out), time.process_time() - self._began_s


def over_arrow(
    function: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """The function's output and the rows of its measures."""
    import pyarrow as pa

    meter = _Meter()
    for out in function(meter.counted(batches)):
        meter.gave(out.num_rows)
        none = pa.nulls(out.num_rows, pa.float64())
        yield pa.RecordBatch.from_arrays([none, *out.columns], [MEASURE, *out.schema.names])
    # From a buffer, because pa.array would import pandas, in every Python worker of every executor.
    measures = meter.measures
    count, packed = len(measures), struct.pack(f"={len(measures)}d", *measures)
    measured = pa.Array.from_buffers(pa.float64(), count, [None, pa.py_buffer(packed)])
    empty = [pa.nulls(count, field.type) for field in schema]
    yield pa.RecordBatch.from_arrays([measured, *empty], [MEASURE, *schema.names])


def over_pandas(
    function: Callable[[Iterator[pd.DataFrame]], Iterable[pd.DataFrame]],
    frames: Iterator[pd.DataFrame],
    columns: int,
) -> Iterator[pd.DataFrame]:
    """The function's output and the rows of its measures; ``columns`` is how many the step was declared with."""
    import pandas as pd

    meter = _Meter()
    for out in function(meter.counted(frames)):
        # What is no frame, or one of nothing at all, is for Spark to judge.
        if isinstance(out, pd.DataFrame) and len(out.columns):
            meter.gave(len(out))
            yield _with_room(out)
        else:
            yield out
    # Without names, so that it is taken by position, whatever the columns are called.
    yield pd.DataFrame([[measure, *[None] * columns] for measure in meter.measures], dtype=object)


def _with_room(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with an empty measure before its columns. One whose columns have no names gets none with a name:
    Spark takes columns by position only where none has one."""
    named = any(isinstance(name, str) for name in frame.columns)
    name: Any = MEASURE if named else -1
    frame = frame.copy(deep=False)  # the columns are the function's, which may go on using them
    frame.insert(0, name, math.nan)
    return frame
