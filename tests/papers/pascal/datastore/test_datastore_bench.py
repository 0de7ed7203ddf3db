"""Pascal's evaluation on a datastore: loads, demand points, the contract of the result, and the page."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from ebbflow.core.curve import Curve
from ebbflow.core.decision import Decision, LedgerEntry, Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.run import Run
from ebbflow.errors import InputError
from ebbflow.papers.pascal.datastore.loads import DAY_S, PEAK_PER_S, made_load, recorded_load
from ebbflow.papers.pascal.datastore.page import benchmark_json, datastore_page
from ebbflow.papers.pascal.datastore.published import MEAN_DELTA_S, published_json
from ebbflow.papers.pascal.datastore.results import (
    COSTS,
    REACTIVE,
    SLO,
    STATIC_FEW,
    STATIC_MOST,
    Benchmark,
    StoreRun,
    run_benchmark,
)
from ebbflow.papers.pascal.datastore.simulated import SimulatedBench
from ebbflow.profiling.datastore.profile import paper_profile

PROFILE = paper_profile()


# -- loads -----------------------------------------------------------------------------------------------------


def test_the_made_load_is_an_approximated_trace_whose_last_days_are_the_test() -> None:
    load = made_load(days=5, tested=2)
    assert load.seconds == 2 * DAY_S
    assert len(load.past) == 3 * len(load.present) / 2
    assert max(load.past.max(), load.present.max()) == pytest.approx(PEAK_PER_S)
    below = np.mean(load.raw <= load.present * 1.005)
    assert 0.85 < below < 0.99  # the 95th percentile of each hour, smoothed
    assert np.abs(np.diff(load.present)).max() < 0.01 * PEAK_PER_S
    assert np.abs(np.diff(load.raw)).max() > 0.1 * PEAK_PER_S


def test_the_history_continues_with_the_test() -> None:
    load = made_load(days=3, tested=1)
    (end_s, last), (_, before) = load.history(30.0)[-1], load.history(30.0)[-2]
    assert end_s == 0.0
    first = float(load.load.rows_between(np.array([0.0, 30.0]))[0]) / 30.0
    assert first == pytest.approx(2 * last - before, rel=0.005)


def test_a_recorded_trace_needs_days_to_learn_from(tmp_path: Path) -> None:
    path = tmp_path / "two days.csv.gz"
    minutes = 2 * 1440
    rows = "\n".join(f"{60 * k},{1000 + 500 * np.sin(k / 229):.0f}" for k in range(minutes))
    path.write_bytes(gzip.compress(f"time,events\n{rows}\n".encode()))
    assert recorded_load(str(path), tested=1).seconds == DAY_S
    with pytest.raises(InputError, match="has 2 whole days; give a trace of more than 2"):
        recorded_load(str(path), tested=2)


# -- scores ----------------------------------------------------------------------------------------------------


def made_run(*, joined_s: float) -> StoreRun:
    """The load crosses the bound of three nodes at 600 s; a node is added at 500 s."""
    bound = PROFILE.bounded_per_s(3)
    arrived = Curve.of([(0, 0), (600, 600 * 0.9 * bound), (1800, 600 * 0.9 * bound + 1200 * 1.1 * bound)])
    act = LedgerEntry(
        entry_id=1, time_s=500.0, strategy="s", verdict="act", before=Layout.of(3),
        decision=Decision(wanted=Layout.of(4), reason="r"), outcome=Outcome(requested=Layout.of(4)),
    )  # fmt: skip
    run = Run(
        strategy="s", pipeline="pascal", slo=SLO, limits=Limits(min_nodes=3, max_nodes=6), started_s=0.0,
        ended_s=1800.0, arrived=arrived, processed=arrived, nodes=Curve.of([(0, 3), (500, 4)]),
        nodes_working=Curve.of([(0, 3), (joined_s, 4)]), decisions=[act],
    )  # fmt: skip
    return StoreRun(strategy="s", target="simulator", run=run, profile=PROFILE)


def test_a_demand_point_is_missed_if_the_node_is_not_there_and_not_otherwise() -> None:
    early, late = made_run(joined_s=580.0).result(), made_run(joined_s=610.0).result()
    assert (early.demand_points, early.missed_demand_points, early.deltas_s) == (1, 0, [20.0])
    assert (late.demand_points, late.missed_demand_points, late.deltas_s) == (1, 1, [-10.0])
    assert early.ok
    assert not late.ok
    assert early.nodes_saved == pytest.approx(1 - (3 * 500 + 4 * 1300) / (6 * 1800))
    assert set(early.actions[0].to_json()) >= {"action", "tp_s", "rp_s", "dp_s", "duration_s", "delta_s"}
    assert early.actions[0].to_json()["action"] == "+1"


def test_the_paper_is_43_8_seconds_early_on_average() -> None:
    assert pytest.approx(43.8) == MEAN_DELTA_S
    assert [row["delta_s"] for row in published_json()["table_5"]] == [33, 48, 45, 27, 66]


# -- the benchmark ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def quick() -> tuple[SimulatedBench, Benchmark]:
    """A day without a forecast; forecasts take longer and are tested with the strategy."""
    bench = SimulatedBench(load=made_load(days=3, tested=1), workers=1)
    return bench, run_benchmark(bench, (REACTIVE, STATIC_MOST, STATIC_FEW))


def test_reactive_misses_every_demand_point_and_static_sizes_bracket_it(
    quick: tuple[SimulatedBench, Benchmark],
) -> None:
    _, done = quick
    reactive, most, few = done.results
    assert reactive.demand_points >= 2
    assert reactive.missed_demand_points == reactive.demand_points
    assert (most.missed_demand_points, few.missed_demand_points) == (0, few.demand_points)
    assert (most.nodes_saved, few.nodes_saved) == (0.0, 0.5)
    assert 0.3 < reactive.nodes_saved < 0.5
    assert most.response_p95_s is not None
    assert few.response_p95_s is not None
    assert few.response_p95_s > 1.2 * most.response_p95_s


def test_the_tables_are_those_of_the_paper_within_the_error_of_the_profile(
    quick: tuple[SimulatedBench, Benchmark],
) -> None:
    document = json.loads(json.dumps(benchmark_json(quick[1])))
    assert {"tables", "actions", "nodes_saved", "missed_demand_points", "published"} <= document.keys()
    for ours, paper in zip(document["tables"]["3"], document["published"]["table_3"], strict=True):
        assert ours["nodes"] == paper["nodes"]
        assert ours["most_per_s"] == pytest.approx(paper["most_per_s"], rel=0.02)
        assert ours["bounded_per_s"] == pytest.approx(paper["bounded_per_s"], rel=0.03)
    times = {(row["before"], row["after"]): row for row in document["tables"]["4"] if row["data_gb"] == 1.0}
    for row in document["published"]["table_4"]:
        ours = times[row["before"], row["after"]]
        assert ours["seconds"] + ours["cleanup_s"] == pytest.approx(row["seconds"], rel=0.05)
    join, leave = document["impacts"]
    assert join["ended_s"] == pytest.approx(210, abs=15)
    assert abs(join["throughput_change"]) < 0.01
    assert abs(leave["throughput_change"]) < 0.01


def test_the_page_has_the_tables_and_figures(quick: tuple[SimulatedBench, Benchmark]) -> None:
    bench, done = quick
    page = datastore_page(done, bench.drawn_s)
    for title in (
        "Table 3",
        "Table 4",
        "Table 5",
        "Figure 18",
        "Figure 19",
        "Figure 21",
        "Figures 22 and 23",
    ):
        assert title in page


@pytest.mark.long
def test_on_seven_days_no_demand_point_is_missed_and_nodes_are_nearer_than_in_the_paper() -> None:
    done = run_benchmark(SimulatedBench(load=made_load()), (COSTS, REACTIVE))
    ours, reactive = done.results
    assert ours.missed_demand_points == 0
    assert ours.mean_delta_s is not None
    assert ours.mean_delta_s < MEAN_DELTA_S
    assert ours.nodes_saved > 0.3
    assert reactive.missed_demand_points == reactive.demand_points == ours.demand_points
