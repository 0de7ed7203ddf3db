"""The rows of Figure 9 that run on Spark, and their loads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ebbflow.errors import InputError
from ebbflow.papers.elysium.cases import cases, spark_cases
from ebbflow.workloads import parse_load


def test_spark_runs_joint_and_symbiotic_on_three_loads_of_t1() -> None:
    assert [str(case.key) for case in spark_cases(cases())] == [
        "T1 stair joint", "T1 stair symbiotic", "T1 square joint", "T1 square symbiotic",
        "T1 twitter joint", "T1 twitter symbiotic",
    ]  # fmt: skip
    with pytest.raises(InputError, match="Spark runs T1"):
        spark_cases(cases(applications=["T2"]))


def test_loads_on_spark_are_lower_and_shorter(tmp_path: Path) -> None:
    from ebbflow.papers.elysium.on_spark import PEAK_PER_S, spark_case

    file = tmp_path / "tweets.csv"
    hours = [20 + hour % 24 for hour in range(5 * 24)]
    file.write_text("second,events\n" + "".join(f"{3600 * h},{n * 3600}\n" for h, n in enumerate(hours)))
    for case in spark_cases(cases(trace=str(file))):
        run = spark_case(case)
        load = parse_load(run.load)
        minutes = load.rows_between(np.arange(0.0, run.seconds + 1e-9, 60.0)) / 60.0
        assert 300.0 <= run.seconds <= 400.0
        assert 0.75 * PEAK_PER_S <= minutes.max() <= 1.001 * PEAK_PER_S
    assert spark_case(spark_cases(cases(loads=["twitter"]))[0]).load.startswith("day(")


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(600)
def test_symbiotic_grows_on_a_real_cluster() -> None:
    from ebbflow.papers.elysium.on_spark import SparkCase, run_on_spark

    case = SparkCase(load="step(base=60, peak=250, at=30s)", seconds=150.0, strategy="symbiotic")
    metrics, curves = run_on_spark(case)
    assert max(nodes for _, nodes in curves.nodes) >= 3
    assert metrics.nodes_saved is not None
    assert 0.1 < metrics.nodes_saved < 0.75
