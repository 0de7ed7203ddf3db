"""The code in CONTRIBUTING.md runs: the strategy, its test, the guard and its test, as a contributor would add them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def block(words: str) -> str:
    """The one block that contains these words."""
    (found,) = [each for each in BLOCKS if words in each]
    return found


@pytest.fixture
def strategy_module(tmp_path: Path) -> Path:
    """The strategy of the page in a folder that extends the package, without touching the checkout."""
    package = tmp_path / "strategies"
    package.mkdir()
    (package / "batch_ratio.py").write_text(block("class BatchRatio"))
    (tmp_path / "sitecustomize.py").write_text(
        f"import ebbflow.strategies\nebbflow.strategies.__path__.append({str(package)!r})\n"
    )
    return tmp_path


def run_python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={"PYTHONPATH": f"{folder}:{ROOT / 'src'}", "PATH": "/usr/bin:/bin", "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_strategy_works_with_one_file_and_one_test(strategy_module: Path) -> None:
    (strategy_module / "test_batch_ratio.py").write_text(block("test_it_grows_until_batches_fit"))
    result = run_python(
        strategy_module, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_batch_ratio.py"
    )
    assert "2 passed" in result.stdout, result.stdout + result.stderr


def test_the_strategy_can_be_named_with_its_parameter(strategy_module: Path) -> None:
    options = ("--load", "constant(300)", "--seconds", "10m", "--json")
    result = run_python(
        strategy_module, "-m", "ebbflow", "simulate", "--strategy", "batch-ratio(share=0.5)", *options
    )
    assert result.returncode == 0, result.stderr
    assert "batch-ratio" in result.stdout


def test_the_guard_passes_the_contract() -> None:
    names: dict[str, object] = {"__name__": "contributing"}
    exec(block("class HoldWhileGrowing"), names)
    exec(block("check_guard(HoldWhileGrowing)"), names)
    names["test_it_keeps_the_contract"]()  # type: ignore[operator]


def test_every_block_is_run_and_every_make_target_exists() -> None:
    assert len(BLOCKS) == 4
    targets = set(re.findall(r"^make ([a-z-]+)", TEXT, re.MULTILINE))
    defined = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert targets <= defined
