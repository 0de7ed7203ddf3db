"""The benchmark of the Google cluster query: its comparison and its measurement of memory."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import pandas as pd
import psutil
import pytest

BENCHMARK = Path(__file__).parents[4] / "benchmarks" / "google_cluster.py"


@pytest.fixture(scope="module")
def benchmark() -> dict:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARK.parents[1])
        return runpy.run_path(str(BENCHMARK), run_name="read")


def written(folder: Path, *, first: str, tasks: float) -> Path:
    times = [900, 1800] if first == "trace_s" else [1, 2]
    tables = {
        "machines": pd.DataFrame({first: times[::-1], "machine": [7, 7], "tasks": [tasks, 1.0]}),
        "cluster": pd.DataFrame({"trace_s": [1800, 900], "machines": [1, 1]}),
    }
    for name, table in tables.items():
        (folder / name).mkdir(parents=True)
        table.to_parquet(folder / name / "all.parquet")
    return folder


def test_the_comparison_includes_every_machine(benchmark, tmp_path) -> None:
    ours = written(tmp_path / "ours", first="trace_s", tasks=2.0)
    benchmark["_same_tables"](ours, written(tmp_path / "same", first="report", tasks=2.0))
    with pytest.raises(AssertionError, match="tasks"):
        benchmark["_same_tables"](ours, written(tmp_path / "other", first="report", tasks=3.0))


def test_memory_of_a_process_is_between_its_own_and_its_resident_pages(benchmark) -> None:
    own = psutil.Process().memory_full_info()
    assert own.uss * 0.9 < benchmark["pss_bytes"](os.getpid()) < own.rss * 1.1
    assert benchmark["pss_bytes"](2**22 + 1) == 0
