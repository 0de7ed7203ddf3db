"""``ebbflow bench pascal``: rows, page and invalid input. The runs themselves are tested in tests/papers/pascal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from console import ebbflow

from ebbflow.profiling.fitting import QUICK


def test_rows_are_printed_and_drawn(monkeypatch, capsys, tmp_path: Path) -> None:
    monkeypatch.setattr("ebbflow.papers.pascal.run.ALL", QUICK)
    page = tmp_path / "page.html"
    code, out, _ = ebbflow(
        monkeypatch, capsys, "bench", "pascal", "--strategy", "static", "--no-studies", "--seeds", "1",
        "--workers", "1", "--report", str(page), "--json",
    )  # fmt: skip
    rows = json.loads(out)
    assert code == 0
    assert [row["load"] for row in rows] == ["sawtooth", "sine", "square", "twitter"]
    assert {row["strategy"] for row in rows} == {"static"}
    assert all(row["failed"] == 0.0 and row["nodes_saved"] == 0.0 for row in rows)
    assert rows[0]["published"]["latency_mean_s"] == 1.478
    assert "a generated one is used" in rows[3]["note"]
    assert "sawtooth (Figure 13)" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--load", "sinus"], "unknown load 'sinus'"),
        (["--strategy", "proactiv"], "did you mean 'proactive'"),
        (["--target", "spork"], "did you mean 'spark'"),
        (["--seeds", "0"], "the minimum is 1"),
        (["--workers", "0"], "it must be 1 or more"),
        (["--trace", "/no/such/tweets.csv"], "there is no trace file"),
        (["--trace", __file__, "--load", "sine"], "is for the load twitter"),
        (["--target", "spark", "--load", "sine"], "Spark runs sawtooth and square"),
        (["--target", "spark", "--load", "square", "--load", "sine"], "leave sine out"),
        (["--target", "spark", "--seeds", "2"], "--seeds is for --target simulator"),
        (["--report", "/no/such/folder/page.html"], "there is no folder"),
    ],
)
def test_invalid_input_is_one_line_and_code_2(monkeypatch, capsys, arguments, words) -> None:
    def started(*_: object, **__: object) -> None:
        pytest.fail("a run was started")

    monkeypatch.setattr("ebbflow.papers.pascal.on_spark.run_selection", started)
    monkeypatch.setattr("ebbflow.cli.bench.pascal.run_loads", started)
    code, out, err = ebbflow(monkeypatch, capsys, "bench", "pascal", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
