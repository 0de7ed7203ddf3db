"""``ebbflow learner train`` with a deep agent: the same command and budget, weights instead of a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from console import ebbflow

from ebbflow.strategies import make_strategy


def test_a_deep_agent_is_trained_by_the_same_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    weights, page = tmp_path / "w.json", tmp_path / "page.html"
    train = [
        "learner",
        "train",
        "--load",
        "sine(base=200, peak=900, period=10m)",
        "--seconds",
        "10m",
        "--workers",
        "1",
    ]
    given = ["--strategy", "deep-learner(agent=dqn)", "--episodes", "2", "--seeds", "1"]
    code, _, said = ebbflow(
        monkeypatch, capsys, *train, *given, "--output", str(weights), "--report", str(page)
    )
    assert code == 0
    assert "has the weights of seed 1" in said
    assert f"weights={weights}" in said.replace("\n", "").replace('"', "")
    assert (
        json.loads(weights.read_text())["steps"] > 100
    )  # 2 episodes of 60 cycles, without the first without data
    assert make_strategy(f"deep-learner(agent=dqn, weights={weights})").name == "deep-learner"
    assert "Learning curves" in page.read_text()
    code, _, said = ebbflow(monkeypatch, capsys, "learner", "show", str(weights))
    assert code == 2
    assert "is not a learner table" in said
