"""``ebbflow forecast``: forecast, band and backtest of a trace, a load or a store; invalid series end with one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from console import ebbflow as run

from ebbflow.core.clock import ManualClock
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.monitoring.store import Store

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ebbflow(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: run(monkeypatch, capsys, *arguments)


def write(name: str, rows: list[str], heading: str = "minute,events") -> str:
    Path(name).write_text("\n".join([heading, *rows]) + "\n")
    return name


def day(minutes: int = 240, seed: int = 3) -> list[str]:
    level = 600 + 300 * np.sin(np.arange(minutes) / 60) + np.random.default_rng(seed).normal(0, 20, minutes)
    return [f"{minute},{value:.0f}" for minute, value in enumerate(level.clip(0))]


def test_the_json_has_every_step_with_quantiles_and_the_backtest(ebbflow: Command) -> None:
    code, out, _ = ebbflow("forecast", write("load.csv", day()), "--horizon", "5m", "--json")
    made = json.loads(out)
    assert code == 0
    facts = [made[key] for key in ("load", "horizon_s", "step_s", "learned_steps")]
    assert facts == ["load", 300.0, 60.0, 240]
    assert [step["end_s"] for step in made["forecast"]] == [14_460.0, 14_520.0, 14_580.0, 14_640.0, 14_700.0]
    assert all(0 <= step["p05"] <= step["p50"] <= step["p95"] for step in made["forecast"])
    assert made["basis"]
    assert [score["ahead"] for score in made["backtest"]] == [1, 5]
    for score in made["backtest"]:
        assert score["error_ratio"] == pytest.approx(1.0, abs=0.5)
        assert 0.7 <= score["coverage"] <= 1.0


def test_it_prints_a_chart_the_steps_and_the_backtest_and_writes_a_page(ebbflow: Command) -> None:
    file = write(
        "<b>load.csv",
        [f"2026-01-01T{m // 60:02d}:{m % 60:02d}:00,{60 + m % 7}" for m in range(120)],
        "time,events",
    )
    code, out, err = ebbflow("forecast", file, "--horizon", "3m", "--report", "page.html")
    assert code == 0
    assert "┤" in out
    assert "2026-01-01T02:03:00Z" in out
    assert "coverage of the 90 % band" in out
    assert "Page: page.html" in err
    page = Path("page.html").read_text()
    assert "&lt;b&gt;load" in page
    assert "<b>load" not in page.replace("\\u003cb>", "")


def test_the_arrival_rate_of_a_stored_run_is_forecast(ebbflow: Command) -> None:
    with closing(Store(Path("run.sqlite"), ManualClock(0.0))) as store:
        store.add(
            Reading(10.0 * n, query, Metric.ARRIVAL_RATE, 100.0 * size)
            for n in range(100)
            for query, size in (("clicks", 1), ("views", 3))
        )
    code, _, err = ebbflow("forecast", "run.sqlite")
    assert (code, "clicks, views; select one with --query" in err) == (2, True)
    code, _, err = ebbflow("forecast", "run.sqlite", "--query", "view")
    assert (code, "did you mean 'views'?" in err) == (2, True)
    code, out, _ = ebbflow("forecast", "run.sqlite", "--query", "views", "--horizon", "1m", "--json")
    made = json.loads(out)
    assert (code, made["load"], made["step_s"]) == (0, "views", 10.0)
    assert made["forecast"][-1]["p50"] == pytest.approx(300.0, rel=0.01)


def test_a_formula_is_forecast_too(ebbflow: Command) -> None:
    code, out, _ = ebbflow("forecast", "constant(40)", "--horizon", "10m", "--steps", "60", "--json")
    made = json.loads(out)
    assert (code, made["step_s"], len(made["forecast"])) == (0, 20.0, 30)
    assert made["forecast"][0]["p50"] == pytest.approx(40.0)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "has no rows"),
        (["0,5"], "only one row"),
        (["0,5", "1,nan", "2,7"], "line 3: 'nan' is not a number of events"),
        (["0,5", "1,-4", "2,7"], "line 3 has -4 events; the count must be 0 or more"),
        (["5,5", "4,6", "6,7"], "line 3 goes back in time"),
        (["what is this"], "1 column"),
    ],
    ids=["empty", "one value", "nan", "negative", "backwards", "not a CSV"],
)
def test_a_bad_series_ends_with_one_line_that_says_where(
    ebbflow: Command, rows: list[str], words: str
) -> None:
    code, out, err = ebbflow("forecast", write("bad.csv", rows), "--horizon", "5m")
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
    code, out, err = ebbflow("bench", "forecast", "--loads", "bad.csv")
    assert (code, out) == (2, "")
    assert words in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--horizon", "10s"],
            "a horizon of 10s is shorter than the 1m between the samples of load; use 1m or more",
        ),
        (["--horizon", "0s"], "it must be above 0"),
        (["--horizon", "soon"], "write it like 500ms, 30s, 5m"),
        (["--horizon", "5m", "--step", "90s"], "not a multiple of the 1m"),
        (["--horizon", "5m", "--step", "10m"], "does not fit into a horizon of 5m"),
        (["--horizon", "5m", "--step", "0s"], "does not fit"),
        (["--horizon", "2d", "--step", "1m"], "the limit is 1,000, so use a longer --step"),
        (["--horizon", "20d", "--step", "20d"], "shorter than one step"),
        (["--forecaster", "last-valu"], "did you mean 'last-value'?"),
        (["--steps", "0"], "it must be 1 or more"),
        (["--query", "q"], "--query is for the store of a run"),
        (["--report", "no/such/page.html"], "there is no folder"),
    ],
)
def test_wrong_options_end_with_one_line(ebbflow: Command, options: list[str], words: str) -> None:
    code, out, err = ebbflow("forecast", write("load.csv", day(100)), *options)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["missing.csv", "sinus(1)", "."])
def test_a_load_that_does_not_exist_ends_with_one_line(ebbflow: Command, name: str) -> None:
    code, _, err = ebbflow("forecast", name)
    assert code == 2
    assert err.count("\n") == 1


def test_a_damaged_store_and_one_without_rates_end_with_one_line(ebbflow: Command) -> None:
    Path("damaged.sqlite").write_bytes(b"SQLite format 3\0" + b"x" * 500)
    Store(Path("empty.sqlite"), ManualClock(0.0)).close()
    for name in ("damaged.sqlite", "empty.sqlite"):
        code, _, err = ebbflow("forecast", name)
        assert code == 2
        assert err.count("\n") == 1


def test_all_zeros_are_forecast_as_zero_and_said_to_be(ebbflow: Command) -> None:
    code, out, _ = ebbflow("forecast", write("zeros.csv", [f"{n},0" for n in range(60)]), "--json")
    made = json.loads(out)
    assert code == 0
    assert {step["p95"] for step in made["forecast"]} == {0.0}
    assert "the load is 0 throughout" in made["notes"]


def test_two_values_are_forecast_without_a_backtest_at_the_horizon(ebbflow: Command) -> None:
    code, out, _ = ebbflow("forecast", write("two.csv", ["0,60", "1,60"]), "--horizon", "5m", "--json")
    made = json.loads(out)
    assert code == 0
    assert made["forecast"][-1]["p50"] == pytest.approx(1.0)
    assert "too short for a backtest 5 steps ahead" in made["notes"][0]


def test_a_century_in_one_file_is_learned_from_its_last_steps(ebbflow: Command) -> None:
    days = [f"{day},{100 + day % 7}" for day in range(36_500)]
    file = write("century.csv", days, "day,events")
    code, out, _ = ebbflow("forecast", file, "--horizon", "7d", "--steps", "100", "--json")
    made = json.loads(out)
    assert (code, made["learned_steps"], len(made["forecast"])) == (0, 100, 7)
    code, _, err = ebbflow("forecast", file, "--horizon", "5m")
    assert (code, "shorter than the 1d between the samples" in err) == (2, True)


def test_a_saved_model_continues_with_what_is_new(ebbflow: Command) -> None:
    rows = day(200)
    whole, half = write("whole.csv", rows), write("half.csv", rows[:150])
    assert ebbflow("forecast", half, "--save", "model.json", "--json")[0] == 0
    code, out, _ = ebbflow("forecast", whole, "--model", "model.json", "--json")
    continued = json.loads(out)
    assert (code, continued["learned_steps"], continued["forecaster"]) == (0, 50, "mixture")
    assert "50 steps are new" in continued["notes"][0]
    at_once = json.loads(ebbflow("forecast", whole, "--json")[1])
    assert continued["forecast"] == at_once["forecast"]


def test_a_model_with_nothing_new_forecasts_from_its_own_end(ebbflow: Command) -> None:
    file = write("load.csv", day(60))
    first = json.loads(ebbflow("forecast", file, "--save", "model.json", "--json")[1])
    code, out, _ = ebbflow("forecast", file, "--model", "model.json", "--json")
    again = json.loads(out)
    assert (code, again["learned_steps"], again["backtest"]) == (0, 0, [])
    assert again["forecast"] == first["forecast"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "missing.json"], "cannot read the workload model"),
        (["--model", "load.csv"], "not a whole workload model"),
        (
            ["--model", "model.json", "--forecaster", "jumps"],
            "--forecaster is that of the model; leave it out",
        ),
        (["--model", "model.json", "--step", "2m"], "the model has steps of 1m, not of 2m"),
        (["--save", "no/such/model.json"], "there is no folder"),
    ],
)
def test_a_wrong_model_ends_with_one_line(ebbflow: Command, options: list[str], words: str) -> None:
    file = write("load.csv", day(40))
    ebbflow("forecast", file, "--save", "model.json")
    code, out, err = ebbflow("forecast", file, *options)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_the_period_and_the_jumps_of_a_load_are_found(ebbflow: Command) -> None:
    rows = [f"{m},{300 if m % 60 in (10, 11) else 60}" for m in range(480)]
    made = json.loads(ebbflow("forecast", write("load.csv", rows), "--forecaster", "last-value", "--json")[1])
    assert made["period_s"] == 3600.0
    assert {(jump["every_s"], jump["at_s"]) for jump in made["jumps"]} == {(3600.0, 600.0), (3600.0, 720.0)}
    plain = [f"{m},{60 + m % 2}" for m in range(240)]
    made = json.loads(
        ebbflow("forecast", write("plain.csv", plain), "--forecaster", "last-value", "--json")[1]
    )
    assert made["jumps"] == []
