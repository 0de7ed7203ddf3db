"""Figure 9: its rows, the published values, the testbed, and how our runs are measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ebbflow.core.curve import Curve
from ebbflow.core.placement import even
from ebbflow.core.ports import Strategy
from ebbflow.core.run import Run
from ebbflow.core.slo import Slo
from ebbflow.errors import InputError, UnknownNameError
from ebbflow.papers.elysium.calibration import LIMITS, NODES, TOP_K_WORDS, storm
from ebbflow.papers.elysium.cases import KEYS, STAND_IN, TWITTER_PEAK_PER_S, cases, twitter_load
from ebbflow.papers.elysium.published import BOTH, FIGURE_9, JOINT, STATIC, SYMBIOTIC, T1, T2, Key
from ebbflow.papers.elysium.run import Result, RowMetrics, RunCurves, run_case
from ebbflow.papers.elysium.studies import reconfiguration_costs
from ebbflow.strategies.joint import Joint
from ebbflow.strategies.static import Static

CONTRACT = {
    "application", "load", "strategy", "throughput_degradation", "nodes_saved", "latency_mean_s", "published",
}  # fmt: skip


def metrics(degradation: float, saved: float) -> RowMetrics:
    return RowMetrics(
        throughput_degradation=degradation,
        throughput_degradation_unsmoothed=degradation,
        nodes_saved=saved,
        latency_mean_s=1.0,
        reconfigurations=5.0,
    )


# -- what was published --------------------------------------------------------------------------


def test_all_rows_of_figure_9_are_in_its_order() -> None:
    assert len(FIGURE_9) == 26
    assert [key for key in KEYS if key in FIGURE_9] == list(FIGURE_9)
    assert [str(key) for key in KEYS if key not in FIGURE_9] == [
        "T1+T2 step+stair joint", "T1+T2 sine+sine joint",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("key", "degradation", "saved"),
    [
        (Key(T1, "stair", STATIC, "4 nodes, parallelism 4"), 0.05, 0.0),
        (Key(T1, "square", SYMBIOTIC), 1.7, 0.35),
        (Key(T2, "sine", JOINT), 0.63, 0.30),
        (Key(T2, "twitter", SYMBIOTIC), 0.48, 0.50),
        (Key(BOTH, "sine+sine", SYMBIOTIC), 0.46, 0.21),
    ],
)
def test_published_values_are_those_of_the_figure(key: Key, degradation: float, saved: float) -> None:
    row = FIGURE_9[key]
    assert (row.throughput_degradation, row.nodes_saved) == (degradation, saved)


def test_the_contradiction_between_text_and_figure_is_noted() -> None:
    assert "52 %" in FIGURE_9[Key(T2, "twitter", SYMBIOTIC)].note


# -- the testbed ---------------------------------------------------------------------------------


def _node_shares(load_per_s: float, nodes: int, parallelism: int = 1) -> list[float]:
    engine = storm(T1, parallelism)
    rates = engine.pipeline.input_rates({"reader": load_per_s})
    sizes = [engine.parallelism[name] for name in engine.pipeline.order]
    cores = [
        rates[name] * engine.row_cost_s[name] / n
        for name, n in zip(engine.pipeline.order, sizes, strict=True)
    ]
    placed = even(sizes, nodes)
    return [
        NODES.cpu_share(sum(row[k] * c for row, c in zip(placed, cores, strict=True))) for k in range(nodes)
    ]


def test_t1_fits_on_one_node_at_200_per_second_and_needs_four_at_its_peak() -> None:
    assert max(_node_shares(200.0, 1)) <= 0.80
    assert min(_node_shares(850.0, 3, parallelism=4)) > 0.80
    assert max(_node_shares(850.0, 4, parallelism=4)) <= 0.80


def test_the_stop_word_filter_is_the_heaviest_operator_of_t1() -> None:
    rates = TOP_K_WORDS.pipeline.input_rates({"reader": 1.0})
    cost_ms = {name: 1000 * rate * TOP_K_WORDS.row_cost_s[name] for name, rate in rates.items()}
    assert max(cost_ms, key=lambda name: cost_ms[name]) == "stop-words"
    assert sum(cost_ms.values()) == pytest.approx(7.35)
    selectivities = [stream.selectivity for stream in TOP_K_WORDS.pipeline.streams]
    assert selectivities == [1.0, 17.86, 0.68, 0.41, 0.01]


def test_every_operator_can_be_scaled_as_on_storm() -> None:
    assert all(operator.boundary for operator in TOP_K_WORDS.pipeline.operators)
    assert (NODES.slots, LIMITS.max_nodes) == (4, 4)


# -- cases ---------------------------------------------------------------------------------------


def test_a_fixed_setting_is_the_initial_layout() -> None:
    (two_nodes, four_nodes) = cases(strategies=["only-operators"])
    assert [case.initial_nodes for case in (two_nodes, four_nodes)] == [2, 4]
    assert [case.initial_parallelism for case in cases(strategies=["only-resources"])] == [2, 4]
    assert [(c.initial_nodes, c.initial_parallelism) for c in cases(strategies=[JOINT])] == [(1, 1)] * 10


def test_two_applications_share_their_nodes() -> None:
    (case,) = cases(applications=[BOTH], loads=["step+stair"], strategies=[SYMBIOTIC])
    scenario = case.scenario()
    assert [tenant.engine.pipeline.name for tenant in scenario.others] == ["sentiment"]
    assert float(scenario.load.rate_per_s(np.array([400.0]))[0]) == pytest.approx(200.0, rel=0.3)


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"applications": ["T3"]}, "unknown application 'T3'"),
        ({"loads": ["stairs"]}, "did you mean 'stair'"),
        ({"strategies": ["symbiosis"]}, "did you mean 'symbiotic'"),
    ],
)
def test_unknown_names_are_refused(chosen: dict[str, list[str]], words: str) -> None:
    with pytest.raises(UnknownNameError, match=words):
        cases(**chosen)


def test_a_selection_without_a_row_is_refused() -> None:
    with pytest.raises(InputError, match="no row of T2 and stair"):
        cases(applications=[T2], loads=["stair"])


def test_twitter_is_a_day_of_the_trace_scaled_to_the_peak(tmp_path: Path) -> None:
    file = tmp_path / "tweets.csv"
    days = [20 + 10 * (hour % 24 >= 12) for hour in range(5 * 24)]
    file.write_text("second,events\n" + "".join(f"{3600 * hour},{n * 3600}\n" for hour, n in enumerate(days)))
    load = twitter_load(str(file))
    minutes = load.rows_between(np.arange(0.0, 1381.0, 60.0)) / 60
    assert load.span_s == 23.5 * 60
    assert minutes.max() == pytest.approx(TWITTER_PEAK_PER_S)
    assert minutes.min() == pytest.approx(TWITTER_PEAK_PER_S * 2 / 3)
    (case, *_) = cases(loads=["twitter"], trace=str(file))
    assert case.traced


def test_without_a_trace_a_note_says_that_something_stands_in() -> None:
    case, *_ = cases(loads=["twitter"], strategies=[JOINT])
    assert str(case.loads[0][1]) == STAND_IN
    row = Result(case=case, target="simulator", metrics=metrics(0.1, 0.2), runs=1).to_json()
    assert "a generated day of a web service is used" in row["note"]


def test_a_trace_that_is_too_short_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "short.csv"
    file.write_text("second,events\n0,1\n1,1\n")
    with pytest.raises(InputError, match="ends at 2s"):
        twitter_load(str(file))


# -- measuring -----------------------------------------------------------------------------------


def test_the_over_provisioned_row_hardly_degrades_and_saves_nothing() -> None:
    (case,) = cases(strategies=[STATIC])
    found, curves = run_case(case, Static(), with_curves=True)
    assert found.throughput_degradation == pytest.approx(0.0, abs=0.05)
    assert found.nodes_saved == 0.0
    assert found.latency_mean_s is not None
    assert found.latency_mean_s < 2.0
    assert curves is not None
    assert curves.nodes[0][1] == curves.nodes[-1][1] == 4
    assert len(curves.load[T1]) == len(curves.throughput[T1]) == 180
    assert curves.parallelism["stop-words"] == [(0.0, 4.0), (1800.0, 4.0)]


@pytest.mark.parametrize("strategy", [Static(), Joint()])
def test_the_latency_of_the_curves_is_that_of_the_table(strategy: Strategy) -> None:
    (case,) = cases(applications=[T1], loads=["step"], strategies=[JOINT])
    found, curves = run_case(case, strategy, with_curves=True)
    assert curves is not None
    rows = dict(curves.throughput[T1])
    drawn = sum(rows[time_s] * wait_s for time_s, wait_s in curves.latency[T1]) / sum(rows.values())
    assert drawn == pytest.approx(found.latency_mean_s, rel=2e-3)


def test_the_latency_curve_has_no_point_where_no_row_is_completed() -> None:
    run = Run(
        strategy="static", pipeline="p", slo=Slo(freshness_s=4.0), limits=LIMITS, started_s=0.0, ended_s=30.0,
        arrived=Curve.of([(0, 0), (30, 300)]), processed=Curve.of([(0, 0), (5, 50), (25, 250)]),
        nodes=Curve.of([(0, 1)]), nodes_working=Curve.of([(0, 1)]),
    )  # fmt: skip
    assert RunCurves.of({T1: run}, {}).latency[T1] == [(10.0, 2.5), (30.0, 10.0)]


def test_a_rebalance_costs_the_pause_and_the_catching_up() -> None:
    never, every_minute = reconfiguration_costs([60.0])
    assert never.throughput_degradation_unsmoothed == pytest.approx(0.0, abs=1e-6)
    # eight rebalances in nine minutes, each 5 to 8 s without input and as much to catch up
    assert 2 * 8 * 5 / 540 < every_minute.throughput_degradation_unsmoothed < 2 * 8 * 9 / 540
    assert (never.published, every_minute.published) == (0.05, 0.64)


def test_means_leave_out_unknown_values() -> None:
    one, other = metrics(0.1, 0.2), replace(metrics(0.3, 0.4), latency_mean_s=None)
    mean = RowMetrics.mean([one, other])
    assert mean.throughput_degradation == pytest.approx(0.2)
    assert mean.latency_mean_s == 1.0


def test_a_row_of_the_json_has_the_keys_of_the_contract() -> None:
    found = [
        Result(case=case, target="simulator", metrics=metrics(0.2, 0.3), runs=1)
        for case in cases(applications=[T1], loads=["stair"], strategies=[JOINT, SYMBIOTIC])
    ]
    rows = json.loads(json.dumps([each.to_json() for each in found]))
    assert all(set(row) >= CONTRACT for row in rows)
    assert rows[0]["published"] == {
        "throughput_degradation": 0.97, "nodes_saved": 0.32, "figure": "10(f)",
    }  # fmt: skip
    (case,) = cases(applications=[BOTH], loads=["sine+sine"], strategies=[JOINT])
    assert (
        Result(case=case, target="simulator", metrics=metrics(0.1, 0.1), runs=1).to_json()["published"]
        is None
    )
