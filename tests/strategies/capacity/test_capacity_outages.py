"""Outages of metrics: the strategy does nothing meanwhile, and learns nothing wrong from them."""

from __future__ import annotations

import logging
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ebbflow.core.decision import LedgerEntry
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies import STRATEGIES, make_strategy
from ebbflow.targets.simulator import MissingMetrics, Scenario, built_in_engine
from ebbflow.testing.engine import FakeQuery, FakeStage, LoopRun, run_loop
from ebbflow.workloads import parse_load

TWELVE = (FakeStage(tasks=12, per_task_s=0.05, per_row_s=0.01),)
SETTLED_S = 60.0
ENGINES = ("micro-batch", "continuous")


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logging.getLogger("ebbflow.control.loop").setLevel(logging.ERROR)


@cache
def on_tiny_spark(rate: float, nodes: int, blind: tuple[float, float] | None, **options: float) -> LoopRun:
    return run_loop(FakeQuery(lambda _: rate, TWELVE, **options), seconds=170, nodes=nodes, blind=blind)


def decided(entries: list[LedgerEntry], after_s: float) -> set[tuple[int, float | str]]:
    """(nodes wanted, rate sized for) of the decisions after a time."""
    return {
        (e.decision.wanted.main_nodes, e.decision.inputs["rate_per_s"])
        for e in entries
        if e.time_s >= after_s
    }


@settings(max_examples=20, deadline=None)
@given(
    load=st.sampled_from([(200.0, 4), (300.0, 6), (80.0, 2)]),
    start=st.integers(100, 110),
    length=st.integers(1, 14),
    trigger_s=st.sampled_from([5.0, 2.0, 0.0]),
)
@example(load=(200.0, 4), start=100, length=14, trigger_s=5.0)
@example(load=(200.0, 4), start=103, length=12, trigger_s=5.0)
@example(load=(300.0, 6), start=102, length=9, trigger_s=5.0)
def test_a_constant_load_is_handled_through_an_outage_of_metrics(
    load: tuple[float, int], start: int, length: int, trigger_s: float
) -> None:
    rate, nodes = load
    run = on_tiny_spark(rate, nodes, (start, start + length), trigger_s=trigger_s)
    blind = [e for e in run.entries if start <= e.time_s < start + length]
    assert blind[0].time_s == start
    assert all(e.verdict == "hold" and e.decision.bound_by[0].name == "missing data" for e in blind)
    seen = on_tiny_spark(rate, nodes, None, trigger_s=trigger_s)
    assert [(e.time_s, e.decision.wanted) for e in run.acts()] == [
        (e.time_s, e.decision.wanted) for e in seen.acts()
    ]
    sizes, sighted = decided(list(run.entries), start + length), decided(list(seen.entries), SETTLED_S)
    assert {size for size, _ in sizes} == {size for size, _ in sighted}
    rates = [float(rate) for _, rate in sizes]
    assert min(rates) >= 0.9 * rate, "an outage is not idleness"
    assert max(rates) <= 1.1 * rate, "nor an endless batch"


@pytest.mark.parametrize("length", [3, 8, 14])
def test_the_first_observation_after_an_outage_is_acted_on(length: int) -> None:
    def load(time_s: float) -> float:
        return 80.0 if time_s < 100.0 else 700.0

    def grown_s(blind: tuple[float, float] | None) -> float:
        run = run_loop(FakeQuery(load, TWELVE), seconds=170, nodes=2, blind=blind)
        first = run.acts(101)[0]
        assert first.decision.wanted.main_nodes > first.before.main_nodes
        return first.time_s

    seen_s = grown_s(None)
    for until_s in (seen_s + 1, seen_s + length):
        assert grown_s((until_s - length, until_s)) == until_s


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("length", [5, 14])
def test_a_constant_load_is_kept_on_both_simulated_engines(engine: str, length: int) -> None:
    def acts(*faults: MissingMetrics) -> list[tuple[float, int]]:
        scenario = Scenario(
            engine=built_in_engine("top-words", engine), load=parse_load("constant(300)"), seconds=400.0,
            faults=faults, cycle_s=1.0,
        )  # fmt: skip
        run = run_simulation(scenario, make_strategy("capacity")).run
        for entry in run.decisions:
            for fault in faults:
                if fault.from_s <= entry.time_s < fault.until_s:
                    assert [c.name for c in entry.decision.bound_by] == ["missing data"]
        return [(e.time_s, e.decision.wanted.main_nodes) for e in run.decisions if e.verdict == "act"]

    seen = acts()
    assert max(time_s for time_s, _ in seen) < 200, "by then it has found its size"
    for start in (203, 206, 209):
        assert acts(MissingMetrics(from_s=start, until_s=start + length)) == seen


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", STRATEGIES)
def test_no_strategy_acts_on_a_failed_observation(name: str, engine: str) -> None:
    """A load that rises and falls, with an outage of some seconds every half minute."""
    blind = [(30.0 * k, 30.0 * k + 1 + k % 14) for k in range(1, 30)]
    scenario = Scenario(
        engine=built_in_engine("top-words", engine),
        load=parse_load("square(base=100, peak=1200, period=200s)"),
        seconds=900.0,
        faults=tuple(MissingMetrics(from_s=from_s, until_s=until_s) for from_s, until_s in blind),
        cycle_s=1.0,
    )
    run = run_simulation(scenario, make_strategy(name)).run
    for entry in run.decisions:
        if any(from_s <= entry.time_s < until_s for from_s, until_s in blind):
            assert entry.verdict == "hold"
            assert [c.name for c in entry.decision.bound_by] == ["missing data"]
