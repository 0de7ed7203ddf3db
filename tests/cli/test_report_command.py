"""``ebbflow report``: the page of a run, made from its store."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ebbflow.cli import main as module
from ebbflow.core.clock import ManualClock
from ebbflow.monitoring.store import Store

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ebbflow(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["ebbflow", *arguments])
        with pytest.raises(SystemExit) as ended:
            module.main()
        output = capsys.readouterr()
        return int(ended.value.code or 0), output.out, output.err

    return call


SIMULATE = (
    "simulate",
    "--load",
    "sine(base=50, peak=600, period=5m)",
    "--seconds",
    "10m",
    "--strategy",
    "capacity",
)
SCORES = (
    "node_seconds", "cost_ratio", "violation", "latency_p50_s", "latency_p95_s", "latency_max_s",
    "throughput_degradation", "nodes_saved", "reconfigurations", "rows_in", "rows_out", "rows_lost", "rows_repeated",
    "demand_gap_s", "ready_before_demand", "acts_without_demand",
)  # fmt: skip


def test_the_report_of_a_simulated_run_has_the_scores_that_simulate_printed(ebbflow: Command) -> None:
    code, out, _ = ebbflow(*SIMULATE, "--store", "run.sqlite", "--json")
    assert code == 0
    (simulated,) = json.loads(out)
    code, out, _ = ebbflow("report", "run.sqlite", "-o", "page.html", "--json")
    assert code == 0
    reported = json.loads(out)
    assert {key: reported[key] for key in SCORES} == {key: simulated[key] for key in SCORES}
    assert (reported["pipeline"], reported["strategy"]) == ("top-words", "capacity")
    page = Path("page.html").read_text()
    assert "Simulated, not measured" in page
    assert 'data-verdict="act"' in page


ROUGH_DAY = Path(__file__).parents[2] / "examples" / "rough_day.toml"
"""Faults, and two pipelines that share nodes."""


@pytest.mark.parametrize("scenario", [None, ROUGH_DAY], ids=["one pipeline", "rough day"])
def test_the_report_of_a_store_is_the_page_of_the_simulated_run(
    ebbflow: Command, scenario: Path | None
) -> None:
    described = () if scenario is None else (str(scenario),)
    load = ("--load", "sine(base=50, peak=600, period=5m)", "--seconds", "20m", "--cycle", "1s")
    run = ("simulate", *described, *load, "--strategy", "capacity(budget_out=0.5)")  # 1,200 decisions
    for arguments in (
        (*run, "--report", "alone.html"),
        (*run, "--report", "live.html", "--store", "run.sqlite"),
        ("report", "run.sqlite", "-o", "stored.html"),
    ):
        code, _, err = ebbflow(*arguments)
        assert code == 0, err
    alone, live, stored = (Path(f"{name}.html").read_text() for name in ("alone", "live", "stored"))
    assert "<title>Ebbflow simulation: top-words on sine(" in stored
    assert "older holds are not listed" in stored
    assert alone == live
    assert live == stored


def test_ledger_report_and_scores_have_the_same_points(ebbflow: Command) -> None:
    code, out, _ = ebbflow(*SIMULATE, "--store", "run.sqlite", "--json")
    (simulated,) = json.loads(out)
    code, out, _ = ebbflow("report", "run.sqlite", "--json")
    acts = json.loads(out)["acts"]
    code, out, _ = ebbflow("ledger", "run.sqlite", "--acts", "--last", "999", "--json")
    entries = json.loads(out)
    assert code == 0
    assert [{"id": entry["id"], **entry["points"]} for entry in entries] == acts
    assert [entry["time_s"] for entry in entries] == [act["trigger_s"] for act in acts]
    gaps_s = [abs(act["gap_s"]) for act in acts if act["gap_s"] is not None]
    assert simulated["demand_gap_s"] == pytest.approx(sum(gaps_s) / len(gaps_s))
    assert simulated["acts_without_demand"] == sum("not demanded" in act["note"] for act in acts)
    _, out, _ = ebbflow("ledger", "run.sqlite", "--acts")
    assert "ready +12 s" in " ".join(out.split())
    page = Path("ebbflow-report.html").read_text()
    assert "ready +12 s, demand" in page


def test_without_json_the_headline_and_the_file_are_printed(ebbflow: Command) -> None:
    assert ebbflow(*SIMULATE, "--store", "run.sqlite")[0] == 0
    code, out, err = ebbflow("report", "run.sqlite")
    assert (code, out) == (0, "")
    assert "freshness p95" in err
    assert "Report: ebbflow-report.html" in err
    assert Path("ebbflow-report.html").is_file()


def test_a_store_is_not_changed_by_its_report(ebbflow: Command) -> None:
    assert ebbflow(*SIMULATE, "--store", "run.sqlite")[0] == 0
    before = Path("run.sqlite").read_bytes()
    assert ebbflow("report", "run.sqlite")[0] == 0
    assert Path("run.sqlite").read_bytes() == before


def test_bad_input_is_one_line_and_code_2(ebbflow: Command) -> None:
    Path("letter.txt").write_text("not a database")
    Path("empty.sqlite").write_text("")
    with closing(Store(Path("idle.sqlite"), ManualClock(0.0))) as store:
        store.begin_run({"slo": "freshness p95 <= 30s", "nodes": "1:4", "started_s": "0.0"})
    with closing(Store(Path("odd.sqlite"), ManualClock(0.0))) as store:
        store.begin_run({"slo": "freshness p95 <= 30s", "nodes": "1:4", "started_s": "noon"})
    with closing(Store(Path("old.sqlite"), ManualClock(0.0))):
        pass
    assert ebbflow(*SIMULATE, "--store", "run.sqlite")[0] == 0
    for arguments, words in (
        (("none.sqlite",), "there is no store none.sqlite"),
        (("letter.txt",), "letter.txt is not a store of Ebbflow"),
        (("empty.sqlite",), "it is empty"),
        (("idle.sqlite",), "idle.sqlite has no batches; was a query running while it was written?"),
        (("odd.sqlite",), "started_s = 'noon' among its terms, which is not a number"),
        (("old.sqlite",), "does not say which SLO and limits its run had"),
        (("run.sqlite", "-o", "nowhere/page.html"), "there is no folder nowhere"),
        (("run.sqlite", "-o", "."), "it is a folder"),
        ((), "Missing argument"),
    ):
        code, out, err = ebbflow("report", *arguments)
        assert (code, out) == (2, ""), arguments
        assert words in err
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--strategy", "capacity,static"), "--store keeps the run of one strategy, not of 2"),
        (("--store", "there.sqlite"), "there.sqlite exists"),
        (("--store", "nowhere/run.sqlite"), "there is no folder nowhere"),
    ],
)
def test_simulate_refuses_a_store_it_cannot_use(ebbflow: Command, more: tuple[str, ...], words: str) -> None:
    Path("there.sqlite").write_text("")
    code, _, err = ebbflow(*SIMULATE, "--store", "run.sqlite", *more)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
