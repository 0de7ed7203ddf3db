"""Work of a known rate, acted out: a step whose every instance takes so many rows a second, and waits.

Waiting instead of computing, so that instances scale truly on a machine with few cores. What Spark itself needs
between two batches is counted as part of the work: an instance that had to wait for its next batch waits that
much less for its rows, or the rate would be that of Spark's overheads and not the one asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

MOST_CREDIT_S = 1.5


def paced(
    batches: Iterator[pa.RecordBatch],
    name: str,
    rate_per_s: float,
    *,
    wait: Callable[[float], None],
    clock_s: Callable[[], float],
    ended_s: dict[str, float],
) -> Iterator[pa.RecordBatch]:
    """The rows as they are, at most ``rate_per_s`` of them.

    ``ended_s``: when this process last ended a batch of each operator, by its own clock. It must outlive the
    task, so whoever calls keeps it in the process and not in a module that travels with the function.

    >>> waited: list[float] = []
    >>> rows, ended = pa.RecordBatch.from_arrays([pa.array(range(10))], ["row"]), {"slow": 99.0}
    >>> work = paced(iter([rows]), "slow", 5.0, wait=waited.append, clock_s=lambda: 100.0, ended_s=ended)
    >>> [batch.num_rows for batch in work], waited, ended
    ([10], [1.0], {'slow': 100.0})
    """
    credit_s = max(0.0, min(MOST_CREDIT_S, clock_s() - ended_s.get(name, clock_s())))
    for batch in batches:
        needed_s = batch.num_rows / rate_per_s
        wait(max(0.0, needed_s - credit_s))
        credit_s = max(0.0, credit_s - needed_s)
        yield batch
    ended_s[name] = clock_s()
