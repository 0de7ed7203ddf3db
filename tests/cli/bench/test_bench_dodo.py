"""``ebbflow bench dodo``: rows, page and invalid input. The runs themselves are tested in tests/papers/dodo."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from console import ebbflow


def test_rows_are_printed_and_drawn(monkeypatch, capsys, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    code, out, _ = ebbflow(
        monkeypatch, capsys, "bench", "dodo", "--case", "optimal", "--no-studies", "--seeds", "1", "--workers", "1",
        "--report", str(page), "--json",
    )  # fmt: skip
    rows = json.loads(out)
    assert code == 0
    assert [(row["case"], row["variant"]) for row in rows] == [
        ("optimal", "none"),
        ("optimal", "with-capacity"),
        ("optimal", "without-capacity"),
    ]
    assert all(row.keys() >= {"throughput", "gain", "moves", "published"} for row in rows)
    assert rows[2]["published"] == {"throughput": 7000, "gain": None}
    assert "Optimal case: throughput (Figure 23 c and d)" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--case", "extrem"], "did you mean 'extreme'"),
        (["--seeds", "0"], "the minimum is 1"),
        (["--workers", "0"], "it must be 1 or more"),
        (["--report", "/no/such/folder/page.html"], "there is no folder"),
    ],
)
def test_invalid_input_is_one_line_and_code_2(monkeypatch, capsys, arguments, words) -> None:
    code, out, err = ebbflow(monkeypatch, capsys, "bench", "dodo", "--no-studies", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.splitlines()[-1:] == [line for line in err.splitlines() if words in line]
