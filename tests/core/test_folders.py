"""Folders for results."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys

import pytest

from ebbflow.core import folders
from ebbflow.core.folders import make_folder, only_writer
from ebbflow.errors import InputError


def test_a_folder_is_created_empty_with_its_parents(tmp_path) -> None:
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_an_unwritable_folder_is_reported(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "sub"):
        for use in (make_folder, lambda folder: only_writer(folder).__enter__()):
            with pytest.raises(InputError, match=f"cannot write to {folder}: "):
                use(folder)


def test_one_run_at_a_time_writes_to_a_folder(tmp_path) -> None:
    with only_writer(tmp_path), pytest.raises(InputError, match="another run writes to"):
        only_writer(tmp_path).__enter__()
    with only_writer(tmp_path):
        pass


def test_a_run_that_was_killed_leaves_no_lock(tmp_path) -> None:
    code = (
        "import sys, pathlib; from ebbflow.core.folders import only_writer\n"
        "with only_writer(pathlib.Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="another run writes to"):
            only_writer(tmp_path).__enter__()
        other.send_signal(signal.SIGKILL)
    with only_writer(tmp_path):
        pass


def test_a_file_system_without_locks_is_used_with_a_warning(tmp_path, monkeypatch, caplog) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(folders.fcntl, "flock", unsupported)
    assert fcntl.flock is unsupported
    with only_writer(tmp_path):
        assert "cannot be locked" in caplog.text
