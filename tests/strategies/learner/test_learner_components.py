"""Each component of the learner against an example worked by hand, and the rules that the thesis states."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.errors import InputError
from ebbflow.strategies.learner.how_many import make_how_many
from ebbflow.strategies.learner.initial import initialiser, optimal_values
from ebbflow.strategies.learner.learning import LEARNING, Next, iterate_values
from ebbflow.strategies.learner.policies import (
    TIES,
    OneMinusEpsilon,
    Situation,
    best_action,
    choose,
    feasible_actions,
    make_policy,
)
from ebbflow.strategies.learner.q_table import Entry, QTable
from ebbflow.strategies.learner.rewards import PREFER_NO_ACTION, PREFER_SCALE_IN, TABLES, reward
from ebbflow.strategies.learner.state import Action, Direction, Region, State, StateSpace
from ebbflow.strategies.learner.teacher import LEAST_VISITS, beats

OUT, IN, NONE = Action.OUT, Action.IN, Action.NONE
RISING, FALLING = Direction.RISING, Direction.FALLING
SPACE = StateSpace(granularity_s=1.0, max_latency_s=20.0, target_latency_s=10.0)


def situation(values: tuple[float, float, float] = (0.0, 0.0, 0.0), **changes: object) -> Situation:
    return Situation(**{"values": values, "feasible": TIES, "region": Region.BELOW_RISING, **changes})  # type: ignore[arg-type]


# -- states ------------------------------------------------------------------------------------------------


def test_latency_is_discretised_up_to_the_maximum() -> None:
    steps = [
        SPACE.state(latency_s, 50.0, RISING).latency for latency_s in (0.0, 0.99, 1.0, 9.99, 20.0, 500.0)
    ]
    assert steps == [0, 0, 1, 9, 20, 20]
    exact = StateSpace(granularity_s=0.1, max_latency_s=2.0, target_latency_s=1.0)
    assert [exact.state(k * 0.1, 0.0, RISING).latency for k in range(21)] == list(range(21)), (
        "no rounding error"
    )


@pytest.mark.parametrize(
    ("latency_s", "direction", "region"),
    [(9.9, RISING, 1), (10.0, RISING, 2), (10.0, FALLING, 3), (9.9, FALLING, 4)],
)
def test_the_four_regions_of_figure_5_2(latency_s: float, direction: Direction, region: int) -> None:
    assert SPACE.region(SPACE.state(latency_s, 0.0, direction)) == region


def test_a_step_that_contains_the_target_counts_as_above_it() -> None:
    space = StateSpace(granularity_s=2.0, max_latency_s=20.0, target_latency_s=9.0)
    above = [space.above(State(step, RISING)) for step in range(8)]
    assert above == [False] * 4 + [True] * 4, "the step of 8 to 10 s contains 9 s"
    assert space.first_above == 4
    assert SPACE.first_above == 10


def test_with_a_granularity_of_messages_their_level_is_part_of_the_state() -> None:
    space = StateSpace(granularity_s=1.0, max_latency_s=20.0, target_latency_s=10.0, messages_per_state=100.0)
    assert space.state(3.0, 250.0, RISING) == State(3, RISING, 2)
    assert SPACE.state(3.0, 250.0, RISING) == State(3, RISING, 0)


# -- initial values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("latency_s", "direction", "out", "none", "scale_in"),
    [
        (4.0, RISING, 0.4, 0.6, 0.0),  # 5.10
        (15.0, RISING, 1.5, 0.5, -1.0),  # 5.11
        (15.0, FALLING, 0.0, 1.0, -1.0),  # 5.12
        (4.0, FALLING, 0.0, 0.4, 0.6),  # 5.13
    ],
)
def test_the_optimal_initialiser_has_the_values_of_equations_5_10_to_5_13(
    latency_s: float, direction: Direction, out: float, none: float, scale_in: float
) -> None:
    make = initialiser("optimal", SPACE, Random(1))
    assert make(SPACE.state(latency_s, 0.0, direction)) == pytest.approx((out, scale_in, none))


def test_zero_and_random_initialisers() -> None:
    assert initialiser("zero", SPACE, Random(1))(State(3, RISING)) == (0.0, 0.0, 0.0)
    make = initialiser("random", SPACE, Random(1))
    drawn = [value for step in range(200) for value in make(State(step, RISING))]
    assert all(-1 < value < 1 for value in drawn)
    assert min(drawn) < -0.9 < 0.9 < max(drawn)


# -- policies ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last_action", [None, *Action])
@pytest.mark.parametrize("change", [-1, 0, 1])
def test_algorithm_5_forbids_the_contrary_action_only(last_action: Action | None, change: int) -> None:
    last = None if last_action is None else State(5, RISING)
    expected = {OUT, IN, NONE}
    if last_action is OUT and change > 0:
        expected.remove(IN)
    if last_action is IN and change < 0:
        expected.remove(OUT)
    assert set(feasible_actions(State(5 + change, FALLING), last, last_action)) == expected


def test_ties_go_to_no_action_then_to_scale_out() -> None:
    assert best_action(situation((1.0, 1.0, 1.0))) is NONE
    assert best_action(situation((1.0, 1.0, 0.0))) is OUT
    assert best_action(situation((0.0, 1.0, 0.0))) is IN


def test_one_minus_epsilon_draws_as_often_as_it_says() -> None:
    policy = make_policy("one-minus-epsilon", epsilon=0.3, step=1.0, factors=(1, 1, 1, 1))
    probabilities = policy.probabilities(situation((1.0, 0.0, 0.0), decisions=10**6))
    assert probabilities == pytest.approx((0.8, 0.1, 0.1)), "this policy does not decrease"
    rng = Random(1)
    drawn = [choose(probabilities, rng) for _ in range(20_000)]
    assert [drawn.count(action) / len(drawn) for action in Action] == pytest.approx([0.8, 0.1, 0.1], abs=0.01)


def test_epsilon_decreases_to_zero_and_depends_on_the_region() -> None:
    policy = OneMinusEpsilon(
        make_policy("greedy", epsilon=0, step=0, factors=()), 0.3, step=0.1, factors=(1, 0, 0, 0.5)
    )
    epsilons = [policy.epsilon(situation(decisions=decisions)) for decisions in range(5)]
    assert epsilons == pytest.approx([0.3, 0.2, 0.1, 0.0, 0.0])
    by_region = [policy.epsilon(situation(region=region)) for region in Region]
    assert by_region == pytest.approx([0.3, 0.0, 0.0, 0.15])


def test_nothing_is_explored_while_that_is_not_allowed() -> None:
    policy = OneMinusEpsilon(make_policy("greedy", epsilon=0, step=0, factors=()), 1.0)
    assert policy.probabilities(situation((1.0, 0.0, 0.0), may_explore=False)) == (1.0, 0.0, 0.0)
    assert policy.probabilities(situation((1.0, 0.0, 0.0)))[IN] > 0, "the control: else it would be"


def test_exploring_respects_the_monotonicity_constraint() -> None:
    policy = make_policy("one-minus-epsilon", epsilon=1.0, step=0.0, factors=(1, 1, 1, 1))
    assert policy.probabilities(situation(feasible=(NONE, OUT))) == (0.5, 0.0, 0.5)


# -- rewards -----------------------------------------------------------------------------------------------

tables = st.sampled_from([TABLES[PREFER_SCALE_IN], TABLES[PREFER_NO_ACTION]])
below, above = st.floats(0.01, 0.99), st.floats(1.0, 3.0)
not_fallen = (Region.BELOW_RISING, Region.ABOVE_RISING)


@given(tables, st.sampled_from(not_fallen), st.sampled_from(Direction), st.sampled_from(Action), below, above)
def test_rule_1_an_action_that_did_not_improve_latency_is_not_rewarded(
    table, region, direction, action, low, high
) -> None:
    n = high if region.above else low
    got = reward(table, region, direction, action, n)
    exceptions = {
        (Region.BELOW_RISING, RISING, OUT),  # rule 2
        (Region.ABOVE_RISING, RISING, OUT),  # rule 2
        (Region.BELOW_RISING, RISING, NONE),  # below the target there is nothing to improve
    }
    little = region is Region.BELOW_RISING and direction is FALLING and action is IN and n < 2 / 3
    assert got <= 0 or (region, direction, action) in exceptions or little


@given(tables, below, above)
def test_rule_2_while_latency_and_load_rise_scale_out_is_rewarded(table, low, high) -> None:
    assert reward(table, Region.BELOW_RISING, RISING, OUT, low) > 0
    assert reward(table, Region.ABOVE_RISING, RISING, OUT, high) > 0


@given(tables, st.sampled_from(Direction), above)
def test_rule_3_in_region_3_no_action_is_rewarded(table, direction, n) -> None:
    assert reward(table, Region.ABOVE_FALLING, direction, NONE, n) > 0


@given(below)
def test_the_two_rewards_differ_in_region_4_with_a_falling_load_only(n) -> None:
    prefers_in, prefers_none = TABLES[PREFER_SCALE_IN], TABLES[PREFER_NO_ACTION]
    assert {key[:2] for key in prefers_in if prefers_in[key] != prefers_none[key]} == {
        (Region.BELOW_FALLING, FALLING)
    }
    region4 = (Region.BELOW_FALLING, FALLING)
    assert reward(prefers_in, *region4, NONE, n) < 0 < reward(prefers_none, *region4, NONE, n)
    assert reward(prefers_none, *region4, NONE, n) > reward(prefers_none, *region4, IN, n)


def test_the_table_in_the_docstring_is_the_table_in_use() -> None:
    """Every row: region, load, then the rewards of out, in and none as expressions of n."""
    from ebbflow.strategies.learner import rewards

    cells = [line.split("|")[1:-1] for line in (rewards.__doc__ or "").splitlines() if line.startswith("| ")][
        1:
    ]
    checked = 0
    for what, load, *formulas in cells:
        region, direction = Region(int(what.strip()[0])), Direction(load.strip())
        names = [PREFER_NO_ACTION] if "no action" in what else [PREFER_SCALE_IN]
        if "prefer" not in what:
            names = [PREFER_SCALE_IN, PREFER_NO_ACTION]
        for name, (action, formula), n in itertools.product(
            names, zip((OUT, IN, NONE), formulas, strict=True), (0.2, 0.7)
        ):
            text = formula.strip().replace("−", "-").replace("2n", "2*n").replace("3n", "3*n")
            assert reward(TABLES[name], region, direction, action, n) == pytest.approx(eval(text, {"n": n}))
            checked += 1
    assert checked == 2 * 2 * 24, "both tables, every (region, direction, action), at two latencies"


# -- learning ----------------------------------------------------------------------------------------------


def test_algorithm_3_and_its_two_relatives_by_hand() -> None:
    """Q(S, A) = 1, R = 0.5, γ = 0.8, α = 0.25; Q(S', ·) = (2, −1, 1); none was chosen with π = (0.1, 0.1, 0.8)."""
    ahead = Next(values=(2.0, -1.0, 1.0), action=NONE, probabilities=(0.1, 0.1, 0.8), feasible=TIES)
    by_hand = {
        "sarsa": 0.75 * 1 + 0.25 * (0.5 + 0.8 * 1.0),
        "q-learning": 0.75 * 1 + 0.25 * (0.5 + 0.8 * 2.0),
        "expected-sarsa": 0.75 * 1 + 0.25 * (0.5 + 0.8 * (0.2 - 0.1 + 0.8)),
    }
    for name, expected in by_hand.items():
        entry = Entry(values=[1.0, 0.0, 0.0])
        entry.learn(OUT, 0.5 + 0.8 * LEARNING[name](ahead), 0.25)
        assert entry.values == pytest.approx([expected, 0.0, 0.0])


def test_equations_5_7_and_5_8_and_algorithm_4_by_hand() -> None:
    """Two states, γ = 0.5. In s, out leads to t with reward 1 twice and back to s with reward 0 twice; none stays with
    reward 0.2. In t, none stays with reward 2. So V(t) = 4 and V(s) = max(0.5 + 0.5·(V(t) + V(s))/2, …) = 2."""
    s, t = State(1, RISING), State(2, RISING)
    table = QTable(lambda _: (0.0, -9.0, 0.0))
    for got, after in ((1.0, t), (0.0, s), (1.0, t), (0.0, s)):
        table[s].count(OUT, got, after)
    table[s].count(NONE, 0.2, s)
    table[t].count(NONE, 2.0, t)
    assert table[s].visits == [4, 0, 1]
    assert table[s].reward_sums == [2.0, 0.0, 0.2]
    assert table[s].followed_by[OUT] == {t: 2, s: 2}
    solved = iterate_values(table, 0.5, most_sweeps=1000)
    assert solved.change < 1e-6
    assert table[t].values == pytest.approx([0.0, -9.0, 4.0], abs=1e-5)
    assert table[s].values == pytest.approx([2.0, -9.0, 0.2 + 0.5 * 2.0], abs=1e-5)


def test_value_iteration_stops_after_the_given_sweeps() -> None:
    s = State(1, RISING)
    table = QTable(lambda _: (0.0, 0.0, 0.0))
    table[s].count(NONE, 1.0, s)
    assert iterate_values(table, 0.5, most_sweeps=2).sweeps == 2
    assert table[s].values[NONE] == 1 + 0.5 * (1 + 0.5 * 1), "V after two sweeps is 1.5"


# -- how many ----------------------------------------------------------------------------------------------


def test_the_linear_ladder_starts_again_when_the_action_changes() -> None:
    ladder = make_how_many("linear", 2)
    actions = [OUT] * 5 + [NONE] + [OUT] * 2 + [IN] * 3 + [OUT]
    steps = [ladder.step(action, 0) for action in actions]
    assert steps == [2, 4, 8, 12, 16, 0, 2, 4, 2, 4, 8, 2]


def test_static_and_queue_aware_steps() -> None:
    static, relative = make_how_many("static", 3), make_how_many("relative", 3)
    assert [static.step(action, 7) for action in Action] == [3, 3, 0]
    assert [relative.step(action, 7) for action in Action] == [21, 3, 0]


# -- teacher -----------------------------------------------------------------------------------------------


def test_an_action_beats_the_teachers_only_with_confidence_and_visits() -> None:
    certain = {"learning_factor": 0.1, "z": 1.96}
    entry = Entry(values=[1.0, 0.0, 0.0], visits=[LEAST_VISITS] * 3, variance=[0.01] * 3)
    assert beats(entry, OUT, NONE, **certain)
    assert not beats(entry, NONE, OUT, **certain)
    entry.visits[NONE] = LEAST_VISITS - 1
    assert not beats(entry, OUT, NONE, **certain), "the teacher's action is hardly known"
    entry.visits[NONE], entry.variance[OUT] = LEAST_VISITS, 10.0
    assert not beats(entry, OUT, NONE, **certain), "the own action is uncertain"


def test_optimal_values_need_no_space() -> None:
    assert optimal_values(Region.ABOVE_FALLING, 9.0) == (0.0, -1.0, 1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target_latency_s": 30.0}, "targetLatency is 30 and maxLatency is 20"),
        ({"granularity_s": 11.0}, "latencyGranularity is 11 and targetLatency is 10"),
    ],
)
def test_a_space_without_sense_is_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        StateSpace(**{"granularity_s": 1.0, "max_latency_s": 20.0, "target_latency_s": 10.0, **changes})
