"""Plug-ins: whatever one does wrong is a line that names it, and none takes the place of a built-in."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Annotated, Any

import pytest

from ebbflow.cli.comparison import compare
from ebbflow.core.parameters import Whole
from ebbflow.core.plugins import installed, load, make
from ebbflow.core.ports import Guard
from ebbflow.errors import InputError
from ebbflow.forecasting import make_forecaster
from ebbflow.forecasting.registry import Registry
from ebbflow.guards import make_guard
from ebbflow.options import Configuration, from_command_line, from_file, options
from ebbflow.strategies import STRATEGIES, make_strategy
from ebbflow.strategies.static import Static


class Needs(Guard):
    """A guard that cannot be created without its parameter."""

    name = "needs"

    def __init__(self, *, hour: Annotated[int, Whole("Hour of the day.", at_most=23)]) -> None:
        self.hour = hour

    def restrain(self, _snapshot: Any, decision: Any) -> Any:
        return decision


class NeedsStrategy(Static):
    name = "needs-s"

    def __init__(self, *, hour: int) -> None:
        super().__init__()
        self.hour = hour


class Bursting(Static):
    name = "bursting"

    def __init__(self, *, limit: int = 3) -> None:
        raise KeyError(f"no table {limit}")


def bursting_guard() -> Guard:
    raise RuntimeError("no licence")


@pytest.fixture
def guards(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    found = [
        EntryPoint(name, f"{__name__}:{value}", "ebbflow.guards")
        for name, value in (("needs", "Needs"), ("bursting", "bursting_guard"), ("number", "int_of_nothing"))
    ]
    monkeypatch.setattr("ebbflow.core.plugins.entry_points", lambda group: found if "guards" in group else [])
    return found


def int_of_nothing() -> int:
    return 3


@pytest.mark.usefixtures("guards")
def test_a_guard_with_a_required_parameter_takes_it_from_its_table(tmp_path) -> None:
    file = tmp_path / "ebbflow.toml"
    file.write_text("[guards]\nadd = ['needs']\n[guards.needs]\nhour = 3\n")
    from_flags = from_command_line({"guards.add": ["needs"]}, ["guards.needs.hour=3"])
    for source in (from_file(file), from_flags):
        (guard,) = (g for g in Configuration([source]).make_guards(Static()) if isinstance(g, Needs))
        assert guard.hour == 3
    assert make_guard("needs(hour=4)").name == "needs"


@pytest.mark.usefixtures("guards")
@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("needs", r"--guard: guard needs needs hour; write needs\(hour=…\)"),
        (
            "bursting",
            "--guard: guard bursting cannot be created: .*bursting_guard raised RuntimeError: no licence",
        ),
        ("number", "--guard: guard number: its entry point returned 3, which is not a Guard"),
    ],
)
def test_a_guard_that_cannot_be_created_is_one_line(expression: str, words: str) -> None:
    configured = Configuration([from_command_line({"guards.add": [expression]})])
    with pytest.raises(InputError, match=words):
        configured.make_guards(Static())


@pytest.mark.usefixtures("guards")
@pytest.mark.parametrize(
    ("expression", "words"),
    [("needs(hour=99)", "at most 23"), ("needs(minute=1)", "has no parameter 'minute'")],
)
def test_arguments_of_a_guard_are_checked_when_it_is_named(expression: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        from_command_line({"guards.add": [expression]})


def test_a_strategy_that_cannot_be_created_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STRATEGIES, "needs-s", NeedsStrategy)
    monkeypatch.setitem(STRATEGIES, "bursting", Bursting)
    with pytest.raises(InputError, match=r"strategy needs-s needs hour; write needs-s\(hour=…\)"):
        make_strategy("needs-s")
    made = make_strategy("needs-s(hour=3)")
    assert isinstance(made, NeedsStrategy)
    assert made.hour == 3
    with pytest.raises(
        InputError, match=r"bursting cannot be created: .*:Bursting raised KeyError: 'no table 3'"
    ):
        make_strategy("bursting")
    unused = Configuration([from_command_line({}, ["strategy.bursting.limit=4"])])
    with pytest.raises(
        InputError, match=r"--set strategy.bursting.limit: strategy bursting cannot be created"
    ):
        unused.check_others("capacity")


def test_an_error_in_a_strategy_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Static) -> None:
        raise KeyError("ours")

    monkeypatch.setattr(Static, "__init__", broken)
    with pytest.raises(KeyError):
        make_strategy("static")


def test_a_guard_with_the_name_of_a_built_in_one_does_not_take_its_options(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = [
        EntryPoint(name, f"{__name__}:Needs", "ebbflow.guards") for name in ("step-cap", "add", "bounds")
    ]
    before = options()
    monkeypatch.setattr("ebbflow.core.plugins.entry_points", lambda group: found if "guards" in group else [])
    assert options().keys() == before.keys()
    assert options().keys() == before.keys()
    assert (
        caplog.text.count(f"guard 'step-cap' of {__name__}:Needs is ignored: a built-in has this name") == 1
    )
    with pytest.raises(InputError, match="no distribution with guards is installed"):
        make_guard("step-cap")


def test_a_name_that_is_taken_is_warned_about_for_every_kind_of_plug_in(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = [EntryPoint("mixture", f"{__name__}:Taken", "ebbflow.forecasters")]
    monkeypatch.setattr("ebbflow.core.plugins.entry_points", lambda group: found)
    assert Registry()["mixture"](60.0, 0).name == "mixture"
    assert caplog.text.count("forecaster 'mixture' of") == 1
    assert "mixture" not in installed("ebbflow.forecasters", "forecaster", ("mixture",))


def test_a_forecaster_that_raises_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(_step_s: float, _seed: int) -> Any:
        raise OSError("no model")

    monkeypatch.setattr("ebbflow.forecasting.registry.FORECASTERS", {"theirs": raising})
    with pytest.raises(
        InputError, match=r"forecaster theirs cannot be created: .*raising raised OSError: no model"
    ):
        make_forecaster("theirs", 60.0)


def test_what_is_loaded_must_be_of_the_right_kind() -> None:
    with pytest.raises(
        InputError, match="guard 'x' cannot be loaded from builtins:dict: it must be a subclass"
    ):
        load(EntryPoint("x", "builtins:dict", "ebbflow.guards"), "guard", Guard)
    assert make("guard", "x", lambda: 3, int, {}) == 3


@pytest.mark.usefixtures("guards")
def test_a_simulation_with_an_invalid_guard_does_not_begin() -> None:
    """It is one line for the command, and not one failure for each run."""
    configured = Configuration([from_command_line({"guards.add": ["needs"]})])
    with pytest.raises(InputError, match="guard needs needs hour"):
        compare([], ["static"], policies={}, workers=1, guards=configured.make_guards)
