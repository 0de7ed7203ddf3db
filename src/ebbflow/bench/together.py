"""The scores of several pipelines that share their nodes, taken together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ebbflow.bench.score import Scores, Waits, score, waits_of
from ebbflow.core.run import Run


def score_together(runs: Sequence[Run]) -> Scores:
    """One score for runs on the same nodes over the same time: a row is a row, whosever it is.

    Nodes are paid for once. Waits of all rows are put together, so a quantile is over the rows of all. Violation
    and throughput degradation are weighted by the rows of each run. There is no ``cost_ratio``: the oracle knows
    one pipeline only.

    >>> from ebbflow.core.curve import Curve
    >>> from ebbflow.core.limits import Limits
    >>> from ebbflow.core.slo import Slo
    >>> def run(name, rows, committed_s):
    ...     return Run(
    ...         strategy="static", pipeline=name, slo=Slo(freshness_s=10.0), limits=Limits.parse("1:4"),
    ...         started_s=0.0, ended_s=20.0, arrived=Curve.of([(0, 0), (10, rows), (20, rows)]),
    ...         processed=Curve.of([(0, 0), (committed_s, rows)]),
    ...         nodes=Curve.of([(0, 2)]), nodes_working=Curve.of([(0, 2)]),
    ...     )
    >>> both = score_together([run("a", 300, 10), run("b", 100, 20)])  # waits 0 … 10 s and 10 … 20 s
    >>> both.node_seconds, both.rows_in, round(both.violation, 3), both.latency_p50_s, both.latency_max_s
    (40.0, 400, 0.25, 6.666667, 20.0)
    """
    each = [score(run, oracle_node_seconds=None) for run in runs]
    waits = [waits_of(run) for run in runs]
    pooled = Waits(
        shortest_s=np.concatenate([w.shortest_s for w in waits]),
        spread_s=np.concatenate([w.spread_s for w in waits]),
        rows=np.concatenate([w.rows for w in waits]),
    )
    return Scores(
        node_seconds=each[0].node_seconds,
        cost_ratio=None,
        violation=by_rows([(s.violation, s.rows_in) for s in each]),
        latency_p50_s=pooled.quantile_s(0.50),
        latency_p95_s=pooled.quantile_s(0.95),
        latency_max_s=pooled.longest_s,
        throughput_degradation=by_rows([(s.throughput_degradation, s.rows_in) for s in each]),
        nodes_saved=each[0].nodes_saved,
        reconfigurations=each[0].reconfigurations,
        rows_in=sum(s.rows_in for s in each),
        rows_out=sum(s.rows_out for s in each),
        rows_lost=sum(lost) if (lost := [s.rows_lost for s in each if s.rows_lost is not None]) else None,
        rows_repeated=sum(s.rows_repeated for s in each),
    )


def by_rows(values: Sequence[tuple[float | None, int]]) -> float | None:
    """Mean weighted by rows, of what is defined."""
    known = [(value, rows) for value, rows in values if value is not None and rows]
    total = sum(rows for _, rows in known)
    return sum(value * rows for value, rows in known) / total if total else None
