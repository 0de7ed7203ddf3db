"""Symbiotic compared with joint scaling: what counts as better, and how a worse row is explained."""

from __future__ import annotations

from dataclasses import replace

from ebbflow.papers.elysium.cases import cases
from ebbflow.papers.elysium.comparison import compare
from ebbflow.papers.elysium.published import JOINT, SYMBIOTIC, T1, T2
from ebbflow.papers.elysium.run import Result, RowMetrics


def metrics(degradation: float, saved: float, **more: float) -> RowMetrics:
    values = {
        "latency_mean_s": 1.0,
        "reconfigurations": 5.0,
        "throughput_degradation_unsmoothed": degradation,
    }
    return RowMetrics(throughput_degradation=degradation, nodes_saved=saved, **(values | more))


def results(
    joint: RowMetrics, symbiotic: RowMetrics, application: str = T1, load: str = "stair"
) -> list[Result]:
    rows = cases(applications=[application], loads=[load], strategies=[JOINT, SYMBIOTIC])
    return [
        Result(case=case, target="simulator", metrics=each, runs=1)
        for case, each in zip(rows, (joint, symbiotic), strict=True)
    ]


def test_more_saved_at_no_more_degradation_needs_no_explanation() -> None:
    (comparison,) = compare(results(metrics(0.2, 0.3), metrics(0.2, 0.4)))
    assert comparison.ok
    assert comparison.explanation == ""


def test_a_row_that_degrades_more_says_how_the_runs_differed() -> None:
    (comparison,) = compare(
        results(
            metrics(0.1, 0.2, reconfigurations=4.0), metrics(0.3, 0.4, reconfigurations=9.0), load="square"
        )
    )
    assert not comparison.ok
    assert comparison.saves_more
    assert "0.300 against 0.100 in windows of a minute" in comparison.explanation
    assert "reconfigured 9.0 times, joint 4.0" in comparison.explanation
    assert "2.40 nodes where joint held 3.20" in comparison.explanation
    assert "1.7 against 1.49" in comparison.explanation


def test_an_unknown_value_is_not_better() -> None:
    unknown = replace(metrics(0.2, 0.4), throughput_degradation=None)
    (comparison,) = compare(results(metrics(0.2, 0.3), unknown))
    assert not comparison.ok
    assert "unknown against 0.200 in windows of a minute" in comparison.explanation


def test_a_row_that_saves_less_while_joint_falls_behind_says_so() -> None:
    (comparison,) = compare(
        results(metrics(0.5, 0.4, latency_mean_s=60.0), metrics(0.1, 0.3), application=T2, load="sine")
    )
    assert not comparison.saves_more
    assert "a row took 60.0 s with joint, 1.0 s here" in comparison.explanation
    assert "22 % against 30 %" in comparison.explanation


def test_a_load_that_only_one_of_them_ran_on_is_not_compared() -> None:
    joint, _ = results(metrics(0.2, 0.3), metrics(0.2, 0.4))
    assert compare([joint]) == []
