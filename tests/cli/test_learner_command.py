"""``ebbflow learner``: training is reproducible, tables can be shown, and broken input is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from console import ebbflow
from typer.testing import CliRunner

from ebbflow.cli.main import app

TRAIN = [
    "learner",
    "train",
    "--load",
    "sine(base=200, peak=900, period=10m)",
    "--seconds",
    "10m",
    "--workers",
    "1",
]


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Code, standard output and standard error of a command."""
    return partial(ebbflow, monkeypatch, capsys)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table after two episodes."""
    folder = tmp_path_factory.mktemp("trained")
    page = folder / "training.html"
    more = ["--episodes", "2", "--seeds", "2", "--output", str(folder / "t.json"), "--report", str(page)]
    assert CliRunner().invoke(app, [*TRAIN, *more]).exit_code == 0
    assert "Learning curves" in page.read_text()
    return folder / "t.json"


def test_the_same_seed_trains_the_same_table_and_another_one_another(
    run: Run, trained: Path, tmp_path: Path
) -> None:
    again, other = tmp_path / "again.json", tmp_path / "other.json"
    _, output, _ = run(*TRAIN, "--episodes", "2", "--seeds", "2", "--output", str(again), "--json")
    document = json.loads(output)
    assert again.read_text() == trained.read_text()
    assert len(document["episodes"]) == 4
    assert {run["seed"] for run in document["evaluation"]} == {1, 2}
    assert document["simulated_hours"] == pytest.approx(4 / 6, abs=0.001)
    run(*TRAIN, "--episodes", "2", "--seeds", "1", "--seed", "5", "--output", str(other))
    assert other.read_text() != trained.read_text()


def test_training_continues_from_a_table_without_touching_it(run: Run, trained: Path, tmp_path: Path) -> None:
    before, output = trained.read_text(), tmp_path / "more.json"
    given = [
        "--episodes",
        "1",
        "--seeds",
        "1",
        "--strategy",
        f"learner(table={trained})",
        "--output",
        str(output),
    ]
    assert run(*TRAIN, *given)[0] == 0
    assert json.loads(output.read_text())["decisions"] > json.loads(before)["decisions"]
    assert trained.read_text() == before


def test_a_table_is_shown_as_text_page_and_json(run: Run, trained: Path, tmp_path: Path) -> None:
    page = tmp_path / "table.html"
    _, shown, _ = run("learner", "show", str(trained), "--report", str(page))
    assert "greedy" in shown
    assert "targetLatency=8.0" in shown
    assert 'data-figure="values-0"' in page.read_text()
    document = json.loads(run("learner", "show", str(trained), "--json")[1])
    assert document["visits"] > 50
    assert {"latency_s", "region", "values", "visits", "greedy"} <= set(document["states"][0])


def test_a_trained_table_can_be_simulated(run: Run, trained: Path) -> None:
    load = ["--load", "constant(300)", "--seconds", "5m", "--json"]
    _, output, _ = run("simulate", "--strategy", f"learner(table={trained})", *load)
    assert json.loads(output)[0]["strategy"] == f"learner(table={trained})"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--episodes", "0"], "--episodes is 0; it must be 1 or more"),
        (["--engine", "continuous"], "learner learns from batches, and this engine has none"),
        (["--strategy", "capacity"], "strategy capacity has no table to train"),
        (["--strategy", "learner(discountFactor=1)"], "discountFactor: 1 is invalid"),
        (["--output", "/no/such/t.json"], "cannot write /no/such/t.json"),
    ],
)
def test_invalid_training_is_refused_with_one_line(
    run: Run, tmp_path: Path, arguments: list[str], words: str
) -> None:
    given = [*TRAIN, "--output", str(tmp_path / "t.json")] if "--output" not in arguments else TRAIN
    code, _, errors = run(*given, *arguments)
    assert code == 2
    assert words in errors
    assert len(errors.splitlines()) == 1
    assert not (tmp_path / "t.json").exists()


@pytest.mark.parametrize(
    "command", [["learner", "show"], ["simulate", "--load", "constant(9)", "--strategy"]]
)
def test_a_broken_table_is_refused_and_untouched(
    run: Run, trained: Path, tmp_path: Path, command: list[str]
) -> None:
    cut = tmp_path / "cut.json"
    cut.write_text(trained.read_text()[:300])
    name = str(cut) if command[-1] == "show" else f"learner(table={cut})"
    code, _, errors = run(*command, name)
    assert (code, len(errors.splitlines())) == (2, 1)
    assert "is not a whole learner table" in errors
    assert cut.read_text() == trained.read_text()[:300]
