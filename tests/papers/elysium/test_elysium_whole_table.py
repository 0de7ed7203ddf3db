"""Symbiotic against joint on all ten loads of the table: more nodes saved, at no more degradation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ebbflow.papers.elysium.cases import Case, cases
from ebbflow.papers.elysium.kit import Kit, profiled
from ebbflow.papers.elysium.published import JOINT, SYMBIOTIC, T1, T2
from ebbflow.papers.elysium.run import run_cases
from ebbflow.papers.elysium.verdict import Verdict, verdicts
from ebbflow.profiling.fitting import QUICK


@pytest.fixture(scope="module")
def kit() -> Kit:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("ebbflow.papers.elysium.kit.ALL", QUICK)
        return Kit(profiles={T1: profiled(T1), T2: profiled(T2)}, forecasts={})


def lost(rows: Sequence[Case], kit: Kit, seeds: int) -> tuple[list[Verdict], list[str]]:
    judged = verdicts(run_cases(rows, kit, seeds=seeds, workers=1))
    return judged, [f"{each.application} {each.load}: {each.explanation}" for each in judged if not each.ok]


def test_symbiotic_saves_more_than_joint_at_no_more_degradation_on_all_ten_loads(kit: Kit) -> None:
    """One seed: on these loads, with a day of a web service for Twitter, five seeds tell the same."""
    judged, worse = lost(cases(strategies=[JOINT, SYMBIOTIC]), kit, seeds=1)
    assert len(judged) == 10
    assert not worse, "\n".join(worse)


def test_so_it_does_on_the_tweets_themselves(kit: Kit, shared_data: Path) -> None:
    """Means of three seeds, as in the table: with one of five alone, both save the same nodes on T1."""
    trace = shared_data / "loads" / "twitter_1s.csv.gz"
    if not trace.is_file():
        pytest.skip(f"no trace at {trace}")
    rows = cases(loads=["twitter"], strategies=[JOINT, SYMBIOTIC], trace=str(trace))
    judged, worse = lost(rows, kit, seeds=3)
    assert len(judged) == 2
    assert not worse, "\n".join(worse)
