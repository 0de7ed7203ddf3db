"""On real loads ``capacity`` costs less than the usual autoscalers, and is no later than those that scale down.

Three hours of two traces and one of a third; ``python -m benchmarks traces`` has days of twelve.
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import pytest

from ebbflow.runs.loads import read_loads
from ebbflow.runs.score import Scores, score
from ebbflow.runs.simulation import simulate, strategy_for
from ebbflow.runs.spec import Spec

DATA = Path(__file__).parents[1] / "data"
TRACES = ("google_jobs_1min_3h", "twitter_1s_1h", "worldcup98_1min_3h")
NO_LATER_THAN = ("spark-legacy", "elastic-scaling", "hpa")
CHEAPER_THAN = ("spark-dra", *NO_LATER_THAN)


@pytest.fixture(scope="module")
def scores() -> dict[str, list[Scores]]:
    """The scores of every strategy on every trace, at peaks of 75 % of the capacity of the maximum of nodes."""
    files = [str(DATA / f"{name}.csv.gz") for name in TRACES]
    scores: dict[str, list[Scores]] = {}
    for load in read_loads(files, peak_per_s=1905.0, speed=1.0, seconds=3 * 3600.0):
        scenario = Spec(seed=1, seconds=load.load.duration_s).scenario(load.with_jitter(0.05, seed=1))
        for name in ("capacity", *CHEAPER_THAN):
            run = simulate(scenario, strategy_for(name, scenario))
            scores.setdefault(name, []).append(score(run, oracle_node_seconds=None))
    return scores


def test_capacity_costs_less_on_average_over_the_loads(scores) -> None:
    cost = {name: mean(each.node_seconds for each in own) for name, own in scores.items()}
    assert {name for name in CHEAPER_THAN if cost[name] <= cost["capacity"]} == set(), cost


def test_capacity_is_no_later_on_average_over_the_loads(scores) -> None:
    late = {name: mean(each.violation for each in own) for name, own in scores.items()}
    assert {name for name in NO_LATER_THAN if late[name] < late["capacity"]} == set(), late
