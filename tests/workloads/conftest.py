"""A fixture that writes trace files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def trace_file(tmp_path: Path) -> Callable[[str], str]:
    """Write a trace file and return its name."""

    def write(text: str) -> str:
        file = tmp_path / "trace.csv"
        file.write_text(text)
        return str(file)

    return write
