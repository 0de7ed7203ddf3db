"""The scores: examples by hand, a comparison with one entry per row, and edge cases."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbflow.core.curve import Curve
from ebbflow.core.limits import Limits
from ebbflow.core.run import Run
from ebbflow.core.slo import Slo
from ebbflow.runs.score import Scores, score


def a_run(
    arrived: Sequence[tuple[float, float]],
    processed: Sequence[tuple[float, float]],
    *,
    ended_s: float,
    started_s: float = 0.0,
    nodes: Sequence[tuple[float, float]] | None = None,
    freshness_s: float = 30.0,
    reconfigurations: int = 0,
    rows_repeated: int = 0,
    lost: Sequence[tuple[float, float]] | None = None,
) -> Run:
    held = Curve.of(nodes if nodes is not None else [(started_s, 2.0)])
    return Run(
        strategy="static",
        pipeline="count",
        slo=Slo(freshness_s=freshness_s),
        limits=Limits(min_nodes=1, max_nodes=4),
        started_s=started_s,
        ended_s=ended_s,
        arrived=Curve.of(arrived),
        processed=Curve.of(processed),
        nodes=held,
        nodes_working=held,
        reconfigurations=reconfigurations,
        rows_repeated=rows_repeated,
        lost=None if lost is None else Curve.of(lost),
    )


def steady(trigger_s: float, *, duration_s: float = 600.0, rate_per_s: float = 100.0) -> Run:
    """Every trigger takes what arrived since the last one, and commits 2 s later."""
    starts_s = np.arange(trigger_s, duration_s - 2.0, trigger_s)
    return a_run(
        [(0, 0), (duration_s, duration_s * rate_per_s)],
        [(0, 0), *((t + 2.0, t * rate_per_s) for t in starts_s)],
        ended_s=duration_s,
    )


def test_fields_are_the_documented_ones_in_order() -> None:
    names = (
        "node_seconds cost_ratio violation latency_p50_s latency_p95_s latency_max_s throughput_degradation"
    )
    counts = "nodes_saved reconfigurations rows_in rows_out rows_lost rows_repeated"
    demand = "demand_gap_s ready_before_demand acts_without_demand"
    assert [field.name for field in fields(Scores)] == f"{names} {counts} {demand}".split()


def test_cost_counts_nodes_from_start_to_end_only() -> None:
    run = a_run([(0, 0), (200, 0)], [(0, 0)], ended_s=100.0, nodes=[(-50, 1), (40, 3), (150, 4)])
    scores = score(run, oracle_node_seconds=110.0)
    assert scores.node_seconds == 40 * 1 + 60 * 3
    assert scores.cost_ratio == pytest.approx(2.0)
    assert scores.nodes_saved == pytest.approx(1 - 220 / 400)


def test_there_is_no_cost_ratio_without_an_oracle() -> None:
    assert score(a_run([(0, 0), (9, 9)], [(0, 0)], ended_s=9.0), oracle_node_seconds=None).cost_ratio is None


def test_rows_wait_from_their_arrival_to_their_commit() -> None:
    # 10 rows/s for 10 s, all committed at 12 s: waits are even between 2 s and 12 s.
    scores = score(
        a_run([(0, 0), (10, 100), (20, 100)], [(0, 0), (12, 100)], ended_s=20.0, freshness_s=9.5),
        oracle_node_seconds=None,
    )
    assert (scores.latency_p50_s, scores.latency_p95_s, scores.latency_max_s) == (7.0, 11.5, 12.0)
    assert scores.violation == pytest.approx(0.25)


def test_rows_around_a_silence_keep_their_own_arrival_times() -> None:
    # 100 rows in the first second, silence, 100 rows in the last: the wait jumps, nothing is in between.
    arrived = [(0, 0), (1, 100), (9, 100), (10, 200)]
    scores = score(
        a_run(arrived, [(0, 0), (10, 200)], ended_s=10.0, freshness_s=5.0), oracle_node_seconds=None
    )
    assert scores.violation == pytest.approx(0.5)
    assert scores.latency_max_s == 10.0
    assert scores.latency_p95_s == pytest.approx(9.9)


def test_rows_that_arrive_at_once_and_wait_exactly_the_slo_are_in_time() -> None:
    arrived = [(0, 0), (0, 500), (60, 500)]
    in_time = a_run(arrived, [(0, 0), (30, 500)], ended_s=60.0)
    late = a_run(arrived, [(0, 0), (30.001, 500)], ended_s=60.0)
    assert score(in_time, oracle_node_seconds=None).violation == 0.0
    assert score(late, oracle_node_seconds=None).violation == 1.0
    assert score(in_time, oracle_node_seconds=None).latency_p50_s == pytest.approx(30.0, abs=2e-6)


@pytest.mark.parametrize("rate_per_s", [1234.567, 1 / 3, 98_765.4321])
def test_a_day_without_a_late_row_has_none_to_the_last_bit(rate_per_s: float) -> None:
    run = steady(7.3, duration_s=86_400.0, rate_per_s=rate_per_s)
    assert score(run, oracle_node_seconds=None).violation == 0.0


def test_rows_never_processed_are_late_once_older_than_the_slo() -> None:
    # 1 row/s for 100 s, the first 20 processed at once; at the end rows 20 to 70 are older than 30 s.
    processed = [(float(t), float(t)) for t in range(21)]
    run = a_run([(0, 0), (100, 100)], processed, ended_s=100.0)
    scores = score(run, oracle_node_seconds=None)
    assert scores.violation == pytest.approx(0.5)
    assert (scores.rows_in, scores.rows_out, scores.rows_lost) == (100, 20, None), (
        "lost rows were not counted in this run"
    )


def test_commits_after_the_end_and_before_the_start_do_not_count() -> None:
    run = a_run(
        [(0, 0), (100, 1000)], [(0, 0), (50, 500), (60, 600), (101, 1000)], started_s=50.0, ended_s=100.0
    )
    scores = score(run, oracle_node_seconds=None)
    assert (scores.rows_in, scores.rows_out) == (500, 100)
    assert scores.latency_max_s == 10.0


def test_a_rounding_error_is_not_a_row_that_waited() -> None:
    processed = [(0, 0), (1, 99.999999999), (900, 100.0), (901, 200.0)]
    run = a_run([(0, 0), (1, 100), (900, 100), (901, 200)], processed, ended_s=901.0)
    assert score(run, oracle_node_seconds=None).latency_max_s == pytest.approx(1.0)


def test_counts_are_those_of_the_run() -> None:
    run = a_run(
        [(0, 0), (9, 90)],
        [(0, 0), (9, 85)],
        ended_s=9.0,
        rows_repeated=7,
        reconfigurations=3,
        lost=[(0, 0), (9, 5)],
    )
    scores = score(run, oracle_node_seconds=None)
    assert (scores.rows_lost, scores.rows_repeated, scores.reconfigurations) == (5, 7, 3)
    assert (scores.rows_in, scores.rows_out) == (90, 85)


def test_lost_rows_are_late_and_have_no_latency() -> None:
    # 10 rows/s for 100 s. Those of 40 s to 60 s are lost; every other one is processed 2 s after it arrived.
    lost = [(0, 0), (40, 0), (60, 200), (100, 200)]
    processed = [(float(t + 2), 10.0 * min(t, max(40, t - 20))) for t in range(99)]
    run = a_run([(0, 0), (100, 1000)], processed, ended_s=100.0, lost=lost)
    scores = score(run, oracle_node_seconds=None)
    assert scores.violation == pytest.approx(0.2)
    assert (scores.rows_in, scores.rows_out, scores.rows_lost) == (1000, 780, 200)
    assert scores.latency_max_s == pytest.approx(3.0), "2 s, and up to one until the commit"
    assert scores.latency_p50_s == pytest.approx(2.5, abs=0.01)


def test_lost_and_late_rows_add_up() -> None:
    # 10 rows/s, every second one lost. Of the others 300 are through by the end, after 40 s, and 50 wait too long.
    processed = [(float(t + 40), 5.0 * t) for t in range(61)]
    run = a_run([(0, 0), (100, 1000)], processed, ended_s=100.0, lost=[(0, 0), (100, 500)])
    assert score(run, oracle_node_seconds=None).violation == pytest.approx((500 + 300 + 50) / 1000)


def test_lost_rows_are_a_degradation() -> None:
    done = [(float(t), 9.0 * t) for t in range(601)]
    run = a_run([(0, 0), (600, 6000)], done, ended_s=600.0, lost=[(0, 0), (600, 600)])
    assert score(run, oracle_node_seconds=None).throughput_degradation == pytest.approx(0.1)


@pytest.mark.parametrize("trigger_s", [1.0, 5.0, 7.0, 30.0, 90.0])
def test_micro_batches_at_a_steady_rate_are_no_degradation(trigger_s: float) -> None:
    degradation = score(steady(trigger_s, duration_s=3600.0), oracle_node_seconds=None).throughput_degradation
    assert degradation is not None
    assert degradation < 0.01


def test_a_run_that_processes_half_degrades_by_half() -> None:
    run = a_run([(0, 0), (600, 6000)], [(float(t), 5.0 * t) for t in range(0, 601, 5)], ended_s=600.0)
    assert score(run, oracle_node_seconds=None).throughput_degradation == pytest.approx(0.5)


def test_a_stall_is_a_degradation_although_its_rows_are_processed_later() -> None:
    before = [(float(t), 10.0 * t) for t in range(0, 301, 5)]
    after = [(float(t), 10.0 * t) for t in range(605, 901, 5)]
    stalled = score(a_run([(0, 0), (900, 9000)], before + after, ended_s=900.0), oracle_node_seconds=None)
    # Of 85 windows, 21.5 run empty, 0.8 more in part. What is missing there comes in the windows after, each of which
    # brings up to 4.7 times what arrives: as much again.
    assert stalled.throughput_degradation == pytest.approx(2 * 22.1 / 85, abs=0.01)


def test_a_window_with_hardly_any_input_is_left_out() -> None:
    # 100 rows/s for 600 s with the last minute done late, when a row a minute comes: 6,000 times as much.
    arrived = [(0, 0), (600, 60_000), (1200, 60_010)]
    done = [(float(t), 100.0 * t) for t in range(0, 541, 5)] + [(660.0, 60_000.0), (1200.0, 60_010.0)]
    degradation = score(a_run(arrived, done, ended_s=1200.0), oracle_node_seconds=None).throughput_degradation
    assert degradation is not None
    assert degradation < 1.0


def test_a_pipeline_that_stopped_is_degraded_until_the_end() -> None:
    processed = [(float(t), 10.0 * t) for t in range(0, 301, 5)]
    degradation = score(
        a_run([(0, 0), (600, 6000)], processed, ended_s=600.0), oracle_node_seconds=None
    ).throughput_degradation
    assert degradation == pytest.approx(0.5, abs=0.06)


def test_short_runs_use_a_window_that_fits() -> None:
    degradation = score(steady(2.0, duration_s=20.0), oracle_node_seconds=None).throughput_degradation
    assert degradation is not None
    assert degradation < 0.3


EDGES = {
    "no rows": a_run([(0, 0), (100, 0)], [(0, 0)], ended_s=100.0),
    "no points": a_run([], [], ended_s=100.0, nodes=[]),
    "one point": a_run([(0, 10)], [(0, 10)], ended_s=100.0),
    "nothing processed": a_run([(0, 0), (100, 1000)], [(0, 0)], ended_s=100.0),
    "nothing processed, no points": a_run([(0, 0), (100, 1000)], [], ended_s=100.0),
    "zero length": a_run([(0, 0)], [(0, 0)], ended_s=0.0),
    "a load that ends": a_run([(0, 0), (9, 90), (999, 90)], [(0, 0), (500, 90)], ended_s=999.0),
    "more out than in": a_run([(0, 0), (9, 90)], [(0, 0), (5, 80), (9, 95)], ended_s=9.0),
    "nothing lost": a_run([(0, 0), (9, 90)], [(0, 0), (9, 90)], ended_s=9.0, lost=[]),
    "all lost": a_run([(0, 0), (9, 90)], [(0, 0)], ended_s=9.0, lost=[(0, 0), (9, 90)]),
    "committed at arrival": a_run([(0, 0), (0, 9), (9, 9)], [(0, 0), (1e-7, 9)], ended_s=9.0),
}


@pytest.mark.parametrize("name", EDGES)
def test_edge_cases_give_valid_json(name: str) -> None:
    scores = score(EDGES[name], oracle_node_seconds=None)
    document = json.dumps(scores.to_json(), allow_nan=False)
    assert set(json.loads(document)) == {field.name for field in fields(Scores)}
    assert scores.violation is None or 0.0 <= scores.violation <= 1.0
    assert scores.throughput_degradation is None or scores.throughput_degradation >= 0.0


def test_without_rows_shares_and_latencies_are_undefined() -> None:
    scores = score(EDGES["no rows"], oracle_node_seconds=None)
    assert (scores.violation, scores.latency_p95_s, scores.throughput_degradation) == (None, None, None)
    assert (scores.node_seconds, scores.nodes_saved, scores.rows_in) == (200.0, 0.5, 0)


def test_without_output_all_rows_older_than_the_slo_are_late() -> None:
    scores = score(EDGES["nothing processed"], oracle_node_seconds=None)
    assert scores.violation == pytest.approx(0.7)
    assert (scores.throughput_degradation, scores.latency_max_s, scores.rows_out) == (1.0, None, 0)


def test_unknown_values_have_no_score() -> None:
    unseen = replace(EDGES["a load that ends"], nodes=Curve.of([]), reconfigurations=None, lost=None)
    scores = score(unseen, oracle_node_seconds=100.0)
    assert (scores.node_seconds, scores.cost_ratio, scores.nodes_saved) == (None, None, None)
    assert (scores.reconfigurations, scores.rows_lost) == (None, None)
    assert scores.rows_in == 90


def test_a_run_of_no_length_costs_nothing() -> None:
    scores = score(EDGES["zero length"], oracle_node_seconds=None)
    assert (scores.node_seconds, scores.nodes_saved, scores.violation) == (0.0, None, None)


@given(
    rows=st.lists(st.integers(0, 40), min_size=1, max_size=12),
    commits=st.lists(st.tuples(st.integers(1, 5), st.floats(0.0, 1.0)), max_size=10),
    epoch_s=st.sampled_from([0.0, 1.7e9]),
    freshness_s=st.floats(0.5, 20.0),
)
@settings(max_examples=150, deadline=None)
def test_scores_agree_with_one_entry_per_hundredth_of_a_row(
    rows: list[int], commits: list[tuple[int, float]], epoch_s: float, freshness_s: float
) -> None:
    times_s = np.arange(len(rows) + 1.0)
    total = np.concatenate(([0.0], np.cumsum(rows)))
    processed, now_s, done = [(epoch_s, 0.0)], 0.0, 0.0
    for gap_s, share in commits:
        now_s += gap_s
        done += np.floor(8.0 * share * (float(np.interp(now_s, times_s, total)) - done)) / 8.0
        processed.append((epoch_s + now_s, done))
    end_s = max(now_s, float(len(rows)))
    run = a_run(
        list(zip(epoch_s + times_s, total, strict=True)),
        processed,
        started_s=epoch_s,
        ended_s=epoch_s + end_s,
        freshness_s=freshness_s,
    )
    scores = score(run, oracle_node_seconds=None)

    small = np.arange(0.005, total[-1], 0.01)
    arrived_s = np.interp(small, total, times_s)  # rows in the inside of a line: no flat stretch is hit
    commit = np.searchsorted([value for _, value in processed], small)
    committed_s = np.append([t - epoch_s for t, _ in processed], end_s)[commit]
    waits = committed_s - arrived_s
    if len(small):
        assert scores.violation == pytest.approx(float(np.mean(waits > freshness_s)), abs=0.2 / total[-1])
    done_waits = np.sort(waits[commit < len(processed)])
    if len(done_waits) > 10:
        middle = [scores.latency_p50_s, scores.latency_p95_s, scores.latency_max_s]
        ranks = [int(np.ceil(len(done_waits) * q)) - 1 for q in (0.5, 0.95, 1.0)]
        for got, rank in zip(middle, ranks, strict=True):
            near = done_waits[max(rank - 12, 0) : rank + 13]
            assert got is not None
            assert near[0] - 2e-2 <= got <= near[-1] + 2e-2


def test_a_day_of_commits_every_second_is_scored_at_once() -> None:
    seconds = np.arange(86_401.0)
    rate = 1200.0 * (1.0 + 0.8 * np.sin(seconds[1:] / 86_400.0 * 2.0 * np.pi))
    total = np.concatenate(([0.0], np.cumsum(rate)))
    lag_s = np.random.default_rng(1).uniform(1.0, 40.0, len(seconds))
    run = Run(
        strategy="static",
        pipeline="count",
        slo=Slo(freshness_s=30.0),
        limits=Limits(min_nodes=1, max_nodes=30),
        started_s=0.0,
        ended_s=86_400.0,
        arrived=Curve(seconds, total),
        processed=Curve(seconds, np.maximum.accumulate(np.interp(seconds - lag_s, seconds, total))),
        nodes=Curve(seconds, np.round(rate[[0, *range(86_400)]] / 100.0)),
        nodes_working=Curve.of([(0, 12)]),
    )
    took_s = []
    for _ in range(3):
        began_s = time.perf_counter()
        scores = score(run, oracle_node_seconds=1e6)
        took_s.append(time.perf_counter() - began_s)
    assert scores.rows_in > 100_000_000
    assert min(took_s) < 0.5  # 0.03 s on an idle machine
