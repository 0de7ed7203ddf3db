"""The demo's application and the demo itself: what it counts, and that nothing is lost or repeated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from ebbflow.pipelines.top_words import Ranker

pytestmark = pytest.mark.spark

MARK = "\x01"


@pytest.fixture
def batch(spark):
    def make(*counts: tuple[int, str, int]):
        rows = [((datetime.fromtimestamp(pane_s, UTC),), word, count) for pane_s, word, count in counts]
        return spark.createDataFrame(rows, "pane struct<start: timestamp>, word string, count long")

    return make


def test_the_last_panes_are_added_up_and_ranked(batch) -> None:
    ranker = Ranker(panes=2, top=2)
    ranker.take(batch((0, "old", 99), (10, "tea", 3), (20, "tea", 2), (20, "rain", 4), (20, "sun", 1)), 0)
    assert ranker.top() == [("tea", 5), ("rain", 4)]
    ranker.take(batch((20, "sun", 7), (20, f"{MARK}3", 1)), 1)  # counts are totals: they replace
    assert ranker.top() == [("sun", 7), ("tea", 5)]


def test_the_audit_finds_a_lost_row_and_a_repeated_one(batch) -> None:
    ranker = Ranker(panes=2, top=2)
    ranker.take(batch((0, f"{MARK}0", 1), (0, f"{MARK}1", 1), (0, f"{MARK}3", 2), (0, "tea", 8)), 0)
    assert ranker.audit(4) == ([2], 1)
    ranker.take(batch((0, f"{MARK}2", 1), (0, f"{MARK}3", 1)), 1)
    assert ranker.audit(4) == ([], 0)


@pytest.mark.skipif("EBBFLOW_LONG_TESTS" not in os.environ, reason="minutes; EBBFLOW_LONG_TESTS=1 runs it")
def test_a_short_demo_keeps_every_row_and_prints_what_was_promised(tmp_path) -> None:
    report = tmp_path / "report.html"
    command = [sys.executable, "-m", "ebbflow", "demo", "--seconds", "1m", "--json", "--report", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    assert told["rows_lost"] == told["rows_repeated"] == 0
    assert told["rows_in"] > 3_000
    assert told["executors"][0] == [0.0, 1.0]
    assert max(count for _, count in told["executors"]) <= 6
    assert told["decisions"]
    assert all(entry["reason"] and entry["verdict"] in ("act", "hold") for entry in told["decisions"])
    scores = {"node_seconds", "cost_ratio", "violation", "latency_p50_s", "latency_p95_s", "latency_max_s"}
    scores |= {"throughput_degradation", "nodes_saved", "reconfigurations", "rows_in", "rows_out"}
    assert scores | {"strategy", "slo", "report"} <= told.keys()
    assert report.read_text().startswith("<!DOCTYPE html>")
