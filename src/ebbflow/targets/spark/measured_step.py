"""What runs around a Python step on the executors. Travels there by value, so it imports nothing of ours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

CPU_COLUMN = "__ebbflow_cpu_s"


def with_cpu_row(
    function: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """The function's output, then one row with the CPU seconds spent inside the function.

    Time in which it waits for its input is not its own: the clock stands while a batch is fetched
    and while one is handed on.
    """
    spent_s = 0.0
    mark_s = time.process_time()

    def fetched() -> Iterator[pa.RecordBatch]:
        nonlocal spent_s, mark_s
        source = iter(batches)
        while True:
            spent_s += time.process_time() - mark_s
            batch = next(source, None)
            mark_s = time.process_time()
            if batch is None:
                return
            yield batch

    for out in function(fetched()):
        spent_s += time.process_time() - mark_s
        cpu = pa.nulls(out.num_rows, pa.float64())
        yield pa.RecordBatch.from_arrays([*out.columns, cpu], [*out.schema.names, CPU_COLUMN])
        mark_s = time.process_time()
    spent_s += time.process_time() - mark_s
    empty = [pa.nulls(1, field.type) for field in schema]
    yield pa.RecordBatch.from_arrays([*empty, pa.array([spent_s])], [*schema.names, CPU_COLUMN])
