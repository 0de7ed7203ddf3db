"""``--profile FILE``: symbiotic sizes by it; one that does not fit is one line, and nothing starts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from console import ebbflow

from ebbflow.profiling.models import Proportional
from ebbflow.profiling.profile import CpuProfile, NodeProfile, Profile, SparkCosts, Spread, StageCosts
from ebbflow.targets.simulator.catalogue import costed_pipeline

COSTED = costed_pipeline("top-words")
STEP = (
    *("simulate", "--engine", "continuous", "--nodes", "1:8", "--slots-per-node", "4", "--seconds", "10m"),
    *("--load", "constant(600)", "--initial-nodes", "4", "--json"),
)
BATCHES = SparkCosts(driver_s=0.4, stages=(StageCosts(tasks=4, per_task_s=0.01, per_row_s=0.001),))


def profile(factor: float = 1.0, **changes: Any) -> Profile:
    """What top-words costs in the simulator, times a factor."""
    cpu = {
        name: CpuProfile(
            model=Proportional(per_unit=factor * cost_s), low=0.0, high=1e5, slope=factor * cost_s, error=0.02,
            samples=90,
        )
        for name, cost_s in COSTED.row_cost_s.items()
    }  # fmt: skip
    known = Profile(
        pipeline="top-words",
        cpu=cpu,
        node=NodeProfile.assumed(cores=4),
        selectivity={(s.source, s.target): Spread(mean=s.selectivity) for s in COSTED.pipeline.streams},
    )
    return replace(known, **changes)


def written(folder: Path, known: Profile, name: str = "p.toml") -> str:
    path = folder / name
    path.write_text(known.to_text(), encoding="utf-8")
    return str(path)


def test_symbiotic_sizes_by_the_profile_it_is_given(monkeypatch, capsys, tmp_path: Path) -> None:
    """Selectivities hold in operation, so a profile of wordier tweets gives another size than that of these."""
    wordy = dict(profile().selectivity)
    wordy["words", "stop-words"] = Spread(mean=60.0)  # as if tweets had three times as many words
    runs = {}
    for name, known in (("true", profile()), ("wordy", profile(selectivity=wordy))):
        file = written(tmp_path, known, f"{name}.toml")
        code, out, _ = ebbflow(monkeypatch, capsys, *STEP, "--strategy", "symbiotic", "--profile", file)
        assert code == 0
        runs[name] = json.loads(out)[0]["node_seconds"]
    code, out, _ = ebbflow(monkeypatch, capsys, *STEP, "--strategy", "symbiotic,static")
    learned = json.loads(out)[0]["node_seconds"]
    assert runs["true"] == pytest.approx(learned, rel=0.25)
    assert runs["wordy"] > 1.3 * runs["true"]


def test_a_profile_does_not_change_other_strategies(monkeypatch, capsys, tmp_path: Path) -> None:
    both = (*STEP, "--strategy", "capacity,symbiotic-proactive")
    _, plain, _ = ebbflow(monkeypatch, capsys, *both)
    code, out, _ = ebbflow(monkeypatch, capsys, *both, "--profile", written(tmp_path, profile()))
    assert code == 0
    assert json.loads(out)[0] == json.loads(plain)[0]


def test_on_batches_symbiotic_sizes_by_the_costs_of_the_profile_from_the_first_batch_on(
    monkeypatch, capsys, tmp_path: Path
) -> None:
    """Batches every two minutes: at the assessment after the first one the profile shows that one node is enough."""
    monkeypatch.chdir(tmp_path)
    phase = ("profile", "--engine", "micro-batch", "--steps", "4")
    assert ebbflow(monkeypatch, capsys, *phase)[0] == 0
    run = (
        *("simulate", "--trigger", "2m", "--nodes", "1:8", "--seconds", "10m", "--load", "constant(20)"),
        *("--slo", "freshness p95 <= 300s", "--initial-nodes", "4", "--strategy", "symbiotic", "--json"),
    )
    spent = []
    for more in ((), ("--profile", "top-words.micro-batch.profile.toml")):
        code, out, _ = ebbflow(monkeypatch, capsys, *run, *more)
        assert code == 0
        spent.append(json.loads(out)[0]["node_seconds"])
    assert spent[1] < spent[0]


def refused(monkeypatch, capsys, *arguments: str) -> str:
    def start(*_: object, **__: object) -> None:
        raise AssertionError("something was started")

    monkeypatch.setattr("ebbflow.targets.spark.launch.local_cluster.LocalCluster.start", start)
    monkeypatch.setattr("ebbflow.runs.sweep.run_simulation", start)
    code, out, err = ebbflow(monkeypatch, capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("ebbflow: ")
    assert len(err.strip().splitlines()) == 1
    return err


@pytest.mark.parametrize(
    ("known", "options", "words"),
    [
        (profile(pipeline="sentiment"), (), "is a profile of 'sentiment', not of 'top-words'; learn one with"),
        (
            profile(cpu={**profile().cpu, "stemmer": profile().cpu["words"]}), (),
            "has operator 'stemmer', which pipeline top-words does not have (reader, words,",
        ),
        (
            profile(cpu={"words": profile().cpu["words"]}), (),
            "has no CPU of operator 'reader', which the continuous engine needs",
        ),
        (profile(), ("--engine", "micro-batch"), "has no costs of batches, which the micro-batch engine needs"),
        (profile(), ("--strategy", "capacity,joint"), "is for proactive, symbiotic and symbiotic-proactive, not f"),
    ],
)  # fmt: skip
def test_a_profile_that_does_not_fit_is_one_line(
    monkeypatch, capsys, tmp_path: Path, known: Profile, options: tuple[str, ...], words: str
) -> None:
    usual = ("simulate", "--engine", "continuous", "--load", "constant(9)", "--strategy", "symbiotic")
    said = refused(monkeypatch, capsys, *usual, *options, "--profile", written(tmp_path, known))
    assert words in said


def test_duplicate_and_invalid_profiles_are_one_line_errors(monkeypatch, capsys, tmp_path: Path) -> None:
    one, two = written(tmp_path, profile()), written(tmp_path, profile(), "q.toml")
    usual = ("simulate", "--load", "constant(9)", "--strategy", "symbiotic", "--profile", one, "--profile")
    assert "are both profiles of 'top-words'; give only one of them" in refused(
        monkeypatch, capsys, *usual, two
    )
    (tmp_path / "q.toml").write_text("version = 1")
    assert "q.toml: " in refused(monkeypatch, capsys, *usual, two)
    assert "cannot read the profile" in refused(monkeypatch, capsys, *usual, str(tmp_path / "none.toml"))


@pytest.mark.parametrize("command", ["submit", "demo"])
def test_on_spark_a_profile_must_be_of_spark_and_for_symbiotic(
    monkeypatch, capsys, tmp_path: Path, command: str
) -> None:
    (tmp_path / "job.py").write_text("")
    script = [str(tmp_path / "job.py")] if command == "submit" else []
    simulated = written(tmp_path, profile(target="simulator", costs=BATCHES))
    real = written(tmp_path, profile(target="spark", costs=BATCHES), "real.toml")

    def said(*options: str) -> str:
        return refused(monkeypatch, capsys, command, *options, *script)

    assert "was learned in the simulator" in said("--strategy", "symbiotic", "--profile", simulated)
    assert "not for capacity; leave one of them out" in said("--profile", real)
    assert "cannot read" in said("--strategy", "symbiotic", "--profile", "none.toml")
