"""``ebbflow replay``: its output for people and programs, and one-line errors."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from made_progress import progress_of, write_lines

from ebbflow.cli import main as cli
from ebbflow.core.decision import Decision
from ebbflow.core.limits import Limits
from ebbflow.core.ports import Strategy
from ebbflow.runs.score import Scores
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies import STRATEGIES, make_strategy
from ebbflow.targets.simulator import Scenario, built_in_engine
from ebbflow.workloads import parse_load


class Broken(Strategy):
    """A strategy that always fails."""

    name = "broken"

    def decide(self, snapshot) -> Decision:
        raise ZeroDivisionError("no rows, no rate")


@pytest.fixture(scope="module")
def record(tmp_path_factory) -> Path:
    scenario = Scenario(
        engine=built_in_engine("top-words"),
        load=parse_load("sine(base=100, peak=900, period=10m)"),
        limits=Limits.parse("1:8"),
        initial_nodes=8,
        seconds=1200.0,
    )
    run = run_simulation(scenario, make_strategy("static")).run
    return write_lines(tmp_path_factory.mktemp("replay") / "run.jsonl", progress_of(run.batches))


def ebbflow(monkeypatch, capsys, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["ebbflow", "replay", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


def test_the_document_has_assumptions_fit_and_every_score(monkeypatch, capsys, record) -> None:
    arguments = [str(record), "--strategy", "capacity,hpa", "--executors-then", "8", "--json"]
    code, out, _ = ebbflow(monkeypatch, capsys, *arguments)
    document = json.loads(out)
    assert code == 0
    assert [each["strategy"] for each in document["results"]] == ["recorded", "capacity", "hpa"]
    for result in document["results"]:
        assert set(result) == {"strategy", *Scores.__dataclass_fields__}
    assert document["results"][1]["node_seconds"] < document["results"][0]["node_seconds"]
    assert {"trigger interval", "tasks", "slots per node", "lead time", "executors then", "nodes"} <= {
        each["name"] for each in document["assumptions"]
    }
    assert document["fit"]["median_error"] < 0.01
    assert document["summary"][0].startswith("capacity would have used ")
    assert "fewer executor-seconds than you held" in document["summary"][0]
    assert ebbflow(monkeypatch, capsys, *arguments)[1] == out  # the same bytes


def test_a_policy_is_another_row_with_the_hours_of_the_recording(
    monkeypatch, capsys, record, tmp_path
) -> None:
    held = {}
    for name, hours in {"then": '"14:00"\nuntil = "16:00"', "later": '"16:00"\nuntil = "17:00"'}.items():
        policy = tmp_path / f"{name}.toml"  # the record begins at 14:13 UTC
        policy.write_text(f'[[bounds]]\nname = "most"\nat-least = 8\nfrom = {hours}\n')
        arguments = [str(record), "--policy", str(policy), "--executors-then", "8", "--json"]
        code, out, _ = ebbflow(monkeypatch, capsys, *arguments)
        assert code == 0
        row = json.loads(out)["results"][-1]
        assert row["strategy"] == policy.name
        held[name] = row["node_seconds"]
    assert held["then"] > 0.95 * 8 * 1200
    assert held["later"] <= held["then"]


def test_the_command_prints_a_table_and_a_sentence_and_writes_a_page(
    monkeypatch, capsys, record, tmp_path
) -> None:
    page = tmp_path / "page.html"
    code, out, err = ebbflow(
        monkeypatch,
        capsys,
        str(record),
        "--nodes",
        "1:8",
        "--report",
        str(page),
        "--strategy",
        "capacity,static,hpa,keda",
    )
    assert code == 0
    assert "recorded" in out
    assert "capacity would have used" in out
    assert "The model explains half of your batches within" in err
    assert "assumed: set --slots-per-node" in err
    text = page.read_text()
    assert "Ebbflow replay: clicks" in text
    assert 'id="timeline"' in text, "the page of every comparison"
    shown = re.search(r'id="ebbflow-data">(.*?)</script>', text, re.DOTALL)
    assert shown is not None
    data = json.loads(shown[1])
    assert [s["name"] for s in data["strategies"] if s["shown"]][-1] == "recorded", "whatever its rank"
    (load,) = data["loads"]
    (scene,) = load["seeds"]
    assert scene["runs"]["recorded"]["held"] == [[], []], "their number is unknown"
    assert scene["runs"]["capacity"]["held"][1]
    assert len(scene["runs"]["recorded"]["freshness"][1]) > 100


def test_infeasibility_is_reported_once_per_output(monkeypatch, capsys, record, tmp_path) -> None:
    page = tmp_path / "page.html"
    arguments = [str(record), "--executors-then", "8", "--nodes", "1:1", "--strategy", "static"]
    _, _, err = ebbflow(monkeypatch, capsys, *arguments, "--report", str(page))
    assert err.count("no schedule within 1:1 nodes keeps the SLO") == 1
    assert page.read_text().lower().count("no schedule within the limits keeps the slo on") == 1
    assert "no schedule within 1:1 nodes" not in page.read_text()


def test_an_incomplete_last_line_is_left_out(monkeypatch, capsys, caplog, record, tmp_path) -> None:
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(record.read_bytes() + b'{"id": "00')
    whole = json.loads(ebbflow(monkeypatch, capsys, str(record), "--json")[1])
    code, out, _ = ebbflow(monkeypatch, capsys, str(torn), "--json")
    assert code == 0
    assert json.loads(out)["results"] == whole["results"]
    assert "is incomplete and left out" in caplog.text
    torn.write_bytes(b'{"id": "00\n' + record.read_bytes())
    assert ebbflow(monkeypatch, capsys, str(torn), "--json")[0] == 2


def test_a_failed_strategy_is_named_and_the_others_are_shown(monkeypatch, capsys, record) -> None:
    monkeypatch.setitem(STRATEGIES, "broken", Broken)
    code, out, err = ebbflow(monkeypatch, capsys, str(record), "--strategy", "broken,static", "--json")
    assert code == 1
    assert [each["strategy"] for each in json.loads(out)["results"]] == ["recorded", "static"]
    assert "1 of 3 runs failed, the first: broken on clicks" in err


def test_the_example_of_the_docs_page_runs(monkeypatch, capsys) -> None:
    example = Path(__file__).parent.parent.parent / "examples" / "recorded_run.jsonl.gz"
    code, out, _ = ebbflow(monkeypatch, capsys, str(example), "--executors-then", "12", "--json")
    document = json.loads(out)
    assert (code, document["query"], document["warnings"]) == (0, "clicks", [])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--strategy", "capasity"], "did you mean 'capacity'?"),
        (["--strategy", ","], "strategy '', column 1: expected a name"),
        (["--strategy", "hpa,hpa"], "named twice"),
        (["--workers", "0"], "must be 1 or more"),
        (["--nodes", "0:0"], "the minimum is 1"),
        (["--slo", "quick"], "write it like"),
        (["--trigger", "often"], "is not a duration"),
        (["--lead-time", "soon"], "is not a duration"),
        (["--executors-then", "0"], "'--executors-then'"),
        (["--query", "clocks"], "did you mean 'clicks'?"),
        (["--report", "/no/such/folder/x.html"], "there is no folder"),
    ],
)
def test_bad_options_are_one_line_and_exit_code_2(monkeypatch, capsys, record, arguments, words) -> None:
    code, out, err = ebbflow(monkeypatch, capsys, str(record), *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.startswith("ebbflow: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no file"),
        ("", "is empty"),
        ("hello\n", "line 1 is not JSON"),
        ('{"hello": 1}\n', "not a query progress"),
    ],
)
def test_bad_files_are_one_line_and_exit_code_2(monkeypatch, capsys, tmp_path, content, words) -> None:
    file = tmp_path / "run.jsonl"
    if content is not None:
        file.write_text(content)
    code, out, err = ebbflow(monkeypatch, capsys, str(file))
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
