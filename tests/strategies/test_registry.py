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
from ebbflow.strategies import STRATEGIES, Registry, make_strategy
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
    registry = Registry()
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
    monkeypatch.setattr(ebbflow.strategies, "entry_points", lambda group: installed)
    registry = Registry()
    assert registry["theirs"] is Static
    assert registry["capacity"] is not Static, "a built-in strategy was replaced"
    with pytest.raises(InputError, match="strategy 'broken' cannot be loaded from no_such_package:Strategy"):
        registry["broken"]


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
