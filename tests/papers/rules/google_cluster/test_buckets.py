"""Buckets are dealt out evenly by Spark's own hash."""

from __future__ import annotations

import numpy as np
import pytest

from ebbflow.papers.rules.google_cluster.source_rows import BUCKETS, bucket_of, labels, spark_hash


@pytest.mark.parametrize("instances", [1, 2, 3, 4, 5, 6, 7, 8, 16])
def test_no_instance_has_more_buckets_than_it_must(instances) -> None:
    counts = np.bincount(spark_hash(labels()) % instances, minlength=instances)
    assert counts.sum() == len(set(labels().tolist())) == BUCKETS
    assert counts.max() == -(-BUCKETS // instances)


@pytest.mark.parametrize("step", [1, 48, 64, 1000, 2**32])
def test_machines_spread_over_the_buckets_whatever_their_ids(step) -> None:
    counts = np.unique(bucket_of(np.arange(12_000) * step), return_counts=True)[1]
    assert len(counts) == BUCKETS
    assert counts.max() < 2 * 12_000 / BUCKETS
