"""The strategy: what it decides, what it learns from, how safely it explores, and what its teacher is for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ebbflow.core.batches import Batch
from ebbflow.core.decision import Decision
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.ports import Strategy
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.snapshot import ActionKind, ActionUnderWay, Snapshot
from ebbflow.errors import InputError
from ebbflow.options import Configuration, from_command_line, from_file, from_spark
from ebbflow.runs.score import score
from ebbflow.runs.simulation import run_simulation
from ebbflow.runs.spec import Spec
from ebbflow.strategies import make_strategy
from ebbflow.strategies.learner import Learner
from ebbflow.strategies.learner.state import Action, Direction, State
from ebbflow.testing.snapshots import make_batch, make_snapshot

TABLE_5_4 = {
    "minExecutors", "maxExecutors", "executorGranularity", "maxLatency", "targetLatency", "latencyGranularity",
    "incomingMessageGranularity", "windowSize", "learningFactor", "discountFactor", "initializationMode", "epsilon",
    "epsilonStep", "valueIterationInitializationCount", "valueIterationInitializationTime", "policy", "reward",
    "decisionInterval", "executorStrategy", "seed",
}  # fmt: skip


def batch(ended_s: float, latency_s: float, rate: float = 100.0, **changes: Any) -> Batch:
    return make_batch(ended_s, latency_s, arrival_rate_per_s=rate, trigger_interval_s=5.0, **changes)


def snapshot(now_s: float, nodes: int, *batches: Batch, **changes: Any) -> Snapshot:
    return make_snapshot(now_s, nodes, batches, queries={"q": None}, **changes)


def decide(
    agent: Strategy, steps: Sequence[tuple[float, float]], nodes: int = 4, **changes: Any
) -> list[Decision]:
    """One decision every 10 s, for (latency, rate). The plan stays as it is unless ``follow``."""
    follow, decisions = changes.pop("follow", False), []
    for number, (latency_s, rate) in enumerate(steps):
        now_s = 10.0 * number
        decision = agent.decide(snapshot(now_s, nodes, batch(now_s, latency_s, rate), **changes))
        nodes = decision.wanted.main_nodes if follow else nodes
        decisions.append(decision)
    return decisions


# -- parameters --------------------------------------------------------------------------------------------


def test_all_twenty_parameters_of_table_5_4_are_in_the_spark_configuration_under_their_own_names() -> None:
    settings = {
        "minExecutors": "2", "maxExecutors": "9", "executorGranularity": "2", "maxLatency": "40s",
        "targetLatency": "12s", "latencyGranularity": "2s", "incomingMessageGranularity": "500", "windowSize": "30s",
        "learningFactor": "0.2", "discountFactor": "0.9", "initializationMode": "optimized", "epsilon": "0.2",
        "epsilonStep": "0.01", "valueIterationInitializationCount": "50", "valueIterationInitializationTime": "10m",
        "policy": "greedy", "reward": "prefer-no-action", "decisionInterval": "20s", "executorStrategy": "queue-aware",
        "seed": "7",
    }  # fmt: skip
    assert set(settings) == TABLE_5_4
    prefixed = {f"spark.streaming.dynamicAllocation.{name}": value for name, value in settings.items()}
    of_sparks_own = {"spark.streaming.dynamicAllocation.enabled": "true", "spark.ebbflow.strategy": "learner"}
    made = Configuration().with_spark({**prefixed, **of_sparks_own}).make_strategy({})
    assert isinstance(made, Learner)
    assert made._bounds == (2, 9)
    assert made._parameters == {
        "latencyGranularity": 2.0, "maxLatency": 40.0, "targetLatency": 12.0, "incomingMessageGranularity": 500.0,
        "windowSize": 30.0, "decisionInterval": 20.0, "discountFactor": 0.9, "reward": "prefer-no-action",
        "executorStrategy": "relative", "executorGranularity": 2,
    }  # fmt: skip


def test_parameters_come_from_toml_and_set_and_expressions_alike(tmp_path: Path) -> None:
    file = tmp_path / "ebbflow.toml"
    file.write_text(
        '[strategy]\nname = "learner"\n[strategy.learner]\ntargetLatency = "6s"\ntable = "t.json"\n'
    )
    from_toml = Configuration([from_file(file)]).make_strategy({})
    assert from_toml._parameters["targetLatency"] == 6.0  # type: ignore[attr-defined]
    assert from_toml.state_file == tmp_path / "t.json", "relative to the file that names it"
    line = from_command_line({"strategy": "learner(policy=greedy)"}, ["strategy.learner.targetLatency=6s"])
    assert Configuration([line]).strategy_expression == "learner(policy=greedy, targetLatency=6s)"


def test_the_same_parameter_under_both_spark_keys_is_an_error() -> None:
    both = {
        "spark.streaming.dynamicAllocation.seed": "1",
        "spark.ebbflow.strategy.learner.seed": "2",
    }
    with pytest.raises(InputError, match=r"both set strategy\.learner\.seed"):
        from_spark(both, "learner")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("latencyGranularity=0s", "latencyGranularity: 0s is invalid; it must be a duration above 0s"),
        (
            "targetLatency=60s",
            "targetLatency is 60 and maxLatency is 30; targetLatency must be at most maxLatency",
        ),
        ("learningFactor=0", "learningFactor: 0 is invalid; it must be a number above 0 and at most 1"),
        ("learningFactor=1.5", "learningFactor: 1.5 is invalid"),
        ("discountFactor=1", "discountFactor: 1 is invalid; it must be a number above 0 and below 1"),
        ("policy=softmax", "policy: softmax is invalid; it must be one of greedy, one-minus-epsilon"),
        ("minExecutors=5, maxExecutors=2", "minExecutors is 5 and maxExecutors is 2"),
        ('epsilonByRegion="1,2"', "epsilonByRegion is '1,2'; it must be four numbers from 0 to 1"),
        ("teacher=learner", "teacher is a learner itself"),
        ("teacher=capasity", "unknown strategy 'capasity': did you mean 'capacity'"),
        ("table=/no/such/folder/t.json", "there is no folder /no/such/folder"),
    ],
)
def test_invalid_parameters_are_refused_with_one_line(given: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        make_strategy(f"learner({given})")
    assert "\n" not in str(caught.value)


# -- deciding ----------------------------------------------------------------------------------------------


def test_it_scales_out_above_the_target_and_in_when_a_falling_load_leaves_latency_low() -> None:
    high = decide(Learner(policy="greedy"), [(12.0, 100.0), (14.0, 120.0)])[-1]
    assert high.wanted.main_nodes > 4
    assert "region 2" in high.reason
    low = decide(Learner(policy="greedy"), [(1.0, 100.0), (1.0, 80.0)])[-1]
    assert low.wanted.main_nodes == 3
    assert "region 4" in low.reason


def test_it_decides_once_per_interval_and_holds_in_between() -> None:
    agent = Learner(policy="greedy", decisionInterval=20.0)
    wanted = [d.wanted.main_nodes for d in decide(agent, [(20.0, 100.0 + k) for k in range(6)])]
    assert [nodes > 4 for nodes in wanted] == [True, False, True, False, True, False]


def test_after_a_change_only_batches_that_started_since_then_count() -> None:
    agent = Learner(policy="greedy")
    agent.decide(snapshot(0.0, 4, batch(0.0, 2.0)))
    waits = agent.decide(snapshot(10.0, 3, batch(10.0, 2.0)))
    assert waits.reason == "no data: no batch at the present size has ended"
    knows = agent.decide(snapshot(20.0, 3, batch(20.0, 6.0)))
    assert knows.inputs["latency_s"] == 6.0


def test_below_the_target_it_waits_for_a_change_under_way_and_above_it_does_not() -> None:
    under_way = [ActionUnderWay(kind=ActionKind.GROW, since_s=0.0, nodes=1)]
    agent = Learner(policy="greedy")
    agent.decide(snapshot(0.0, 4, batch(0.0, 2.0)))
    assert "under way" in agent.decide(snapshot(10.0, 4, batch(10.0, 7.0), under_way=under_way)).reason
    assert agent.decide(snapshot(20.0, 4, batch(20.0, 12.0), under_way=under_way)).wanted.main_nodes > 4


def test_scheduling_latency_is_part_of_the_latency() -> None:
    windows = Windows()
    windows.add([Reading(10.0, "q", Metric.SCHEDULING_LATENCY, 2.5)])
    decision = Learner().decide(snapshot(10.0, 4, batch(10.0, 4.0), windows=windows))
    assert decision.inputs["latency_s"] == 6.5


def test_a_running_batch_counts_before_it_ends() -> None:
    agent = Learner(policy="greedy")
    agent.decide(snapshot(0.0, 4, batch(0.0, 2.0)))
    stuck = make_snapshot(40.0, 4, (), queries={"q": 5.0})
    assert agent.decide(stuck).wanted.main_nodes == 4 + 35 // 5, "seven triggers have passed meanwhile"


def test_the_limits_of_the_run_and_of_the_parameters_both_hold() -> None:
    loads = [(25.0, 100.0 + k) for k in range(20)]
    agent = Learner(policy="greedy", maxExecutors=6)
    assert max(d.wanted.main_nodes for d in decide(agent, loads, follow=True)) == 6
    narrow = Limits(min_nodes=1, max_nodes=5)
    agent = Learner(policy="greedy", maxExecutors=6)
    decisions = decide(agent, loads, follow=True, limits=narrow)
    assert max(d.wanted.main_nodes for d in decisions) == 5
    agent = Learner(policy="greedy", minExecutors=3)
    low = decide(agent, [(0.1, 100.0 - k) for k in range(20)], follow=True)
    assert min(d.wanted.main_nodes for d in low) == 3


def test_an_idle_query_is_scaled_in() -> None:
    agent = Learner(policy="greedy")
    agent.decide(snapshot(0.0, 4, batch(0.0, 2.0)))
    assert agent.decide(make_snapshot(60.0, 4, (), queries={"q": None})).wanted.main_nodes == 3


# -- learning ----------------------------------------------------------------------------------------------


def test_it_learns_from_what_was_carried_out_not_from_what_it_proposed() -> None:
    """It proposes to scale out, but the plan stays: the step counts as no action."""
    agent = Learner(policy="greedy")
    decide(agent, [(12.0, 100.0), (14.0, 120.0), (14.0, 140.0)])
    entry = agent._table[State(28, Direction.RISING)]
    assert entry.visits == [0, 0, 1]
    agent = Learner(policy="greedy")
    decide(agent, [(12.0, 100.0), (14.0, 120.0), (14.0, 140.0)], follow=True)
    assert agent._table[State(28, Direction.RISING)].visits[Action.OUT] == 0, "no batch at the new size yet"


def test_one_update_of_sarsa_by_hand() -> None:
    """From 4 s rising, no action, to 5 s rising: n' = 5/8, R = 2 − 2n' = 0.75, A' = out or none by the initial values.

    Q(S, none) = 1 − 0.5 = 0.5 before; Q(S', ·) = (0.625, 0, 0.375), so A' is out. With α = 0.1 and γ = 0.5:
    0.9 · 0.5 + 0.1 · (0.75 + 0.5 · 0.625) = 0.55625.
    """
    agent = Learner(policy="greedy", learningFactor=0.1, discountFactor=0.5)
    decide(agent, [(4.0, 100.0), (4.0, 110.0), (5.0, 120.0)])
    assert agent._table[State(8, Direction.RISING)].values[Action.NONE] == pytest.approx(0.55625)


def test_a_gap_without_snapshots_is_not_learned_from() -> None:
    agent = Learner(policy="greedy")
    agent.decide(snapshot(0.0, 4, batch(0.0, 2.0)))
    agent.decide(snapshot(600.0, 4, batch(600.0, 20.0)))
    assert agent._table.visits == 0
    agent.decide(snapshot(610.0, 4, batch(610.0, 20.0)))
    assert agent._table.visits == 1, "the control"


def test_value_iteration_sets_the_table_after_the_time_of_counting() -> None:
    agent = Learner(policy="greedy", valueIterationInitializationTime=50.0, reward="prefer-no-action")
    steps = [(3.0, 100.0)] * 5
    decide(agent, steps)
    entry = agent._table[State(6, Direction.FALLING)]
    assert entry.visits[Action.NONE] == 4
    assert entry.values[Action.NONE] == pytest.approx(
        0.375 * -0.5 * 0 + (3 / 8 - 1) / 2 / (1 - 0.5), abs=1e-5
    )


# -- exploring ---------------------------------------------------------------------------------------------


def explored(agent: Strategy, slo_broken: bool) -> int:
    late = {"oldest_arrival_s": -1000.0} if slo_broken else {}
    decisions = 0
    for number in range(200):
        now_s = 10.0 * number
        one = batch(now_s, 3.0, 100.0 + number % 2, **late)
        decisions += "explores" in agent.decide(snapshot(now_s, 4, one)).reason
    return decisions


def test_it_does_not_explore_while_rows_are_later_than_the_slo_allows() -> None:
    wild = {"policy": "one-minus-epsilon", "epsilon": 1.0}
    assert explored(Learner(**wild), slo_broken=True) == 0  # type: ignore[arg-type]
    assert explored(Learner(**wild), slo_broken=False) > 50, "the control"  # type: ignore[arg-type]


def test_the_seed_decides_what_is_explored() -> None:
    def reasons(seed: int) -> list[str]:
        agent = Learner(policy="one-minus-epsilon", epsilon=0.5, seed=seed)
        return [d.reason for d in decide(agent, [(3.0, 100.0)] * 40)]

    assert reasons(1) == reasons(1) != reasons(2)


# -- teacher -----------------------------------------------------------------------------------------------


class Wants(Strategy):
    """A teacher that wants a fixed size."""

    name = "wants"

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes

    def decide(self, snapshot: Snapshot) -> Decision:
        return Decision(
            wanted=snapshot.planned.with_nodes(self.nodes), reason=f"{self.nodes} it is", formula="n"
        )


def test_an_agent_that_knows_little_leaves_the_decision_to_its_teacher_and_says_so() -> None:
    agent = Learner(policy="greedy", teacher=Wants(7))
    decisions = decide(agent, [(1.0, 100.0), (1.0, 90.0), (1.0, 80.0)])
    assert {d.wanted.main_nodes for d in decisions} == {7}
    assert decisions[-1].reason == (
        "the teacher wants decides, because the agent is not certain of better: 7 it is"
    )


def certain(teacher: Strategy, **changes: Any) -> Learner:
    """An agent that knows that scale-in is best at 1 s and a falling load."""
    agent = Learner(teacher=teacher, **{"policy": "greedy", **changes})
    entry = agent._table[State(2, Direction.FALLING)]
    entry.values, entry.visits, entry.variance = [0.0, 1.0, 0.0], [100, 100, 100], [0.01, 0.01, 0.01]
    return agent


def test_an_agent_that_is_certain_acts_on_its_own() -> None:
    agent = certain(Wants(4))
    decision = decide(agent, [(1.0, 100.0), (1.0, 90.0)])[-1]
    assert decision.wanted.main_nodes == 3
    assert "better than the teacher's action with confidence" in decision.reason


def test_while_the_slo_is_broken_the_teacher_decides() -> None:
    agent = certain(Wants(6))
    agent.decide(snapshot(0.0, 4, batch(0.0, 1.0)))
    late = agent.decide(snapshot(10.0, 4, batch(10.0, 1.0, 90.0, oldest_arrival_s=-100.0)))
    assert late.wanted.main_nodes == 6
    assert "because the SLO is broken" in late.reason


def test_it_never_explores_against_a_scale_out_of_the_teacher() -> None:
    agent = Learner(teacher=Wants(9), policy="one-minus-epsilon", epsilon=1.0)
    assert {d.wanted.main_nodes for d in decide(agent, [(3.0, 100.0 + k % 2) for k in range(100)])} == {9}
    agent = Learner(teacher=Wants(4), policy="one-minus-epsilon", epsilon=1.0)
    assert len({d.wanted.main_nodes for d in decide(agent, [(3.0, 100.0 + k % 2) for k in range(100)])}) > 1


# -- remembering -------------------------------------------------------------------------------------------


def test_a_restarted_agent_continues_where_it_was() -> None:
    agent = Learner()
    decide(agent, [(3.0 + k % 4, 100.0 + k % 3) for k in range(50)])
    text = agent.state()
    assert text is not None
    assert agent.state() is None, "unchanged since then"
    again = Learner()
    again.restore(text)
    assert again._decisions == 50
    assert {s: again._table[s] for s in again._table} == {s: agent._table[s] for s in agent._table}
    assert json.loads(text)["decisions"] == 50


def test_strategies_without_state_keep_none() -> None:
    capacity = make_strategy("capacity")
    assert (capacity.state_file, capacity.state()) == (None, None)
    with pytest.raises(InputError, match="strategy capacity keeps no state"):
        capacity.restore("{}")


# -- in the simulator --------------------------------------------------------------------------------------


def test_with_a_teacher_a_run_is_about_as_good_as_the_teachers() -> None:
    scenario = Spec(load="sine(base=300, peak=1200, period=30m)", seconds="1h", seed=3).scenario()

    def run(expression: str) -> tuple[float, float]:
        made = score(run_simulation(scenario, make_strategy(expression)).run, oracle_node_seconds=None)
        return made.node_seconds or 0.0, made.violation or 0.0

    taught, alone = run("learner(teacher=capacity)"), run("capacity")
    assert taught[0] < 1.1 * alone[0]
    assert taught[1] <= 1.2 * alone[1] + 0.001
