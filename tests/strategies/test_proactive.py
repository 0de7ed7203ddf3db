"""The proactive strategy: decisions worked out by hand, and runs in the simulator."""

from __future__ import annotations

from typing import Any

import pytest
from made_flows import MS, chain, estimator, flow_snapshot
from made_forecasts import Foreseen

from ebbflow.core.decision import Decision
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.snapshot import ActionKind, ActionUnderWay, Snapshot
from ebbflow.errors import InputError
from ebbflow.profiling.estimator import Estimator
from ebbflow.runs.score import score
from ebbflow.runs.simulation import simulate
from ebbflow.strategies import make_strategy
from ebbflow.strategies.proactive import Proactive
from ebbflow.targets.simulator import Scenario
from ebbflow.targets.simulator.scenario import built_in_engine
from ebbflow.testing import check_strategy
from ebbflow.workloads import parse_load

PIPELINE = chain("app")
COST_S = 4 * MS
"""One operator, 4 ms a row: a node of four cores is 80 % busy at 800 rows/s, if its instances are on it."""
PROFILE = estimator(PIPELINE, {"a": COST_S}).profile


def proactive(*loads_per_s: float, **parameters: Any) -> Proactive:
    """A strategy that foresees these loads in the next steps of 10 s."""
    known = Estimator(PIPELINE, PROFILE, forecaster=Foreseen(*loads_per_s))
    return Proactive({"app": known}, **{"assess_s": 60.0, "hold_s": 60.0, **parameters})


def snapshot(
    now_s: float, nodes: int, rate_per_s: float, *, waiting: float = 0.0, **changes: Any
) -> Snapshot:
    """After a minute at a rate, with 12 instances on the nodes."""
    made = flow_snapshot(now_s, PIPELINE, Layout.of(nodes, a=12), {"app": rate_per_s}, **changes)
    made.windows.add([Reading(now_s, "app", Metric.QUEUE_LENGTH, waiting)])
    return made


def decided(strategy: Proactive, nodes: int, rate_per_s: float, **changes: Any) -> Decision:
    """The decision in the second minute. The first may only observe: planned nodes are at their limit."""
    strategy.decide(snapshot(60.0, nodes, rate_per_s, limits=Limits(min_nodes=nodes, max_nodes=nodes)))
    return strategy.decide(snapshot(120.0, nodes, rate_per_s, **changes))


# -- sizes -------------------------------------------------------------------------------------------


def test_it_grows_before_the_load_arrives() -> None:
    """1,500 rows/s are 6 cores: two nodes of four are at 75 %. The stop of 6.5 s and the period make a horizon of
    66.5 s, which is the first seven steps."""
    soon = decided(proactive(*[500.0] * 6, 1500.0), 1, 500.0)
    assert soon.wanted.main_nodes == 2
    assert "1500 rows/s of app are forecast within 1m6s at quantile" in soon.reason
    assert "forecast: an oracle" in soon.reason
    assert (soon.inputs["app forecast_per_s"], soon.inputs["horizon_s"]) == (1500.0, 66.5)
    later = decided(proactive(*[500.0] * 7, 1500.0), 1, 500.0)
    assert later.wanted.main_nodes == 1
    slow_nodes = decided(proactive(*[500.0] * 7, 1500.0), 1, 500.0, lead_time_s=10.0)
    assert slow_nodes.wanted.main_nodes == 2


def test_nodes_may_be_unequally_loaded() -> None:
    """12 instances at 2,300 rows/s: 0.77 cores each. Three nodes have four each, 77 %. The limit of five nodes would
    leave two or three on each, but four of them would still have three."""
    assert decided(proactive(2300.0), 1, 500.0).wanted.main_nodes == 3
    uneven = proactive(3300.0)  # 1.1 cores each: 4 nodes have 3 each, 82 %; 5 nodes have 3 on the fullest
    assert decided(uneven, 1, 500.0).wanted.main_nodes == 6


def test_the_present_load_counts_even_if_the_forecast_is_lower() -> None:
    decision = decided(proactive(100.0), 1, 1500.0)
    assert decision.wanted.main_nodes == 2
    assert "1500 rows/s of app arrive now" in decision.reason


@pytest.mark.parametrize(
    ("present_per_s", "ahead_per_s", "nodes"), [(500.0, 500.0, 1), (1500.0, 500.0, 2), (500.0, 1500.0, 2)]
)
def test_it_shrinks_only_if_present_and_forecast_allow_it(
    present_per_s: float, ahead_per_s: float, nodes: int
) -> None:
    assert decided(proactive(ahead_per_s), 4, present_per_s).wanted.main_nodes == nodes


def test_it_does_not_shrink_for_less_than_the_hold_time() -> None:
    dip = proactive(*[500.0] * 9, 3000.0, hold_s=120.0, assess_s=10.0)
    assert decided(dip, 4, 500.0).wanted.main_nodes == 4
    assert decided(proactive(*[500.0] * 13, 3000.0, hold_s=120.0), 4, 500.0).wanted.main_nodes == 1


def test_a_change_that_costs_more_than_it_saves_is_not_made() -> None:
    """One of four nodes less for 16.5 s saves 10 node-seconds, and three nodes stand still for 6.5 s."""
    decision = decided(proactive(2300.0, hold_s=10.0, assess_s=10.0), 4, 2300.0)
    assert decision.wanted.main_nodes == 4
    assert [bound.name for bound in decision.bound_by] == ["cost"]
    assert decided(proactive(2300.0), 4, 2300.0).wanted.main_nodes == 3


# -- safety net --------------------------------------------------------------------------------------


def test_the_last_forecast_is_used_until_the_next_one() -> None:
    """Made at 290 s: the load rises at 370 s. Decided every 10 s, with stops of 6.5 s, nodes are requested at 360 s."""
    strategy = proactive(*[500.0] * 8, 1500.0, assess_s=300.0, hold_s=90.0)
    found = {
        now_s: strategy.decide(snapshot(now_s, 1, 500.0)).wanted.main_nodes
        for now_s in (280.0 + 10.0 * k for k in range(10))
    }
    assert [now_s for now_s, nodes in found.items() if nodes == 2] == [360.0, 370.0]


def test_between_forecasts_present_and_backlog_are_checked() -> None:
    strategy = proactive(500.0)
    assert decided(strategy, 1, 500.0).wanted.main_nodes == 1
    assert strategy.decide(snapshot(130.0, 1, 500.0)).wanted.main_nodes == 1
    assert strategy.decide(snapshot(140.0, 1, 1500.0, waiting=16_000.0)).wanted.main_nodes == 2


def test_a_burst_that_passes_before_nodes_work_is_left_to_the_planned_ones() -> None:
    """5,000 rows wait. One node works them off at 500 rows/s: 25,000 row-seconds. A stop of 6.5 s adds 3,250 rows, and
    makes all of them wait. If the next reading is as high, the load lasts."""
    strategy = proactive(500.0)
    decided(strategy, 1, 500.0)
    burst = strategy.decide(snapshot(130.0, 1, 1500.0, waiting=5000.0))
    assert burst.wanted.main_nodes == 1
    assert [bound.name for bound in burst.bound_by] == ["burst"]
    assert "all rows together wait 25000 s as it is, and" in burst.bound_by[0].why
    assert strategy.decide(snapshot(140.0, 1, 1500.0, waiting=10_000.0)).wanted.main_nodes == 2


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"ahead_per_s": 1500.0}, id="the forecast says that it lasts"),
        pytest.param(
            {"waiting": 15_500.0}, id="one node needs more than half of the objective for the queue"
        ),
        pytest.param({"waiting": 14_000.0, "ahead_per_s": 700.0}, id="rows wait less with two nodes"),
    ],
)
def test_more_nodes_come_for_a_burst_if_they_help(changes: dict[str, float]) -> None:
    known = {"ahead_per_s": 500.0, "waiting": 5000.0} | changes
    strategy = proactive(known["ahead_per_s"])
    decided(strategy, 1, 500.0, limits=Limits(min_nodes=1, max_nodes=1))
    assert strategy.decide(snapshot(130.0, 1, 1500.0, waiting=known["waiting"])).wanted.main_nodes == 2


def test_nodes_that_work_off_a_queue_are_not_released() -> None:
    assert decided(proactive(500.0), 2, 500.0, waiting=400.0).wanted.main_nodes == 1
    waiting = decided(proactive(500.0), 2, 500.0, waiting=600.0)
    assert waiting.wanted.main_nodes == 2
    assert waiting.reason.startswith("600 rows wait")


def test_the_first_forecast_is_made_as_soon_as_the_load_is_known() -> None:
    """The first assessment, at 60 s, has no rate yet. The next one is due after five minutes."""
    assert decided(proactive(500.0, 1500.0, assess_s=300.0), 1, 500.0).wanted.main_nodes == 2


def test_a_backlog_is_worked_off_within_the_objective() -> None:
    """500 rows/s for 6.5 s gather in any stop. 33,250 rows more in 30 s: 0.8 · (500 + 1,108) rows/s."""
    assert decided(proactive(500.0), 1, 500.0, waiting=3250.0).wanted.main_nodes == 1
    decision = decided(proactive(500.0), 1, 500.0, waiting=36_500.0)
    assert decision.wanted.main_nodes == 2
    assert "1287 rows/s of app arrive or wait, to be processed within 30s" in decision.reason


def test_it_holds_if_the_load_was_not_read_lately_or_a_change_is_under_way() -> None:
    strategy = proactive(1500.0)
    old = snapshot(120.0, 1, 500.0)
    silent = strategy.decide(Snapshot(**{**_fields(old), "now_s": 140.0}))
    assert silent.wanted.main_nodes == 1
    assert "no reading of the load of app within the last 15 s" in silent.reason
    under_way = (ActionUnderWay(kind=ActionKind.RESTART, since_s=100.0),)
    busy = decided(proactive(1500.0), 1, 500.0, under_way=under_way)
    assert busy.wanted.main_nodes == 1
    empty = strategy.decide(Snapshot(**{**_fields(old), "windows": Windows()}))
    assert empty.wanted.main_nodes == 1


def _fields(made: Snapshot) -> dict[str, Any]:
    return {name: getattr(made, name) for name in made.__struct_fields__}


def test_the_limits_are_kept_and_named() -> None:
    decision = decided(proactive(3000.0), 2, 500.0, limits=Limits(min_nodes=1, max_nodes=2))
    assert decision.wanted.main_nodes == 2
    assert [bound.name for bound in decision.bound_by] == ["limit"]


# -- parameters and contract -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"assess_s": 0.0}, "an assessment period of 0 s"),
        ({"hold_s": -1.0}, "a hold time of -1 s"),
        ({"grow_level": 1.0}, "quantiles of 1 to grow"),
        ({"max_threshold": 1.5}, "1.5"),
        ({"forecaster": "last-valu"}, "did you mean 'last-value'"),
    ],
)
def test_invalid_parameters_are_rejected(bad: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Proactive(**bad)


def test_the_reactive_variant_keeps_the_contract_of_strategies() -> None:
    check_strategy(lambda: make_strategy("proactive(forecaster=last-value)"))


# -- runs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["micro-batch", "continuous"])
def test_it_follows_a_load_with_and_without_batches(engine: str) -> None:
    scenario = Scenario(
        engine=built_in_engine("top-words", engine),
        load=parse_load("sine(base=100, peak=900, period=10m)"),
        seconds=1800.0,
    )
    found = score(simulate(scenario, make_strategy("proactive")), oracle_node_seconds=None)
    assert (found.violation or 0.0) < 0.03
    assert (found.nodes_saved or 0.0) > 0.5
