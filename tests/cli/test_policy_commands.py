"""``ebbflow policy`` and ``ebbflow bench rules``: output and errors."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ebbflow.cli import main as cli
from ebbflow.control.policy_file import digest_of
from ebbflow.core.clock import SystemClock
from ebbflow.monitoring.store import Store
from ebbflow.policy.files import load_policy

ROOT = Path(__file__).parents[2]
QUEUE = str(ROOT / "examples" / "policies" / "queue.toml")


@pytest.fixture
def ebbflow(monkeypatch, capsys):
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ebbflow", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        return int(end.value.code or 0), out, err

    return run


@pytest.mark.parametrize("command", ["check", "show", "try", "apply", "schema"])
def test_every_command_has_help_takes_json_and_is_documented(command: str) -> None:
    result = CliRunner().invoke(cli.app, ["policy", command, "--help"])
    assert result.exit_code == 0
    assert "--json" in result.output
    assert f"ebbflow policy {command}" in (ROOT / "docs" / "policies.md").read_text()


def test_check_prints_one_line_per_problem_and_exits_with_2(ebbflow, tmp_path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text('[[rule]]\nname = "x"\naction = "scale-up"\nby = 0\nwhen = []\n')
    code, out, err = ebbflow("policy", "check", str(bad))
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        f"{bad}:3:1: unknown action 'scale-up'; write scale-out or scale-in",
        f"{bad}:4:1: invalid step 0; write a whole number of at least 1",
        f"{bad}:5:1: rule 'x' has no conditions; add at least one to when",
    ]
    code, out, _ = ebbflow("policy", "check", "--json", str(bad))
    assert code == 2
    assert len(json.loads(out)["problems"]) == 3
    assert ebbflow("policy", "check", QUEUE)[0] == 0


def test_show_prints_english_or_the_other_format(ebbflow, tmp_path) -> None:
    code, out, _ = ebbflow("policy", "show", QUEUE)
    assert code == 0
    assert "Scale out operator enrich by 1 instance, but never above 4 instances," in out
    code, out, _ = ebbflow("policy", "show", "--as", "yaml", QUEUE)
    (tmp_path / "q.yaml").write_text(out)
    assert load_policy(tmp_path / "q.yaml") == load_policy(QUEUE)
    assert json.loads(ebbflow("policy", "show", "--json", QUEUE)[1])["rule"][0]["operator"] == "enrich"


def test_apply_replaces_the_file_only_with_a_valid_policy(ebbflow, tmp_path) -> None:
    live = tmp_path / "live.yaml"
    code, _, err = ebbflow("policy", "apply", QUEUE, "--to", str(live))
    assert code == 2
    assert "no such file" in err
    live.write_text("rule: []")
    assert ebbflow("policy", "apply", QUEUE, "--to", str(live))[0] == 0
    assert load_policy(live) == load_policy(QUEUE)
    bad = tmp_path / "bad.toml"
    bad.write_text("rule = 3")
    code, _, err = ebbflow("policy", "apply", str(bad), "--to", str(live))
    assert code == 2
    assert err.startswith(f"ebbflow: {bad}:1:1: ")
    assert load_policy(live) == load_policy(QUEUE)


def test_apply_keeps_symbolic_links_and_refuses_an_empty_policy(ebbflow, tmp_path) -> None:
    real, link, empty = tmp_path / "real.toml", tmp_path / "live.toml", tmp_path / "empty.toml"
    real.write_text("")
    link.symlink_to(real)
    assert ebbflow("policy", "apply", QUEUE, "--to", str(link))[0] == 0
    assert link.is_symlink()
    assert load_policy(real) == load_policy(QUEUE)
    empty.write_text("")
    code, _, err = ebbflow("policy", "apply", str(empty), "--to", str(link))
    assert code == 2
    assert "the policy is empty" in err
    assert load_policy(real) == load_policy(QUEUE)


def test_apply_waits_for_the_confirmation_of_the_job(ebbflow, tmp_path) -> None:
    live, path = tmp_path / "live.toml", tmp_path / "run.sqlite"
    live.write_text("")
    store = Store(path, SystemClock())
    code, _, err = ebbflow(
        "policy", "apply", QUEUE, "--to", str(live), "--store", str(path), "--within", "1ms"
    )
    assert code == 1
    assert "is a job running that watches" in err
    live.write_text("")
    entry = {"reason": "policy live.toml replaced", "inputs": {"sha256": digest_of(Path(QUEUE).read_bytes())}}
    threading.Timer(0.5, lambda: store.append_ledger(1.0, "hold", entry)).start()
    code, out, _ = ebbflow("policy", "apply", QUEUE, "--to", str(live), "--store", str(path), "--json")
    assert code == 0
    assert json.loads(out)["answer"] == "policy live.toml replaced"
    threading.Timer(0.5, lambda: store.append_ledger(2.0, "hold", entry | {"reason": "again"})).start()
    again = ("policy", "apply", QUEUE, "--to", str(live), "--store", str(path), "--json")
    assert json.loads(ebbflow(*again)[1])["answer"] == "again", "it replaced a policy set in Python"
    code, out, _ = ebbflow(*again, "--within", "1ms")
    assert (code, json.loads(out)["answer"]) == (0, "the file already had exactly this content")
    store.close()


def test_try_names_metrics_without_readings(ebbflow, tmp_path) -> None:
    heap = tmp_path / "heap.toml"
    heap.write_text(
        '[[rule]]\nname = "heap"\naction = "scale-out"\nby = 1\n'
        'when = [{ metric = "node-heap-share", above = "80%", for-at-least = "30s" }]\n'
    )
    arguments = ["policy", "try", str(heap), "--load", "constant(10)", "--seconds", "120"]
    code, out, _ = ebbflow(*arguments)
    assert code == 0
    assert "heap: never fired; no readings of node-heap-share" in " ".join(out.split())
    assert json.loads(ebbflow(*arguments, "--json")[1])["unheard"] == {"heap": ["node-heap-share"]}


def test_try_starts_at_the_given_time(ebbflow, tmp_path) -> None:
    day = tmp_path / "day.toml"
    day.write_text('[[bounds]]\nname = "day"\nat-least = 4\nfrom = "08:00"\nuntil = "20:00"\n')
    arguments = ["policy", "try", str(day), "--load", "constant(10)", "--seconds", "120", "--json"]
    assert json.loads(ebbflow(*arguments, "--at", "2026-11-16T07:00")[1])["fired"] == []
    (fired,) = json.loads(ebbflow(*arguments, "--at", "2026-11-16T07:59")[1])["fired"]
    assert 60 <= fired["time_s"] <= 65
    assert fired["change"] == "main +3 nodes"


def test_try_reports_when_each_rule_fired(ebbflow, tmp_path) -> None:
    page = tmp_path / "try.html"
    code, out, _ = ebbflow(
        "policy", "try", QUEUE, "--load", "step(base=10, peak=30, at=60s)", "--seconds", "300",
        "--operators", "enrich=12", "--report", str(page), "--json",
    )  # fmt: skip
    assert code == 0
    result = json.loads(out)
    assert result["fired"][0]["rule"] == "Queue length is above 300 for 30 seconds"
    # 18 rows/s too many from 60 s on: the queue is 360 at 80 s, and above 300 for 30 s at 110 s
    assert result["fired"][0]["time_s"] == 110.0
    assert result["times"]["Queue length is above 300 for 30 seconds"] >= 1
    assert "Scale out operator enrich" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["policy", "try", QUEUE, "--load", "constant(10)"], "describe yours with --operators enrich=RATE"),
        (
            ["policy", "try", QUEUE, "--load", "constant(1)", "--operators", "enrich=5", "--at", "8 o'clock"],
            "like 2026-11-16T08:00",
        ),
        (["policy", "try", QUEUE, "--load", "sinus(1)"], "did you mean 'sine'"),
        (
            ["policy", "try", QUEUE, "--load", "constant(1)", "--operators", "enrich"],
            "write, for example, enrich=5,store=20",
        ),
        (
            ["policy", "try", QUEUE, "--load", "constant(1)", "--operators", "enrich=-1"],
            "write, for example, enrich=5,store=20",
        ),
        (
            ["policy", "try", QUEUE, "--load", "constant(1)", "--operators", "enrich=1,enrich=2"],
            "'enrich' appears twice",
        ),
        (
            [
                "policy",
                "try",
                QUEUE,
                "--load",
                "constant(1)",
                "--operators",
                "enrich=1",
                "--engine",
                "micro-batch",
            ],
            "on the continuous engine only",
        ),
        (["policy", "show", "no.toml"], "there is no policy file"),
        (["policy", "show", "--as", "xml", QUEUE], "ends in .toml"),
        (["bench", "rules", "--target", "spork"], "did you mean 'spark'"),
        (["bench", "rules", "--case", "scaleout"], "did you mean 'scale-out'"),
        (["demo", "--policy", "no.toml"], "there is no policy file"),
        (["demo", "--policy", QUEUE, "--strategy", "flink"], "leave one of them out"),
        (["submit", "--policy", "no.toml", QUEUE], "there is no policy file"),
    ],
)
def test_invalid_input_is_one_line_and_exit_code_2(ebbflow, arguments: list[str], words: str) -> None:
    code, out, err = ebbflow(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_bench_rules_prints_expected_and_measured_changes(ebbflow, tmp_path) -> None:
    page = tmp_path / "rules.html"
    code, out, _ = ebbflow("bench", "rules", "--json", "--report", str(page))
    result = json.loads(out)
    assert code == 0
    assert [row["case"] for row in result] == [
        "scale-out", "extra-capacity", "two-operators", "short-peaks", "out-and-in", "hysteresis",
    ]  # fmt: skip
    assert all(row["ok"] and row["expected"]["changes"] == row["measured"]["changes"] for row in result)
    assert "6 of 6 tests have the expected result" in page.read_text()
    code, out, _ = ebbflow("bench", "rules", "--case", "scale-out", "--report", str(page))
    assert code == 0
    assert "1→2 at 91 s, then 0" in " ".join(out.split())
    assert "Spark, 20" in " ".join(out.split()), "the date of the stored run"
    assert out.count("✓") == 2
    assert "then 0 rows/s" in page.read_text()


def test_the_schema_is_one_json_document(ebbflow) -> None:
    code, out, _ = ebbflow("policy", "schema")
    assert code == 0
    assert json.loads(out)["title"] == "Ebbflow scaling policy"
