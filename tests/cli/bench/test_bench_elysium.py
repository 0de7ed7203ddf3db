"""``ebbflow bench elysium``: its JSON, its page, and invalid input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from console import ebbflow

from ebbflow.papers.elysium.threshold_learning import GRIDS, TRIAL, study_thresholds
from ebbflow.profiling.fitting import QUICK

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _profiles_in_milliseconds(monkeypatch) -> None:
    monkeypatch.setattr(
        "ebbflow.papers.elysium.models.ALL", QUICK
    )  # networks take seconds to train and lose to a line here


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
    assert "on 1 of 1 loads, degrades no more on 1, and does both on 1" in text
    assert "T1 step (Figures 10(a–c))" in text


def test_the_table_is_printed_and_the_page_named(monkeypatch, capsys, tmp_path) -> None:
    code, out, err = ebbflow(
        monkeypatch, capsys, "bench", "elysium", "--strategy", "static", "--seeds", "1", "--workers", "1",
        "--no-studies", "--report", str(tmp_path / "page.html"),
    )  # fmt: skip
    assert code == 0
    assert "T1 stair static (4 nodes, parallelism 4)" in out
    assert "page:" in err


def test_learned_thresholds_are_printed_beside_the_published_ones(monkeypatch, capsys, tmp_path) -> None:
    def quick(models, *, workers, on_done):
        few = [replace(each, values=each.values[:3]) for each in GRIDS]
        return study_thresholds(
            models, replace(TRIAL, seconds=240.0), few, seeds=1, workers=workers, on_done=on_done
        )

    monkeypatch.setattr("ebbflow.papers.elysium.studies.study_thresholds", quick)
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
    # nothing is lost before the step, so the highest of the first three values is best
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
        (["--target", "spark", "--application", "T2"], "Spark runs T1 on stair"),
        (["--seeds", "0"], "the minimum is 1"),
        (["--workers", "0"], "it must be 1 or more"),
        (["--trace", "/no/such/tweets.csv"], "there is no trace file"),
        (["--trace", __file__, "--load", "stair"], "is for the load twitter"),
        (["--trace", __file__, "--target", "spark", "--load", "stair"], "is for the load twitter"),
        (["--application", "T1", "--application", "T2", "--load", "stair"], "leave T2 out"),
        (["--load", "step", "--strategy", "joint", "--strategy", "static"], "leave static out"),
        (["--target", "spark", "--seeds", "2"], "--seeds is for --target simulator"),
        (["--target", "spark", "--no-studies"], "--no-studies is for --target simulator"),
        (["--target", "spark", "--studies"], "--studies is for --target simulator"),
        (["--target", "spark", "--workers", "2"], "--workers is for --target simulator"),
        (["--target", "spark", "--strategy", "symbiotic-proactive"], "Spark runs T1 on stair"),
        (["--target", "spark", "--strategy", "joint", "--strategy", "static"], "leave static out"),
        (["--target", "spark", "--load", "stair", "--load", "sine"], "leave sine out"),
        (["--target", "simulator,spark", "--strategy", "static"], "Spark runs T1 on stair"),
        (["--report", "/no/such/folder/page.html"], "there is no folder"),
    ],
)
def test_invalid_input_is_one_line_and_code_2(monkeypatch, capsys, arguments, words) -> None:
    def started(*_: object, **__: object) -> None:
        pytest.fail("a run was started")

    monkeypatch.setattr("ebbflow.papers.elysium.on_spark.run_selection", started)
    monkeypatch.setattr("ebbflow.cli.bench.elysium.run_cases", started)
    code, out, err = ebbflow(monkeypatch, capsys, "bench", "elysium", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_both_targets_together_accept_options_and_names_of_the_simulator(
    monkeypatch, capsys, tmp_path
) -> None:
    on_spark: list[str] = []

    def run_selection(real, *, say):
        on_spark.extend(str(case.key) for case in real)
        return []

    monkeypatch.setattr("ebbflow.papers.elysium.on_spark.run_selection", run_selection)
    monkeypatch.setattr("ebbflow.cli.bench.elysium.check_java", lambda: None)
    code, out, _ = ebbflow(
        monkeypatch, capsys, "bench", "elysium", "--target", "simulator,spark", "--load", "stair", "--strategy",
        "joint", "--strategy", "static", "--seeds", "1", "--no-studies", "--workers", "1", "--json", "--report",
        str(tmp_path / "page.html"),
    )  # fmt: skip
    assert code == 0
    assert [row["strategy"] for row in json.loads(out)] == ["static", "joint"]
    assert on_spark == ["T1 stair joint"]


def test_without_a_trace_the_table_says_that_twitter_is_replaced(monkeypatch, capsys, tmp_path) -> None:
    code, out, _ = ebbflow(
        monkeypatch, capsys, "bench", "elysium", "--load", "twitter", "--load", "step", "--strategy", "joint",
        "--seeds", "1", "--workers", "1", "--no-studies", "--report", str(tmp_path / "page.html"),
    )  # fmt: skip
    assert code == 0
    assert "T1 twitter joint *" in out
    assert "T1 step joint *" not in out
    assert "* no Twitter trace was given; a generated day of a web service is used" in " ".join(out.split())


def test_a_table_without_twitter_has_no_note_about_a_trace(monkeypatch, capsys, tmp_path) -> None:
    code, out, _ = ebbflow(
        monkeypatch, capsys, "bench", "elysium", "--strategy", "static", "--seeds", "1", "--workers", "1",
        "--no-studies", "--report", str(tmp_path / "page.html"),
    )  # fmt: skip
    assert code == 0
    assert "*" not in out


def test_the_command_is_documented() -> None:
    assert "ebbflow bench elysium" in (ROOT / "docs" / "elysium.md").read_text()
