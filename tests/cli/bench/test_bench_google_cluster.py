"""``ebbflow bench google-cluster``: the trace that it generates for its options."""

from __future__ import annotations

import pytest

from ebbflow.cli.bench.google_cluster import _spec_for_replay
from ebbflow.papers.rules.google_cluster.generator import ClusterTrace


@pytest.mark.parametrize(
    ("minutes", "speed"), [(5.0, 1.0), (0.5, 0.01), (60.0, 1.0), (5.0, 10.0), (5.0, 1000.0)]
)
def test_a_trace_can_be_generated_for_a_replay_at_any_speed(minutes, speed) -> None:
    for seed in (0, 1):
        spec = _spec_for_replay(minutes, speed, seed)
        ClusterTrace(spec).check()
        assert (spec.span_s or 0.0) >= minutes * 60 * speed
