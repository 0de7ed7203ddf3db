"""The Python steps are pickled by value: executors run them without Ebbflow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle

from ebbflow.papers.elysium.pipelines.sentiment import Sentiment
from ebbflow.papers.elysium.pipelines.top_words import TopWords, _lookup

WITHOUT_EBBFLOW = """
import pickle, sys
sys.modules["ebbflow"] = None  # importing it fails
import pyarrow as pa
step, rows = pickle.load(open(sys.argv[1], "rb"))
print([batch.to_pydict() for batch in step(iter([pa.RecordBatch.from_pydict(rows)]))])
"""


@pytest.mark.parametrize(
    ("step", "rows", "result"),
    [
        (TopWords(load="constant(1)", top=1).best(), {"ends_s": [9, 9], "word": ["a", "b"], "count": [1, 2]}, "['b']"),
        (_lookup(0.0), {"row": [1]}, "['east']"),
        (Sentiment(load="constant(1)").extract(), {"tokens": [["good"]]}, "'features': [["),
        (Sentiment(load="constant(1)").classify(), {"features": [[0]]}, "'sentiment': ["),
    ],
    ids=["ranking", "lookup", "features", "classifier"],
)  # fmt: skip
def test_a_step_runs_where_ebbflow_is_not_installed(tmp_path: Path, step, rows, result) -> None:
    file = tmp_path / "step.pickle"
    file.write_bytes(cloudpickle.dumps((step, rows)))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EBBFLOW, str(file)], capture_output=True, text=True, timeout=60, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert result in done.stdout
