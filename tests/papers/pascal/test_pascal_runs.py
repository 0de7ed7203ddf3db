"""Pascal's loads: how they are made, how runs are measured and compared, and the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ebbflow.core.curve import Curve
from ebbflow.core.run import Run
from ebbflow.core.slo import Slo
from ebbflow.errors import InputError, UnknownNameError
from ebbflow.papers.elysium.calibration import LIMITS
from ebbflow.papers.pascal.calibration import NODES, PARALLELISM, PIPELINE, TOPOLOGY, scenario
from ebbflow.papers.pascal.comparison import compare, headline
from ebbflow.papers.pascal.loads import paper_loads
from ebbflow.papers.pascal.page import pascal_page
from ebbflow.papers.pascal.published import LOADS, PROACTIVE, REACTIVE, SECTION_7_1_5, STATIC
from ebbflow.papers.pascal.run import Metrics, Result, run_load, strategy_for
from ebbflow.papers.pascal.studies import imbalance, reconfiguration_costs
from ebbflow.profiling.fitting import QUICK
from ebbflow.profiling.profile import Profile
from ebbflow.strategies.symbiotic.algorithm_one import fullest

STEP_S = 10.0


@pytest.fixture(scope="module")
def profile() -> Profile:
    import ebbflow.papers.pascal.run as runs

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "ALL", QUICK)
        return runs.learn_profile()


# -- testbed and loads -------------------------------------------------------------------------------


def test_one_node_holds_500_events_and_only_four_hold_the_peak() -> None:
    """At 80 % of a node, with the instances where the scheduler puts them."""
    rates = PIPELINE.input_rates(dict.fromkeys(PIPELINE.sources, 1.0))
    counts = np.full(len(PIPELINE.order), PARALLELISM)
    cores = np.asarray([rates[name] * TOPOLOGY.row_cost_s[name] / PARALLELISM for name in PIPELINE.order])

    def share(nodes: int, rate_per_s: float) -> float:
        return NODES.cpu_share(rate_per_s * fullest(counts, cores, nodes))

    assert share(1, 500.0) <= 0.8
    assert share(3, 1800.0) > 0.8
    assert share(4, 1800.0) <= 0.8


@pytest.mark.parametrize("name", LOADS)
def test_a_load_continues_its_past(name: str) -> None:
    (load,) = paper_loads([name])
    past = load.history(STEP_S)
    assert past[-1][0] == 0.0
    assert np.allclose(np.diff([end_s for end_s, _ in past]), STEP_S)
    first = float(load.load.rows_between(np.array([0.0, STEP_S]))[0]) / STEP_S
    begin = past[0][1]
    if name in ("sawtooth", "square"):  # a drop at the end of each period
        assert past[-1][1] > 3 * first
    assert begin == pytest.approx(first, rel=0.6)


def test_a_day_of_a_trace_is_replayed_after_the_days_before_it(tmp_path: Path) -> None:
    file = tmp_path / "tweets.csv"
    hours = [10 * (1 + hour // 24) + hour % 24 for hour in range(7 * 24)]
    file.write_text("second,events\n" + "".join(f"{3600 * h},{n * 3600}\n" for h, n in enumerate(hours)))
    (load,) = paper_loads(["twitter"], str(file))
    assert load.seconds == 1410.0
    assert "day 6" in load.note
    minutes = load.load.rows_between(np.arange(0.0, load.seconds, 60.0)) / 60.0
    assert minutes.max() == pytest.approx(1800.0, rel=1e-3)
    past = load.history(STEP_S)
    assert len(past) == 5 * 141
    assert past[0][1] < past[-1][1] < minutes.max()
    with pytest.raises(InputError, match="is for the load twitter"):
        paper_loads(["sine"], str(file))
    with pytest.raises(UnknownNameError):
        paper_loads(["saw"])


# -- metrics -----------------------------------------------------------------------------------------


def made_run(wait_s: float) -> Run:
    """100 rows/s for 100 s on two of four nodes, all processed so much later."""
    arrived = Curve.of([(0, 0), (100, 10_000), (200, 10_000)])
    return Run(
        strategy=PROACTIVE, pipeline="p", slo=Slo(freshness_s=30.0), limits=LIMITS, started_s=0.0, ended_s=200.0,
        arrived=arrived,
        processed=Curve.of([(0, 0), *((float(t) + wait_s, 100.0 * t) for t in range(1, 101))]),
        nodes=Curve.of([(0, 2)]), nodes_working=Curve.of([(0, 2)]),
    )  # fmt: skip


def test_tuples_beyond_the_time_out_have_failed() -> None:
    in_time, late = Metrics.of(made_run(10.0)), Metrics.of(made_run(60.0))
    assert (in_time.failed, late.failed) == (0.0, 1.0)
    assert in_time.latency_mean_s == pytest.approx(10.5)
    assert in_time.nodes_saved == 0.5
    assert in_time.throughput_per_s == 50.0
    assert Metrics.mean([in_time, late]).failed == 0.5


def test_a_late_share_fails() -> None:
    """The half of the rows that arrives first is processed 40 s later, the other half at once."""
    steps = [(float(t) + (40.0 if t <= 50 else 0.0), 100.0 * t) for t in range(1, 101)]
    processed = [(0.0, 0.0)]
    for time_s, rows in steps:
        processed.append((max(time_s, processed[-1][0]), rows))
    metrics = Metrics.of(replace(made_run(0.0), processed=Curve.of(processed)))
    assert 0.5 < metrics.failed < 0.65


# -- comparison and page -----------------------------------------------------------------------------


def result(
    strategy: str, saved: float, latency_s: float, failed: float = 0.0, load: str = "sawtooth"
) -> Result:
    metrics = Metrics(
        nodes_saved=saved, latency_mean_s=latency_s, failed=failed, throughput_per_s=1000.0,
        throughput_degradation=0.01, reconfigurations=7.0,
    )  # fmt: skip
    return Result(load=load, strategy=strategy, metrics=metrics, runs=1)


@pytest.mark.parametrize(
    ("saved", "latency_s", "failed", "expected"),
    [
        (0.30, 0.7, 0.0, (True, True, True, True)),
        (0.20, 0.7, 0.0, (False, True, True, False)),
        (0.30, 1.3, 0.0, (True, False, True, False)),
        (0.30, 0.7, 0.001, (True, True, False, True)),
    ],
)
def test_proactive_is_compared_with_reactive_and_published(
    saved: float, latency_s: float, failed: float, expected: tuple[bool, ...]
) -> None:
    (found,) = compare([result(PROACTIVE, saved, latency_s, failed), result(REACTIVE, 0.25, 0.8)])
    assert (found.saves_more, found.is_faster, found.none_failed, found.beats_published) == expected
    assert found.ok == all(expected[:3])
    assert headline([found]).startswith("Proactive saves more nodes than reactive on")


def test_json_has_the_published_values() -> None:
    row = result(PROACTIVE, 0.3, 0.7).to_json()
    assert {"load", "strategy", "nodes_saved", "latency_mean_s", "failed", "published"} <= row.keys()
    assert row["published"] == {"nodes_saved": 0.2142, "latency_mean_s": 1.259, "failed": 0.0}
    assert set(SECTION_7_1_5) == {(load, name) for load in LOADS for name in (PROACTIVE, REACTIVE, STATIC)}


def test_the_page_escapes_and_shows_every_row() -> None:
    rows = [result(PROACTIVE, 0.3, 0.7), replace(result(REACTIVE, 0.25, 0.8), note="<b>odd</b>")]
    text = pascal_page(rows, None)
    assert "30.0 %" in text
    assert "1,259 ms" in text
    assert "<b>odd</b>" not in text.split('id="ebbflow-data"')[0]
    assert "Ahead of the published values" in text


# -- studies and runs --------------------------------------------------------------------------------


def test_nodes_are_unequally_loaded_and_changes_cost_throughput() -> None:
    uneven = imbalance()
    assert sorted(uneven.spouts) == [1, 1, 2]
    assert 1.0 < uneven.ratio < 2.0
    never, often, seldom = reconfiguration_costs((60.0, 300.0))
    costs = [each.throughput_degradation_unsmoothed for each in (never, seldom, often)]
    assert costs == sorted(set(costs))


def test_proactive_is_ahead_of_reactive_on_the_square(profile: Profile) -> None:
    """A period after an hour of past: the jump is known, and the nodes are there when it comes."""
    (load,) = paper_loads(["square"])
    ((past, _),) = load.past
    short = replace(load, seconds=1500.0, past=((past, 3600.0),))
    found = {name: run_load(short, strategy_for(name, short, profile))[0] for name in (PROACTIVE, REACTIVE)}
    ours, theirs = found[PROACTIVE], found[REACTIVE]
    assert ours.failed == 0.0
    assert ours.nodes_saved > theirs.nodes_saved
    assert ours.latency_mean_s < 0.8 * theirs.latency_mean_s


def test_the_scenario_starts_with_one_node_and_has_the_time_out() -> None:
    (load,) = paper_loads(["sine"])
    made = scenario(load.load, load.seconds)
    assert (made.first_nodes, made.slo.freshness_s) == (1, 30.0)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(600)
def test_proactive_grows_on_a_real_cluster() -> None:
    from ebbflow.papers.pascal.on_spark import run_on_spark

    run = run_on_spark("square(base=60, peak=300, period=1m)", 150.0, PROACTIVE)
    assert max(run.nodes.values) >= 3
    assert Metrics.of(run).nodes_saved > 0.1
