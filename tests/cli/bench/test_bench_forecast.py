"""``ebbflow bench forecast``: its JSON, table and page, and invalid input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from console import ebbflow as run

from ebbflow.forecasting.port import Forecaster

Command = Callable[..., tuple[int, str, str]]
FIELDS = {
    "load", "forecaster", "horizon_s", "error_ratio", "coverage", "update_ms", "forecast_ms", "scaled_error", "width",
    "squared_error_ratio", "normalised_squared_error", "steps", "step_s", "ahead", "forecast_30_ms", "reliability",
}  # fmt: skip


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    noise = np.random.default_rng(1).normal(0, 5, 480)
    for name, level in (("one", 100), ("two", 50)):
        rows = [f"{n},{level + 20 * np.sin(n / 30) + noise[n]:.1f}" for n in range(480)]
        (tmp_path / f"{name}.csv").write_text("minute,events\n" + "\n".join(rows) + "\n")
    return lambda *arguments: run(monkeypatch, capsys, "bench", "forecast", "--workers", "1", *arguments)


def test_the_json_is_a_list_of_loads_by_horizons_by_forecasters(bench: Command) -> None:
    code, out, err = bench(
        "--loads", "one.csv,two.csv", "--forecasters", "last-value,moving-mean", "--horizons", "10s,1m,5m", "--json"
    )  # fmt: skip
    rows = json.loads(out)
    assert code == 0
    assert [(row["load"], row["horizon_s"], row["forecaster"]) for row in rows] == [
        (load, horizon_s, forecaster)
        for load in ("one", "two")
        for horizon_s in (60.0, 300.0)
        for forecaster in ("last-value", "moving-mean")
    ]
    assert all(row.keys() >= FIELDS for row in rows)
    assert [row["steps"] for row in rows[:4]] == [479, 479, 95, 95]
    mean = next(row for row in rows if (row["forecaster"], row["horizon_s"]) == ("moving-mean", 60.0))
    assert mean["error_ratio"] < 0.95  # of noise, the mean of some steps knows more than the last one
    assert "one, two: 10s left out: samples are 1m apart" in err


def test_ahead_divides_the_horizon_into_steps(bench: Command) -> None:
    code, out, _ = bench(
        "--loads", "one.csv", "--forecasters", "last-value", "--horizons", "5m", "--ahead", "5", "--json"
    )
    (row,) = json.loads(out)
    assert (code, row["step_s"], row["ahead"], row["horizon_s"], row["steps"]) == (0, 60.0, 5, 300.0, 475)


def test_the_steps_are_the_last_ones_and_the_same_for_all(bench: Command) -> None:
    code, out, _ = bench(
        "--loads", "one.csv", "--forecasters", "last-value,moving-mean", "--horizons", "1m", "--steps", "100", "--json"
    )  # fmt: skip
    assert code == 0
    assert [row["steps"] for row in json.loads(out)] == [99, 99]


def test_the_tables_and_the_page_of_a_folder(bench: Command, tmp_path: Path) -> None:
    code, out, err = bench("--loads", ".", "--forecasters", "last-value,moving-mean", "--report", "page.html")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split()[:4] == ["forecaster", "1m", "5m", "15m"]
    assert [line.split()[0] for line in lines[1:3]] == ["last-value", "moving-mean"]
    assert any(line.startswith("two ") for line in lines)
    assert "geometric mean over the loads" in err
    assert "10s, 30s left out" in err
    page = (tmp_path / "page.html").read_text()
    for heading in (
        "Error by horizon",
        "Reliability of the quantiles",
        "Coverage of the 90 % bands",
        "Every backtest",
    ):
        assert heading in page


def test_a_load_coarser_than_all_usual_horizons_is_forecast_by_its_own_step(bench: Command) -> None:
    rows = [f"{n},{n % 24}" for n in range(100)]
    Path("hours.csv").write_text("hour,events\n" + "\n".join(rows) + "\n")
    code, out, err = bench("--loads", "hours.csv", "--forecasters", "last-value", "--json")
    (row,) = json.loads(out)
    assert (code, row["horizon_s"]) == (0, 3600.0)
    assert "its samples are 1h apart" in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--loads", "one.csv", "--forecasters", "mixtur"], "unknown forecaster 'mixtur'"),
        (["--loads", "one.csv", "--forecasters", "last-value,"], "has an empty entry"),
        (
            ["--loads", "one.csv", "--horizons", "10s"],
            "no load can be forecast at these horizons: one: 10s left out",
        ),
        (["--loads", "one.csv", "--horizons", "0s"], "it must be above 0"),
        (["--loads", "one.csv", "--horizons", "1m,soon"], "'soon' is not a duration"),
        (["--loads", "one.csv", "--horizons", "90s"], "not a multiple of the 1m"),
        (["--loads", "one.csv", "--horizons", "2h"], "4 steps of 2h are too few"),
        (["--loads", "one.csv", "--ahead", "0"], "--ahead is 0"),
        (["--loads", "one.csv", "--steps", "3"], "--steps is 3"),
        (["--loads", "one.csv,three.csv"], "there is no trace file 'three.csv'"),
        (["--loads", "one.csv,one.csv"], "two loads are called 'one'"),
        (["--loads", "one.csv", "--workers", "0"], "--workers is 0"),
        ([], "Missing option '--loads'"),
    ],
)
def test_invalid_input_ends_with_one_line(bench: Command, options: list[str], words: str) -> None:
    code, out, err = bench(*options)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_zeros_and_constants_have_a_ratio_of_one(bench: Command) -> None:
    Path("zeros.csv").write_text("minute,events\n" + "\n".join(f"{n},0" for n in range(60)) + "\n")
    code, out, _ = bench(
        "--loads", "zeros.csv,constant(5)", "--forecasters", "last-value", "--horizons", "1m", "--json"
    )
    assert code == 0
    assert [row["error_ratio"] for row in json.loads(out)] == [1.0, 1.0]


def test_a_failing_forecaster_is_reported_after_the_results_of_the_others(
    bench: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ebbflow.runs.forecast_bench as module

    make = module.make_forecaster

    def failing(name: str, step_s: float) -> Forecaster:
        if name == "moving-mean" and step_s != 60.0:
            raise ValueError("out of luck")
        return make(name, step_s)

    monkeypatch.setattr(module, "make_forecaster", failing)
    code, out, err = bench(
        "--loads", "one.csv", "--forecasters", "last-value,moving-mean", "--horizons", "5m", "--json"
    )
    assert code == 1
    assert [row["forecaster"] for row in json.loads(out)] == ["last-value"]
    assert "moving-mean on one at 5m: ValueError: out of luck" in err
