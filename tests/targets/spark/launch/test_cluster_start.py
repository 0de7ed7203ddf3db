"""A local cluster that cannot start gives a one-line error in time, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbflow.core.clock import ManualClock
from ebbflow.errors import TargetError
from ebbflow.targets.spark.launch import local_cluster
from ebbflow.targets.spark.launch.local_cluster import LocalCluster


@pytest.fixture
def spark_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script in place of Spark's own."""
    fake = tmp_path / "bin" / "spark-class"
    fake.parent.mkdir()
    fake.touch(mode=0o755)
    monkeypatch.setattr(local_cluster, "spark_home", lambda: tmp_path)
    return fake


def test_a_master_that_cannot_start_gives_a_one_line_error(spark_class: Path) -> None:
    spark_class.write_text("#!/bin/sh\necho 'no such luck' >&2\nexit 3\n")
    with pytest.raises(TargetError, match="the local master ended while starting: no such luck"):
        LocalCluster(cores=1).start()


def test_a_master_that_never_answers_is_ended_at_the_deadline(spark_class: Path) -> None:
    spark_class.write_text("#!/bin/sh\nexec sleep 600\n")
    clock = ManualClock(100.0)
    cluster = LocalCluster(cores=1, start_within_s=5.0, clock=clock)
    with pytest.raises(TargetError, match="timed out after 5 s waiting for the master to answer"):
        cluster.start()
    assert clock.now_s() == pytest.approx(105.0)
    assert cluster._processes == []
    assert cluster.folder is None
