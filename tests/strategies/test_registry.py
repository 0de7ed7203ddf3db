"""Strategies are found by name: built-in ones, those of a new file, third-party ones."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import ebbflow.strategies
import ebbflow.strategies.baselines
from ebbflow.errors import InputError, UnknownNameError
from ebbflow.strategies import STRATEGIES, StrategyRegistry, make_strategy
from ebbflow.strategies.capacity import Capacity
from ebbflow.strategies.static import Static

NEW = '''
"""A strategy in a file of its own."""

from ebbflow.core.ports import Strategy  # abstract, so not one of them
from ebbflow.strategies.static import Static


class Mine(Static):
    name = "mine"
'''


def test_a_new_file_is_all_that_a_new_strategy_needs(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "mine.py").write_text(NEW)
    package, before = ebbflow.strategies.baselines, set(STRATEGIES)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    registry = StrategyRegistry()
    assert set(registry) - before == {"mine"}
    assert registry["mine"]().name == "mine"


def test_every_strategy_is_listed_by_the_name_it_has() -> None:
    assert {name: make_strategy(name).name for name in STRATEGIES} == {name: name for name in STRATEGIES}


def test_other_distributions_add_strategies_by_entry_point(monkeypatch) -> None:
    group = "ebbflow.strategies"
    installed = [
        EntryPoint("theirs", "ebbflow.strategies.static:Static", group),
        EntryPoint("capacity", "ebbflow.strategies.static:Static", group),
        EntryPoint("broken", "no_such_package:Strategy", group),
    ]
    monkeypatch.setattr("ebbflow.core.plugins.entry_points", lambda group: installed)
    registry = StrategyRegistry()
    assert registry["theirs"] is Static
    assert registry["capacity"] is not Static, "a built-in strategy was replaced"
    with pytest.raises(InputError, match="strategy 'broken' cannot be loaded from no_such_package:Strategy"):
        registry["broken"]


def test_an_entry_point_of_another_kind_is_one_line_and_warned_about_once(monkeypatch, caplog) -> None:
    group = "ebbflow.strategies"
    installed = [
        EntryPoint("number", "math:pi", group),
        EntryPoint("class", "builtins:dict", group),
        EntryPoint("function", "builtins:print", group),
    ]
    monkeypatch.setattr("ebbflow.core.plugins.entry_points", lambda group: installed)
    registry = StrategyRegistry()
    for name in ("number", "class"):
        with pytest.raises(
            InputError, match=f"strategy '{name}' cannot be loaded from .*: it must be a subclass of"
        ):
            registry[name]
    assert "function" in registry.usable()
    assert not {"number", "class"} & set(registry.usable())
    assert caplog.text.count("cannot be loaded from") == 2


def test_a_factory_must_return_a_strategy(monkeypatch) -> None:
    monkeypatch.setitem(STRATEGIES, "theirs", lambda: 3)
    with pytest.raises(InputError, match="strategy theirs: its entry point returned 3, which is not a Strat"):
        make_strategy("theirs")


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (
            "capacity(budget_in=0.5, budget_out=0.4)",
            "budget_in is 0.5 and budget_out is 0.4; budget_in must be at most budget_out",
        ),
        ("capacity(busy_limit=0.8, busy_limit_in=0.9)", "busy_limit_in is 0.9 and busy_limit is 0.8"),
        ("spark-legacy(down_ratio=0.95)", "down_ratio is 0.95 and up_ratio is 0.9"),
        ("elastic-scaling(low=1.5)", "low is 1.5 and high is 1; low must be at most high"),
        (
            "flink(least_parallelism=9, most_parallelism=3)",
            "least_parallelism is 9 and most_parallelism is 3",
        ),
    ],
)
def test_parameters_that_contradict_each_other_are_an_error(expression: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make_strategy(expression)


@pytest.mark.parametrize(
    ("expression", "in_force"),
    [
        ("capacity", (0.4, 0.3, 1.0, 0.9)),
        ("capacity(budget_out=0.2)", (0.2, 0.15, 1.0, 0.9)),
        ("capacity(budget_out=0.9)", (0.9, 0.3, 1.0, 0.9)),
        ("capacity(budget_in=0.6)", (0.8, 0.6, 1.0, 0.9)),
        ("capacity(budget_in=0.9)", (1.0, 0.9, 1.0, 0.9)),
        ("capacity(busy_limit=0.8)", (0.4, 0.3, 0.8, 0.72)),
        ("capacity(busy_limit_in=1.8)", (0.4, 0.3, 2.0, 1.8)),
    ],
)
def test_a_parameter_of_a_pair_alone_works_and_the_other_follows(expression: str, in_force) -> None:
    made = make_strategy(expression)
    assert isinstance(made, Capacity)
    assert (made.budget_out, made.budget_in, made.busy_limit, made.busy_limit_in) == pytest.approx(in_force)


def test_parameters_are_keyword_arguments() -> None:
    assert make_strategy("static-mean", nodes=3).name == "static-mean"
    with pytest.raises(
        UnknownNameError, match="unknown parameter of static-mean 'node': did you mean 'nodes'"
    ):
        make_strategy("static-mean", node=3)
    with pytest.raises(InputError, match="strategy static has no parameters, and got nodes"):
        make_strategy("static", nodes=3)


def test_importing_the_package_loads_no_strategy() -> None:
    code = "import ebbflow.strategies, sys; print([m for m in sys.modules if m.startswith('ebbflow.strategies.')])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
