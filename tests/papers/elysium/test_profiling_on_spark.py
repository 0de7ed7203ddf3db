"""``ebbflow profile --target spark``: a short phase on a real cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ebbflow.papers.elysium.pipelines.top_words import OPERATORS
from ebbflow.profiling.estimator import estimators_on_spark
from ebbflow.profiling.profile import Profile

pytestmark = pytest.mark.spark

SHORT = """
import sys
from ebbflow.papers.elysium import profiling_on_spark as on_spark
from ebbflow.cli.main import main
on_spark.WARM_BATCHES = 2  # a quarter: the test checks what is learned, not how exact it is
sys.exit(main())
"""


@pytest.mark.long
def test_a_phase_on_spark_gives_a_profile_that_queries_can_be_sized_by(tmp_path: Path) -> None:
    file = tmp_path / "top-words.toml"
    options = "--pipeline top-words --target spark --steps 1 --hold 20s --peak 1000 --no-check --json"
    run = subprocess.run(
        [sys.executable, "-c", SHORT, "profile", *options.split(), "--output", str(file)],
        capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert (result["pipeline"], result["target"], result["held_out"]) == ("top-words", "spark", None)
    assert set(result["cpu"]) <= set(OPERATORS)
    assert {"words", "counter"} <= set(result["cpu"])
    assert all(curve["samples"] >= 2 and curve["high"] > 0 for curve in result["cpu"].values())
    assert result["node"]["samples"] >= 1, "the local cluster has an agent"
    costs = result["costs"]
    assert costs["per_row_s"] > 0
    assert costs["restart_s"] > 0, "the layout changes at the top of the stair"
    assert costs["lead_time_s"]["mean"] > 0
    assert costs["state_rows"] > 0
    assert all(stage["tasks"] >= 1 for stage in costs["stages"])
    streams = {(each["from"], each["to"]): each["mean"] for each in result["selectivity"]}
    assert streams["words", "stop-words"] > 5, "words of a tweet"

    profile = Profile.read(file)
    assert estimators_on_spark({str(file): profile})["top-words"].profile == profile
