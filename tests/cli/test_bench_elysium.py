"""``ebbflow bench elysium``: the contract of its JSON, its page, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from console import ebbflow

from ebbflow.bench.elysium.thresholds import STUDIED, TRIAL, study_thresholds
from ebbflow.profiling.fitting import QUICK

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _profiles_in_milliseconds(monkeypatch) -> None:
    monkeypatch.setattr("ebbflow.bench.elysium.kit.ALL", QUICK)  # nets take seconds, and lose to a line here


def test_a_row_end_to_end(monkeypatch, capsys, tmp_path) -> None:
    page = tmp_path / "elysium.html"
    code, out, _ = ebbflow(
        monkeypatch, capsys, "bench", "elysium", "--application", "T1", "--load", "step", "--seeds", "1",
        "--workers", "1", "--no-studies", "--json", "--report", str(page),
    )  # fmt: skip
    rows = json.loads(out)
    assert code == 0
    assert [(row["application"], row["load"], row["strategy"]) for row in rows] == [
        ("T1", "step", "joint"), ("T1", "step", "symbiotic"),
    ]  # fmt: skip
    joint, symbiotic = rows
    assert symbiotic["published"] == {
        "throughput_degradation": 0.59,
        "nodes_saved": 0.58,
        "figure": "10(a–c)",
    }
    assert symbiotic["nodes_saved"] > joint["nodes_saved"]
    assert symbiotic["latency_mean_s"] > 0
    assert symbiotic["throughput_degradation"] <= joint["throughput_degradation"] + 0.005
    text = page.read_text()
    assert "on 1 of 1 loads, at no more degradation on 1" in text
    assert "T1 step (Figures 10(a–c))" in text


def test_the_table_is_for_people(monkeypatch, capsys, tmp_path) -> None:
    code, out, err = ebbflow(
        monkeypatch, capsys, "bench", "elysium", "--strategy", "static", "--seeds", "1", "--workers", "1",
        "--no-studies", "--report", str(tmp_path / "page.html"),
    )  # fmt: skip
    assert code == 0
    assert "T1 stair static (4 nodes, parallelism 4)" in out
    assert "pictures:" in err


def test_the_learned_thresholds_are_told_beside_the_seeds(monkeypatch, capsys, tmp_path) -> None:
    def quick(kit, *, workers, on_done):
        few = [replace(each, values=each.values[:3]) for each in STUDIED]
        return study_thresholds(
            kit, replace(TRIAL, seconds=240.0), few, seeds=1, workers=workers, on_done=on_done
        )

    monkeypatch.setattr("ebbflow.bench.elysium.studies.study_thresholds", quick)
    page = tmp_path / "page.html"
    code, out, err = ebbflow(
        monkeypatch, capsys, "bench", "elysium", "--strategy", "static", "--seeds", "1", "--workers", "1",
        "--report", str(page),
    )  # fmt: skip
    assert code == 0
    assert "102 runs for the thresholds" in err
    lines = {
        line.split()[0]: line.split()[1:3] for line in out.splitlines() if line.startswith(("cpu_", "core_"))
    }
    # before the step nothing is lost, so the highest of the first three values is best
    assert lines == {"cpu_max": ["0.80", "0.70"], "core_max": ["0.65", "0.40"], "core_min": ["0.25", "0.15"]}
    assert "at the upper end of the values tried" in " ".join(out.split())
    assert "core_min_thr by Q-learning" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--application", "T3"], "unknown application 'T3'"),
        (["--load", "twiter"], "did you mean 'twitter'"),
        (["--strategy", "symbiosis"], "did you mean 'symbiotic'"),
        (["--application", "T2", "--load", "stair"], "no row of T2 and stair"),
        (["--target", "spork"], "did you mean 'spark'"),
        (["--target", "spark", "--application", "T2"], "on Spark there are T1 on stair"),
        (["--seeds", "0"], "the fewest is 1"),
        (["--workers", "0"], "the fewest is 1"),
        (["--trace", "/no/such/tweets.csv"], "there is no trace file"),
        (["--report", "/no/such/folder/page.html"], "there is no folder"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_code_2(monkeypatch, capsys, arguments, words) -> None:
    code, out, err = ebbflow(monkeypatch, capsys, "bench", "elysium", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_the_command_is_documented() -> None:
    assert "ebbflow bench elysium" in (ROOT / "docs" / "elysium.md").read_text()
