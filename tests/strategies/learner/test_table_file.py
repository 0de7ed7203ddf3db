"""Table files: complete, readable, noticed when changed, and refused for other parameters."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ebbflow.errors import TableError
from ebbflow.strategies import make_strategy
from ebbflow.strategies.learner import Learner, table_file
from ebbflow.strategies.learner.q_table import QTable
from ebbflow.strategies.learner.state import Action, Direction, State, StateSpace

PARAMETERS: dict[str, float | int | str | None] = Learner()._parameters


def filled(states: int, seed: int = 1) -> QTable:
    """A table with random values and counts."""
    rng = Random(seed)
    table = QTable(lambda _: (rng.uniform(-1, 1), rng.uniform(-1, 1), rng.uniform(-1, 1)))
    for number in range(states):
        state = State(number % 30, rng.choice(list(Direction)), number // 30)
        for action in Action:
            table[state].count(action, rng.uniform(-1, 1), State(number % 7, Direction.RISING))
            table[state].learn(action, rng.uniform(-1, 1), 0.1)
    return table


def text(table: QTable | None = None, **changes: Any) -> str:
    parameters = {**PARAMETERS, **changes}
    made = table_file.StoredTable(parameters=parameters, decisions=0, entries={})
    return table_file.to_text(filled(20) if table is None else table, made.space, parameters, 77)


def test_a_table_comes_back_as_it_was_with_its_counts() -> None:
    table = filled(50)
    stored = table_file.from_text(text(table), "t.json")
    assert stored.entries == {state: table[state] for state in table}
    assert (stored.parameters, stored.decisions) == (PARAMETERS, 77)


def test_a_file_has_one_state_per_line_with_what_a_reader_wants() -> None:
    lines = text().splitlines()
    assert len(lines) == 20 + 2
    state = json.loads(lines[1].rstrip(","))
    assert {"latency_s", "direction", "region", "out", "in", "none"} <= set(state)


@pytest.mark.parametrize("cut", [1, 50, 400, -2, -40])
def test_a_file_that_was_cut_off_is_noticed(cut: int) -> None:
    with pytest.raises(TableError, match=r"t\.json is not a whole learner table"):
        table_file.from_text(text()[:cut], "t.json")


def test_an_edited_file_is_noticed_and_white_space_is_no_edit() -> None:
    whole = text()
    table_file.from_text(json.dumps(json.loads(whole), indent=3), "t.json")
    plain = json.loads(whole)
    plain["states"][3]["out"]["value"] += 0.25
    with pytest.raises(TableError, match="edited or damaged: its checksum does not match"):
        table_file.from_text(json.dumps(plain), "t.json")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("[1, 2]", "not a learner table"),
        ('{"format": "something"}', "not a learner table"),
        (
            '{"format": "ebbflow learner table", "version": 9}',
            "has version 9, but this Ebbflow reads version 1",
        ),
        (
            '{"format": "ebbflow learner table", "version": 1}',
            "not a whole learner table: Object missing required field",
        ),
    ],
)
def test_other_files_are_refused_with_one_line(document: str, message: str) -> None:
    with pytest.raises(TableError, match=message) as caught:
        table_file.from_text(document, "t.json")
    assert "\n" not in str(caught.value)


def test_impossible_numbers_are_refused_even_with_a_checksum() -> None:
    table = filled(3)
    table[State(2, Direction.RISING)].visits[0] = -4
    with pytest.raises(TableError, match="impossible numbers in the state '2 rising 0'"):
        table_file.from_text(text(table), "t.json")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"latencyGranularity": "2s"},
            "latencyGranularity=0.5, and this learner has latencyGranularity=2",
        ),
        ({"reward": "prefer-no-action"}, "learned with reward=prefer-scale-in"),
        ({"discountFactor": "0.9"}, "set discountFactor=0.5, or start another table"),
        ({"maxLatency": "12s"}, "learned with maxLatency=30, and this learner has maxLatency=12"),
    ],
)
def test_a_table_for_other_parameters_is_refused_and_untouched(
    tmp_path: Path, changes: dict[str, str], message: str
) -> None:
    path = tmp_path / "t.json"
    path.write_text(before := text(filled(29)))
    given = ", ".join(f"{name}={value}" for name, value in changes.items())
    with pytest.raises(TableError.__mro__[1], match=message):
        make_strategy(f"learner({given}, table={path})")
    assert path.read_text() == before


def test_parameters_that_do_not_change_the_meaning_of_a_table_may_differ(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(text())
    make_strategy(f"learner(table={path}, learningFactor=0.5, policy=greedy, learning=q-learning, seed=9)")


@pytest.mark.parametrize("seconds", [40, 20])
def test_another_maximum_is_converted_where_that_is_exact(seconds: int) -> None:
    """Up to 10 s visited, of 30: it can have 40 or 20 s, but not 5."""
    table = QTable(lambda _: (0.0, 0.0, 0.0))
    table[State(20, Direction.RISING)].count(Action.OUT, 1.0, State(4, Direction.RISING))
    stored = table_file.from_text(text(table), "t.json")
    wanted = {**PARAMETERS, "maxLatency": float(seconds)}
    assert table_file.fitting(stored, wanted, "t.json") == stored.entries
    with pytest.raises(TableError, match="maxLatency"):
        table_file.fitting(stored, {**PARAMETERS, "maxLatency": 10.0}, "t.json")


def test_a_maximum_that_was_only_reached_is_not_converted() -> None:
    """The step beyond was never left, but it was counted as a next state."""
    table = QTable(lambda _: (0.0, 0.0, 0.0))
    table[State(4, Direction.RISING)].count(Action.OUT, 1.0, State(60, Direction.RISING))
    stored = table_file.from_text(text(table), "t.json")
    with pytest.raises(TableError, match="maxLatency"):
        table_file.fitting(stored, {**PARAMETERS, "maxLatency": 40.0}, "t.json")


def test_a_space_of_a_table_is_that_of_its_parameters() -> None:
    stored = table_file.from_text(text(incomingMessageGranularity=100.0), "t.json")
    assert stored.space == StateSpace(
        granularity_s=0.5, max_latency_s=30.0, target_latency_s=8.0, messages_per_state=100.0
    )
