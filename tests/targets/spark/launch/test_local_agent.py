"""The local cluster's agent listens in its folder, and ends with its starter."""

from __future__ import annotations

import time
from pathlib import Path

from ebbflow.core.metrics import Metric
from ebbflow.monitoring.collector import Collector
from ebbflow.targets.spark.launch.local_cluster import AGENT_LOG, start_local_agent


def test_a_local_agent_reports_and_ends_with_its_starter(tmp_path: Path, wait) -> None:
    popen, address = start_local_agent(tmp_path)
    collector = Collector([address], application="app-1")
    try:
        collector.subscribe_to([("*", Metric.HOST_MEMORY)])
        wait(lambda: collector.take(time.time()), "a reading of this host")
        assert popen.stdin is not None
        popen.stdin.close()  # as when the starter is gone
        popen.wait(30)
    finally:
        collector.close()
        popen.kill()
    assert (tmp_path / AGENT_LOG).read_text() == ""
