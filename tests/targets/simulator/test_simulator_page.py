"""The examples of docs/simulator.md run."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "simulator.md"


def test_the_examples_of_the_page_run_one_after_the_other(capsys) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) == 3
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)
    told = capsys.readouterr().out
    assert "cost_ratio=1." in told
    assert "sentiment Work(processed=" in told
    assert "rebalanced" in told
