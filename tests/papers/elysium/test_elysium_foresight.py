"""How the forecasts of a proactive run compare with the load that arrived, and how a lost row is explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from made_forecasts import Foreseen

from ebbflow.core.curve import Curve
from ebbflow.core.decision import Decision, LedgerEntry
from ebbflow.core.layout import Layout
from ebbflow.core.run import Run
from ebbflow.core.slo import Slo
from ebbflow.papers.elysium.calibration import LIMITS
from ebbflow.papers.elysium.cases import cases
from ebbflow.papers.elysium.comparison import compare, tally
from ebbflow.papers.elysium.foresight import Foresight, nodes_for
from ebbflow.papers.elysium.models import Models, learn_profile
from ebbflow.papers.elysium.published import JOINT, PROACTIVE, SYMBIOTIC, T1
from ebbflow.papers.elysium.run import Result, RowMetrics, run_cases
from ebbflow.profiling.fitting import QUICK

LOW, HIGH = 100.0, 850.0
"""Rows/s of T1 that need one node, and four."""


def run(sized: Sequence[float], *, strategy: str = PROACTIVE) -> Run:
    """Ten minutes: LOW for five and a half of them, then HIGH; assessed at each full minute but the first."""
    layout = Layout(nodes={"main": 1})
    entries = [
        LedgerEntry(
            entry_id=number, time_s=60.0 * number, strategy=strategy, verdict="hold", before=layout,
            decision=Decision(wanted=layout, reason="", inputs={"top-words rate_per_s": rate}),
        )
        for number, rate in enumerate(sized, start=1)
    ]  # fmt: skip
    arrived = Curve.of([(0, 0), (330, 330 * LOW), (600, 330 * LOW + 270 * HIGH)])
    return Run(
        strategy=strategy, pipeline="top-words", slo=Slo(freshness_s=30.0), limits=LIMITS, started_s=0.0, ended_s=600.0,
        arrived=arrived, processed=arrived, nodes=Curve.of([(0, 1)]), nodes_working=Curve.of([(0, 1)]),
        decisions=entries,
    )  # fmt: skip


def test_a_correct_forecast_costs_the_nodes_that_are_ready_before_their_load() -> None:
    """Within the minute after the fifth assessment the load rises: its mean needs two nodes, its busiest 10 s four."""
    found = Foresight.of([run([LOW] * 4 + [HIGH] * 5)])
    assert found is not None
    assert found.assessments == 9
    assert found.nodes_forecast == found.nodes_highest == pytest.approx((4 * 1 + 5 * 4) / 9)
    assert found.nodes_came == pytest.approx((4 * 1 + 2 + 4 * 4) / 9)
    assert (found.early, found.too_high, found.too_low) == (1, 0, 0)
    assert found.came_per_s == pytest.approx((4 * LOW + (LOW + HIGH) / 2 + 4 * HIGH) / 9)


def test_a_wrong_forecast_is_distinguished_from_an_early_one() -> None:
    """First LOW is sized for at minute 5 although HIGH arrives within it; then only LOW arrives."""
    low = Foresight.of([run([LOW] * 5 + [HIGH] * 4)])
    assert low is not None
    assert (low.too_high, low.too_low) == (0, 1)
    assert low.nodes_forecast - low.nodes_highest == pytest.approx(-3 / 9)
    only_low = replace(run([HIGH] * 9), arrived=Curve.of([(0, 0), (600, 600 * LOW)]))
    high = Foresight.of([only_low])
    assert high is not None
    assert (high.early, high.too_high, high.too_low) == (0, 9, 0)
    assert "1.00: +0.00 for the busiest 10 s until then (0 of 9 assessments), +3.00 from forecast" in str(
        high
    )


def test_only_a_proactive_run_with_assessments_has_foresight() -> None:
    assert RowMetrics.of([run([HIGH] * 9)]).foresight is not None
    assert RowMetrics.of([run([HIGH] * 9, strategy=SYMBIOTIC)]).foresight is None
    assert RowMetrics.of([run([])]).foresight is None


def test_several_runs_are_averaged() -> None:
    one, other = RowMetrics.of([run([HIGH] * 9)]), RowMetrics.of([run([LOW] * 9)])
    mean = RowMetrics.mean([one, other]).foresight
    assert mean is not None
    assert mean.forecast_per_s == pytest.approx((LOW + HIGH) / 2)
    assert mean.nodes_forecast == 2.5


def test_two_applications_need_more_nodes_than_one() -> None:
    assert nodes_for({"top-words": 300.0, "sentiment": 300.0}) > nodes_for({"top-words": 300.0})


# -- comparing -------------------------------------------------------------------------------------


def three_rows(*, proactive_saves: float) -> list[Result]:
    rows = cases(applications=[T1], loads=["square"])
    saved = {JOINT: 0.24, SYMBIOTIC: 0.40, PROACTIVE: proactive_saves}
    foresight = Foresight.of([run([HIGH] * 9)])
    return [
        Result(
            case=case,
            target="simulator",
            metrics=RowMetrics(
                throughput_degradation=0.1,
                throughput_degradation_unsmoothed=0.1,
                nodes_saved=saved[case.key.strategy],
                latency_mean_s=2.0,
                reconfigurations=5.0,
                foresight=foresight if case.key.strategy == PROACTIVE else None,
            ),
            runs=1,
        )
        for case in rows
    ]


def test_a_lost_proactive_row_is_counted_separately_and_explained_from_its_run() -> None:
    reactive, proactive = compare(three_rows(proactive_saves=0.20))
    assert reactive.ok
    assert not proactive.ok
    assert proactive.what == "T1 square symbiotic-proactive"
    assert proactive.explanation.startswith("Proactive held 3.20 nodes on average, joint 3.04.")
    assert "4.00 nodes instead of 2.44: +0.22 for the busiest 10 s until then" in proactive.explanation
    assert "Without a forecast symbiotic held 2.40." in proactive.explanation
    assert proactive.to_json()["strategy"] == PROACTIVE
    assert [str(each) for each in tally([reactive, proactive])] == [
        "Symbiotic saves more nodes than joint on 1 of 1 loads, degrades no more on 1, and does both on 1",
        "Symbiotic-proactive saves more nodes than joint on 0 of 1 loads, degrades no more on 1, and does both on 0",
    ]


def test_a_won_proactive_row_has_no_explanation() -> None:
    assert [each.explanation for each in compare(three_rows(proactive_saves=0.30))] == ["", ""]


def test_the_explanation_comes_from_the_simulated_run(monkeypatch) -> None:
    monkeypatch.setattr("ebbflow.papers.elysium.models.ALL", QUICK)
    rows = cases(applications=[T1], loads=["square"], strategies=[JOINT, PROACTIVE])
    models = Models(profiles={T1: learn_profile(T1)}, forecasts={(T1, "square"): Foreseen(820.0)})
    results = run_cases(rows, models, seeds=1, workers=1)
    (proactive,) = compare(results)
    assert not proactive.saves_more
    assert "It sized for 82" in proactive.explanation
    foresight = results[-1].to_json()["foresight"]
    assert (foresight["nodes_forecast"], foresight["assessments"]) == (4.0, 29.0)
    assert foresight["nodes_came"] < 3.0
    assert "foresight" not in results[0].to_json()
