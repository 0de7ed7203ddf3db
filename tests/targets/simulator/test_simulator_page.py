"""The examples of docs/simulator.md run."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "simulator.md"


def test_the_examples_run_in_order(capsys) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) == 3
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    assert "cost_ratio=1." in printed
    assert "sentiment PipelineRows(processed=" in printed
    assert "rebalanced" in printed
