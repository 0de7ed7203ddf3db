"""Positions in a folder of parts: the pieces between them make up the whole, wherever they are."""

from __future__ import annotations

from itertools import accumulate, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbflow.errors import InputError
from ebbflow.papers.rules.google_cluster.events import MAX_JUMP_US, REPORT_US, START_US
from ebbflow.papers.rules.google_cluster.folder import TraceFolder, TracePosition, part_files, read_part


def line(time_us: int, task: int) -> str:
    return f"{time_us},,1,{task},5,1,u,0,0,0.5,0.5,0.5,0\n"


def folder_of(path: Path, *parts: list[int]) -> Path:
    path.mkdir(exist_ok=True)
    task = 0
    for number, times in enumerate(parts):
        lines = []
        for time_us in times:
            lines.append(line(time_us, task))
            task += 1
        (path / f"part-{number}.csv").write_text("".join(lines))
    return path


def tasks_between(folder: TraceFolder, start: TracePosition, end: TracePosition) -> list[int]:
    found: list[int] = []
    for piece in folder.slices(start, end):
        part = read_part(Path(piece.path), piece.floor_us, piece.ceiling_us, piece.next_us)
        found += part.between(piece.from_us, piece.until_us).task.tolist()
    return found


def test_parts_are_ordered_by_number_and_other_tables_are_ignored(tmp_path) -> None:
    for name in ("part-10.csv", "part-2.csv", "part-1.csv.gz", "notes.txt", ".part-0.csv.new", ".part-3.csv"):
        (tmp_path / name).write_text("")
    assert [path.name for path in part_files(tmp_path)] == ["part-1.csv.gz", "part-2.csv", "part-10.csv"]
    (tmp_path / "task_events-00.csv").write_text("")
    assert [path.name for path in part_files(tmp_path)] == ["task_events-00.csv"]


def test_a_folder_without_task_events_is_an_error(tmp_path) -> None:
    with pytest.raises(InputError, match="no folder"):
        TraceFolder(tmp_path / "nowhere")
    with pytest.raises(InputError, match="no task-event files"):
        TraceFolder(tmp_path)


parts = st.lists(st.lists(st.integers(0, 3 * REPORT_US), max_size=6), min_size=1, max_size=4)


steps = st.lists(st.integers(1, REPORT_US) | st.integers(1, 3), max_size=6)


@settings(deadline=None, max_examples=60)
@given(times=parts, steps=steps)
def test_pieces_between_positions_make_up_the_whole_in_order(tmp_path_factory, times, steps) -> None:
    folder = TraceFolder(folder_of(tmp_path_factory.mktemp("trace"), *times))
    whole = tasks_between(folder, folder.start, folder.end)
    assert whole == list(range(sum(len(each) for each in times)))
    position, found = folder.start, []
    for step in [*steps, len(times)]:
        after = (
            folder.parts_on(position, step)
            if step <= 3
            else max(position, folder.at(position.time_us + step))
        )
        assert after >= position
        found += tasks_between(folder, position, after)
        assert after.reports >= position.reports
        position = after
    found += tasks_between(folder, position, folder.end)
    assert found == whole


@settings(deadline=None, max_examples=60)
@given(times=parts, cut_us=st.integers(0, 4 * REPORT_US))
def test_no_event_after_a_position_belongs_to_a_report_complete_there(
    tmp_path_factory, times, cut_us
) -> None:
    folder = TraceFolder(folder_of(tmp_path_factory.mktemp("trace"), *times))
    position = folder.at(cut_us)
    for piece in folder.slices(position, folder.end):
        part = read_part(Path(piece.path), piece.floor_us, piece.ceiling_us, piece.next_us)
        later = part.between(piece.from_us, piece.until_us).time_us
        assert all(
            time_us >= START_US + position.reports * REPORT_US or position.reports == 0 for time_us in later
        )


def test_the_last_report_is_the_first_that_counts_the_last_event(tmp_path) -> None:
    folder = TraceFolder(folder_of(tmp_path / "a", [0, START_US + 10]))
    assert folder.end.reports == 1
    folder = TraceFolder(folder_of(tmp_path / "b", [0], [START_US + REPORT_US], []))
    assert folder.end.reports == 2


@st.composite
def traces_with_wrong_times(draw) -> tuple[list[int], list[int]]:
    """(times in order, with pauses and a few that are far too late; where it is cut into files)."""
    steps = draw(
        st.lists(st.sampled_from((0, 60_000_000, MAX_JUMP_US, 3 * MAX_JUMP_US)), min_size=2, max_size=8)
    )
    times = [START_US + time_us for time_us in accumulate(steps)]
    wrong = draw(st.lists(st.integers(0, len(times) - 1), unique=True, max_size=3))
    latest_us = times[-1] + MAX_JUMP_US
    made = []
    for index, time_us in enumerate(times):
        if index in wrong:
            made.append(latest_us + draw(st.integers(1, MAX_JUMP_US)))
        made.append(time_us)
    return made, sorted(draw(st.lists(st.integers(0, len(made)), max_size=4)))


@settings(deadline=None, max_examples=40)
@given(traces_with_wrong_times())
def test_which_rows_are_valid_does_not_depend_on_how_a_trace_is_cut_into_files(
    tmp_path_factory, made
) -> None:
    times, cuts = made

    def events(*parts: list[int]) -> list[tuple[int, int]]:
        folder = TraceFolder(folder_of(tmp_path_factory.mktemp("trace"), *parts))
        found: list[tuple[int, int]] = []
        for piece in folder.slices(folder.start, folder.end):
            part = read_part(Path(piece.path), piece.floor_us, piece.ceiling_us, piece.next_us)
            found += zip(part.task.tolist(), part.time_us.tolist(), strict=True)
        return found

    edges = [0, *cuts, len(times)]
    whole = events(times)
    assert events(*(times[first:end] for first, end in pairwise(edges))) == whole
    assert [time_us for _, time_us in whole] == sorted(times)[: len(whole)], (
        "rows that are too late are rejected"
    )
