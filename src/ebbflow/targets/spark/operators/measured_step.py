"""Measures a Python step on the executors. Pickled by value, so it imports nothing of Ebbflow.

Each instance ends its output with one row for each measure: rows in, rows out, and CPU seconds of its Python worker.
They are in a column before those of the step, which is null in the rows of the result. It is a single column because
every row of the result carries it, and Spark checks it in every row.
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
"""The first column: Spark accepts frames with undeclared columns behind the declared ones."""


class _Sized(Protocol):
    def __len__(self) -> int: ...


_Rows = TypeVar("_Rows", bound=_Sized)


class _Meter:
    """Counts rows, and the CPU of the process from now on: that of the step and of moving rows to and from it.

    All of it is spent for the step, since waiting for rows uses none. With pandas frames most of it is often the
    conversion from and to Arrow, which Spark does between the calls.
    """

    def __init__(self) -> None:
        self._rows_in = self._rows_out = 0
        self._began_s = time.process_time()

    def counted(self, batches: Iterable[_Rows]) -> Iterator[_Rows]:
        for batch in batches:
            self._rows_in += len(batch)
            yield batch

    def add_output(self, rows: int) -> None:
        self._rows_out += rows

    @property
    def measures(self) -> tuple[float, float, float]:
        return float(self._rows_in), float(self._rows_out), time.process_time() - self._began_s


def over_arrow(
    function: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """The function's output, and the rows of its measures."""
    import pyarrow as pa

    meter = _Meter()
    for out in function(meter.counted(batches)):
        meter.add_output(out.num_rows)
        none = pa.nulls(out.num_rows, pa.float64())
        yield pa.RecordBatch.from_arrays([none, *out.columns], [MEASURE, *out.schema.names])
    # From a buffer: pa.array would import pandas in every Python worker.
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
    """The function's output, and the rows of its measures; ``columns`` is the number of declared columns."""
    import pandas as pd

    meter = _Meter()
    for out in function(meter.counted(frames)):
        # Spark reports anything that is not a frame, or a frame without columns.
        if isinstance(out, pd.DataFrame) and len(out.columns):
            meter.add_output(len(out))
            yield _with_measure_column(out)
        else:
            yield out
    # Unnamed columns, so that Spark takes them by position.
    yield pd.DataFrame([[measure, *[None] * columns] for measure in meter.measures], dtype=object)


def _with_measure_column(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with a null measure before its columns, unnamed if they are: Spark takes columns by position only if
    none has a name."""
    named = any(isinstance(name, str) for name in frame.columns)
    name: Any = MEASURE if named else -1
    frame = frame.copy(deep=False)  # the function may go on using its frame
    frame.insert(0, name, math.nan)
    return frame
