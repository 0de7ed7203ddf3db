"""The file of a profile: a written profile is read back, and an invalid one is refused in one line."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.errors import ProfileError
from ebbflow.profiling.models import Knots, LinearCurve, NetCurve, Proportional
from ebbflow.profiling.profile import (
    CpuProfile,
    NodeProfile,
    Profile,
    Range,
    Reconfiguration,
    SparkCosts,
    Spread,
    StageCosts,
)

NET = NetCurve(
    x_middle=5.0, x_scale=5.0, y_middle=0.5, y_scale=0.5, weights=(1.0, -2.0, 0.3), shifts=(0.1, 0.0, 1e-17),
    outputs=(0.5, 0.25, 3.0), output_shift=-0.1,
)  # fmt: skip
MODELS = [
    Proportional(per_unit=1 / 3),
    LinearCurve(fixed=-0.1, per_unit=2e-5),
    Knots(x=(0.0, 1.5), y=(0.0, 2.0)),
    NET,
]


def cpu(model: object = MODELS[0], **changes: object) -> CpuProfile:
    slope = getattr(model, "per_unit", 0.3)
    values = {"model": model, "low": 1.0, "high": 10.0, "slope": slope, "error": 0.02, "samples": 50}
    return CpuProfile(**(values | changes))  # type: ignore[arg-type]


def full() -> Profile:
    second = Spread(mean=1.5, deviation=0.5, samples=3)
    return Profile(
        pipeline="top-words",
        selectivity={("reader", "words"): Spread(mean=17.86, deviation=0.54, samples=180)},
        cpu={f"op {number}": cpu(model, tried={"net": 0.1, "line": 0.02}) for number, model in enumerate(MODELS)},
        node=NodeProfile(
            model=MODELS[1], low=0.1, high=3.9, slope=2e-5, error=0.01, samples=40, cores=4
        ),
        costs=SparkCosts(
            driver_s=0.4, stages=(StageCosts(tasks=4, per_task_s=0.01, per_row_s=1e-4, skew=1.2, error=0.04),),
            batch_rows=Range(low=210.0, high=3900.0), lead_time_s=Spread(mean=12.0),
            state_rows=1e4, state_bytes=2e6, reload_s=second,
            reconfiguration=Reconfiguration(stop_s=second, state_s=second, restart_s=second, drain_s=second),
        ),
        target="spark",
        learned_at=datetime(2026, 11, 16, 6, 0, 0, tzinfo=UTC),
    )  # fmt: skip


def test_a_written_profile_is_read_back_completely() -> None:
    assert Profile.from_text(full().to_text()) == full()


def test_an_older_file_without_errors_and_ranges_is_read() -> None:
    text = full().to_text()
    assert text.count("\nerror = 0.04") == 1
    rows = text[text.index("[costs.batch_rows]") : text.index("high = 3900.0") + len("high = 3900.0")]
    older = Profile.from_text(text.replace("\nerror = 0.04", "").replace(rows, ""))
    assert older.costs is not None
    assert older.costs.batch_rows is None
    assert older.costs.stages[0].error is None
    assert Profile.from_text(older.to_text()) == older


@given(
    names=st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1, max_size=4, unique=True),
    numbers=st.lists(st.floats(0, 1e12), min_size=4, max_size=4),
)
def test_any_name_and_any_number_survive_the_file(names: list[str], numbers: list[float]) -> None:
    low, wider, slope, error = numbers
    curve = cpu(LinearCurve(fixed=slope, per_unit=error), low=low, high=low + wider, error=error)
    profile = Profile(
        pipeline=names[0],
        cpu=dict.fromkeys(names, curve),
        selectivity={(names[0], name): Spread(mean=low, deviation=wider, samples=1) for name in names},
    )
    assert Profile.from_text(profile.to_text()) == profile


def test_editing_a_straight_model_does_not_need_an_edit_of_its_slope() -> None:
    text = Profile(pipeline="p", cpu={"a": cpu()}).to_text()
    found = Profile.from_text(text.replace(f"per_unit = {1 / 3!r}", "per_unit = 0.1")).cpu["a"]
    assert [round(found.estimate(x).value, 6) for x in (5.0, 100.0)] == [0.5, 10.0]


def test_the_file_is_plain_numbers_that_a_person_can_read() -> None:
    text = full().to_text()
    assert text.startswith("# Costs of top-words, learned on spark.")
    document = tomllib.loads(text)
    assert document["version"] == 1
    assert document["cpu"]["op 3"]["model"]["weights"] == [1.0, -2.0, 0.3]
    assert document["selectivity"][0] == {
        "from": "reader", "to": "words", "mean": 17.86, "deviation": 0.54, "samples": 180,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("version = 1", "version = 2"), "version 2, but this Ebbflow reads only up to version 1"),
        (("version = 1", ""), "not a profile; a profile begins with 'version = 1'"),
        (("version = 1", "version = true"), "not a profile"),
        (("version = 1", "version ="), "not TOML"),
        (("pipeline = ", "pipe = "), "pipe"),
        (("samples = 40", 'samples = "many"'), "node.samples: Expected `int`, got `str`; write it as"),
        (("low = 1.0", 'low = "few"'), "cpu.op 0.low: Expected `float`, got `str`"),
        (('kind = "net"', 'kind = "pickle"'), "pickle"),
        (("weights = [1.0, -2.0, 0.3]", "weights = [1.0]"), "as many shifts and outputs as weights"),
        (("x_scale = 5.0", "x_scale = 0.0"), "cpu.op 3.model.x_scale is 0; write a number above 0"),
        (("x = [0.0, 1.5]", "x = [1.5, 0.0]"), "the x of knots must rise"),
        (
            ("y = [0.0, 2.0]", "y = [2.0, 0.5]"),
            'cpu."op 2".model.y[1] is 0.5, after 2; write values of y that never fall',
        ),
        (
            ("outputs = [0.5, 0.25, 3.0]", "outputs = [0.5, 0.25, -3.0]"),
            'cpu."op 3".model falls from 0.76736 at 1 to 0.759149 at 1.135; write one that never falls between',
        ),
        (
            ("low = 0.1", "low = 40.0"),
            "node.low is 40, above node.high, which is 3.9; swap them",
        ),
        (("low = 0.1", "low = -0.1"), "node.low is -0.1; write a number of 0 or more"),
        (("high = 10.0", "high = inf"), "cpu.op 0.high is inf; write"),
        (("slope = 2e-05", "slope = nan"), "node.slope is nan; write a number of 0 or more"),
        (("slope = 2e-05", "slope = -5.0"), "node.slope is -5; write"),
        (("error = 0.01", "error = -3.0"), "node.error is -3; write"),
        (("error = 0.02", "error = nan"), "cpu.op 0.error is nan; write"),
        (("samples = 50", "samples = -4"), "cpu.op 0.samples is -4; write"),
        (("samples = 50", f"samples = {10**400}"), "cpu.op 0.samples is inf; write"),
        (("cores = 4", "cores = 0"), "node.cores is 0; write a number of 1 or more"),
        (("cores = 4", "cores = -4"), "node.cores is -4; write"),
        (("per_unit = 0.3333333333333333", "per_unit = nan"), "cpu.op 0.model.per_unit is nan; write"),
        (("per_unit = 0.3333333333333333", "per_unit = inf"), "cpu.op 0.model.per_unit is inf; write"),
        (("per_unit = 0.3333333333333333", "per_unit = -1.0"), "cpu.op 0.model.per_unit is -1; write"),
        (("fixed = -0.1", "fixed = nan"), "model.fixed is nan; write a number"),
        (("y = [0.0, 2.0]", "y = [0.0, -2.0]"), "cpu.op 2.model.y[1] is -2; write a number of 0 or more"),
        (("x = [0.0, 1.5]", "x = [0.0, inf]"), "cpu.op 2.model.x[1] is inf; write"),
        (
            ("weights = [1.0, -2.0, 0.3]", "weights = [1.0, nan, 0.3]"),
            "cpu.op 3.model.weights[1] is nan; write",
        ),
        (
            ("output_shift = -0.1", "output_shift = -inf"),
            "cpu.op 3.model.output_shift is -inf; write a number",
        ),
        (("net = 0.1", "net = -0.1"), "cpu.op 0.tried.net is -0.1; write"),
        (("mean = 17.86", "mean = nan"), "selectivity[0].mean is nan; write"),
        (("mean = 17.86", "mean = inf"), "selectivity[0].mean is inf; write"),
        (("mean = 17.86", "mean = -17.86"), "selectivity[0].mean is -17.86; write"),
        (("deviation = 0.54", "deviation = -1.0"), "selectivity[0].deviation is -1; write"),
        (("samples = 180", "samples = -1"), "selectivity[0].samples is -1; write"),
        (("driver_s = 0.4", "driver_s = -1.0"), "costs.driver_s is -1; write"),
        (("tasks = 4", "tasks = 0"), "costs.stages[0].tasks is 0; write a number of 1 or more"),
        (("tasks = 4", "tasks = -1"), "costs.stages[0].tasks is -1; write"),
        (("per_task_s = 0.01", "per_task_s = -1.0"), "costs.stages[0].per_task_s is -1; write"),
        (("per_row_s = 0.0001", "per_row_s = nan"), "costs.stages[0].per_row_s is nan; write"),
        (("skew = 1.2", "skew = 0.5"), "costs.stages[0].skew is 0.5; write a number of 1 or more"),
        (("error = 0.04", "error = -0.04"), "costs.stages[0].error is -0.04; write a number of 0 or more"),
        (("error = 0.04", "error = inf"), "costs.stages[0].error is inf; write"),
        (("error = 0.04", 'error = "none"'), "costs.stages[0].error: Expected `float | null`, got `str`"),
        (("low = 210.0", "low = -1.0"), "costs.batch_rows.low is -1; write a number of 0 or more"),
        (("high = 3900.0", "high = nan"), "costs.batch_rows.high is nan; write"),
        (
            ("low = 210.0", "low = 4000.0"),
            "costs.batch_rows.low is 4000, above costs.batch_rows.high, which is 3900; swap them",
        ),
        (("low = 210.0", ""), "costs.batch_rows: Object missing required field `low`"),
        (("state_rows = 10000.0", "state_rows = -1.0"), "costs.state_rows is -1; write"),
        (("state_bytes = 2000000.0", "state_bytes = nan"), "costs.state_bytes is nan; write"),
        (("mean = 12.0", "mean = -12.0"), "costs.lead_time_s.mean is -12; write"),
        (("mean = 1.5", "mean = inf"), "mean is inf; write"),
        (
            ('target = "spark"', 'target = "moon"'),
            'target is "moon"; write "spark" or "simulator", where it was',
        ),
        (('target = "spark"', 'target = "Simulator"'), 'target is "Simulator"; write "spark" or "simulator"'),
        (
            ("version = 1", "version = 1\nvresion = 1"),
            "a.toml: vresion is not a key of a profile; write it as",
        ),
        (("error = 0.04", "eror = 0.04"), "costs.stages[0].eror is not a key of a profile; write it as"),
        (("error = 0.02", "error = 0.02\nnotes = 1"), "cpu.op 0.notes is not a key of a profile"),
        (
            ("per_unit = 0.3", "per_unit = 1.0\nper_unti = 0.3"),
            "cpu.op 0.model.per_unti is not a key of a profile",
        ),
        (("driver_s = 0.4", "driver = 0.4"), "costs.driver is not a key of a profile"),
        (("high = 3900.0", "high = 3900.0\nmost = 1"), "costs.batch_rows.most is not a key of a profile"),
        (("mean = 12.0", "mean = 12.0\nmedian = 1.0"), "costs.lead_time_s.median is not a key of a profile"),
        (
            (
                "[costs.reconfiguration.stop_s]",
                "[costs.reconfiguration.halt_s]\n[costs.reconfiguration.stop_s]",
            ),
            "costs.reconfiguration.halt_s is not a key of a profile",
        ),
        (('pipeline = "top-words"', 'pipeline = ""'), "pipeline is empty; write the name"),
        (('from = "reader"', 'from = ""'), "selectivity[0].from is empty; write the name"),
        (
            ('from = "reader"', 'from = "words"'),
            "selectivity: pipeline 'top-words' has a cycle: words → words",
        ),
    ],
)
def test_an_invalid_file_is_refused_in_one_line(change: tuple[str, str], words: str) -> None:
    text = full().to_text()
    assert change[0] in text
    with pytest.raises(ProfileError) as error:
        Profile.from_text(text.replace(*change, 1), "a.toml")
    assert words in str(error.value)
    assert str(error.value).startswith("a.toml: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("target", ["", "spark", "simulator"])
def test_where_a_profile_was_learned_may_be_left_open(target: str) -> None:
    assert Profile.from_text(full().to_text().replace('"spark"', f'"{target}"')).target == target


def test_a_repeated_stream_is_refused_in_one_line() -> None:
    text = full().to_text()
    stream = text[text.index("[[selectivity]]") : text.index("[cpu")]
    with pytest.raises(ProfileError, match=r"selectivity\[1\] repeats the stream from 'reader' to 'words'"):
        Profile.from_text(text.replace(stream, 2 * stream), "a.toml")


def test_an_operator_without_a_name_is_refused_in_one_line() -> None:
    with pytest.raises(ProfileError, match=r'cpu."" has no name; write the name of an operator'):
        Profile.from_text(full().to_text().replace('cpu."op 0"', 'cpu.""'), "a.toml")


def test_the_graph_of_a_profile_comes_from_its_streams() -> None:
    graph = full().graph
    assert (graph.name, graph.sources) == ("top-words", ("reader", "op 0", "op 1", "op 2", "op 3"))
    assert [(s.source, s.target, s.selectivity) for s in graph.streams] == [("reader", "words", 17.86)]


def test_a_missing_or_binary_file_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="No such file"):
        Profile.read(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProfileError, match="it is not text"):
        Profile.read(tmp_path / "bytes.toml")
