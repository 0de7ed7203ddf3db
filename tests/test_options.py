"""Options: each is declared once, every source is read and checked, and the strongest source wins."""

from __future__ import annotations

import inspect
import itertools
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow import options as module
from ebbflow.cli.config import reference_page
from ebbflow.control.attach import attach
from ebbflow.core.limits import Limits
from ebbflow.core.parameters import PYTHON_ONLY, Kind, Part, declared
from ebbflow.core.ports import Guard
from ebbflow.core.slo import DEFAULT_SLO
from ebbflow.errors import InputError
from ebbflow.guards import BUILT_IN, CoolDown, StepCap
from ebbflow.options import (
    GENERAL,
    Configuration,
    Source,
    from_arguments,
    from_command_line,
    from_environment,
    from_file,
    from_spark,
    options,
)
from ebbflow.strategies import STRATEGIES
from ebbflow.strategies.static import Static
from ebbflow.targets.spark.act.actuator import GrowTimes
from ebbflow.targets.spark.act.draining import ShrinkTimes

ROOT = Path(__file__).resolve().parent.parent
NOT_OPTIONS = {"spark", "queries", "options", "config", "clock", "on_cycle", "master_web_url"}


# -- declarations ------------------------------------------------------------------------------------------


def test_arguments_of_attach_are_the_general_options_and_have_no_default_of_their_own() -> None:
    signature = inspect.signature(attach).parameters
    assert set(signature) - NOT_OPTIONS == {option.argument for option in GENERAL}
    assert all(signature[option.argument or ""].default is None for option in GENERAL)


def factories() -> Iterator[tuple[str, Any]]:
    yield from (("strategy." + name, STRATEGIES[name]) for name in STRATEGIES)
    yield from (("guards." + name, kind) for name, kind in BUILT_IN.items())
    yield from (("shrink", ShrinkTimes), ("grow", GrowTimes))


@pytest.mark.parametrize(("table", "factory"), list(factories()), ids=str)
def test_every_plain_argument_is_an_option_and_every_option_an_argument(table: str, factory: Any) -> None:
    hints = get_type_hints(factory.__init__, include_extras=True)
    signature = inspect.signature(factory).parameters
    for argument in signature.values():
        notes = getattr(hints[argument.name], "__metadata__", ())
        plain = isinstance(argument.default, bool | int | float | str)
        assert not plain or notes, f"{table}: {argument.name} has no note; declare it or mark it PYTHON_ONLY"
        assert all(isinstance(note, Kind | Part) or note is PYTHON_ONLY for note in notes)
    known = options()
    for key, parameter in declared(factory).items():
        option = known[f"{table}.{key}"]
        owner = signature if parameter.part is None else inspect.signature(parameter.part[1]).parameters
        assert option.default == owner[parameter.argument].default
        assert option.meaning.endswith("."), f"{option.key} needs a sentence"
        if option.default is not None:
            text = option.written(option.default)
            assert option.kind.parse(text) == option.default, "the default is within its own bounds"
    assert {key for key in known if key.startswith(f"{table}.") and key != "guards.add"} == {
        f"{table}.{key}" for key in declared(factory)
    }


def test_names_of_options_are_unique_in_every_source() -> None:
    known = options().values()
    for names in ([o.key for o in known], [o.environment for o in known], [o.spark for o in known]):
        assert len(set(names)) == len(names)


def test_the_reference_page_is_current() -> None:
    """A new strategy appears on the page with the next `make docs`; everything else must be current."""
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8").rstrip().split("\n\n### ")
    generated = reference_page().rstrip().split("\n\n### ")
    assert [section for section in page if section not in generated] == [], "run `make docs`"
    missing = [section for section in generated if section not in page]
    assert [section for section in missing if not section.startswith("`[strategy.")] == [], "run `make docs`"


def test_the_default_slo_exists_once() -> None:
    assert options()["slo"].default is DEFAULT_SLO
    packages = [path for path in (ROOT / "src").rglob("*.py") if "papers" not in path.parts]
    literal = "Slo(freshness_s=30.0, quantile=0.95)"
    holders = [path.name for path in packages if f"= {literal}" in path.read_text(encoding="utf-8")]
    assert holders == ["slo.py"]


# -- precedence --------------------------------------------------------------------------------------------


def sources(key: str, values: list[Any], folder: Path) -> list[Source]:
    """All five sources, strongest first, each with a value of its own for one key."""
    option = options()[key]
    texts = [option.kind.write(value) for value in values]
    argument = {option.argument: values[0]} if option.argument else {}
    table, _, last = key.rpartition(".")
    line = f'{last} = "{texts[4]}"'
    file = folder / "ebbflow.toml"
    file.write_text(f"[{table}]\n{line}" if table else line)
    return [
        from_arguments(argument, {} if option.argument else {key: values[0]}),
        from_command_line(
            {key: texts[1]} if option.flag else {}, [] if option.flag else [f"{key}={texts[1]}"]
        ),
        from_spark({f"spark.ebbflow.{key}": texts[2], "spark.executor.cores": "2"}),
        from_environment({option.environment: texts[3], "HOME": "/"}),
        from_file(file),
    ]


@pytest.mark.parametrize("key", ["cycle", "executors", "shrink.deadline", "strategy.capacity.hold_in"])
def test_the_strongest_source_wins_whichever_subset_of_them_sets_an_option(key: str, tmp_path: Path) -> None:
    values: list[Any] = [11.0, 12.0, 13.0, 14.0, 15.0]
    if key == "executors":
        values = [Limits(min_nodes=1, max_nodes=int(value)) for value in values]
    every = sources(key, values, tmp_path)
    default = options()[key].default
    for chosen in itertools.product([False, True], repeat=5):
        present = [source for source, taken in zip(every, chosen, strict=True) if taken]
        expected = next((value for value, taken in zip(values, chosen, strict=True) if taken), default)
        for order in (present, present[::-1]):
            configuration = Configuration(order)
            assert configuration[key] == expected
            assert (configuration.given(key) is None) is (not present)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.sampled_from(["cycle", "shrink.deadline", "grow.withdraw_after", "guards.cool-down.in"]),
            st.integers(1, 99),
        ),
        max_size=12,
        unique_by=lambda each: each[:2],
    )
)
def test_each_option_is_decided_on_its_own(settings: list[tuple[int, str, int]]) -> None:
    def source(rank: int) -> Source:
        mine = {key: value for at, key, value in settings if at == rank}
        if rank == 0:
            return from_arguments({}, mine)
        if rank == 1:
            return from_command_line({}, [f"{key}={value}s" for key, value in mine.items()])
        if rank == 2:
            return from_spark({f"spark.ebbflow.{key}": f"{value}s" for key, value in mine.items()})
        known = options()
        return from_environment({known[key].environment: f"{value}" for key, value in mine.items()})

    configuration = Configuration([source(rank) for rank in range(4)])
    for key in {key for _, key, _ in settings}:
        values = [value for rank, at, value in sorted(settings) if at == key and rank < 4]
        assert configuration[key] == (float(values[0]) if values else options()[key].default)


@pytest.mark.parametrize("policy_at", range(5))
@pytest.mark.parametrize("strategy_at", range(5))
def test_of_policy_and_strategy_the_stronger_source_decides(
    policy_at: int, strategy_at: int, tmp_path: Path
) -> None:
    def source(rank: int) -> Source:
        mine = {"policy": "rules.toml"} if rank == policy_at else {}
        mine |= {"strategy": "hpa"} if rank == strategy_at else {}
        file = tmp_path / "ebbflow.toml"
        file.write_text("".join(f'{key} = "{value}"\n' for key, value in mine.items()))
        return [
            lambda: from_arguments(mine),
            lambda: from_command_line(mine),
            lambda: from_spark({f"spark.ebbflow.{key}": value for key, value in mine.items()}),
            lambda: from_environment({f"EBBFLOW_{key.upper()}": value for key, value in mine.items()}),
            lambda: from_file(file),
        ][rank]()

    if policy_at == strategy_at:
        with pytest.raises(InputError, match="contradict each other"):
            source(policy_at)
        return
    configuration = Configuration([source(rank) for rank in range(5)])
    assert (configuration.policy is not None) is (policy_at < strategy_at)
    assert configuration.strategy_expression == ("rules" if policy_at < strategy_at else "hpa")


def test_a_missing_policy_file_is_reported_with_its_source(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    configuration = Configuration([from_environment({"EBBFLOW_POLICY": str(file)})])
    with pytest.raises(InputError, match=f"^EBBFLOW_POLICY: there is no policy file {file}$"):
        configuration.existing_policy()
    file.touch()
    assert configuration.existing_policy() == file


def test_arguments_of_a_strategy_expression_count_as_options_of_the_same_source() -> None:
    line = from_command_line({"strategy": "capacity(budget_out=0.5)"})
    variables = from_environment(
        {"EBBFLOW_STRATEGY_CAPACITY_BUDGET_OUT": "0.2", "EBBFLOW_STRATEGY_CAPACITY_HOLD_IN": "1m"}
    )
    configuration = Configuration([variables, line])
    assert configuration.strategy_expression == "capacity(budget_out=0.5, hold_in=1m)"
    assert configuration.setting("strategy.capacity.budget_out").where == "--strategy"
    made: Any = configuration.make_strategy({})
    assert (made.budget_out, made._hold_in_s) == (0.5, 60.0)
    with pytest.raises(
        InputError, match=r"--strategy and --set .* both set|both set strategy.capacity.budget_out"
    ):
        from_command_line({"strategy": "capacity(budget_out=0.5)"}, ["strategy.capacity.budget_out=0.2"])


# -- sources -----------------------------------------------------------------------------------------------

GOOD = """
executors = "2:8"
slo = "freshness p95 <= 10s"
agents = ["tcp://127.0.0.1:1", "tcp://127.0.0.1:2"]
dry_run = true
cycle = 2
store = "run.sqlite"

[strategy]
name = "symbiotic"

[strategy.symbiotic]
core_max = 0.7
nodes = false

[guards]
cool-down.in = "30s"

[guards.step-cap]
out_nodes = 5

[shrink]
deadline = "60s"
"""


def test_a_file_sets_options_of_all_kinds(tmp_path: Path) -> None:
    file = tmp_path / "ebbflow.toml"
    file.write_text(GOOD)
    configuration = Configuration([from_file(file)])
    assert str(configuration["executors"]) == "2:8"
    assert configuration["slo"].freshness_s == 10.0
    assert configuration["agents"] == ("tcp://127.0.0.1:1", "tcp://127.0.0.1:2")
    assert (configuration["dry_run"], configuration["cycle"]) == (True, 2.0)
    assert configuration["store"] == tmp_path / "run.sqlite", "relative to the file"
    assert configuration.shrink_times == ShrinkTimes(deadline_s=60.0)
    made: Any = configuration.make_strategy({})
    assert made.name == "symbiotic"
    guards = {type(guard): guard for guard in configuration.make_guards(STRATEGIES["capacity"]())}
    cool_down: Any = guards[CoolDown]
    step_cap: Any = guards[StepCap]
    assert (cool_down._out_s, cool_down._in_s) == (3.0, 30.0)
    assert (step_cap._out_nodes, step_cap._out_factor) == (5, 2.0)
    assert pickle.loads(pickle.dumps(configuration)).strategy_expression == configuration.strategy_expression


BAD_FILES = {
    "sloo = 'freshness p95 <= 1s'": "sloo: there is no such option; did you mean 'slo'?",
    "budget_out = 0.5": "did you mean 'strategy.capacity.budget_out'?",
    "[shrink]\ndead_line = '60s'": "shrink.dead_line: there is no such option; did you mean 'shrink.deadline'?",
    "[strategy.capasity]\nbudget_out = 0.5": "did you mean 'strategy.capacity.budget_out'?",
    "[strategy.capacity]\nbudget_out = '0.5'": "it must be a number above 0 and at most 1",
    "[strategy.capacity]\nbudget_out = 7": "7 is invalid; it must be a number above 0 and at most 1",
    "[strategy.dask]\nwait_count = 2.5": "2.5 is invalid; it must be a whole number at least 1",
    "[strategy.flink]\nslot_sharing = 1": "1 is invalid; it must be true or false",
    "slo = 30": "30 is invalid; it must be an SLO",
    "slo = 'soon'": "'soon' is not an SLO",
    "executors = '5:2'": "did you mean 2:5?",
    "executors = 5": "the fewest and the most executors",
    "cycle = 0": "it must be a duration at least 50ms",
    "cycle = 'soon'": "is not a duration",
    "dry_run = 'yes'": "it must be true or false",
    "agents = 7": "it must be a list",
    "strategy = 'capasity'": "did you mean 'capacity'?",
    "strategy = 'capacity(budget_out=7)'": "7 is invalid",
    "policy = 'a.toml'\nstrategy = 'hpa'": "contradict each other",
    "strategy = 'hpa'\n[strategy.hpa]\ntarget = 0.5": "write [strategy] with name",
    "slo = ": "is not TOML",
    "[guards]\nadd = ['nightly']": "unknown guard 'nightly'",
    "zzzzzz = 1": "`ebbflow config show` lists all options",
}


@pytest.mark.parametrize(("text", "words"), BAD_FILES.items(), ids=lambda each: str(each)[:40])
def test_an_invalid_file_is_one_line_that_names_it(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        from_file(file)
    assert words in str(error.value)
    assert str(file) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the configuration"):
        from_file(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        from_file(tmp_path / "bytes.toml")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (lambda: from_environment({"EBBFLOW_SL": "x"}), "EBBFLOW_SL: there is no such option; did you mean 'EBB"),
        (lambda: from_environment({"EBBFLOW_SLO": "soon"}), "EBBFLOW_SLO: 'soon' is not an SLO"),
        (lambda: from_environment({"EBBFLOW_DRY_RUN": "1"}), "EBBFLOW_DRY_RUN: 1 is invalid; it must be true or false"),
        (lambda: from_spark({"spark.ebbflow.sloo": "x"}), "no such option; did you mean 'spark.ebbflow.slo'?"),
        (lambda: from_spark({"spark.ebbflow.shrink.deadline": "-5s"}), "shrink.deadline: '-5s' is not a dur"),
        (lambda: from_command_line({}, ["cycle"]), "--set cycle: it has no value; write it like --set cycle=1s"),
        (lambda: from_command_line({}, ["policy"]), "write it like --set policy=VALUE"),
        (lambda: from_command_line({}, ["nonsense"]), "--set nonsense: there is no such option; `ebbflow config"),
        (lambda: from_command_line({"slo": "soon"}), "--slo: 'soon' is not an SLO"),
        (lambda: from_command_line({"slo": str(DEFAULT_SLO)}, ["slo=freshness <= 1s"]), "both set slo"),
        (lambda: from_arguments({"executors": (5, 2)}), "attach(executors=…): 5:2 has its minimum above its maximum"),
        (lambda: from_arguments({"executors": (True, 4)}), "attach(executors=…): (True, 4) is invalid"),
        (lambda: from_arguments({"executors": (1.5, 4)}), "attach(executors=…): (1.5, 4) is invalid"),
        (lambda: from_arguments({"executors": (1, 2, 3)}), "attach(executors=…): (1, 2, 3) is invalid"),
        (lambda: from_arguments({"executors": 5}), "attach(executors=…): 5 is invalid; it must be the fewest and"),
        (lambda: from_arguments({"slo": f"freshness <= {'9' * 400}s"}), "is too long; write it like 30s or 1h"),
        (lambda: from_arguments({"cycle_s": -1}), "attach(cycle_s=…): -1 is invalid"),
        (lambda: from_arguments({"cycle_s": "x"}), "attach(cycle_s=…): 'x' is not a duration"),
        (lambda: from_arguments({"slo": 30}), "attach(slo=…): 30 is invalid; it must be an SLO"),
        (lambda: from_arguments({"cycle_s": float("nan")}), "attach(cycle_s=…): nan is invalid"),
        (lambda: from_arguments({"strategy": STRATEGIES["hpa"]}), "is invalid; it must be a name like 'capacity'"),
        (lambda: from_arguments({}, {"shrink.deadlin": 3}), "attach(options={'shrink.deadlin': …}): there is no such"),
    ],
)  # fmt: skip
def test_an_invalid_value_is_one_line_that_names_source_and_key(source: Any, words: str) -> None:
    with pytest.raises(InputError) as error:
        source()
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_an_invalid_value_is_an_error_even_if_a_stronger_source_overrides_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ebbflow.toml").write_text("slo = 'soon'")
    with pytest.raises(InputError, match=r"ebbflow\.toml, slo"):
        Configuration.read(environment={"EBBFLOW_SLO": str(DEFAULT_SLO)})


def test_the_file_is_the_one_given_else_of_the_variable_else_in_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Configuration.read(environment={}).given("cycle") is None
    for name, seconds in (("ebbflow.toml", 2), ("variable.toml", 3), ("given.toml", 4)):
        (tmp_path / name).write_text(f"cycle = {seconds}")
    assert Configuration.read(environment={})["cycle"] == 2.0
    named = {"EBBFLOW_CONFIG": str(tmp_path / "variable.toml")}
    assert Configuration.read(environment=named)["cycle"] == 3.0
    assert Configuration.read("given.toml", named)["cycle"] == 4.0


def test_variables_of_other_tools_of_the_repository_are_not_options() -> None:
    assert from_environment(dict.fromkeys(module.OTHER_VARIABLES, "1")).settings == {}
    assert not module.OTHER_VARIABLES & {option.environment for option in options().values()}


# -- plug-ins ----------------------------------------------------------------------------------------------


class FakeEntryPoint:
    name = "nightly"
    value = "my_package:Nightly"

    def load(self) -> Any:
        from ebbflow.core.ports import Guard

        class Nightly(Guard):
            name = "nightly"

            def __init__(self, *, opens_s: float = 3600.0) -> None:
                self.opens_s = opens_s

            def restrain(self, snapshot: Any, decision: Any) -> Any:
                return decision

        return Nightly


def test_an_installed_guard_is_added_by_name_with_its_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbflow.core.plugins.entry_points", lambda group: [FakeEntryPoint()])
    source = from_environment({"EBBFLOW_GUARDS_ADD": "nightly", "EBBFLOW_GUARDS_NIGHTLY_OPENS": "2h"})
    configuration = Configuration([source])
    names = [guard.name for guard in configuration.make_guards(STRATEGIES["capacity"]())]
    assert names == ["backlog", "cool-down", "step cap", "nightly", "bounds", "missing data"]
    (nightly,) = (g for g in configuration.make_guards(STRATEGIES["flink"]()) if g.name == "nightly")
    assert vars(nightly) == {"opens_s": 7200.0}
    with pytest.raises(InputError, match="did you mean 'nightly'"):
        from_environment({"EBBFLOW_GUARDS_ADD": "nightli"})


def test_a_plug_in_that_cannot_be_loaded_is_skipped_until_it_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(FakeEntryPoint):
        name = "broken"

        def load(self) -> Any:
            raise ImportError("no module named nightly")

    monkeypatch.setattr("ebbflow.core.plugins.entry_points", lambda group: [Broken()])
    assert "slo" in options()
    assert "slo" in options()
    assert caplog.text.count("guard 'broken' cannot be loaded") == 1
    with pytest.raises(InputError, match="guard 'broken' cannot be loaded"):
        from_environment({"EBBFLOW_GUARDS_ADD": "broken"})


def test_a_guard_plug_in_of_another_kind_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(FakeEntryPoint):
        name = "wrong"

        def load(self) -> Any:
            return dict

    monkeypatch.setattr("ebbflow.core.plugins.entry_points", lambda group: [Wrong()])
    assert "slo" in options()
    with pytest.raises(
        InputError,
        match="guard 'wrong' cannot be loaded from my_package:Nightly: it must be a",
    ):
        from_environment({"EBBFLOW_GUARDS_ADD": "wrong"})


def test_contradictory_parameters_are_an_error_that_names_their_sources() -> None:
    variables = from_environment({"EBBFLOW_STRATEGY_JOINT_CORE_MIN": "0.9"})
    line = from_command_line({"strategy": "joint(core_max=0.3)"})
    with pytest.raises(InputError) as error:
        Configuration([variables, line]).make_strategy({})
    assert str(error.value).startswith(
        "EBBFLOW_STRATEGY_JOINT_CORE_MIN and --strategy: strategy joint: core_min 0.9"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[guards]\ncool-down = 3",
            "no such option; it is a table: did you mean 'guards.cool-down.",
        ),
        ("[shrink]\ndeadline = true", "shrink.deadline: true is invalid; it must be"),
    ],
)
def test_hints_are_about_what_was_written(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "ebbflow.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=words):
        from_file(file)


def test_an_option_that_is_set_twice_on_the_command_line_says_so() -> None:
    with pytest.raises(InputError, match=r"^--set cycle is given twice; leave one of them out$"):
        from_command_line({}, ["cycle=1s", "cycle=2s"])


def test_objects_without_a_name_are_refused() -> None:
    class Nameless(Static):
        name = ""

    with pytest.raises(
        InputError, match=r"attach\(strategy=…\): Nameless has no name; set the class attribute name"
    ):
        from_arguments({"strategy": Nameless()})
    with pytest.raises(InputError, match=r"attach\(guards=…\): Unnamed has no name"):
        from_arguments({"guards": [Unnamed()]})


class Unnamed(Guard):
    def restrain(self, _snapshot: Any, decision: Any) -> Any:
        return decision
