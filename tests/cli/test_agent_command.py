"""The command ``ebbflow agent``."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ebbflow.cli import main as cli
from ebbflow.core.metrics import Metric
from ebbflow.monitoring.collector import Collector
from ebbflow.monitoring.keys import collector_keys, make_keys

COMMAND = [sys.executable, "-c", "from ebbflow.cli.main import main; main()", "agent"]


def run(monkeypatch, capsys, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["ebbflow", "agent", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--bind", "tcp://0.0.0.0:7788"], "can be reached from other machines, which needs keys"),
        (["--bind", "tcp://*:7788"], "`ebbflow agent keys DIR`"),
        (["--bind", "everywhere"], "write it like tcp://127.0.0.1:7788"),
        (["--every", "soon"], "write it like 500ms"),
        (["--every", "0s"], "use 10ms to 1h"),
        (["--name", "a b"], "use letters, digits"),
        (["--keys", "/no/such/folder"], "there is no key /no/such/folder/agent.key_secret"),
        (["keys"], "Missing argument"),
        (["keys", "/proc/nowhere"], "cannot write keys to /proc/nowhere"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(monkeypatch, capsys, arguments, words) -> None:
    code, out, err = run(monkeypatch, capsys, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.startswith("ebbflow: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["agent"], ["agent", "keys"]])
def test_both_commands_have_help_and_json(arguments) -> None:
    result = CliRunner().invoke(cli.app, [*arguments, "--help"])
    assert result.exit_code == 0
    assert "--json" in result.output


def test_keys_are_created_and_printed(monkeypatch, capsys, tmp_path) -> None:
    code, out, _ = run(monkeypatch, capsys, "keys", str(tmp_path / "k"), "--json")
    assert code == 0
    assert {name: Path(path).is_dir() for name, path in json.loads(out).items()} == {
        "agent": True,
        "collector": True,
    }
    code, _, err = run(monkeypatch, capsys, "keys", str(tmp_path / "k"))
    assert code == 2
    assert "exists already" in err


def test_an_agent_prints_its_address_publishes_and_stops_on_a_signal(tmp_path, wait) -> None:
    agent, collector = make_keys(tmp_path)
    options = [
        "--bind",
        "tcp://127.0.0.1:*",
        "--keys",
        str(agent),
        "--every",
        "50ms",
        "--name",
        "w",
        "--json",
    ]
    with subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = b""
        while not lines.endswith(b"}\n"):
            line = process.stdout.readline()
            assert line, process.communicate()
            lines += line
        printed = json.loads(lines)
        assert (printed["name"], printed["keys"]) == ("w", True)
        listening = Collector([printed["address"]], application="app-1", keys=collector_keys(collector))
        listening.subscribe_to([("*", Metric.HOST_CPU)])
        wait(lambda: listening.take(time.time()), "the host's CPU")
        listening.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
