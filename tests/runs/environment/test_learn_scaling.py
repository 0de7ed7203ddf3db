"""The learning example beats chance after a few seconds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "learn_scaling.py"


def test_a_policy_learned_in_seconds_beats_a_random_one() -> None:
    output = subprocess.run([sys.executable, EXAMPLE, "2"], capture_output=True, text=True, timeout=120)
    assert output.returncode == 0, output.stderr
    rows = [line.split() for line in output.stdout.splitlines()]
    rewards = {row[0]: float(row[1]) for row in rows if row and row[0] in ("random", "learned")}
    assert rewards["learned"] > rewards["random"]
