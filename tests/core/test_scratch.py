"""Scratch folders are removed with their run or by the next one, and nothing else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest

from ebbflow.core.folders import OWNER_FILE, Owner, scratch_folder, sweep

RUN = """
import sys
from pathlib import Path
from ebbflow.core.folders import scratch_folder
with scratch_folder("run") as folder:
    (Path(folder) / "checkpoint").mkdir()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left(temporary: Path, name: str, owner: Owner | None) -> Path:
    """A folder left by a process."""
    folder = temporary / name
    folder.mkdir()
    (folder / "data").write_text("x")
    if owner is not None:
        (folder / OWNER_FILE).write_bytes(msgspec.json.encode(owner))
    return folder


def changed(**fields: float | str) -> Owner:
    return msgspec.structs.replace(Owner.this_process(), **fields)


def test_the_folder_is_removed_at_the_end_of_the_block(temporary: Path) -> None:
    with scratch_folder("run") as folder:
        assert Path(folder).parent == temporary
        (Path(folder) / "data").write_text("x")
    assert list(temporary.iterdir()) == []


def test_the_folder_of_a_killed_run_is_removed_once_its_process_has_ended(temporary: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RUN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        folder = Path(run.stdout.readline().strip())
        scratch_folder("run").cleanup()
        assert (folder / "checkpoint").is_dir(), "its run has not ended"
        os.kill(run.pid, signal.SIGKILL)
        os.waitid(os.P_PID, run.pid, os.WEXITED | os.WNOWAIT)
        assert folder.is_dir()
        sweep()  # killed, but not reaped yet
    assert not folder.exists()


def test_a_pid_with_another_start_time_is_another_process(temporary: Path) -> None:
    this = Owner.this_process()
    mine = left(temporary, "ebbflow-run-mine", this)
    reused = left(temporary, "ebbflow-run-reused", changed(ticks=this.ticks - 1))
    before_the_boot = left(temporary, "ebbflow-run-boot", changed(boot="another"))
    sweep()
    assert (mine.is_dir(), reused.exists(), before_the_boot.exists()) == (True, False, False)


def test_setting_the_clock_does_not_make_it_another_process(temporary: Path) -> None:
    mine = left(temporary, "ebbflow-run-mine", changed(started_s=1e9))
    sweep()
    assert mine.is_dir()


def test_without_ticks_start_times_within_a_minute_are_the_same(temporary: Path) -> None:
    seen_s = Owner.this_process().started_s
    adjusted = left(temporary, "ebbflow-run-adjusted", changed(started_s=seen_s - 5, ticks=-1))
    reused = left(temporary, "ebbflow-run-reused", changed(started_s=1e9, ticks=-1))
    sweep()
    assert (adjusted.is_dir(), reused.exists()) == (True, False)


def test_folders_of_others_are_not_removed(temporary: Path) -> None:
    dead = changed(ticks=1)
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    kept = [
        left(temporary, "ebbflow-run-just-made", None),
        left(temporary, "ebbflow-run-strange", None),
        left(temporary, "ebbflow-run-container", changed(started_s=1e9, namespace=7)),
        left(temporary, "other-run-x", dead),
        left(elsewhere, "target", dead),
    ]
    (kept[1] / OWNER_FILE).write_text('{"pid": "1", "of": "another program"}')
    link, file = temporary / "ebbflow-run-link", temporary / "ebbflow-run-file"
    link.symlink_to(kept[-1])
    file.write_text("x")
    sweep()
    assert all((folder / "data").exists() for folder in kept)
    assert link.is_symlink()
    assert file.exists()
