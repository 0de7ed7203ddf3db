"""Commands: each has help, and invalid input ends with one clear line and code 2."""

from __future__ import annotations

import itertools
import json
import signal
from pathlib import Path

import pytest
from console import ebbflow
from typer.testing import CliRunner

from ebbflow.cli import main as cli
from ebbflow.cli.metrics import markdown_page
from ebbflow.core.clock import ManualClock
from ebbflow.core.metrics import Metric
from ebbflow.monitoring.store import Store

ROOT = Path(__file__).parent.parent.parent
COMMANDS = [command.name for command in cli.app.registered_commands]


@pytest.fixture
def nothing_starts(monkeypatch):
    """Starting anything fails the test."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was started")

    monkeypatch.setattr("ebbflow.targets.spark.launch.local_cluster.LocalCluster.start", refuse)
    monkeypatch.setattr("ebbflow.cli.submit.run_script", refuse)
    monkeypatch.setattr("ebbflow.cli.demo.prepare", refuse)
    monkeypatch.setattr("ebbflow.cli.demo.run_live", refuse)


JOB = str(ROOT / "examples" / "plain_job.py")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["demo", "--strategy", "capasity"], "did you mean 'capacity'?"),
        (["demo", "--executors", "5:2"], "did you mean 2:5?"),
        (["demo", "--executors", "0:3"], "the minimum is 1"),
        (["demo", "--slo", "fast please"], "write it like 'freshness p95 <= 30s'"),
        (["demo", "--slo", "freshness p95 <= 5 parsecs"], "write it like 500ms, 30s, 5m"),
        (["demo", "--seconds", "5"], "write 60 to 86400"),
        (["demo", "--seconds", "nan"], "write it like 500ms, 30s, 5m"),
        (["demo", "--seconds", "3 parsecs"], "write it like 500ms, 30s, 5m"),
        (["demo", "--seconds", "30s"], "write 60 to 86400"),
        (["submit", "--json-report", str(ROOT), JOB], "it is a folder"),
        (["ledger", JOB], "is not a store"),
        (["demo", "--report", "/no/such/folder/x.html"], "there is no folder"),
        (["submit", "--executors", "5:2", JOB], "did you mean 2:5?"),
        (["submit", "--executors", "many", JOB], "write it like 1:20"),
        (["submit", "--strategy", "magic", JOB], "there are: balance, capacity"),
        (["submit", "--slo", "freshness p95 <= soon", JOB], "write it like"),
        (["submit", "no-such-job.py"], "there is no script no-such-job.py"),
        (["submit", str(ROOT)], "is a folder"),
        (
            ["submit", "--master", "spark://127.0.0.1:1", JOB],
            "no Spark master answers at spark://127.0.0.1:1",
        ),
        (["submit", "--master", "local[2]", JOB], "no executors to scale"),
        (["submit", "--master", "mesos://x", JOB], "write spark://HOST:PORT"),
        (["submit", "--master", "spark://nowhere", JOB], "write spark://HOST:PORT"),
        (["submit", "--master", "k8s://", JOB], "write k8s://HOST:PORT"),
        (["submit", "--master", "k8s://https://127.0.0.1:1", JOB], "no Kubernetes API server answers"),
        (["submit", "--master", "yarn", JOB], "set one of them"),
        (["submit", "--conf", "spark.executor.cores=many", JOB], "is not a number of cores"),
        (["submit", "--agent", "tcp://10.0.0.7:7788", JOB], "which needs keys"),
        (["submit", "--agent", "next door", JOB], "is not an address"),
        (["submit", "--conf", "shuffle=3", JOB], "write --conf spark.some.key=value"),
        (["submit", "--json-report", "/no/such/folder/x.json", JOB], "there is no folder"),
        (["submit", "--store", "/dev/full", JOB], "it is a device or a pipe; name a file"),
        (["submit"], "Missing argument"),
        (["ledger", "no-such.sqlite"], "there is no store"),
        (["demonstrate"], "No such command"),
        (["demo", "--speed", "9"], "No such option"),
    ],
)
def test_bad_input_is_one_line_and_code_2_and_nothing_starts(
    monkeypatch, capsys, nothing_starts, arguments, words
) -> None:
    code, out, err = ebbflow(monkeypatch, capsys, *arguments)
    assert code == 2
    assert out == ""
    assert words in err
    assert err.startswith("ebbflow: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_takes_json_and_is_documented(command) -> None:
    result = CliRunner().invoke(cli.app, [command, "--help"])
    assert result.exit_code == 0
    assert "--json" in result.output
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert any(f"ebbflow {command}" in page.read_text() for page in pages)


def test_metrics_are_listed_for_people_machines_and_the_reference_page(monkeypatch, capsys) -> None:
    code, out, _ = ebbflow(monkeypatch, capsys, "metrics", "--json")
    assert code == 0
    assert [row["key"] for row in json.loads(out)] == [metric.key for metric in Metric]
    page = markdown_page([(m.key, m.unit.value, m.about.value, m.meaning) for m in Metric])
    assert (ROOT / "docs" / "metrics.md").read_text().strip() == page.strip(), "run `make docs`"


def test_the_ledger_is_shown_while_it_is_written(monkeypatch, capsys, tmp_path) -> None:
    store = Store(tmp_path / "run.sqlite", ManualClock())
    layout = {"nodes": {"main": 1}, "parallelism": {}, "placement": {}}
    body = {
        "time_s": 5.0, "verdict": "act", "before": layout, "wanted": {**layout, "nodes": {"main": 3}},
        "reason": "[red]grow", "bound_by": [{"name": "step cap", "why": "too far"}],
        "expected": {"metric": "freshness", "value": 8.0, "at_s": 9.0}, "achieved": 7.5,
        "inputs": {"readings": "301, [bold]302", "load": 1.25},
    }  # fmt: skip
    store.append_ledger(5.0, "act", body)
    store.append_ledger(6.0, "hold", {**body, "verdict": "hold", "wanted": layout})
    code, out, _ = ebbflow(monkeypatch, capsys, "ledger", str(tmp_path / "run.sqlite"))
    assert code == 0
    assert "1 → 3" in out
    assert "[red]grow" in out.replace("\n", "")
    assert "readings" not in out, "inputs of acts are shown only with --acts"
    code, out, _ = ebbflow(monkeypatch, capsys, "ledger", "--acts", str(tmp_path / "run.sqlite"))
    assert code == 0
    assert "readings: 301, [bold]302" in " ".join(out.split())
    assert "load: 1.25" in out
    code, out, _ = ebbflow(monkeypatch, capsys, "ledger", "--acts", "--json", str(tmp_path / "run.sqlite"))
    assert [entry["verdict"] for entry in json.loads(out)] == ["act"]
    store.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("inherited", [signal.SIG_IGN, signal.SIG_DFL], ids=["ignored", "not ignored"])
def test_a_signal_ignored_at_the_start_as_under_nohup_stays_ignored(
    monkeypatch, capsys, number, inherited
) -> None:
    before = signal.signal(number, inherited)
    try:
        assert ebbflow(monkeypatch, capsys, "--version")[0] == 0
        assert (signal.getsignal(number) == signal.SIG_IGN) is (inherited == signal.SIG_IGN)
        if inherited != signal.SIG_IGN:
            with pytest.raises(SystemExit) as end:
                signal.raise_signal(number)
            assert end.value.code == 128 + number
    finally:
        signal.signal(number, before)


def test_version_is_printed(monkeypatch, capsys) -> None:
    code, out, _ = ebbflow(monkeypatch, capsys, "--version")
    assert (code, out.strip()) == (0, "ebbflow 0.1.0")


@pytest.mark.parametrize("command", ["simulate", "demo", "replay"])
def test_help_fills_the_lines_of_the_terminal(command: str) -> None:
    """Lines of a docstring are for readers of the source; in 80 columns each would be broken once more."""
    shown = (
        CliRunner().invoke(cli.app, [command, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).output
    )
    lines = [line.strip() for line in shown.split("╭", 1)[0].splitlines()]
    paragraph = lines[lines.index("", 3) :] if "" in lines[3:] else lines
    text = [line for line in paragraph if line]
    for line, following in itertools.pairwise(text):
        fits = len(line) + 1 + len(following.split()[0]) <= 76
        assert not fits or line.endswith("."), f"broken early: {line!r}"


def test_the_example_of_set_is_an_option_that_the_command_takes() -> None:
    for command, key in (("simulate", "guards.cool-down.in=30s"), ("profile", "agents=tcp://")):
        shown = (
            CliRunner()
            .invoke(cli.app, [command, "--help"], env={"COLUMNS": "300", "TERMINAL_WIDTH": "300"})
            .output
        )
        assert f"Any other option, like {key}" in shown
