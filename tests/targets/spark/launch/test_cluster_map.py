"""A sweep as a Spark job gives the same results, on workers that get the package with the job."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ebbflow.runs.spec import Spec
from ebbflow.runs.sweep import SweepCase, sweep

pytestmark = pytest.mark.spark

LOAD = "sine(base=100, peak=900, period=5m)"
NAMES = ["static", "hpa", "nobody"]

# In a process of its own: the tests' session is open in this one, and a sweep opens its own.
SCRIPT = f"""
import json, os, signal
from ebbflow.runs.spec import Spec
from ebbflow.runs.sweep import SweepCase, SweepInterrupted, sweep

case = SweepCase(load="sine", scenario=Spec(load="{LOAD}", seconds=600).scenario())
counted = []
done = sweep([case], {NAMES}, master="local[2]", on_done=lambda: counted.append(1))
days = SweepCase(load="days", scenario=Spec(load="{LOAD}", seconds=3 * 86400).scenario())
interrupt = lambda: os.kill(os.getpid(), signal.SIGINT)
try:
    sweep([case, days], ["static", "capacity"], master="local[2]", on_done=interrupt)
except SweepInterrupted as stop:
    part = stop.sweep
print(json.dumps({{
    "counted": len(counted),
    "results": [[r.strategy, r.scores.to_json()] for r in done.results],
    "failures": [[str(f), f.trace] for f in done.failures],
    "part": [len(part.results), part.unfinished],
}}))
"""


def test_a_sweep_on_a_cluster_gives_the_same_results_and_reports_failures(tmp_path) -> None:
    script = tmp_path / "sweep_there.py"
    script.write_text(SCRIPT)
    process = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=240)
    assert process.returncode == 0, process.stderr[-2000:]
    there = json.loads(process.stdout.splitlines()[-1])
    case = SweepCase(load="sine", scenario=Spec(load=LOAD, seconds=600).scenario())
    here = sweep([case], NAMES)
    assert there["results"] == json.loads(
        json.dumps([[r.strategy, r.scores.to_json()] for r in here.results])
    )
    assert there["counted"] == len(NAMES)
    ((failure, trace),) = there["failures"]
    assert failure.startswith("nobody on sine, seed 1: UnknownNameError: unknown strategy 'nobody'")
    assert "ebbflow-package.zip/ebbflow/" in trace, "the package travelled with the job"
    finished, undone = there["part"]
    assert (finished + undone, finished > 0, undone > 0) == (4, True, True), "finished results are kept"
