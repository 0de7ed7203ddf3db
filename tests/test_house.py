"""The house keeps its rules: imports go one way, nothing looks at the clock."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HOUSE = ROOT / "src" / "ebbflow"
MODULES = sorted(HOUSE.rglob("*.py"))
PURE = ("core", "policy", "forecasting", "strategies", "guards", "profiling", "control")
CLOCK = HOUSE / "core" / "clock.py"


def label(path: Path) -> str:
    return str(path.relative_to(HOUSE))


def test_imports_go_one_way_through_the_house() -> None:
    linter = Path(sys.executable).parent / "lint-imports"
    told = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.parametrize(
    "module",
    ["ebbflow", "ebbflow.core.ports", "ebbflow.strategies", "ebbflow.guards", "ebbflow.control.loop"],
)
def test_spark_is_loaded_only_by_what_needs_it(module: str) -> None:
    code = f"import {module}, sys; print([m for m in ('pyspark', 'py4j') if m in sys.modules])"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert told.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "path", [p for p in MODULES if not p.name.startswith("_") or p.name == "__init__.py"], ids=label
)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


def looks_at_the_clock(path: Path) -> list[str]:
    """Calls of the wall clock, also through another name: ``from time import time as t; t()``."""
    found, names = [], {"time": "time", "datetime": "datetime"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update({a.asname: a.name for a in node.names if a.asname})
        elif isinstance(node, ast.ImportFrom):
            names.update({a.asname or a.name: f"{node.module}.{a.name}" for a in node.names})
        elif isinstance(node, ast.Call):
            dotted = ast.unparse(node.func)
            first, _, rest = dotted.partition(".")
            called = f"{names.get(first, first)}.{rest}".rstrip(".")
            if called.split(".")[0] in ("time", "datetime") and called.split(".")[-1] in CLOCK_CALLS:
                found.append(f"line {node.lineno}: {dotted}()")
    return found


CLOCK_CALLS = {"time", "time_ns", "monotonic", "perf_counter", "sleep", "now", "utcnow", "today"}


@pytest.mark.parametrize(
    "path", [p for p in MODULES if p.relative_to(HOUSE).parts[0] in PURE and p != CLOCK], ids=label
)
def test_logic_gets_its_time_by_constructor(path: Path) -> None:
    assert looks_at_the_clock(path) == []


def test_the_scan_for_clocks_finds_one_where_there_is_one() -> None:
    assert looks_at_the_clock(CLOCK)


def test_how_old_a_look_may_be_is_judged_in_one_place() -> None:
    """The loop asks no strategy on a look that failed or is too old, so nobody else need check. Strategies compare
    with ``seen_s``, the time of the look; how old single *readings* may be is another matter."""
    judges = {
        label(path)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "data_age_s"
    }
    assert judges == {"core/snapshot.py", "guards/missing_data.py"}
