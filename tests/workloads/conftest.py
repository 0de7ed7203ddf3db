"""Real traces, where they are; and trace files made for one test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture
def shared_data() -> Path:
    if not SHARED_DATA.is_dir():
        pytest.skip(f"no shared data at {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture
def trace_file(tmp_path: Path) -> Callable[[str], str]:
    """Writes a trace file and gives its name."""

    def write(text: str) -> str:
        file = tmp_path / "trace.csv"
        file.write_text(text)
        return str(file)

    return write
