"""Symbiotic against joint scaling on the loads of the table: it saves more nodes at no more degradation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ebbflow.papers.elysium.cases import Case, cases
from ebbflow.papers.elysium.comparison import Comparison, compare
from ebbflow.papers.elysium.models import Models, learn_profile
from ebbflow.papers.elysium.published import JOINT, SYMBIOTIC, T1, T2
from ebbflow.papers.elysium.run import run_cases
from ebbflow.profiling.fitting import QUICK

FEW = ("T1 step ", "T2 sine ", "T1+T2 step+stair ")


@pytest.fixture(scope="module")
def models() -> Models:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("ebbflow.papers.elysium.models.ALL", QUICK)
        return Models(profiles={T1: learn_profile(T1), T2: learn_profile(T2)}, forecasts={})


def lost(rows: Sequence[Case], models: Models, seeds: int) -> tuple[list[Comparison], list[str]]:
    comparisons = compare(run_cases(rows, models, seeds=seeds, workers=1))
    return comparisons, [
        f"{each.application} {each.load}: {each.explanation}" for each in comparisons if not each.ok
    ]


def test_symbiotic_saves_more_than_joint_at_no_more_degradation(models: Models) -> None:
    """A sudden and a slow change of either application, and both applications on the same nodes."""
    rows = [row for row in cases(strategies=[JOINT, SYMBIOTIC]) if str(row.key).startswith(FEW)]
    comparisons, worse = lost(rows, models, seeds=1)
    assert len(comparisons) == len(FEW)
    assert not worse, "\n".join(worse)


@pytest.mark.long
def test_symbiotic_saves_more_than_joint_at_no_more_degradation_on_all_ten_loads(models: Models) -> None:
    """One seed is enough: with the stand-in for Twitter, five seeds give the same result."""
    comparisons, worse = lost(cases(strategies=[JOINT, SYMBIOTIC]), models, seeds=1)
    assert len(comparisons) == 10
    assert not worse, "\n".join(worse)


@pytest.mark.long
def test_symbiotic_is_better_on_the_real_twitter_trace(models: Models, shared_data: Path) -> None:
    """Means of three seeds, as in the table: with one of five seeds alone, both save the same nodes on T1."""
    trace = shared_data / "loads" / "twitter_1s.csv.gz"
    if not trace.is_file():
        pytest.skip(f"no trace at {trace}")
    rows = cases(loads=["twitter"], strategies=[JOINT, SYMBIOTIC], trace=str(trace))
    comparisons, worse = lost(rows, models, seeds=3)
    assert len(comparisons) == 2
    assert not worse, "\n".join(worse)
