"""The class archive is made once, complete or not at all, and is optional."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ebbflow.targets.spark.launch import local_cluster
from ebbflow.targets.spark.launch.local_cluster import archive_option, archive_path, record_archive


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ebbflow"


def written_by(content: bytes):
    """An executor that writes this content at its exit."""
    options = []

    def run(option: str, written) -> None:
        options.append(option)
        Path(option.partition("=")[2]).write_bytes(content)
        assert written() is bool(content)

    run.options = options
    return run


def test_the_archive_is_made_once_and_then_used(cache) -> None:
    assert archive_option() == ""
    run = written_by(b"classes")
    assert record_archive(run, settle_s=-1.0)
    assert archive_option() == f"-XX:SharedArchiveFile={archive_path()}"
    assert record_archive(run, settle_s=-1.0)
    assert len(run.options) == 1
    assert [path.suffix for path in cache.iterdir()] == [".jsa"]


def test_an_incomplete_archive_is_removed_and_made_again(cache) -> None:
    assert not record_archive(written_by(b""), settle_s=-1.0)
    assert not record_archive(lambda option, written: None, settle_s=-1.0)
    assert list(cache.iterdir()) == []
    assert record_archive(written_by(b"classes"), settle_s=-1.0)


def test_archives_of_other_versions_are_removed_after_a_month_without_use(cache) -> None:
    cache.mkdir(parents=True)
    current = archive_path()
    assert current is not None
    old, recent, torn, other = (
        cache / name
        for name in ("executor-0ld.jsa", "executor-rec3nt.jsa", "executor-0ld.77", "profiles.json")
    )
    days = {current: 400, old: 31, recent: 29, torn: 31, other: 400}
    for path, age in days.items():
        path.write_bytes(b"x")
        os.utime(path, (time.time() - 86400 * age,) * 2)
    assert record_archive(written_by(b"classes"), settle_s=-1.0)
    assert set(cache.iterdir()) == {current, recent, other}
    assert archive_option()
    assert time.time() - current.stat().st_mtime < 3600, "its use is recorded"


def test_executors_start_without_an_archive_if_it_cannot_be_stored(tmp_path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert not record_archive(written_by(b"classes"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "two words"))
    assert archive_path() is None
    monkeypatch.delenv("XDG_CACHE_HOME")

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(local_cluster.Path, "home", homeless)
    assert archive_path() is None
    assert archive_option() == ""
    assert not record_archive(written_by(b"classes"))
