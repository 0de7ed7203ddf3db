"""``ebbflow profile``: one JSON document, a file that can be read back, one line for what is wrong."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from pathlib import Path

import pytest
from console import ebbflow

from ebbflow.cli.profile import _facts
from ebbflow.profiling.profile import Profile, Reconfiguration, SparkCosts, Spread, StageCosts
from ebbflow.runs.profiling.phase import Phase
from ebbflow.runs.simulation import play
from ebbflow.strategies import make_strategy
from ebbflow.targets.simulator import Scenario, built_in_engine
from ebbflow.workloads import parse_load


def test_the_simulator_is_profiled_and_told_as_one_document(monkeypatch, capsys, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = ebbflow(
        monkeypatch, capsys,
        *("profile", "--pipeline", "top-words", "--target", "simulator", "--steps", "2", "--hold", "60s", "--json"),
    )  # fmt: skip
    assert code == 0
    told = json.loads(out)
    assert told["file"] == "top-words.profile.toml"
    assert told["held_out"]["mean"] < 0.03
    read = Profile.read(tmp_path / told["file"])
    assert set(told["cpu"]) == set(read.cpu)
    assert told["cpu"]["words"]["error"] == read.cpu["words"].error
    assert {"pipeline", "target", "version", "selectivity", "cpu", "node", "costs"} <= told.keys()


def test_each_engine_has_a_file_of_its_own_and_batches_say_that_no_cpu_was_read(
    monkeypatch, capsys, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    quick = ("--steps", "2", "--hold", "30s")
    code, out, _ = ebbflow(monkeypatch, capsys, "profile", "--engine", "micro-batch", *quick)
    assert code == 0
    assert "the CPU of operators was not read" in out
    assert re.search(r"µs a row; mean error of a stage up to \d+\.\d %; \d+ to \d+ rows seen", out)
    assert [path.name for path in tmp_path.iterdir()] == ["top-words.micro-batch.profile.toml"]


def test_a_phase_in_which_nothing_was_learned_is_told_and_writes_nothing(
    monkeypatch, capsys, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    nothing = Phase(profile=Profile(pipeline="top-words"), accuracy=None, seconds=1.0, training_s=0.0)
    monkeypatch.setattr("ebbflow.runs.profiling.simulated.SimulatedPhase.run", lambda *_, **__: nothing)
    code, out, err = ebbflow(monkeypatch, capsys, "profile")
    assert (code, out) == (1, "")
    assert "nothing was learned" in err
    assert list(tmp_path.iterdir()) == []


def test_people_get_a_table(monkeypatch, capsys, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    code, out, err = ebbflow(
        monkeypatch,
        capsys,
        "profile",
        "--pipeline",
        "sentiment",
        "--steps",
        "2",
        "--hold",
        "30s",
        "--output",
        str(path),
    )
    assert code == 0
    assert "tokeniser" in out
    assert "a restart:" in out
    assert "mine.toml" in err
    assert path.read_text().startswith("# Costs of sentiment")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """That of a run of ten minutes on batches."""
    load = parse_load("sine(base=50, peak=400, period=4m)")
    scenario = Scenario(engine=built_in_engine("top-words"), load=load, seconds=600.0)
    play(scenario, make_strategy("capacity"), store=tmp_path / "run.sqlite")
    return tmp_path / "run.sqlite"


def test_what_was_seen_once_is_said_to_be_and_one_task_is_no_tasks() -> None:
    once, twice = Spread(mean=216.0, samples=1), Spread(mean=2.0, deviation=0.5, samples=2)
    costs = SparkCosts(
        driver_s=0.5,
        stages=tuple(StageCosts(tasks=tasks, per_task_s=0.004, per_row_s=1e-5) for tasks in (1, 8)),
        reconfiguration=Reconfiguration(
            stop_s=twice, state_s=Spread(mean=0.0), restart_s=twice, drain_s=once
        ),
    )
    assert _facts(Profile(pipeline="p", costs=costs))[1:] == [
        "a batch: 0.50 s of the driver, 1 task of 4 ms, 8 tasks of 4 ms, 20 µs a row",
        "a restart: 2 ± 0.5 s to stop, 0 s for state, 2 ± 0.5 s to start, 216 s to drain (once)",
    ]


def test_a_store_tells_what_batches_cost_and_the_profile_is_taken_by_who_sizes_them(
    monkeypatch, capsys, tmp_path: Path, store: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = ebbflow(monkeypatch, capsys, "profile", "--store", str(store), "--json")
    assert code == 0
    told, engine = json.loads(out), built_in_engine("top-words")
    assert (told["pipeline"], told["target"], told["notes"]) == ("top-words", "simulator", [])
    assert told["costs"]["driver_s"] == pytest.approx(engine.driver_s, rel=0.01)
    assert [stage["tasks"] for stage in told["costs"]["stages"]] == [stage.tasks for stage in engine.stages]
    assert told["costs"]["per_row_s"] == pytest.approx(sum(s.per_row_s for s in engine.stages), rel=0.01)
    assert ("words", "stop-words") in {(each["from"], each["to"]) for each in told["selectivity"]}
    code, out, err = ebbflow(
        monkeypatch, capsys,
        *("simulate", "--strategy", "symbiotic", "--profile", told["file"], "--load", "constant(100)"),
        *("--seconds", "60s", "--json"),
    )  # fmt: skip
    assert code == 0, err


def test_a_store_without_batches_gives_a_profile_that_the_continuous_engine_is_sized_by(
    monkeypatch, capsys, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    load = parse_load("sine(base=50, peak=400, period=4m)")
    scenario = Scenario(engine=built_in_engine("top-words", "continuous"), load=load, seconds=600.0)
    play(scenario, make_strategy("capacity"), store=Path("c4.sqlite"))
    code, out, _ = ebbflow(monkeypatch, capsys, "profile", "--store", "c4.sqlite", "--json")
    told = json.loads(out)
    assert (code, told["pipeline"], told["notes"]) == (0, "top-words", [])
    assert len(told["selectivity"]) == len(scenario.engine.pipeline.streams)
    assert Profile.read(Path(told["file"])).learned_at.year > 2000, "simulated time begins in 1970"
    sized = ("simulate", "--engine", "continuous", "--strategy", "symbiotic", "--profile", told["file"])
    code, _, err = ebbflow(
        monkeypatch, capsys, *sized, "--load", "constant(100)", "--seconds", "60s", "--json"
    )
    assert code == 0, err
    code, out, err = ebbflow(
        monkeypatch, capsys, "profile", "--store", "c4.sqlite", "--pipeline", "sentiment"
    )
    assert (code, out) == (2, "")
    assert "is of top-words, not of 'sentiment'" in err


def test_what_would_be_refused_when_it_is_read_is_not_written(
    monkeypatch, capsys, tmp_path: Path, store: Path
) -> None:
    """A run that was nowhere."""
    monkeypatch.chdir(tmp_path)
    with contextlib.closing(sqlite3.connect(store)) as file, file:
        file.execute("UPDATE terms SET value = 'moon' WHERE name = 'target'")
    code, out, err = ebbflow(monkeypatch, capsys, "profile", "--store", "run.sqlite")
    assert (code, out) == (2, "")
    assert "run.sqlite: the learned profile is invalid and is not written: " in err
    assert len(err.strip().splitlines()) == 1
    assert not Path("run.profile.toml").exists()


@pytest.mark.parametrize("command", [("profile", "--store"), ("ledger",), ("replay",)])
@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0 and no more"])
def test_a_file_that_is_no_store_is_one_line_and_code_2(
    monkeypatch, capsys, tmp_path: Path, command: tuple[str, ...], content: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.sqlite").write_bytes(content)
    code, out, err = ebbflow(monkeypatch, capsys, *command, "run.sqlite")
    assert (code, out) == (2, "")
    assert "run.sqlite" in err
    assert "no such table" not in err
    assert len(err.strip().splitlines()) == 1


def test_a_store_of_an_older_version_is_told_to_have_no_batches(
    monkeypatch, capsys, tmp_path: Path, store: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with contextlib.closing(sqlite3.connect(store)) as file, file:
        file.execute("DROP TABLE batches")
        file.execute("DELETE FROM terms WHERE name = 'pipeline'")
    code, out, _ = ebbflow(monkeypatch, capsys, "profile", "--store", str(store))
    assert code == 0
    assert "the store has no batches with their stages, as a version before this one wrote it" in out
    assert "a new node:" in out
    code, out, _ = ebbflow(monkeypatch, capsys, "profile", "--store", str(store), "--json")
    told = json.loads(out)
    assert (told["costs"]["stages"], len(told["notes"])) == ([], 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--pipeline", "top-wrods"], "did you mean 'top-words'?"),
        (["--pipeline", "top-wrods", "--target", "spark"], "did you mean 'top-words'?"),
        (["--target", "sprak"], "did you mean 'spark'?"),
        (["--engine", "storm"], "There are: continuous, micro-batch"),
        (["--steps", "0"], "write 1 to 1000"),
        (["--hold", "soon"], "write it like"),
        (["--hold", "0s"], "leaves no time"),
        (["--pipeline", ""], "--pipeline is empty; write the name of a pipeline"),
        (["--store", "none.sqlite", "--pipeline", ""], "--pipeline is empty"),
        (["--hold", "10s"], "write 20s or more"),
        (["--steps", "1", "--hold", "1ms"], "windows of 10 s are learned from; write 20s or more"),
        (["--seed", "-1"], "write a whole number from 0 up"),
        (["--peak", "inf", "--target", "spark"], "rows per second above 0"),
        (["--master", "spark://x:1"], "--master is for --target spark; leave it out"),
        (["--agent", "tcp://127.0.0.1:1"], "--agent is for --target spark"),
        (["--executors", "2"], "--executors is for --target spark"),
        (["--peak", "100"], "--peak is for --target spark"),
        (["--no-check"], "--no-check is for --target spark"),
        (["--target", "spark", "--seed", "2"], "--seed is for --target simulator"),
        (["--target", "spark", "--engine", "continuous"], "--engine is for --target simulator"),
        (
            ["--store", "none.sqlite", "--target", "spark"],
            "--target is for a profiling phase, and --store runs none",
        ),
        (["--store", "none.sqlite", "--steps", "2"], "--steps is for a profiling phase"),
        (["--noise", "2"], "is not a share"),
        (["--peak", "-5"], "rows per second above 0"),
        (["--executors", "0"], "the minimum is 1"),
        (["--output", "/no/such/folder/x.toml"], "there is no folder"),
        (["--store", "none.sqlite"], "there is no store none.sqlite"),
        (["--target", "spark", "--master", "local[2]"], "has no executors to scale"),
    ],
)
def test_what_a_person_gets_wrong_is_one_line_and_starts_nothing(
    monkeypatch, capsys, tmp_path: Path, arguments: list[str], words: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was started")

    monkeypatch.setattr("ebbflow.targets.spark.launch.local_cluster.LocalCluster.start", refuse)
    monkeypatch.chdir(tmp_path)
    code, out, err = ebbflow(monkeypatch, capsys, "profile", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
