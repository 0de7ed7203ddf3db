"""The console script, run in the process of the test."""

from __future__ import annotations

import sys

import pytest

from ebbflow.cli import main as cli


def ebbflow(monkeypatch, capsys, *arguments: str) -> tuple[int, str, str]:
    """Code, standard output and standard error of a command."""
    monkeypatch.setattr(sys, "argv", ["ebbflow", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err
