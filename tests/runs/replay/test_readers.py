"""Query progress as Spark prints it is read completely; errors name the line."""

from __future__ import annotations

import contextlib
import gzip
import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_progress import START_S, progress, timestamp, write_lines

from ebbflow.core.batches import Batch, StageRun
from ebbflow.errors import InputError
from ebbflow.runs.replay.readers import is_store, read_progress


def batch(number: int, rows: int = 500, backlog: float = 0.0, **more) -> Batch:
    stage = StageRun(index=0, tasks=8, task_time_s=8.0, cpu_time_s=8.0, wall_s=1.5, longest_task_s=1.0)
    values = {
        "query": "clicks", "batch_id": number, "started_s": 5.0 * number, "duration_s": 2.0, "rows": rows, "slots": 8,
        "trigger_interval_s": 5.0, "arrival_rate_per_s": 100.0, "backlog_rows": backlog, "oldest_arrival_s": 0.0,
        "stages": (stage,),
    }  # fmt: skip
    return Batch(**{**values, **more})


def lines(count: int = 8, **more) -> list[dict]:
    return [progress(batch(k), 500.0 * (k + 1), **more) for k in range(count)]


def idle(number: int, **more) -> dict:
    """What Spark says of a trigger that found nothing: the same batch id, and no addBatch."""
    made = progress(batch(number, rows=0), 4000.0, **more)
    return made | {"durationMs": {"latestOffset": 3, "triggerExecution": 4}}


def test_batches_are_read_with_rows_backlog_and_times(tmp_path) -> None:
    made = [
        progress(batch(k, rows=500 + k, backlog=10.0 * k), 5000.0 * (k + 1), partitions=6) for k in range(8)
    ]
    read = read_progress(write_lines(tmp_path / "run.jsonl", made))
    assert (read.query, read.form, read.tasks, read.starts) == ("clicks", "Spark query progress", 6, 1)
    second = read.batches[1]
    assert second.started_s == START_S + 5.0
    assert (second.duration_s, second.work_s, second.rows) == (2.0, 1.5, 501)
    assert second.left_rows == pytest.approx(10.0, abs=0.1)
    assert [b.first for b in read.batches] == [True] + [False] * 7


def test_compressed_files_lists_and_events_are_read_alike(tmp_path) -> None:
    plain = read_progress(write_lines(tmp_path / "a", lines()))
    zipped = tmp_path / "b.jsonl"  # the name says nothing
    zipped.write_bytes(gzip.compress((tmp_path / "a").read_bytes()))
    listed = tmp_path / "c"
    listed.write_text(json.dumps(lines()))
    events = [{"Event": "SparkListenerLogStart", "Spark Version": "4.0.0"}]
    for each in lines():
        del each["numInputRows"]  # event logs keep the fields, not the sums
        name = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
        events.append({"Event": name, "progress": each})
    logged = read_progress(write_lines(tmp_path / "d", events))
    assert read_progress(zipped).batches == read_progress(listed).batches == logged.batches == plain.batches


def test_an_event_log_contains_executors(tmp_path) -> None:
    def came(name: str, at_s: float) -> dict:
        info = {"Host": "h", "Total Cores": 4}
        return {
            "Event": "SparkListenerExecutorAdded", "Timestamp": int(1000 * (START_S + at_s)), "Executor ID": name,
            "Executor Info": info,
        }  # fmt: skip

    gone = {
        "Event": "SparkListenerExecutorRemoved",
        "Timestamp": int(1000 * (START_S + 20)),
        "Executor ID": "1",
    }
    events = [
        came("driver", -9),
        came("0", -5),
        came("1", -5),
        *({"Event": "x", "progress": p} for p in lines()),
        gone,
    ]
    read = read_progress(write_lines(tmp_path / "log", events))
    assert read.nodes.values.tolist() == [2.0, 1.0]
    assert read.nodes.times_s.tolist() == [START_S - 5, START_S + 20]
    assert (read.slots_per_node, read.reconfigurations) == (4, 1)


def test_in_local_mode_the_driver_is_the_executor(tmp_path) -> None:
    driver = {
        "Event": "SparkListenerExecutorAdded", "Timestamp": int(1000 * START_S), "Executor ID": "driver",
        "Executor Info": {"Host": "h", "Total Cores": 2},
    }  # fmt: skip
    file = write_lines(tmp_path / "log", [driver, *({"Event": "x", "progress": p} for p in lines())])
    read = read_progress(file)
    assert (read.nodes.values.tolist(), read.slots_per_node, read.reconfigurations) == ([1.0], 2, 0)


def test_a_rolled_and_compressed_event_log_is_read_in_order(tmp_path) -> None:
    """As Spark 4 writes it unless told otherwise."""
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    (folder / "appstatus_app-1").touch()
    made = lines(12)
    for number in range(1, 13):
        text = json.dumps({"Event": "x", "progress": made[number - 1]}) + "\n"
        with pa.output_stream(folder / f"events_{number}_app-1.zstd", compression="zstd") as file:
            file.write(text.encode())
    plain = read_progress(write_lines(tmp_path / "plain", made))
    assert read_progress(folder).batches == plain.batches
    (folder / "events_3_app-1.zstd").write_bytes(b"\x28\xb5\x2f\xfd, and no more")
    with pytest.raises(InputError, match=r"events_3_app-1.zstd cannot be read"):
        read_progress(folder)


def test_a_repeated_progress_counts_once_and_a_missing_one_is_counted(tmp_path) -> None:
    """Who polls ``recentProgress`` writes the same ones again; who polls seldom loses some."""
    made = lines(12)
    polled = [*made[:6], *made[2:9], *made[5:]]
    read = read_progress(write_lines(tmp_path / "run", polled))
    assert read.batches == read_progress(write_lines(tmp_path / "whole", made)).batches
    assert (read.rows_repeated, read.missing_batches) == (0, 0)
    assert read_progress(write_lines(tmp_path / "seldom", made[::2])).missing_batches == 5


def test_progress_of_an_idle_query_counts_arrivals_but_is_no_batch(tmp_path) -> None:
    read = read_progress(write_lines(tmp_path / "run", [*lines(), idle(8), idle(10)]))
    assert [(b.rows, b.duration_s) for b in read.batches[-2:]] == [(0, 0.0), (0, 0.0)]
    assert len(read.batches_with_rows) == 7


def test_the_query_with_the_most_rows_is_taken_unless_another_is_named(tmp_path) -> None:
    small = [progress(batch(k, rows=3), 3.0 * (k + 1), query="small") for k in range(8)]
    file = write_lines(tmp_path / "run", [line for pair in zip(small, lines(), strict=True) for line in pair])
    assert read_progress(file).query == "clicks"
    assert read_progress(file).other_queries == ("small",)
    assert read_progress(file, "small").rows_repeated == 0
    assert read_progress(file, "small").query == "small"
    with pytest.raises(InputError, match="did you mean 'small'"):
        read_progress(file, "smal")


def test_restarts_are_counted_and_repeated_batches_add_no_rows(tmp_path) -> None:
    again = [progress(batch(k, started_s=5.0 * k + 60.0), 500.0 * (k + 1), run=1) for k in range(7, 12)]
    read = read_progress(write_lines(tmp_path / "run", [*lines(), *again]))
    assert (read.starts, read.rows_repeated, len(read.batches)) == (2, 500, 12)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("time,events\n0,60\n", "line 1 is not JSON: 'time,events'"),
        ('{"batchId": 1,\n', "line 1 is not JSON"),
        ('{"a": 1}\n', "line 1 is JSON but not a query progress"),
        ("17\n", "line 1 is JSON but not an object"),
        ("[1, 2]\n", "entry 1 is JSON but not an object"),
        ('{"batchId": 1}\n', "line 1 is not a complete query progress: Object missing required field `id`"),
        ('{"Event": "SparkListenerLogStart"}\n', "has no query progress;"),
    ],
)
def test_an_invalid_progress_is_reported_with_its_line(tmp_path, text: str, words: str) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_progress(file)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"timestamp": timestamp(3.0)}, "line 5 is out of order: batch 4 of 'clicks' started 12s before"),
        ({"timestamp": "yesterday"}, "line 5: 'yesterday' is not a timestamp"),
        ({"numInputRows": -1}, "line 5 has negative rows"),
        ({"numInputRows": "many"}, "line 5 is not a complete query progress"),
        ({"durationMs": {"triggerExecution": -3}}, "line 5 has negative rows or a negative duration"),
        ({"sources": 3}, "line 5 is not a complete query progress"),
    ],
)
def test_a_bad_line_among_good_ones_is_reported(tmp_path, change: dict, words: str) -> None:
    made = lines()
    made[4] |= change
    with pytest.raises(InputError, match=words):
        read_progress(write_lines(tmp_path / "run", made))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = [
    "batchId",
    "timestamp",
    "numInputRows",
    "durationMs",
    "sources",
    "stateOperators",
    "id",
    "name",
    "progress",
    "Event",
]


@settings(max_examples=150, deadline=None)
@given(changes=st.dictionaries(st.sampled_from(KEYS), JSON, min_size=1, max_size=3), where=st.integers(0, 7))
def test_any_line_is_read_or_reported_in_one_line(tmp_path_factory, changes: dict, where: int) -> None:
    made = lines()
    made[where] |= changes
    file = write_lines(tmp_path_factory.getbasetemp() / "any.jsonl", made)
    with contextlib.suppress(InputError):
        assert read_progress(file).batches


def test_too_few_batches_are_an_error(tmp_path) -> None:
    with pytest.raises(InputError, match="3 batches with rows after its first; a replay needs 5"):
        read_progress(write_lines(tmp_path / "run", lines(4)))
    nothing = [progress(batch(k, rows=0), 0.0) for k in range(9)]
    with pytest.raises(InputError, match="has no rows: all of its 9 batches are empty"):
        read_progress(write_lines(tmp_path / "run", nothing))


def test_a_truncated_gzip_file_is_an_error(tmp_path) -> None:
    file = tmp_path / "run.gz"
    file.write_bytes(gzip.compress(json.dumps(lines()).encode())[:200])
    with pytest.raises(InputError, match="is not a complete gzip file"):
        read_progress(file)
    assert not is_store(file)
