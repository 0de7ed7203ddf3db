"""Spark's hash assigns buckets evenly to instances."""

from __future__ import annotations

import numpy as np
import pytest

from ebbflow.papers.rules.google_cluster.source import BUCKETS, bucket_labels, bucket_of, spark_hash


@pytest.mark.parametrize("instances", [1, 2, 3, 4, 5, 6, 7, 8, 16])
def test_buckets_are_balanced_among_instances(instances) -> None:
    counts = np.bincount(spark_hash(bucket_labels()) % instances, minlength=instances)
    assert counts.sum() == len(set(bucket_labels().tolist())) == BUCKETS
    assert counts.max() == -(-BUCKETS // instances)


@pytest.mark.parametrize("step", [1, 48, 64, 1000, 2**32])
def test_machines_are_spread_over_the_buckets_whatever_their_ids(step) -> None:
    counts = np.unique(bucket_of(np.arange(12_000) * step), return_counts=True)[1]
    assert len(counts) == BUCKETS
    assert counts.max() < 2 * 12_000 / BUCKETS
