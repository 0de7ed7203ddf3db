"""What runs around a Python step on the executors. Travels there by value, so it imports nothing of ours.

Each instance ends its output with one row that carries its measures: the rows that went in, and the CPU seconds of its
Python worker. Two columns before those of the step hold them; in rows of its result they are empty.
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

MEASURES = ("__ebbflow_rows_in", "__ebbflow_cpu_s")
"""Columns of numbers, the first ones: Spark lets a frame have more columns than it was declared with, behind them."""


class _Sized(Protocol):
    def __len__(self) -> int: ...


_Rows = TypeVar("_Rows", bound=_Sized)


class _Meter:
    """Counts what a step takes, and the CPU from now on: the step's own, and that of bringing rows to it and away.

    Waiting for rows uses none. The rest is spent for the step alone: over pandas frames most of it is often the
    conversion from Arrow and back, which Spark does between the calls.
    """

    def __init__(self) -> None:
        self._rows_in = 0
        self._began_s = time.process_time()

    def counted(self, batches: Iterable[_Rows]) -> Iterator[_Rows]:
        for batch in batches:
            self._rows_in += len(batch)
            yield batch

    @property
    def measures(self) -> tuple[float, float]:
        return float(self._rows_in), time.process_time() - self._began_s


def over_arrow(
    function: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """The function's output and the row of its measures."""
    import pyarrow as pa

    meter = _Meter()
    for out in function(meter.counted(batches)):
        none = pa.nulls(out.num_rows, pa.float64())
        yield pa.RecordBatch.from_arrays([none, none, *out.columns], [*MEASURES, *out.schema.names])
    # From buffers, because pa.array would import pandas, in every Python worker of every executor.
    measured = [
        pa.Array.from_buffers(pa.float64(), 1, [None, pa.py_buffer(struct.pack("=d", value))])
        for value in meter.measures
    ]
    empty = [pa.nulls(1, field.type) for field in schema]
    yield pa.RecordBatch.from_arrays([*measured, *empty], [*MEASURES, *schema.names])


def over_pandas(
    function: Callable[[Iterator[pd.DataFrame]], Iterable[pd.DataFrame]],
    frames: Iterator[pd.DataFrame],
    columns: int,
) -> Iterator[pd.DataFrame]:
    """The function's output and the row of its measures; ``columns`` is how many the step was declared with."""
    import pandas as pd

    meter = _Meter()
    for out in function(meter.counted(frames)):
        # What is no frame, or one of nothing at all, is for Spark to judge.
        yield _with_room(out) if isinstance(out, pd.DataFrame) and len(out.columns) else out
    # Without names, so that it is taken by position, whatever the columns are called.
    yield pd.DataFrame([[*meter.measures, *[None] * columns]], dtype=object)


def _with_room(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with empty measures before its columns. One whose columns have no names gets none with a name:
    Spark takes columns by position only where none has one."""
    named = any(isinstance(name, str) for name in frame.columns)
    names: tuple[Any, ...] = MEASURES if named else (-2, -1)
    frame = frame.copy(deep=False)  # the columns are the function's, which may go on using them
    for position, name in enumerate(names):
        frame.insert(position, name, math.nan)
    return frame
