"""Scenario files: the keys of the command line, and errors that name file and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbflow.errors import InputError
from ebbflow.runs.spec import Spec, read_spec, with_values
from ebbflow.targets.simulator import Continuous, MicroBatch


def written(path: Path, text: str) -> Path:
    file = path / "rush.toml"
    file.write_text(text)
    return file


def test_a_file_has_all_keys_of_the_command_line(tmp_path) -> None:
    text = """
    pipeline = "sentiment"
    engine = "micro-batch"
    load = "constant(100)"
    strategy = ["capacity", "hpa"]
    nodes = "2:9"
    initial-nodes = 4
    slo = "freshness p99 <= 1m"
    seed = 7
    seconds = "2h"
    cycle = 5
    lead-time = "45s"
    lead-noise = 0.2
    trigger = "10s"
    slots-per-node = 2
    noise = 0.1
    """
    spec = read_spec(written(tmp_path, text))
    made = spec.scenario()
    assert spec.strategies == ["capacity", "hpa"]
    assert isinstance(made.engine, MicroBatch)
    assert (made.engine.pipeline.name, made.engine.trigger_interval_s, made.engine.noise) == (
        "sentiment",
        10.0,
        0.1,
    )
    assert (str(made.limits), made.first_nodes, str(made.slo)) == ("2:9", 4, "freshness p99 <= 1m")
    assert (made.seed, made.duration_s, made.cycle_s) == (7, 7200.0, 5.0)
    assert (made.nodes.slots, made.nodes.lead_time_s, made.nodes.lead_noise) == (2, 45.0, 0.2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('lod = "constant(5)"', "unknown key of {file} 'lod': did you mean 'load'?"),
        ("seed = 'one'", '{file}, seed = "one": expected `int`, got `str`'),
        ("load = 5", "{file}, load = 5: expected"),
        ("nodes = '0:0'", "{file}, nodes: 0:0 allows no nodes at all"),
        ("slo = 'soon'", "{file}, slo: 'soon' is not an SLO"),
        ("load = 'sinus(1)'", "{file}, load: unknown load shape 'sinus'"),
        ("strategy = 'capasity'", "{file}, strategy: unknown strategy 'capasity': did you mean 'capacity'?"),
        ("strategy = []", "{file}, strategy: no strategy is named"),
        ("pipeline = 'top-word'", "{file}, pipeline: unknown pipeline"),
        ("engine = 'storm'", "{file}, engine: unknown engine"),
        ("seconds = 'long'", "{file}, seconds: 'long' is not a duration"),
        ("seconds = 0", "{file}, seconds: seconds is 0"),
        ("cycle = -1", "{file}, cycle: cycle is -1"),
        ("lead-time = 'never'", "{file}, lead-time: 'never' is not a duration"),
        ("slots-per-node = 0", "{file}, slots-per-node: nodes have 0 slots"),
        ("noise = 9", "{file}, noise: noise is 9; it must be a relative spread from 0 to 2"),
        ("seed = -3", "{file}, seed: seed is -3; it must be 0 or more"),
        ("engine = 'continuous'\ntrigger = '5s'", "{file}, trigger: the continuous engine has no trigger"),
        ("load: constant(5)", "{file} is not TOML"),
    ],
)
def test_errors_name_the_file_the_key_and_what_would_be_right(tmp_path, text: str, words: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(InputError) as error:
        read_spec(file)
    assert words.format(file=file) in str(error.value)


def test_a_missing_or_binary_file_is_an_error(tmp_path) -> None:
    with pytest.raises(InputError, match="there is no scenario file"):
        read_spec(tmp_path / "none.toml")
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read"):
        read_spec(tmp_path / "b.toml")


def test_later_values_take_precedence_and_none_changes_nothing() -> None:
    spec = Spec(load="constant(5)", nodes="2:3")
    assert with_values(spec, {"nodes": None, "seed": None}) == spec
    assert with_values(spec, {"nodes": "1:4"}).limits.max_nodes == 4


def test_a_load_must_be_given() -> None:
    with pytest.raises(InputError, match="no load is given"):
        Spec().scenario()


@pytest.mark.parametrize(
    ("load", "seconds"),
    [("constant(5)", 3600.0), ("sine(1, 9, period=2h)", 7200.0), ("sine(1, 9, period=1m)", 3600.0)],
)
def test_an_endless_load_runs_for_its_span_or_an_hour(load: str, seconds: float) -> None:
    assert Spec(load=load).scenario().duration_s == seconds


def test_both_engines_are_available() -> None:
    assert isinstance(Spec(load="constant(5)", engine="continuous").scenario().engine, Continuous)


@pytest.mark.parametrize(("rate", "nodes"), [(0, 1), (100, 1), (300, 3), (2000, 16), (90000, 16)])
def test_a_run_starts_with_the_nodes_that_its_first_minute_needs(rate: int, nodes: int) -> None:
    assert Spec(load=f"constant({rate})", seconds=3600).scenario().first_nodes == nodes
    assert Spec(load=f"constant({rate})", seconds=3600, initial_nodes=2).scenario().first_nodes == 2


@pytest.mark.parametrize("first", [0, 1, 9])
def test_a_start_outside_the_limits_is_refused(first: int) -> None:
    # One below them would beat the cheapest schedule within them: nothing grows while nothing is measured.
    with pytest.raises(InputError, match=f"{first} initial nodes are outside the limits 2:8"):
        Spec(load="constant(1)", seconds="1m", nodes="2:8", initial_nodes=first).scenario()
