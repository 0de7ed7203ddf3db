"""A trained table on a real cluster: ten minutes that scale out and in, and a driver that is killed and continues."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ebbflow.papers.learner.evaluation import on_spark
from ebbflow.papers.learner.evaluation.contenders import Taught
from ebbflow.runs.score import score
from ebbflow.strategies.learner import table_file

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of a table after ten simulated hours."""
    return Taught(strategy="learner", passes=on_spark.PASSES).table(1)


def decisions(file: Path) -> int:
    return table_file.read(file).decisions


def test_ten_minutes_from_a_trained_table(table: str, tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    file.write_text(table)
    before = decisions(file)
    run = on_spark.run_on_spark(on_spark.LOAD, on_spark.SECONDS, f"learner(table={file}, policy=greedy)")
    scores, changes = score(run, oracle_node_seconds=None), np.diff(run.nodes.values)
    assert (changes > 0).any(), "it never scaled out"
    assert (changes < 0).any(), "it never scaled in"
    assert scores.violation is not None
    assert scores.violation <= 0.05, "the SLO was not kept"
    due_s = run.ended_s - run.slo.freshness_s
    assert run.processed.values[-1] >= float(run.arrived.interpolated(due_s)), (
        "rows were lost or left waiting"
    )
    assert run.processed.values[-1] <= run.arrived.values[-1] + 1.0, "rows were processed twice"
    assert decisions(file) >= before + 20


def test_a_killed_driver_continues_with_its_table(table: str, tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    file.write_text(table)
    before = decisions(file)
    kept = killed_after_a_write(file, before)
    assert kept > before
    assert killed_after_a_write(file, kept) > kept  # a new table would start at 0


def killed_after_a_write(file: Path, known: int) -> int:
    """Start a driver and kill it as soon as it has written another table; returns the decisions of that table."""
    expression = f"learner(table={file}, policy=greedy)"
    command = [sys.executable, "-m", on_spark.__name__, on_spark.LOAD, "600", expression]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        deadline = time.monotonic() + 400
        while decisions(file) == known:
            assert driver.poll() is None, "the driver ended early"
            assert time.monotonic() < deadline, "the table was never written"
            time.sleep(1.0)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    return decisions(file)
