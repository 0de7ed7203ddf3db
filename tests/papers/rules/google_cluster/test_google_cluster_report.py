"""The cluster operator: exact quantiles, one row per report."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbflow.papers.rules.google_cluster.machine import Reports
from ebbflow.papers.rules.google_cluster.steps import (
    CLUSTER_COLUMNS,
    cluster_reports,
    over_machines,
    quantile,
)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 10**14), min_size=1, max_size=40), st.integers(0, 100))
def test_quantiles_are_exact(values, percent) -> None:
    ordered = sorted(values)
    place = Fraction(percent * (len(ordered) - 1), 100)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    exact = ordered[low] + (place - low) * (ordered[high] - ordered[low])
    assert quantile(np.array(ordered), percent, 10**12) == float(exact / 10**12)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 10**13), min_size=1, max_size=40))
def test_quantiles_agree_with_numpy(values) -> None:
    _, mean, *quantiles = over_machines(np.array(values), 1)
    assert mean == pytest.approx(np.mean(values))
    assert quantiles == pytest.approx(np.percentile(values, [50, 75, 90, 95, 99]).tolist())


def test_each_report_has_one_row_in_order() -> None:
    columns = {name: np.array([4, 1, 3]) for name in ("tasks", "cpu", "memory", "disk")}
    found = list(cluster_reports(Reports(report=np.array([9, 8, 9]), machine=np.array([1, 1, 2]), **columns)))
    assert [(each.report, each.machines) for each in found] == [(8, 1), (9, 2)]
    values = dict(zip(CLUSTER_COLUMNS, found[1].values, strict=True))
    assert values["tasks_total"] == 7
    assert values["tasks_mean"] == values["tasks_median"] == 3.5
    assert values["cpu_total"] == 7e-12


def test_no_machines_give_no_report() -> None:
    assert list(cluster_reports(Reports())) == []


def test_a_total_above_64_bits_is_exact() -> None:
    total, mean, *_ = over_machines(np.array([2**62, 2**62 + 1, 2**62]), 1)
    assert total == float(3 * 2**62 + 1)
    assert mean == float(Fraction(3 * 2**62 + 1, 3))
