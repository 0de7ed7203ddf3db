"""Workload models in files: what was saved continues, and anything else is refused in one line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from ebbflow.errors import InputError
from ebbflow.forecasting import Forecaster, make_forecaster
from ebbflow.forecasting.model_file import load_model, save_model


def learned(name: str, steps: int = 400) -> Forecaster:
    forecaster = make_forecaster(name, 60.0)
    for minute in range(1, steps + 1):
        forecaster.learn(60.0 * minute, 100.0 + 50.0 * (minute % 20 < 5) + minute % 7)
    return forecaster


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_model(tmp_path / "model.json", learned("press"), step_s=60.0)
    return tmp_path / "model.json"


@pytest.mark.parametrize("name", ["mixture", "arima", "boosting", "press"])
def test_a_saved_model_continues_where_it_was(name: str, tmp_path: Path) -> None:
    one = learned(name)
    save_model(tmp_path / "model.json", one, step_s=60.0)
    other = load_model(tmp_path / "model.json")
    assert other.name == name
    for minute in range(401, 460):
        one.learn(60.0 * minute, 120.0 + minute % 11)
        other.learn(60.0 * minute, 120.0 + minute % 11)
    mine, its = one.forecast(30), other.forecast(30)
    assert mine is not None
    assert its is not None
    assert np.allclose(mine.values, its.values, rtol=1e-12)
    assert mine.basis == its.basis


def test_the_file_is_plain_json_and_leaves_no_temporary_file(saved: Path) -> None:
    document = msgspec.json.decode(saved.read_bytes())
    assert document["format"] == "ebbflow workload model"
    assert document["version"] == 2
    assert document["model"]["forecaster"] == "press"
    assert [path.name for path in saved.parent.iterdir()] == ["model.json"]


def test_a_file_cut_off_anywhere_is_refused(saved: Path) -> None:
    text = saved.read_bytes()
    for length in (0, 1, 40, len(text) // 2, len(text) - 1):
        saved.write_bytes(text[:length])
        with pytest.raises(
            InputError, match=r"model\.json is not a whole workload model.*learn it again"
        ) as caught:
            load_model(saved)
        assert "\n" not in str(caught.value)


def test_an_edited_file_is_refused(saved: Path) -> None:
    text = saved.read_text()
    changed = text.replace('"step_s":60.0', '"step_s":61.0', 1)
    assert changed != text
    saved.write_text(changed)
    with pytest.raises(
        InputError, match=r"model\.json was edited or damaged: .*; use a copy, or learn it again"
    ):
        load_model(saved)


def test_another_version_and_another_file_are_refused(saved: Path) -> None:
    text = saved.read_text()
    saved.write_text(text.replace('"version":2', '"version":9', 1))
    with pytest.raises(
        InputError, match=r"model.json has version 9, but this Ebbflow reads version 2; use the"
    ):
        load_model(saved)
    for other in ('{"a": 1}', "[1, 2]", text.replace("workload model", "recording", 1)):
        saved.write_text(other)
        with pytest.raises(InputError, match="is not a workload model; use a file"):
            load_model(saved)


def test_a_state_of_another_shape_is_refused_even_with_a_right_checksum(tmp_path: Path) -> None:
    class Odd(Forecaster):
        name = "press"

        def __init__(self, state: dict[str, object]) -> None:
            self._odd = state

        def state(self) -> dict[str, object]:
            return self._odd

        def learn(self, time_s: float, value: float) -> None: ...

        def forecast(self, steps: int, levels: object = ()) -> None: ...

    right = learned("press").state()
    for wrong in ({}, {**right, "_expert": {}}, {**right, "_made_at": 5}, {**right, "_history": []}):
        save_model(tmp_path / "model.json", Odd(wrong), step_s=60.0)
        with pytest.raises(InputError, match=r"model\.json: .*learn (it )?again"):
            load_model(tmp_path / "model.json")
