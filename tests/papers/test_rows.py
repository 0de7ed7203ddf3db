"""Rows of papers' tables: seeds, order, and a failure that names its row."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbflow.errors import InputError, RunFailedError, TargetError
from ebbflow.papers.rows import run_in_process, run_rows


def times(context: int, row: str, seed: int) -> tuple[int, str | None]:
    """A run: fails for the row 'bad', has curves with the first seed."""
    if row == "bad":
        raise ValueError("no such thing")
    return context * seed, f"curves of {row}" if seed == 1 else None


@pytest.mark.parametrize("workers", [1, 2])
def test_every_row_has_the_metrics_of_its_seeds_in_order(workers: int) -> None:
    done: list[None] = []
    found = run_rows(
        times, 10, ["a", "b"], name=str, seeds=3, workers=workers, on_done=lambda: done.append(None)
    )
    assert found == [([10, 20, 30], "curves of a"), ([10, 20, 30], "curves of b")]
    assert len(done) == 6


def test_a_failed_run_names_its_row_and_the_place() -> None:
    with pytest.raises(RunFailedError, match=r"row bad failed: no such thing \(test_rows.py:\d+\)"):
        run_rows(times, 1, ["a", "bad"], name=lambda row: f"row {row}", seeds=1, workers=1)
    with pytest.raises(InputError, match="--seeds 0 leaves nothing to compare"):
        run_rows(times, 1, ["a"], name=str, seeds=0)


def test_a_process_gives_its_last_line_or_fails_by_name(tmp_path: Path) -> None:
    file = tmp_path / "answer.json"
    file.write_text('{"metrics": [1, 2]}')
    assert run_in_process("json.tool", "--compact", file, name="stair") == {"metrics": [1, 2]}
    with pytest.raises(TargetError, match=r"stair failed on Spark \(exit code 1\)"):
        run_in_process("ebbflow.no_such_module", name="stair")
