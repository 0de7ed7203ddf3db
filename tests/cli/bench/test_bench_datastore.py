"""``ebbflow bench datastore``: its JSON, and bad input in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from console import ebbflow


def test_it_prints_one_document_with_the_contract_of_scripts(monkeypatch, capsys, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = ebbflow(
        monkeypatch, capsys,
        *("bench", "datastore", "--days", "3", "--tested", "1"),
        *("--strategy", "three nodes", "--workers", "1", "--json"),
    )  # fmt: skip
    assert code == 0
    document = json.loads(out)
    assert {"tables", "actions", "nodes_saved", "missed_demand_points", "published"} <= document.keys()
    assert document["missed_demand_points"] == document["strategies"]["three nodes"]["demand_points"]
    assert (tmp_path / "ebbflow-datastore.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--target", "mongodb"), "unknown target 'mongodb'"),
        (("--seconds", "10m"), "--seconds is for --target cassandra"),
        (("--target", "cassandra", "--seconds", "1m"), "too short for nodes to join"),
        (("--target", "cassandra", "--workers", "2"), "--workers is for --target simulator"),
        (("--strategy", "cost"), "did you mean 'costs'?"),
        (("--trace", "none.csv"), "there is no trace file none.csv"),
        (("--days", "5", "--tested", "5"), "leaves no day to learn from"),
        (("--days", "5", "--trace", "a.csv"), "--days is for the generated trace, which --trace replaces"),
    ],
)
def test_bad_input_is_one_line(monkeypatch, capsys, tmp_path: Path, arguments, words: str) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = ebbflow(monkeypatch, capsys, "bench", "datastore", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.strip().count("\n") == 0
