"""The code in CONTRIBUTING.md runs: strategy, guard and target, each with its test, as a contributor would add them."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def block(words: str) -> str:
    """The one block that contains these words."""
    (found,) = [each for each in BLOCKS if words in each]
    return found


@pytest.fixture(scope="module")
def contribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the page, added to the package without touching the checkout."""
    folder = tmp_path_factory.mktemp("contribution")
    files = {
        "strategies/batch_ratio.py": block("class BatchRatio"),
        "guards/growing.py": block("class HoldWhileGrowing"),
        "targets/pool.py": block("class PoolTarget"),
        "test_batch_ratio.py": block("test_it_grows_until_batches_fit"),
        "test_growing.py": block("check_guard(HoldWhileGrowing)"),
        "test_pool.py": block("check_target(PoolTarget"),
        "sitecustomize.py": "import ebbflow.guards, ebbflow.strategies, ebbflow.targets\n"
        + "".join(
            f"ebbflow.{name}.__path__.append({str(folder / name)!r})\n"
            for name in ("strategies", "guards", "targets")
        ),
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def run_python(folder: Path, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd or folder,
        env={"PYTHONPATH": f"{folder}:{ROOT / 'src'}", "PATH": "/usr/bin:/bin", "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=200,
    )


def test_strategy_guard_and_target_pass_their_own_tests(contribution: Path) -> None:
    tests = ("test_batch_ratio.py", "test_growing.py", "test_pool.py")
    result = run_python(contribution, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)
    assert "4 passed" in result.stdout, result.stdout + result.stderr


def test_the_strategy_passes_the_tests_of_the_repository_without_a_third_file(contribution: Path) -> None:
    names = ("testing/test_strategy_contract.py", "test_options.py", "strategies/test_registry.py")
    tests = [str(ROOT / "tests" / name) for name in names]
    only = ("-k", "batch-ratio or not test_every_strategy")  # the others are checked already
    result = run_python(contribution, "-m", "pytest", "-q", "-p", "no:cacheprovider", *only, *tests, cwd=ROOT)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr
    assert "failed" not in result.stdout


def test_the_strategy_can_be_named_with_its_parameter(contribution: Path) -> None:
    options = ("--load", "constant(300)", "--seconds", "10m", "--json")
    result = run_python(
        contribution, "-m", "ebbflow", "simulate", "--strategy", "batch-ratio(trigger_share=0.5)", *options
    )
    assert result.returncode == 0, result.stderr
    assert "batch-ratio" in result.stdout


def test_every_block_is_run_and_every_make_target_exists() -> None:
    assert len(BLOCKS) == 6
    (toml,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    assert tomllib.loads(toml)["project"]["entry-points"]["ebbflow.strategies"]["batch-ratio"]
    targets = set(re.findall(r"^make ([a-z-]+)", TEXT, re.MULTILINE))
    defined = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert targets <= defined
