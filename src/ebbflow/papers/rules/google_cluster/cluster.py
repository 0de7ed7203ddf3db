"""The cluster operator: total, mean and quantiles of each quantity over all machines of a report.

One instance, as in the seed: it needs every machine of a report, and they all come in the same batch, because the
mark that completes a report reaches every bucket at once. So it needs no state.

The quantile of p percent of x_0 ≤ … ≤ x_{n−1} is x_i + f·(x_{i+1} − x_i) with i + f = p/100 · (n − 1), in
whole numbers up to one division at the end: the same to the last bit wherever it is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ebbflow.papers.rules.google_cluster.events import UNITS
from ebbflow.papers.rules.google_cluster.machine import QUANTITIES, Ints, Reports

PERCENTS = {"median": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99}
STATISTICS = ("total", "mean", *PERCENTS)
COLUMNS = tuple(f"{quantity}_{statistic}" for quantity in QUANTITIES for statistic in STATISTICS)
"""``tasks_total``, ``tasks_mean``, … ``disk_p99``."""


@dataclass(frozen=True, kw_only=True)
class ClusterReport:
    """What is said of the cluster at one report; ``values`` in the order of ``COLUMNS``."""

    report: int
    machines: int
    values: tuple[float, ...]


def quantile(ordered: Ints, percent: int, units: int) -> float:
    """Of sorted whole numbers, in ``units`` of one.

    >>> quantile(np.array([1, 2, 3, 10]), 75, 1), quantile(np.array([5]), 99, 10)
    (4.75, 0.5)
    """
    whole, rest = divmod(percent * (len(ordered) - 1), 100)
    low = int(ordered[whole])
    high = int(ordered[min(whole + 1, len(ordered) - 1)])
    return (low * (100 - rest) + high * rest) / (100 * units)


def over_machines(values: Ints, units: int) -> tuple[float, ...]:
    """Total, mean and the quantiles."""
    ordered = np.sort(values)
    # in two halves: machines that each have room for their sum may have none for that of all
    total = (int((ordered >> 32).sum()) << 32) + int((ordered & 0xFFFFFFFF).sum())
    quantiles = (quantile(ordered, percent, units) for percent in PERCENTS.values())
    return (total / units, total / (units * len(ordered)), *quantiles)


def cluster_reports(rows: Reports) -> Iterator[ClusterReport]:
    """One for each report among the rows, earliest first."""
    order = np.argsort(rows.report, kind="stable")
    report = rows.report[order]
    edges = np.flatnonzero(np.diff(report)) + 1
    for first, end in pairwise((0, *edges.tolist(), len(report))):
        if end == first:
            return
        chosen = order[first:end]
        values: list[float] = []
        for name in QUANTITIES:
            values += over_machines(getattr(rows, name)[chosen], 1 if name == "tasks" else UNITS)
        yield ClusterReport(report=int(report[first]), machines=end - first, values=tuple(values))
