"""The tables of real traces have every strategy that acts on an engine, as printed and in docs/leaderboard.md."""

from __future__ import annotations

import gzip
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from ebbflow.strategies import STRATEGIES

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def traces(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT)
    return import_module("benchmarks.traces")


@pytest.fixture
def folder(tmp_path) -> Path:
    """A fine trace and a coarse one, twenty minutes each."""
    for name, step in (("calm_1min", 1), ("rough_5min", 5)):
        rows = "".join(f"{at},{100 + 40 * (at % 3)}\n" for at in range(0, 20, step))
        (tmp_path / f"{name}.csv.gz").write_bytes(gzip.compress(f"minute,events\n{rows}".encode()))
    return tmp_path


def strategies_of(table: str) -> set[str]:
    """Names in the second column."""
    return set(re.findall(r"^\| *(?:\d+|–) \| `([a-z0-9-]+)` \|", table, flags=re.MULTILINE))


def test_each_engine_has_a_row_per_strategy_and_five_of_them_per_load(traces, folder, capsys) -> None:
    assert traces.main([str(folder), "--strategies", "capacity,hpa,spark-dra,static"]) == 0
    tables = re.split(r"^\*\*", capsys.readouterr().out, flags=re.MULTILINE)[1:]
    batches, beaten, each, flow, _ = tables
    assert batches.startswith("micro-batch engine, means over 2 loads")
    assert strategies_of(batches) == {"capacity", "hpa", "spark-dra", "static"}
    assert flow.startswith("continuous engine")
    assert strategies_of(flow) == {"capacity", "hpa", "static"}, "spark-dra knows only batches"
    held = "19,200, 0.00 %"  # 16 nodes for 1,200 s
    assert re.search(rf"`static` \| {held} \| {held} \| {held} \| 1 \| 2 of 2 \|", batches)
    assert beaten.startswith("micro-batch engine, loads on which capacity is not first")
    won = int(re.findall(r"`capacity` .* (\d|–) \|$", batches, flags=re.MULTILINE)[0].replace("–", "0"))
    assert len(re.findall(r"^\| (calm|rough)", beaten, flags=re.MULTILINE)) == 2 - won
    assert "| load | a sample every | `capacity` | `spark-dra` | `hpa` |" in each
    assert [line.split(" | ")[0] for line in each.splitlines() if line.startswith("| ")][1:] == [
        "| calm_1min", "| rough_5min", "| **mean of the fine ones**", "| **mean of the coarse ones**", "| **mean**",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--strategies", "capasity"], "did you mean 'capacity'?"),
        (["no-such-folder"], "no *.csv.gz in no-such-folder"),
    ],
)
def test_missing_traces_are_reported(traces, capsys, arguments, words) -> None:
    with pytest.raises(SystemExit, match="2"):
        traces.main(arguments)
    assert words in capsys.readouterr().err


def test_the_page_has_every_strategy_on_the_engines_on_which_it_acts(traces) -> None:
    page = (ROOT / "docs" / "leaderboard.md").read_text().partition("## On real traces")[2]
    batches, flow = page.split("| # | strategy |")[1:3]
    assert strategies_of(batches) == set(STRATEGIES.comparable(clusters=False))
    assert strategies_of(flow) == set(STRATEGIES.comparable(clusters=False)) - {
        "spark-dra",
        "spark-legacy",
        "elastic-scaling",
        "learner",
    }
