"""``ebbflow profile``: its JSON, a file that can be read back, and invalid input."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from pathlib import Path

import pytest
from console import ebbflow

from ebbflow.cli.profile import _facts
from ebbflow.profiling.datastore import DatastoreProfile
from ebbflow.profiling.profile import Profile, Reconfiguration, SparkCosts, Spread, StageCosts
from ebbflow.runs.profiling import ProfilingResult
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies import make_strategy
from ebbflow.targets.simulator import Scenario, built_in_engine
from ebbflow.workloads import parse_load


def test_a_profile_of_the_simulator_is_one_json_document(monkeypatch, capsys, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = ebbflow(
        monkeypatch, capsys,
        *("profile", "--pipeline", "top-words", "--target", "simulator", "--steps", "2", "--hold", "60s", "--json"),
    )  # fmt: skip
    assert code == 0
    document = json.loads(out)
    assert document["file"] == "top-words.profile.toml"
    assert document["held_out"]["mean"] < 0.03
    read = Profile.read(tmp_path / document["file"])
    assert set(document["cpu"]) == set(read.cpu)
    assert document["cpu"]["words"]["error"] == read.cpu["words"].error
    assert {"pipeline", "target", "version", "selectivity", "cpu", "node", "costs"} <= document.keys()


def test_each_engine_has_a_file_of_its_own_and_micro_batches_have_no_cpu(
    monkeypatch, capsys, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    quick = ("--steps", "2", "--hold", "30s")
    code, out, _ = ebbflow(monkeypatch, capsys, "profile", "--engine", "micro-batch", *quick)
    assert code == 0
    assert "the CPU of operators was not measured" in out
    assert re.search(r"µs per row; mean error of a stage up to \d+\.\d %; batches of \d+ to \d+ rows", out)
    assert [path.name for path in tmp_path.iterdir()] == ["top-words.micro-batch.profile.toml"]


def test_a_phase_that_learns_nothing_fails_and_writes_nothing(monkeypatch, capsys, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    nothing = ProfilingResult(
        profile=Profile(pipeline="top-words"), accuracy=None, seconds=1.0, training_s=0.0
    )
    monkeypatch.setattr("ebbflow.runs.profiling.simulated.SimulatedProfiling.run", lambda *_, **__: nothing)
    code, out, err = ebbflow(monkeypatch, capsys, "profile")
    assert (code, out) == (1, "")
    assert "nothing was learned" in err
    assert list(tmp_path.iterdir()) == []


def test_without_json_a_table_is_printed(monkeypatch, capsys, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = ebbflow(
        monkeypatch, capsys,
        *("profile", "--pipeline", "sentiment", "--steps", "2", "--hold", "30s", "--output", "mine.toml"),
    )  # fmt: skip
    assert code == 0
    assert "tokeniser" in out
    assert "a restart:" in out
    assert "mine.toml" in err
    assert Path("mine.toml").read_text().startswith("# Costs of sentiment")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The store of a ten-minute run with micro-batches."""
    load = parse_load("sine(base=50, peak=400, period=4m)")
    scenario = Scenario(engine=built_in_engine("top-words"), load=load, seconds=600.0)
    run_simulation(scenario, make_strategy("capacity"), store=tmp_path / "run.sqlite")
    return tmp_path / "run.sqlite"


def test_single_observations_are_marked_and_counts_are_singular_or_plural() -> None:
    once, twice = Spread(mean=216.0, samples=1), Spread(mean=2.0, deviation=0.5, samples=2)
    costs = SparkCosts(
        driver_s=0.5,
        stages=tuple(StageCosts(tasks=tasks, per_task_s=0.004, per_row_s=1e-5) for tasks in (1, 8)),
        reconfiguration=Reconfiguration(
            stop_s=twice, state_s=Spread(mean=0.0), restart_s=twice, drain_s=once
        ),
    )
    assert _facts(Profile(pipeline="p", costs=costs))[1:] == [
        "a batch: 0.50 s on the driver, 1 task of 4 ms, 8 tasks of 4 ms, 20 µs per row",
        "a restart: 2 ± 0.5 s to stop, 0 s for state, 2 ± 0.5 s to start, 216 s to drain (once)",
    ]


def test_a_profile_from_a_store_has_the_costs_of_batches_and_can_be_used_by_symbiotic(
    monkeypatch, capsys, tmp_path: Path, store: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = ebbflow(monkeypatch, capsys, "profile", "--store", str(store), "--json")
    assert code == 0
    document, engine = json.loads(out), built_in_engine("top-words")
    assert (document["pipeline"], document["target"], document["notes"]) == ("top-words", "simulator", [])
    assert document["costs"]["driver_s"] == pytest.approx(engine.driver_s, rel=0.01)
    assert [stage["tasks"] for stage in document["costs"]["stages"]] == [
        stage.tasks for stage in engine.stages
    ]
    assert document["costs"]["per_row_s"] == pytest.approx(sum(s.per_row_s for s in engine.stages), rel=0.01)
    assert ("words", "stop-words") in {(each["from"], each["to"]) for each in document["selectivity"]}
    code, out, err = ebbflow(
        monkeypatch, capsys,
        *("simulate", "--strategy", "symbiotic", "--profile", document["file"], "--load", "constant(100)"),
        *("--seconds", "60s", "--json"),
    )  # fmt: skip
    assert code == 0, err


def test_a_profile_from_a_store_without_batches_sizes_the_continuous_engine(
    monkeypatch, capsys, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    load = parse_load("sine(base=50, peak=400, period=4m)")
    scenario = Scenario(engine=built_in_engine("top-words", "continuous"), load=load, seconds=600.0)
    run_simulation(scenario, make_strategy("capacity"), store=Path("c4.sqlite"))
    code, out, _ = ebbflow(monkeypatch, capsys, "profile", "--store", "c4.sqlite", "--json")
    document = json.loads(out)
    assert (code, document["pipeline"], document["notes"]) == (0, "top-words", [])
    assert len(document["selectivity"]) == len(scenario.engine.pipeline.streams)
    assert Profile.read(Path(document["file"])).learned_at.year > 2000, "simulated time begins in 1970"
    sized = ("simulate", "--engine", "continuous", "--strategy", "symbiotic", "--profile", document["file"])
    code, _, err = ebbflow(
        monkeypatch, capsys, *sized, "--load", "constant(100)", "--seconds", "60s", "--json"
    )
    assert code == 0, err
    code, out, err = ebbflow(
        monkeypatch, capsys, "profile", "--store", "c4.sqlite", "--pipeline", "sentiment"
    )
    assert (code, out) == (2, "")
    assert "has top-words, not 'sentiment'" in err


def test_an_invalid_profile_is_not_written(monkeypatch, capsys, tmp_path: Path, store: Path) -> None:
    """The store names an unknown target."""
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
def test_a_file_that_is_not_a_store_is_one_line_and_code_2(
    monkeypatch, capsys, tmp_path: Path, command: tuple[str, ...], content: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.sqlite").write_bytes(content)
    code, out, err = ebbflow(monkeypatch, capsys, *command, "run.sqlite")
    assert (code, out) == (2, "")
    assert "run.sqlite" in err
    assert "no such table" not in err
    assert len(err.strip().splitlines()) == 1


def test_a_store_of_an_older_version_is_reported_to_have_no_batches(
    monkeypatch, capsys, tmp_path: Path, store: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with contextlib.closing(sqlite3.connect(store)) as file, file:
        file.execute("DROP TABLE batches")
        file.execute("DELETE FROM terms WHERE name = 'pipeline'")
    code, out, _ = ebbflow(monkeypatch, capsys, "profile", "--store", str(store))
    assert code == 0
    assert "the store has no batches with their stages, because an older version wrote it" in out
    assert "a new node:" in out
    code, out, _ = ebbflow(monkeypatch, capsys, "profile", "--store", str(store), "--json")
    document = json.loads(out)
    assert (document["costs"]["stages"], len(document["notes"])) == ([], 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--pipeline", "top-wrods"], "did you mean 'top-words'?"),
        (["--pipeline", "top-wrods", "--target", "spark"], "did you mean 'top-words'?"),
        (["--target", "sprak"], "did you mean 'spark'?"),
        (["--engine", "storm"], "there are: continuous, micro-batch"),
        (["--steps", "0"], "Invalid value for '--steps'"),
        (["--hold", "soon"], "write it like"),
        (["--hold", "0s"], "is too short"),
        (["--pipeline", ""], "--pipeline is empty; give the name of a pipeline"),
        (["--store", "none.sqlite", "--pipeline", ""], "--pipeline is empty"),
        (["--hold", "10s"], "use 20s or more"),
        (["--steps", "1", "--hold", "1ms"], "learned from windows of 10 s; use 20s or more"),
        (["--seed", "-1"], "Invalid value for '--seed'"),
        (["--peak", "inf", "--target", "spark"], "rows per second above 0"),
        (["--master", "spark://x:1"], "--master is for --target spark; leave it out"),
        (["--agent", "tcp://127.0.0.1:1"], "--agent is for --target spark"),
        (["--initial-executors", "2"], "--initial-executors is for --target spark"),
        (["--peak", "100"], "--peak is for --target spark"),
        (["--no-check"], "--no-check is for --target spark"),
        (["--target", "spark", "--seed", "2"], "--seed is for --target simulator"),
        (["--target", "spark", "--engine", "continuous"], "--engine is for --target simulator"),
        (
            ["--store", "none.sqlite", "--target", "spark"],
            "--target is for a profiling phase, which --store does not run",
        ),
        (["--store", "none.sqlite", "--steps", "2"], "--steps is for a profiling phase"),
        (["--noise", "2"], "Invalid value for '--noise'"),
        (["--peak", "-5"], "rows per second above 0"),
        (["--initial-executors", "0"], "Invalid value for '--initial-executors'"),
        (["--agent-keys", "keys"], "--agent-keys is for --target spark"),
        (["--target", "spark", "--agent", "tcp://10.0.0.7:7788"], "which needs keys"),
        (["--set", "slo=freshness <= 9s"], "--set slo does not apply here"),
        (["--output", "/no/such/folder/x.toml"], "there is no folder"),
        (["--store", "none.sqlite"], "there is no store none.sqlite"),
        (["--target", "spark", "--master", "local[2]"], "has no executors to scale"),
    ],
)
def test_invalid_input_is_one_line_and_starts_nothing(
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


def test_agents_of_the_configuration_are_for_spark_only(monkeypatch, capsys, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ebbflow.toml").write_text("agents = ['tcp://10.0.0.7:7788']\n")
    code, out, err = ebbflow(monkeypatch, capsys, "profile", "--target", "spark")
    assert (code, out) == (2, "")
    assert "tcp://10.0.0.7:7788 can be reached from other machines, which needs keys" in err
    code, _, err = ebbflow(monkeypatch, capsys, "profile", "--steps", "2", "--hold", "30s")
    assert code == 0, err


def test_a_simulated_datastore_has_a_profile_of_its_own(monkeypatch, capsys, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    given = (
        "--pipeline",
        "datastore",
        "--nodes",
        "3:4",
        "--hold",
        "20s",
        "--data-gb",
        "2",
        "--response",
        "4ms",
    )
    code, out, _ = ebbflow(monkeypatch, capsys, "profile", *given, "--json")
    assert code == 0
    document = json.loads(out)
    assert document["file"] == "datastore.profile.toml"
    read = DatastoreProfile.read(tmp_path / document["file"])
    assert [row["nodes"] for row in document["performance"]] == list(read.sizes) == [3, 4]
    assert document["wanted_response_s"] == read.wanted_response_s == pytest.approx(0.004)
    assert read.add is not None
    assert (read.add.low, read.add.high) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--nodes", "3:6"), "--nodes is for --pipeline datastore"),
        (("--pipeline", "datastore", "--nodes", "2:4"), "2 nodes are below the replication factor of 3"),
        (("--pipeline", "datastore", "--steps", "4"), "--steps is not for a datastore"),
        (("--pipeline", "datastore", "--response", "0s"), "use one above 0s, like 5ms"),
        (("--pipeline", "datastore", "--target", "spark"), "unknown target 'spark'"),
        (("--target", "cassandra", "--steps", "3"), "--steps is not for a datastore on Cassandra"),
        (("--target", "cassandra", "--nodes", "6:3"), "did you mean 3:6?"),
    ],
)
def test_bad_options_of_datastores_are_one_line(monkeypatch, capsys, tmp_path, arguments, words: str) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = ebbflow(monkeypatch, capsys, "profile", *arguments)
    assert (code, out) == (2, "")
    assert words in err
