"""DoDo's results at its size: what balancing and provisioning gain, and that the variant without capacity loses."""

from __future__ import annotations

import pytest

from ebbflow.papers.dodo.clusters.page import dodo_page, headline, verdicts
from ebbflow.papers.dodo.clusters.published import PUBLISHED
from ebbflow.papers.dodo.clusters.run import Measured, run_cases, with_gains


def test_the_results_of_the_thesis_at_its_size() -> None:
    """One test for all rows, because they take seconds and every worker would run them anew."""
    rows = {(row.case, row.variant): row for row in run_cases(seeds=1, workers=1)}

    # the inputs of the model come out again
    for key in (("extreme", "none"), ("autoscaling", "static")):
        assert rows[key].measured.throughput == pytest.approx(PUBLISHED[key].throughput, rel=0.02)

    best = rows["extreme", "with-capacity"]
    assert best.gain >= 0.8773
    assert best.measured.moves == 1
    assert rows["extreme", "without-capacity"].gain < -0.4

    kept = rows["optimal", "with-capacity"]
    assert kept.measured.moves == 0
    assert kept.gain > -0.01
    assert rows["optimal", "without-capacity"].gain < -0.5

    assert rows["autoscaling", "balanced"].gain >= 0.5158
    for variant in ("provisioned", "provisioned-by-model"):
        grown = rows["autoscaling", variant]
        assert grown.gain >= 0.7579, variant
        assert 13 <= sum(grown.measured.nodes) <= 15, "the capacity over all clusters"

    page = dodo_page(list(rows.values()), None)
    for figure in ("23 a and b", "23 c and d", "24", "27", "28", "29", "30", "31"):
        assert f"(Figure {figure})" in page
    assert headline(verdicts(list(rows.values()))) == "5 of DoDo's 5 results reproduced"


def test_a_missed_result_is_named() -> None:
    def measured(throughput: float) -> Measured:
        return Measured(throughput=throughput, moves=0.0, changes=0.0, nodes=(6.0, 1.0))

    results = with_gains(
        [
            ("extreme", "none", measured(100.0), 1, None),
            ("extreme", "with-capacity", measured(150.0), 1, None),
        ]
    )
    assert headline(verdicts(results)) == "0 of DoDo's 1 result reproduced; not: extreme case with capacity"
