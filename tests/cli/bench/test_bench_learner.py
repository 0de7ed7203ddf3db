"""``ebbflow bench learner``: rows, page and invalid input. The studies are tested in tests/papers/learner."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from console import ebbflow


def test_a_study_is_printed_and_drawn(monkeypatch, capsys, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    code, out, _ = ebbflow(
        monkeypatch, capsys, "bench", "learner", "--study", "reward", "--quick", "--seeds", "1", "--workers", "1",
        "--report", str(page), "--json",
    )  # fmt: skip
    rows = json.loads(out)
    assert code == 0
    assert {(row["study"], row["setting"]) for row in rows} == {
        ("reward", "prefer-scale-in (default)"),
        ("reward", "prefer-no-action"),
    }
    assert {row["load"] for row in rows} == {"learning loads", "sine", "square"}
    assert all(row["node_seconds"] > 0 and 0 <= row["violation"] < 0.1 for row in rows)
    assert rows[0]["ci95"]["violation"] is None  # one seed has no interval
    assert 'data-figure="reward"' in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--study", "alfa"], "did you mean 'alpha'"),
        (["--target", "spork"], "did you mean 'spark'"),
        (["--seeds", "0"], "the minimum is 1"),
        (["--workers", "0"], "it must be 1 or more"),
        (["--trace", "/no/such/trace.csv"], "there is no trace file"),
        (["--study", "traces"], "--study traces needs a recorded load"),
        (["--study", "alpha", "--trace", "TRACE"], "--trace is for the study traces"),
        (["--target", "spark", "--seeds", "2"], "--seeds is for --target simulator"),
        (["--target", "spark", "--study", "alpha"], "--study is for --target simulator"),
        (["--target", "spark", "--quick"], "--quick is for --target simulator"),
        (["--report", "/no/such/folder/page.html"], "there is no folder"),
    ],
)
def test_invalid_input_is_one_line_and_code_2(monkeypatch, capsys, tmp_path, arguments, words) -> None:
    def started(*_: object, **__: object) -> None:
        pytest.fail("a run was started")

    trace = tmp_path / "trace.csv"
    trace.write_text("second,events\n" + "".join(f"{60 * k},{100 + k}\n" for k in range(300)))
    given = [str(trace) if each == "TRACE" else each for each in arguments]
    monkeypatch.setattr("ebbflow.papers.learner.evaluation.on_spark.run_selection", started)
    monkeypatch.setattr("ebbflow.cli.bench.learner.run_studies", started)
    code, out, err = ebbflow(monkeypatch, capsys, "bench", "learner", *given)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
