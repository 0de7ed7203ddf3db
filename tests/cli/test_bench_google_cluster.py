"""What ``ebbflow bench google-cluster`` makes of its options."""

from __future__ import annotations

import pytest

from ebbflow.cli.bench.google_cluster import _long_enough
from ebbflow.papers.rules.google_cluster.generator import ClusterTrace


@pytest.mark.parametrize(
    ("minutes", "speed"), [(5.0, 1.0), (0.5, 0.01), (60.0, 1.0), (5.0, 10.0), (5.0, 1000.0)]
)
def test_a_trace_can_be_made_for_a_replay_of_any_speed(minutes, speed) -> None:
    for seed in (0, 1):
        spec = _long_enough(minutes, speed, seed)
        ClusterTrace(spec).check()
        assert (spec.span_s or 0.0) >= minutes * 60 * speed
