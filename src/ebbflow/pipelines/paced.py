"""Work of a known rate, acted out: a step whose every instance takes so many rows a second, and waits.

Waiting instead of computing, so that instances scale truly on a machine with few cores. What Spark itself needs
between two batches is counted as part of the work: an instance that had to wait for its next batch waits that
much less for its rows, or the rate would be that of Spark's overheads and not the one asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

MOST_CREDIT_S = 1.5
_ended_s = [0.0]
"""When this process last ended a batch, in its own clock."""


def paced(
    batches: Iterator[pa.RecordBatch],
    rate_per_s: float,
    wait: Callable[[float], None],
    clock_s: Callable[[], float],
) -> Iterator[pa.RecordBatch]:
    """The rows as they are, at most ``rate_per_s`` of them.

    >>> waited: list[float] = []
    >>> rows = pa.RecordBatch.from_arrays([pa.array(range(10))], ["row"])
    >>> _ended_s[0] = 99.0
    >>> [b.num_rows for b in paced(iter([rows]), 5.0, waited.append, lambda: 100.0)], waited
    ([10], [1.0])
    """
    credit_s = max(0.0, min(MOST_CREDIT_S, clock_s() - _ended_s[0]))
    for batch in batches:
        needed_s = batch.num_rows / rate_per_s
        wait(max(0.0, needed_s - credit_s))
        credit_s = max(0.0, credit_s - needed_s)
        yield batch
    _ended_s[0] = clock_s()
