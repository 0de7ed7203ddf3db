"""The file of a profile: what is written is read back, and what cannot be meant is told in one line."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.errors import ProfileError
from ebbflow.profiling.models import Knots, Line, Net, Proportional
from ebbflow.profiling.profile import (
    CpuProfile,
    NodeProfile,
    Profile,
    Reconfiguration,
    SparkCosts,
    Spread,
    StageCosts,
)

NET = Net(
    x_middle=5.0, x_scale=5.0, y_middle=0.5, y_scale=0.5, weights=(1.0, -2.0, 0.3), shifts=(0.1, 0.0, 1e-17),
    outputs=(0.5, 0.25, 3.0), output_shift=-0.1,
)  # fmt: skip
MODELS = [
    Proportional(per_unit=1 / 3),
    Line(fixed=-0.1, per_unit=2e-5),
    Knots(x=(0.0, 1.5), y=(0.0, 2.0)),
    NET,
]


def cpu(model: object = MODELS[0], **changes: object) -> CpuProfile:
    values = {"model": model, "low": 1.0, "high": 10.0, "slope": 0.3, "error": 0.02, "samples": 50}
    return CpuProfile(**(values | changes))  # type: ignore[arg-type]


def full() -> Profile:
    second = Spread(mean=1.5, deviation=0.5, samples=3)
    return Profile(
        pipeline="top-words",
        selectivity={("reader", "words"): Spread(mean=17.86, deviation=0.54, samples=180)},
        cpu={f"op {number}": cpu(model, tried={"net": 0.1, "line": 0.02}) for number, model in enumerate(MODELS)},
        node=NodeProfile(
            model=MODELS[1], low=0.1, high=3.9, slope=0.25, error=0.01, samples=40, cores=4
        ),
        costs=SparkCosts(
            driver_s=0.4, stages=(StageCosts(tasks=4, per_task_s=0.01, per_row_s=1e-4, skew=1.2),),
            lead_time_s=Spread(mean=12.0), state_rows=1e4, state_bytes=2e6, reload_s=second,
            reconfiguration=Reconfiguration(stop_s=second, state_s=second, restart_s=second, drain_s=second),
        ),
        target="spark",
        learned_at=datetime(2026, 11, 16, 6, 0, 0, tzinfo=UTC),
    )  # fmt: skip


def test_everything_that_is_written_is_read_back() -> None:
    assert Profile.from_text(full().to_text()) == full()


@given(
    names=st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1, max_size=4, unique=True),
    numbers=st.lists(st.floats(0, 1e12), min_size=4, max_size=4),
)
def test_any_name_and_any_number_survive_the_file(names: list[str], numbers: list[float]) -> None:
    low, wider, slope, error = numbers
    curve = cpu(Line(fixed=slope, per_unit=error), low=low, high=low + wider, slope=slope, error=error)
    profile = Profile(
        pipeline=names[0],
        cpu=dict.fromkeys(names, curve),
        selectivity={(names[0], name): Spread(mean=low, deviation=wider, samples=1) for name in names},
    )
    assert Profile.from_text(profile.to_text()) == profile


def test_the_file_is_plain_numbers_that_a_person_can_read() -> None:
    text = full().to_text()
    assert text.startswith("# What top-words costs, learned on spark.")
    document = tomllib.loads(text)
    assert document["version"] == 1
    assert document["cpu"]["op 3"]["model"]["weights"] == [1.0, -2.0, 0.3]
    assert document["selectivity"][0] == {
        "from": "reader", "to": "words", "mean": 17.86, "deviation": 0.54, "samples": 180,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("version = 1", "version = 2"), "version 2, and this Ebbflow reads versions up to 1"),
        (("version = 1", ""), "this is no profile; one begins with 'version = 1'"),
        (("version = 1", "version = true"), "this is no profile"),
        (("version = 1", "version ="), "this is not TOML"),
        (("pipeline = ", "pipe = "), "pipe"),
        (("samples = 40", 'samples = "many"'), "node.samples: Expected `int`, got `str`"),
        (('kind = "net"', 'kind = "pickle"'), "pickle"),
        (("weights = [1.0, -2.0, 0.3]", "weights = [1.0]"), "as many shifts and outputs as weights"),
        (("x_scale = 5.0", "x_scale = 0.0"), "x_scale of a net must be above 0"),
        (("x = [0.0, 1.5]", "x = [1.5, 0.0]"), "the x of knots must rise"),
        (("low = 0.1", "low = 40.0"), "which is no range"),
    ],
)
def test_a_file_that_cannot_be_meant_is_told_in_one_line(change: tuple[str, str], words: str) -> None:
    text = full().to_text()
    assert change[0] in text
    with pytest.raises(ProfileError) as error:
        Profile.from_text(text.replace(*change), "a.toml")
    assert words in str(error.value)
    assert str(error.value).startswith("a.toml: ")
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_or_no_text_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="No such file"):
        Profile.read(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProfileError, match="it is not text"):
        Profile.read(tmp_path / "bytes.toml")
