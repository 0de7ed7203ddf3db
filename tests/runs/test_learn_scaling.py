"""The example learns: a few seconds of trying are better than chance."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "learn_scaling.py"


def test_what_was_learned_in_seconds_beats_a_random_policy() -> None:
    told = subprocess.run([sys.executable, EXAMPLE, "2"], capture_output=True, text=True, timeout=120)
    assert told.returncode == 0, told.stderr
    rows = [line.split() for line in told.stdout.splitlines()]
    rewards = {row[0]: float(row[1]) for row in rows if row and row[0] in ("random", "learned")}
    assert rewards["learned"] > rewards["random"]
