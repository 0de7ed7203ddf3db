"""The demo's closing lines agree with its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbflow.cli.demo import print_result
from ebbflow.core.curve import Curve
from ebbflow.core.limits import Limits
from ebbflow.core.run import Run
from ebbflow.core.slo import Slo
from ebbflow.papers.elysium.demo import LiveResult
from ebbflow.report.wording import headline
from ebbflow.runs.stored_run import StoredRun


@pytest.mark.parametrize(
    ("slo", "kept"),
    [
        ("freshness max <= 4.8s", False),  # p95 is 4.75 s, the last row took 5 s
        ("freshness p95 <= 4.8s", True),
        ("freshness p95 <= 4.7s", False),
        ("freshness p50 <= 3s", True),
    ],
)
def test_an_objective_is_judged_by_the_quantile_it_names(
    slo: str, kept: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(
        strategy="capacity", pipeline="count", slo=Slo.parse(slo), limits=Limits.parse("1:4"),
        started_s=0.0, ended_s=10.0, arrived=Curve.of([(0, 0), (10, 1000)]),
        processed=Curve.of([(0, 0), (5, 500), (10, 1000)]),
        nodes=Curve.of([(0, 2)]), nodes_working=Curve.of([(0, 2)]),
    )  # fmt: skip
    stored = StoredRun(run=run, queries=[run], target="spark")
    print_result(LiveResult(stored=stored, top=[]), Path("report.html"))
    printed = capsys.readouterr().err
    assert printed.strip().startswith(f"{'Kept' if kept else 'Missed'} {slo}")
    assert headline(run, stored.score_values()).startswith("Kept" if kept else "Missed")
