"""Source, machine, cluster and sink together without Spark: results equal the plain loop's, whatever the batches."""

from __future__ import annotations

import copy
import dataclasses
import json
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from google_cluster_results import assert_results, rows
from one_process import OneProcess
from plain_google_cluster import plain_query

from ebbflow.core.duration import parse_duration_s
from ebbflow.errors import InputError
from ebbflow.papers.rules.google_cluster import source
from ebbflow.papers.rules.google_cluster.events import START_US, in_units
from ebbflow.papers.rules.google_cluster.folder import TraceFolder, TracePart, read_part
from ebbflow.papers.rules.google_cluster.generator import PARQUET, ClusterTrace, TraceSpec
from ebbflow.papers.rules.google_cluster.machine import Events
from ebbflow.papers.rules.google_cluster.query import GoogleClusterQuery
from ebbflow.papers.rules.google_cluster.sink import (
    CLUSTER,
    MACHINES,
    READ,
    REJECTS,
    TABLES,
    events_by_batch,
    written_s_by_batch,
)
from ebbflow.papers.rules.google_cluster.source import (
    PACKED,
    PartSlice,
    TaskEventReader,
    TaskEventSource,
    read_speed,
)

DATA = Path(__file__).parents[3] / "data"
SPEC = TraceSpec(events=6_000, machines=30, span_s=2 * 3600, seed=9, parts=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trace")
    trace = ClusterTrace(SPEC)
    for number in range(trace.parts):
        trace.write(number, folder)
    (folder / "task_events-part-99999.csv").write_text("this is no event\n")
    return folder


@pytest.fixture(scope="module")
def expected(folder):
    return plain_query(folder)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_parts": 1},
        {"max_trace_us": 400_000_000},
        {"max_trace_us": 3_000_000_000, "max_parts": 2},
        {"packed": False, "max_trace_us": 3_000_000_000},
    ],
)
def test_results_depend_neither_on_batches_nor_on_packing(folder, expected, tmp_path, options) -> None:
    query = OneProcess(folder, tmp_path, options).to_the_end()
    assert_results(tmp_path, expected)
    assert query.batches == {"": 1, "max_parts": 3, "max_trace_us": 21}.get("+".join(options), query.batches)


def test_a_batch_has_at_most_the_reports_of_a_day_however_few_events_there_are(tmp_path) -> None:
    (tmp_path / "trace").mkdir()
    hours = range(0, 4 * 24, 6)
    lines = [f"{START_US + 3_600_000_000 * hour},,1,{hour},5,1,u,0,0,0.5,,,0\n" for hour in hours]
    (tmp_path / "trace" / "part-0.csv").write_text("".join(lines[:2]))
    (tmp_path / "trace" / "part-1.csv").write_text("".join(lines[2:]))
    usual = GoogleClusterQuery(input=tmp_path / "trace", output=tmp_path / "out")
    assert usual.max_trace is not None
    options = {"max_parts": usual.max_parts, "max_trace_us": round(parse_duration_s(usual.max_trace) * 1e6)}
    OneProcess(usual.input, usual.output, options).to_the_end()
    reports = [pq.read_metadata(file).num_rows for file in (usual.output / CLUSTER).iterdir()]
    assert sum(reports) == hours[-1] * 4 + 1
    assert max(reports) <= 97


def test_parquet_gives_the_same_results_as_csv(folder, expected, tmp_path) -> None:
    trace = ClusterTrace(SPEC)
    for number in range(trace.parts):
        trace.write(number, tmp_path / "trace", PARQUET)
    bad = "task_events-part-99999.csv"
    (tmp_path / "trace" / bad).write_bytes((folder / bad).read_bytes())
    OneProcess(tmp_path / "trace", tmp_path / "out", {"max_parts": 2}).to_the_end()
    assert_results(tmp_path / "out", expected)


def test_a_batch_that_runs_again_writes_the_same_rows(folder, expected, tmp_path) -> None:
    query = OneProcess(folder, tmp_path, {"max_parts": 1})
    query.batch()
    before = copy.deepcopy((query.offset, query.states, query.batches))
    query.batch()
    query.offset, query.states, query.batches = before  # it failed before its commit
    query.to_the_end()
    assert_results(tmp_path, expected)
    assert not list((tmp_path / ".staging").glob("*"))


def test_a_hand_made_trace_gives_the_expected_reports(tmp_path) -> None:
    def event(time_s: float, kind: int, machine: str, task: int = 1, cpu: str = "0.5") -> str:
        time_us = 0 if time_s < 0 else START_US + round(time_s * 1e6)
        return f"{time_us},,7,{task},{machine},{kind},u,0,0,{cpu},0.25,,0\n"

    folder = tmp_path / "trace"
    folder.mkdir()
    (folder / "part-0.csv").write_text(
        event(-1, 0, "5") + event(-1, 1, "5")  # it ran before the trace
        + event(10, 1, "6", 2, "0.02499") + event(20, 8, "6", 2, "0.0125")  # updated
        + event(30, 2, "6", 2) + event(40, 0, "", 2) + event(50, 1, "5", 2, "0.125")  # evicted, scheduled again
    )  # fmt: skip
    (folder / "part-1.csv").write_text(event(950, 3, "5", 1) + event(960, 5, "5", 1) + event(2000, 0, "9", 3))
    OneProcess(folder, tmp_path / "out", {"max_parts": 1}).to_the_end()
    assert rows(tmp_path / "out", MACHINES, "trace_s", "machine", "tasks", "cpu", "memory", "disk") == [
        (900, 5, 2, 0.625, 0.5, 0.0), (900, 6, 0, 0.0, 0.0, 0.0),
        (1800, 5, 1, 0.125, 0.25, 0.0), (1800, 6, 0, 0.0, 0.0, 0.0),
        (2700, 5, 1, 0.125, 0.25, 0.0), (2700, 6, 0, 0.0, 0.0, 0.0), (2700, 9, 0, 0.0, 0.0, 0.0),
    ]  # fmt: skip


def test_rejected_rows_come_with_part_line_reason_and_text(folder, tmp_path) -> None:
    OneProcess(folder, tmp_path).to_the_end()
    assert rows(tmp_path, REJECTS, "part", "line", "reason", "text") == [
        ("task_events-part-99999.csv", 1, "1 columns instead of 13", "this is no event")
    ]


def test_tables_without_rows_are_written_with_their_columns(tmp_path) -> None:
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "part-0.csv").write_text(f"{START_US + 1},,42,1,17,1,u,0,0,0.5,,,0\n")
    OneProcess(tmp_path / "trace", tmp_path / "clean").to_the_end()
    (tmp_path / "trace" / "part-0.csv").write_text("no event\n")
    OneProcess(tmp_path / "trace", tmp_path / "empty").to_the_end()
    for table in TABLES:
        clean, empty = (pq.read_table(tmp_path / output / table) for output in ("clean", "empty"))
        assert clean.schema == empty.schema
        assert clean.num_rows == {REJECTS: 0}.get(table, 1)
        assert empty.num_rows == {REJECTS: 1, READ: 1}.get(table, 0)


def test_events_and_write_times_are_known_per_batch(folder, tmp_path) -> None:
    query = OneProcess(folder, tmp_path, {"max_parts": 1})
    before_s = time.time() - 1
    query.to_the_end()
    written_s = written_s_by_batch(tmp_path)
    assert list(written_s) == list(events_by_batch(tmp_path)) == list(range(query.batches))
    assert before_s < written_s[0] <= written_s[query.batches - 1] <= time.time() + 1
    assert sum(events_by_batch(tmp_path).values()) == SPEC.events


def test_results_of_real_events_are_exact(tmp_path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "part.csv.gz").symlink_to(DATA / "google_task_events.csv.gz")
    OneProcess(tmp_path / "real", tmp_path / "out", {"max_trace_us": 1_200_000_000}).to_the_end()
    expected = plain_query(tmp_path / "real")
    assert len(expected.cluster) == 6
    assert expected.without_machine > 100
    assert_results(tmp_path / "out", expected)


@pytest.mark.long
def test_results_of_the_whole_real_part_are_exact(shared_data, tmp_path) -> None:
    real = shared_data / "google-cluster"
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "part.csv.gz").symlink_to(next(real.glob("task_events*")))
    OneProcess(real, tmp_path / "out", {"max_trace_us": 1_200_000_000}).to_the_end()
    expected = plain_query(tmp_path / "real")
    assert len(expected.cluster) == 6
    assert_results(tmp_path / "out", expected)


def test_packed_events_equal_rows_of_events(folder) -> None:
    def read(packed: bool) -> pa.Table:
        reader = TaskEventReader(
            path=str(folder), speed=None, max_parts=None, max_trace_us=None, packed=packed
        )
        start = reader.initialOffset()
        pieces = reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit()))
        return pa.Table.from_batches([batch for piece in pieces for batch in reader.read(piece)])

    plain, packed = read(False), read(True)
    events = Events.from_bytes(*packed.filter(pc.equal(packed["event"], PACKED))["events"].to_pylist())
    frame = plain.filter(pc.greater_equal(plain["event"], 0)).to_pandas().sort_values("position")
    unpacked = events.take(events.position.argsort())
    for name in ("position", "time_us", "machine", "job", "task", "event"):
        assert (frame[name].to_numpy() == getattr(unpacked, name)).all()
    assert (in_units(frame["cpu"].to_numpy()) == unpacked.cpu).all()
    beside = [
        table.filter(pc.less(table["event"], 0)).select(["bucket", "event", "time_us", "note"])
        for table in (plain, packed)
    ]
    assert beside[0].equals(beside[1])


def test_a_worker_reads_a_replaced_file_again(tmp_path) -> None:
    folder = tmp_path / "trace"
    folder.mkdir()
    results = []
    for run, (tasks, cpu) in enumerate(((3, "0.50"), (3, "0.25"), (7, "0.25"))):
        lines = [f"{START_US + 1},,42,{task},17,1,u,0,0,{cpu},,,0\n" for task in range(tasks)]
        new = tmp_path / "new.csv"
        new.write_text("".join(lines))
        new.replace(folder / "part-0.csv")
        OneProcess(folder, tmp_path / f"out-{run}").to_the_end()
        results += rows(tmp_path / f"out-{run}", MACHINES, "tasks", "cpu")
    assert results == [(3, 1.5), (3, 0.75), (7, 1.75)]


def test_a_part_is_read_once_for_all_its_slices(folder, tmp_path, monkeypatch) -> None:
    read: list[str] = []

    def counting(path: Path, *bounds: int) -> TracePart:
        read.append(path.name)
        return read_part(path, *bounds)

    monkeypatch.setattr("ebbflow.papers.rules.google_cluster.source.read_part", counting)
    source._cached_part.cache_clear()
    OneProcess(folder, tmp_path, {"max_trace_us": 1_500_000_000}).to_the_end()
    assert len(read) == len(set(read)) == SPEC.parts + 1


def test_the_error_for_a_removed_file_names_it(folder) -> None:
    reader = TaskEventReader(path=str(folder), speed=None, max_parts=None, max_trace_us=None)
    start = reader.initialOffset()
    piece = reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit()))[0]
    removed = PartSlice(dataclasses.replace(piece.piece, path=str(folder / "removed.csv")), None)
    with pytest.raises(InputError, match=r"cannot read .*removed\.csv: No such file"):
        list(reader.read(removed))


# -- offsets and speed -------------------------------------------------------------------------------


def test_a_replay_follows_the_clock(folder, monkeypatch) -> None:
    now_s = [1_000_000.0]
    monkeypatch.setattr("ebbflow.papers.rules.google_cluster.source.time.time", lambda: now_s[0])
    reader = TaskEventReader(path=str(folder), speed=1000.0, max_parts=None, max_trace_us=None)
    start = reader.initialOffset()
    now_s[0] += 2.0
    reached = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert reached["us"] == START_US + 2_000_000_000
    now_s[0] -= 60.0  # the machine's clock was set back
    assert reader.latestOffset(reached, reader.getDefaultReadLimit()) == reached
    now_s[0] += 1e6
    end = reader.latestOffset(reached, reader.getDefaultReadLimit())
    assert int(end["part"]) == len(TraceFolder(folder).paths)
    assert reader.partitions(end, end) == []
    assert json.loads(json.dumps(end)) == end
    assert reader.reportLatestOffset() == end


@pytest.mark.parametrize("text", ["0", "-1", "fast", "nan", "inf", ""])
def test_an_invalid_speed_is_an_error(text) -> None:
    with pytest.raises(InputError, match="1 for real time"):
        read_speed(text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs"),
        ({"path": "/no/such"}, "no folder"),
        ({"path": "/", "maxPartsPerTrigger": "0"}, "at least 1"),
        ({"path": "/", "maxTracePerTrigger": "long"}, "write it like"),
        ({"path": "TRACE", "packed": "yes"}, "packed must be true or false, not 'yes'"),
    ],
)
def test_invalid_options_of_the_source_are_errors(folder, options, words) -> None:
    options = {key: value.replace("TRACE", str(folder)) for key, value in options.items()}
    with pytest.raises(InputError, match=words):
        TaskEventSource(options).streamReader(None)


def test_another_folder_is_refused_and_not_read(folder, tmp_path) -> None:
    trace = ClusterTrace(TraceSpec(events=3_000, machines=20, span_s=3600, seed=2, parts=2))
    for number in range(trace.parts):
        trace.write(number, tmp_path / "other")
    query = OneProcess(folder, tmp_path / "out", {"max_parts": 1})
    query.batch()
    start, query.folder = query.offset, tmp_path / "other"
    with pytest.raises(InputError, match=r"started with other parts than .*other has now"):
        query.batch()
    reader = TaskEventReader(path=str(query.folder), speed=None, max_parts=None, max_trace_us=None)
    with pytest.raises(
        InputError, match="started with other parts"
    ):  # a batch that was planned but did not finish
        reader.partitions(reader.initialOffset(), start)


@pytest.mark.parametrize("speed", [None, 1000.0])
def test_offsets_never_go_back(folder, speed) -> None:
    reader = TaskEventReader(path=str(folder), speed=speed, max_parts=1, max_trace_us=10)
    late = {**reader.initialOffset(), "part": "77", "us": 10**15}
    assert reader.latestOffset(late, reader.getDefaultReadLimit()) == late
