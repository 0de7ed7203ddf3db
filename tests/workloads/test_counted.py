"""A counted load brings the rows that were counted, when they were counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.core.curve import Curve
from ebbflow.errors import LoadError
from ebbflow.workloads import Arrivals
from ebbflow.workloads.arrivals import Counted


@given(
    gaps_s=st.lists(st.floats(0.1, 500.0), min_size=1, max_size=20),
    rows=st.lists(st.integers(0, 100_000), min_size=20, max_size=20),
)
def test_by_each_count_as_many_rows_have_come_as_were_counted(gaps_s, rows) -> None:
    times_s = np.concatenate(([0.0], np.cumsum(gaps_s)))
    counts = np.concatenate(([0.0], np.cumsum(rows[: len(gaps_s)]).astype(float)))
    load = Counted(source="x", arrived=Curve(times_s, counts))
    assert np.sum(load.rows_between(times_s)) == pytest.approx(counts[-1])
    assert np.allclose(load.rows_between(times_s), np.diff(counts))
    assert Arrivals(load).total_rows == counts[-1]
    assert np.all(load.rate_per_s(np.linspace(-1.0, times_s[-1] + 1.0, 50)) >= 0)
    assert load.duration_s == load.span_s == times_s[-1]


@pytest.mark.parametrize(
    "points",
    [
        [(0, 0)],
        [(1, 0), (2, 5)],
        [(0, 0), (2, 5), (2, 6)],
        [(0, 0), (1, 5), (2, 4)],
        [(0, 0), (1, float("nan"))],
    ],
)
def test_counts_that_cannot_be_are_refused(points) -> None:
    with pytest.raises(LoadError):
        Counted(source="x", arrived=Curve.of(points))
