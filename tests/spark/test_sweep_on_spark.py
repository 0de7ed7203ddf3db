"""A sweep as a Spark job: the same results as here, on executors that get the package with the job."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ebbflow.bench.spec import Spec
from ebbflow.bench.sweep import Scene, sweep

pytestmark = pytest.mark.spark

# In a process of its own: the tests' session is open in this one, and a sweep opens its own.
SCRIPT = """
import json, sys
from ebbflow.bench.spec import Spec
from ebbflow.bench.sweep import Scene, sweep
from ebbflow.targets.spark.sweep import on_cluster

def where(shared, item):
    import ebbflow
    return [shared, item, ebbflow.__file__]

master = sys.argv[1]
counted = []
with on_cluster("shared", master=master) as work:
    places = work(where, [3, 1, 2], lambda: counted.append(1))
scene = Scene(load="sine", scenario=Spec(load="sine(base=100, peak=900, period=5m)", seconds=600).scenario())
done = []
swept = sweep([scene], ["static", "hpa"], master=master, on_done=lambda: done.append(1))
print(json.dumps({
    "places": places, "counted": len(counted), "done": len(done),
    "results": [[r.strategy, r.scores.to_json()] for r in swept.results],
    "failures": [str(f) for f in swept.failures],
}))
"""


def test_a_cluster_finds_what_this_process_finds(cluster, tmp_path) -> None:
    script = tmp_path / "sweep_there.py"
    script.write_text(SCRIPT)
    call = [sys.executable, str(script), cluster.master_url]
    told = subprocess.run(call, capture_output=True, text=True, timeout=240, check=False)
    assert told.returncode == 0, told.stderr[-2000:]
    found = json.loads(told.stdout.splitlines()[-1])
    assert [place[:2] for place in found["places"]] == [["shared", 3], ["shared", 1], ["shared", 2]]
    assert all("ebbflow-package.zip" in place[2] for place in found["places"]), (
        "the package travelled with the job"
    )
    assert (found["counted"], found["done"]) == (3, 2)
    assert found["failures"] == []
    scenario = Spec(load="sine(base=100, peak=900, period=5m)", seconds=600).scenario()
    here = sweep([Scene(load="sine", scenario=scenario)], ["static", "hpa"])
    assert found["results"] == json.loads(
        json.dumps([[r.strategy, r.scores.to_json()] for r in here.results])
    )
