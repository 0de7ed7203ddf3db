"""The evaluation of Learner: what contenders do, what studies compare, means with their intervals, and the page."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t

from ebbflow.core.parameters import Duration, declared, read_arguments
from ebbflow.errors import UnknownNameError
from ebbflow.papers.learner.evaluation.contenders import (
    AFTER,
    FIRST,
    LEARNS,
    RULES,
    Calibrated,
    FirstSign,
    Hindsight,
    Measured,
    Plain,
    Reaction,
    Restrained,
    Taught,
    converged_after,
    rule_at,
    run_parts,
)
from ebbflow.papers.learner.evaluation.loads import ALL_FIVE, CHANGE_S, CHANGED, LEARNING, Loads, changed
from ebbflow.papers.learner.evaluation.page import evaluation_page
from ebbflow.papers.learner.evaluation.run import MeanOfSeeds, StudyRow, run_studies
from ebbflow.papers.learner.evaluation.studies import CAPACITY, Budget, Study, all_studies, chosen_studies
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies import STRATEGIES, make_strategy, read_strategy
from ebbflow.strategies.learner import table_file
from ebbflow.strategies.learner.q_table import Entry, QTable
from ebbflow.strategies.learner.state import Direction, State, StateSpace

LOADS = Loads()


# -- loads ----------------------------------------------------------------------------------------------------


def test_learning_and_judged_loads_differ_in_level_and_noise() -> None:
    judged, again, other = (LOADS.judged("sine", seed) for seed in (1, 1, 2))
    edges = np.arange(0.0, 601.0, 60.0)
    assert np.array_equal(judged.load.rows_between(edges), again.load.rows_between(edges))
    assert not np.array_equal(judged.load.rows_between(edges), other.load.rows_between(edges))
    assert "peak=1905" in str(judged.load)
    assert all("peak=1500" in text for text in LEARNING.values())


def test_the_changing_load_is_a_sine_and_then_has_two_levels_only() -> None:
    load = changed()
    before = load.rate_per_s(np.arange(0.0, CHANGE_S, 300.0) + 0.5)
    after = load.rate_per_s(np.arange(CHANGE_S + 1, load.duration_s, 300.0) + 0.5)
    assert len(set(before.round())) > 10
    assert set(after.round()) == {190.0, 1905.0}


# -- contenders -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_a_calibration_starts_with_the_parameters_that_a_rule_comes_with(rule: str) -> None:
    start = tuple((first - low) / (high - low) for low, high, first in RULES[rule].values())
    given = read_arguments(rule, STRATEGIES[rule], read_strategy(rule_at(rule, start)).arguments)
    defaults = {key: parameter.default for key, parameter in declared(STRATEGIES[rule]).items()}
    assert given == pytest.approx({name: defaults[name] for name in given}, rel=0.02)
    assert isinstance(declared(STRATEGIES["thresholds"])["out_after"].kind, Duration)


@pytest.mark.parametrize("rule", RULES)
def test_every_corner_of_the_search_is_a_valid_rule(rule: str) -> None:
    for corner in (0.0, 1.0):
        make_strategy(rule_at(rule, (corner,) * len(RULES[rule])))


def test_a_calibrated_rule_keeps_the_best_of_its_tries() -> None:
    rule = Calibrated(rule="spark-legacy", passes=3, on=("square",))
    parts, best = rule._search(1)
    tries = [part for part in parts if part.phase.startswith("pass ")]
    costs = [part.node_seconds / 1800 + 160 * part.violation for part in tries]
    assert len(tries) == 3
    assert (best == rule_at("spark-legacy", (50 / 110, 5 / 8, 0.23 / 0.8))) == (np.argmin(costs) == 0)


def test_a_taught_agent_is_judged_with_what_it_learned_and_reports_both() -> None:
    parts = Taught(strategy="learner", passes=2, on=("sine", "square")).run(LOADS, (ALL_FIVE, "sine"), 1)
    phases = [(part.load, part.phase) for part in parts]
    assert phases == [
        (ALL_FIVE, FIRST),
        (ALL_FIVE, LEARNS),
        (ALL_FIVE, "pass 1"),
        (ALL_FIVE, "pass 2"),
        ("sine", AFTER),
    ]
    whole = parts[1]
    assert whole.hours == 2.0
    assert whole.node_seconds == pytest.approx(parts[2].node_seconds + parts[3].node_seconds)
    assert whole.converged_after_h in (1.0, 2.0)


def test_a_deep_agent_learns_in_one_run_and_is_cut_into_passes() -> None:
    deep = Taught(strategy="deep-learner(agent=ppo)", passes=2, on=("sine",))
    first, whole, one, two = deep.run(LOADS, (ALL_FIVE,), 1)
    assert [part.phase for part in (first, whole, one, two)] == [FIRST, LEARNS, "pass 1", "pass 2"]
    assert whole.hours == 1.0
    assert whole.converged_after_h is None
    assert one.node_seconds + two.node_seconds == pytest.approx(whole.node_seconds)
    assert deep.table(1) == deep.table(1), "the same seed trained other weights"


def test_a_frozen_agent_learns_nothing_more() -> None:
    frozen = Taught(strategy="learner", passes=1, on=("sine",), frozen=True)
    after = [each.run(LOADS, ("sine",), 1)[-1] for each in (frozen, replace(frozen, frozen=False))]
    assert after[0] != after[1]


def test_the_parts_of_a_changing_load_add_up() -> None:
    run = run_simulation(LOADS.judged(CHANGED, 1), make_strategy("static-mean(nodes=12)")).run
    parts = run_parts(run, CHANGED)
    assert [part.hours for part in parts] == [4.0, 2.0, 4.0]
    assert sum(part.node_seconds for part in parts) == pytest.approx(Measured.of(run, CHANGED).node_seconds)


def test_bounds_are_bounds() -> None:
    """Hindsight is cheaper than anyone, and reacting at the first sign is late less than ``capacity``."""
    (cheapest,) = Hindsight().run(LOADS, ("square",), 1)
    (capacity,) = CAPACITY.run(LOADS, ("square",), 1)
    guarded, free = (Reaction(guarded=each).run(LOADS, ("square",), 1)[0] for each in (True, False))
    assert cheapest.node_seconds < 0.8 * capacity.node_seconds
    assert free.violation < guarded.violation < capacity.violation
    assert FirstSign().name == "first-sign"


def test_the_guards_of_an_agent_restrain_a_teacher_that_brings_its_own() -> None:
    """Without exploring, a taught agent that knows nothing is its teacher under the default guards."""
    (free,) = Plain(strategy="spark-legacy").run(LOADS, ("square",), 1)
    (restrained,) = Restrained(strategy="spark-legacy").run(LOADS, ("square",), 1)
    (taught,) = Plain(strategy="learner(teacher=spark-legacy, policy=greedy)").run(LOADS, ("square",), 1)
    assert taught.violation == restrained.violation > free.violation


def test_a_teacher_keeps_an_agent_safe_while_it_learns() -> None:
    """Never more than 1.2 times the late rows of the teacher; without one, an agent of random values is far worse."""
    (teacher,) = CAPACITY.run(LOADS, ("square",), 3)
    start = "initializationMode=random"
    (taught,) = Plain(strategy=f"learner(teacher=capacity, {start})").run(LOADS, ("square",), 3)
    (alone,) = Plain(strategy=f"learner({start})").run(LOADS, ("square",), 3)
    assert taught.violation <= 1.2 * teacher.violation
    assert alone.violation > 1.2 * teacher.violation


def test_convergence_is_when_greedy_actions_stop_changing() -> None:
    space = StateSpace(granularity_s=1.0, max_latency_s=30.0, target_latency_s=15.0)
    parameters = {
        "latencyGranularity": 1.0, "maxLatency": 30.0, "targetLatency": 15.0, "incomingMessageGranularity": None,
    }  # fmt: skip

    def table(often: list[float], rare: list[float]) -> str:
        made = QTable(lambda _: (0.0, 0.0, 0.0))
        made[State(1, Direction.RISING)] = Entry(values=often, visits=[99, 0, 0])
        made[State(2, Direction.RISING)] = Entry(values=rare, visits=[1, 0, 0])
        return table_file.to_text(made, space, parameters, 100)

    out, scale_in = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]
    assert (
        converged_after([table(scale_in, out), table(out, scale_in), table(out, out), table(out, out)]) == 2
    )
    assert (
        converged_after([table(scale_in, out), table(out, out), table(scale_in, out), table(out, out)]) == 4
    )


# -- studies and rows -----------------------------------------------------------------------------------------


def test_every_question_of_the_chapter_has_a_study() -> None:
    names = {study.name for study in all_studies(Budget(), ["trace"])}
    assert names >= {
        "initialiser", "policy", "reward", "executors", "granularity", "alpha", "gamma", "window", "epsilon",
        "samples", "convergence", "cost-of-learning", "comparison", "teacher", "transfer", "change", "traces",
    }  # fmt: skip
    with pytest.raises(UnknownNameError, match="did you mean 'alpha'"):
        chosen_studies(Budget(), ["alpa"])


def test_agents_and_rules_have_the_same_budget() -> None:
    (comparison,) = chosen_studies(Budget(whole=5), ["comparison"])
    prepared = [each for each in comparison.settings.values() if isinstance(each, Taught | Calibrated)]
    assert len(prepared) == 6
    assert {(each.passes, each.on) for each in prepared} == {(5, tuple(LEARNING))}


def test_intervals_are_students() -> None:
    values = [1.0, 2.0, 4.0, 5.0]
    low, high = t.interval(0.95, 3, loc=np.mean(values), scale=np.std(values, ddof=1) / 2)
    found = MeanOfSeeds.of(values)
    assert (found.mean - (found.half or 0), found.mean + (found.half or 0)) == pytest.approx((low, high))


@pytest.fixture(scope="module")
def small() -> tuple[list[Study], list[StudyRow]]:
    """Two studies that share a contender, with two seeds."""
    taught = Taught(strategy="learner", passes=1, on=("sine",))
    studies = [
        Study(name="one", title="One", question="Is <it>?", settings={"a": taught}, loads=("sine",)),
        Study(
            name="two",
            title="Two",
            question="Or not?",
            settings={"b": taught, "c": CAPACITY, "d": Hindsight()},
            loads=(ALL_FIVE, "sine"),
            phases=(LEARNS, AFTER),
        ),
    ]
    return studies, run_studies(studies, LOADS, seeds=2, workers=1)


def test_a_row_does_not_depend_on_the_other_studies(small: tuple[list[Study], list[StudyRow]]) -> None:
    studies, rows = small
    alone = run_studies(studies[:1], LOADS, seeds=2, workers=1)
    assert alone == [row for row in rows if row.study == "one"]
    shared = [row for row in rows if row.load == "sine" and row.setting in ("a", "b")]
    assert shared[0].node_seconds == shared[1].node_seconds


def test_costs_are_relative_to_capacity(small: tuple[list[Study], list[StudyRow]]) -> None:
    _, rows = small
    ratios = {row.setting: row.cost_ratio for row in rows if row.load == "sine" and row.study == "two"}
    assert ratios["c"] == MeanOfSeeds(mean=1.0, half=0.0)
    assert ratios["d"] is not None
    assert ratios["d"].mean < 0.8


def test_rows_have_the_fields_that_scripts_rely_on(small: tuple[list[Study], list[StudyRow]]) -> None:
    row = small[1][0].to_json()
    assert set(row) >= {"study", "setting", "load", "node_seconds", "violation", "ci95", "seeds"}
    low, high = row["ci95"]["node_seconds"]
    assert low <= row["node_seconds"] <= high
    assert low < high
    assert row["seeds"] == 2


def test_the_page_has_a_picture_for_each_study(small: tuple[list[Study], list[StudyRow]]) -> None:
    text = evaluation_page(*small, {})
    assert 'data-figure="one"' in text
    assert 'data-figure="two"' in text
    assert "Is &lt;it&gt;?" in text
    assert '"error_y"' in text
