"""Loads of a leaderboard: lists with brackets, files, folders, and the busiest section of a file."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.errors import InputError, LoadError
from ebbflow.runs.loads import built_in_loads, read_loads, split_loads
from ebbflow.workloads import parse_load

PIECES = [
    "a.csv",
    "constant(5)",
    "sine(base=1, peak=9, period=1h)",
    "'odd, name.csv'",
    "2 * (constant(1) + step(1,2,3s))",
]


@given(st.lists(st.sampled_from(PIECES), min_size=1))
def test_a_list_is_split_where_it_was_joined(pieces) -> None:
    assert split_loads(" ,".join(pieces)) == pieces


@pytest.mark.parametrize("text", ["", "a.csv,", ",a.csv", "a.csv,,b.csv"])
def test_an_empty_entry_is_an_error(text: str) -> None:
    with pytest.raises(LoadError, match="has an empty entry"):
        split_loads(text)


def hours(path: Path, *events: float) -> Path:
    text = "hour,events\n" + "".join(f"{hour},{count}\n" for hour, count in enumerate(events))
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def load_of(*texts: str, seconds: float = 7200.0, speed: float = 1.0, peak: float = 100.0):
    return read_loads(texts, peak_per_s=peak, speed=speed, seconds=seconds)


def test_the_busiest_section_of_a_file_is_scaled_to_the_peak(tmp_path) -> None:
    file = hours(tmp_path / "trace.csv.gz", 10, 20, 30, 60, 90, 9, 1)  # 30, 90, 99
    (one,) = load_of(str(file))
    assert one.name == "trace"
    assert one.load.duration_s == 7200.0
    assert one.load.rate_per_s(np.array([0.0, 3600.0])).tolist() == pytest.approx([100.0, 10.0])
    assert "start=4h, end=6h" in str(one.load)


def test_sections_start_at_the_first_row_and_are_complete(tmp_path) -> None:
    file = hours(
        tmp_path / "t.csv", 1, 1, 1, 50, 50, 1, 999
    )  # 0-2: 2, 2-4: 51, 4-6: 51, the rest is no stretch
    (one,) = load_of(str(file))
    assert "start=2h, end=4h" in str(one.load), "the first of equals"
    (fast,) = load_of(str(file), speed=2.0)
    assert str(fast.load).endswith("speed=2, end=4h)")
    assert fast.load.duration_s == 7200.0


def test_a_shorter_file_is_used_whole(tmp_path) -> None:
    (one,) = load_of(str(hours(tmp_path / "t.csv", 1, 2)), seconds=86400.0)
    assert one.load.duration_s == 7200.0


def test_folders_and_patterns_expand_to_their_files(tmp_path) -> None:
    for name in ("b.csv", "a.csv.gz", "notes.txt"):
        hours(tmp_path / name, 1, 2)
    assert [load.name for load in load_of(str(tmp_path))] == ["a", "b"]
    assert [load.name for load in load_of(str(tmp_path / "*.csv"), "constant(5)")] == ["b", "constant(5)"]


def test_a_trace_is_named_after_its_file_and_a_second_section_after_its_expression(tmp_path) -> None:
    file = hours(tmp_path / "t.csv", 1, 2, 3, 4)
    later = f"trace({file}, start=2h)"
    assert [load.name for load in load_of(f"trace({file}, end=2h)", later)] == ["t", later]


def test_missing_files_and_duplicate_names_are_errors(tmp_path) -> None:
    hours(tmp_path / "a.csv", 1, 2)
    hours(tmp_path / "a.csv.gz", 1, 2)
    with pytest.raises(LoadError, match="two loads are called 'a'"):
        load_of(str(tmp_path))
    with pytest.raises(LoadError, match=r"no trace file 'sine'.*an expression like sine"):
        load_of("sine")
    with pytest.raises(LoadError, match="no file matches"):
        load_of(str(tmp_path / "*.parquet"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(LoadError, match="no trace"):
        load_of(str(tmp_path / "empty"))
    with pytest.raises(InputError, match="unknown load shape"):
        load_of("sinus(1)")


def test_jitter_changes_seconds_but_not_the_sum() -> None:
    (one,) = load_of("constant(1000)")
    edges = np.arange(0.0, 3601.0)
    first, second = (one.with_jitter(0.1, seed).rows_between(edges) for seed in (1, 2))
    assert not np.allclose(first, second)
    assert first.sum() == pytest.approx(3_600_000, rel=0.01)
    assert one.with_jitter(0.0, 1) is one.load


def test_built_in_loads_reach_the_peak_and_no_more() -> None:
    for one in built_in_loads(2000.0):
        highest = float(one.load.rate_per_s(np.arange(0.0, 86400.0)).max())
        assert 999 <= highest <= 2000.5, one.name


def test_the_sample_step_survives_noise_sums_and_speed(tmp_path) -> None:
    file = hours(tmp_path / "t.csv", 1, 2, 3)
    for text, step_s in (
        ("constant(5)", 0.0),
        (f"trace({file})", 3600.0),
        (f"trace({file}, speed=60)", 60.0),
        (f"noise(constant(1) + 2 * trace({file}, speed=60) + trace({file}, speed=30), amount=0.1)", 120.0),
    ):
        assert parse_load(text).sample_step_s == step_s, text
