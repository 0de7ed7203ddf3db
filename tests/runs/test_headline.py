"""On real loads ``capacity`` costs less than what people have, and is no later than those of it that scale.

Three hours of three traces, among them the one it is latest on; ``python -m benchmarks traces`` has days of twelve.
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import pytest

from ebbflow.runs.loads import read_loads
from ebbflow.runs.score import Scores, score
from ebbflow.runs.simulation import run_simulation, strategy_for
from ebbflow.runs.spec import Spec

TRACES = ("google_jobs_1min", "twitter_1s", "worldcup98_1min")
HOURS_S = 3 * 3600.0
LESS_LATE_THAN = ("spark-legacy", "elastic-scaling", "hpa")
CHEAPER_THAN = ("spark-dra", *LESS_LATE_THAN)


@pytest.fixture(scope="module")
def scores(shared_data: Path) -> dict[str, list[Scores]]:
    """Of every strategy on the busiest stretch of every trace, at peaks of three quarters of the most nodes."""
    files = [str(shared_data / "loads" / f"{name}.csv.gz") for name in TRACES]
    found: dict[str, list[Scores]] = {}
    for load in read_loads(files, peak_per_s=1905.0, speed=1.0, seconds=HOURS_S):
        scenario = Spec(seed=1, seconds=HOURS_S).scenario(load.with_jitter(0.05, seed=1))
        for name in ("capacity", *CHEAPER_THAN):
            run = run_simulation(scenario, strategy_for(name, scenario)).run
            found.setdefault(name, []).append(score(run, oracle_node_seconds=None))
    return found


def test_averaged_over_loads_it_costs_less_than_every_one_of_them(scores) -> None:
    cost = {name: mean(each.node_seconds for each in some) for name, some in scores.items()}
    assert {name for name in CHEAPER_THAN if cost[name] <= cost["capacity"]} == set(), cost


def test_averaged_over_loads_it_is_no_later_than_those_that_scale(scores) -> None:
    late = {name: mean(each.violation for each in some) for name, some in scores.items()}
    assert {name for name in LESS_LATE_THAN if late[name] < late["capacity"]} == set(), late
