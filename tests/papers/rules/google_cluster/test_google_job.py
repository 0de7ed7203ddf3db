"""A run of the Google cluster query that goes on where it was: only with the folder it was begun with."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ebbflow.errors import InputError, TargetError
from ebbflow.papers.rules.google_cluster import job
from ebbflow.papers.rules.google_cluster.folder import TraceSpec
from ebbflow.papers.rules.google_cluster.generator import ClusterTrace
from ebbflow.papers.rules.google_cluster.job import begun, resumed, run_in_a_process, run_job
from ebbflow.papers.rules.google_cluster.query import settings
from ebbflow.papers.rules.google_cluster.source import TaskEventReader

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

from google_cluster_results import holds
from plain_google_cluster import plain_query

EVENT = "{time},,1,1,5,1,u,0,0,0.5,0.5,0.5,0\n"


def trace(folder: Path, parts: int = 2) -> Path:
    folder.mkdir()
    for number in range(parts):
        text = EVENT.format(time=600_000_000 + number)
        (folder / f"part-{number}.csv").write_text(text)
    return folder


def planned(checkpoint: Path, folder: Path, instances: int = 3) -> None:
    """What Spark writes when it plans a batch."""
    reader = TaskEventReader(path=str(folder), speed=None, max_parts=None, max_trace_us=None)
    offsets = checkpoint / "offsets"
    offsets.mkdir(parents=True, exist_ok=True)
    for batch in (2, 10):
        conf = {"spark.sql.shuffle.partitions": str(instances if batch == 10 else 1)}
        lines = ("v1", json.dumps({"batchWatermarkMs": 0, "conf": conf}), json.dumps(reader.initialOffset()))
        (offsets / str(batch)).write_text("\n".join(lines))
    (offsets / ".10.crc").write_text("")


def test_a_new_folder_begins_and_a_checkpoint_without_a_batch_too(tmp_path) -> None:
    folder = trace(tmp_path / "a")
    assert resumed(input=folder, output=tmp_path / "new") is None
    (tmp_path / "out" / ".checkpoint" / "offsets").mkdir(parents=True)
    assert resumed(input=folder, output=tmp_path / "out") is None


def test_a_run_goes_on_with_its_own_folder_wherever_it_lies_and_with_its_instances(tmp_path) -> None:
    folder = trace(tmp_path / "a")
    planned(tmp_path / "out" / ".checkpoint", folder)
    before = resumed(input=folder, output=tmp_path / "out")
    assert before is not None
    assert before.instances == 3
    assert resumed(input=folder.rename(tmp_path / "moved"), output=tmp_path / "out") == before


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "part-1.csv").unlink(),
        lambda folder: (folder / "part-2.csv").write_text(EVENT.format(time=700_000_000)),
        lambda folder: (folder / "part-1.csv").rename(folder / "part-3.csv"),
        lambda folder: (folder / "part-1.csv").write_text(EVENT.format(time=600_000_007)),
    ],
)
def test_another_folder_is_refused_before_anything_is_started(tmp_path, monkeypatch, change) -> None:
    folder = trace(tmp_path / "a")
    planned(tmp_path / "out" / ".checkpoint", folder)
    change(folder)
    monkeypatch.setattr(job, "local_session", None)
    with pytest.raises(InputError, match="begun with other parts"):
        run_job(input=folder, output=tmp_path / "out", master="local[1]", instances=1)


def test_results_without_their_checkpoint_are_not_mixed_with_new_ones(tmp_path) -> None:
    (tmp_path / "out" / "cluster").mkdir(parents=True)
    with pytest.raises(InputError, match="not their checkpoint"):
        resumed(input=trace(tmp_path / "a"), output=tmp_path / "out")


def test_a_folder_with_something_else_in_it_is_not_written_to(tmp_path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match=r"letter\.txt in it is none of our results"):
        resumed(input=trace(tmp_path / "a"), output=tmp_path / "home")


def test_a_checkpoint_of_another_query_is_no_beginning_of_ours(tmp_path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{"conf": {}}\n{"rows": 7}')
    before = begun(tmp_path)
    assert before is not None
    assert before.folder == ""
    (tmp_path / "offsets" / "0").write_text("v7")
    assert begun(tmp_path) == before


def test_two_runs_do_not_write_to_one_folder_and_one_that_has_ended_does_not_count(
    tmp_path, monkeypatch
) -> None:
    folder, output = trace(tmp_path / "a"), tmp_path / "out"
    asked = {"input": folder, "output": output, "master": "local[1]", "instances": 1}

    def a_second_one(*_: object, **__: object) -> None:
        (output / ".staging").mkdir()
        with pytest.raises(InputError, match="another run writes to"):
            run_job(**asked)
        assert (output / ".staging").exists(), "what the first has half-written"
        raise InputError("that will do")

    monkeypatch.setattr(job, "local_session", a_second_one)
    for _ in range(2):
        with pytest.raises(InputError, match="that will do"):
            run_job(**asked)


@pytest.mark.parametrize(
    ("master", "conf", "remote", "python"),
    [
        ("local[1]", {}, False, None),
        ("local-cluster[2,1,1024]", {}, False, None),
        ("spark://127.0.0.1:7077", {}, True, sys.executable),
        ("spark://far-away:7077", {}, True, None),
        ("spark://far-away:7077", {"spark.pyspark.python": "/opt/python"}, True, "/opt/python"),
    ],
)
def test_executors_on_this_machine_get_the_python_that_has_ebbflow(
    tmp_path, monkeypatch, master, conf, remote, python
) -> None:
    seen: dict[str, Any] = {}

    def session(*_: object, **options: object) -> None:
        seen.update(options, python=os.environ.get("PYSPARK_PYTHON"))
        raise InputError("that will do")

    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    monkeypatch.setattr(job, "local_session", session)
    with pytest.raises(InputError, match="that will do"):
        run_job(input=trace(tmp_path / "a"), output=tmp_path / "out", master=master, instances=1, conf=conf)
    assert seen["remote"] is remote
    assert seen["python"] == python


@pytest.mark.parametrize(("is_input", "kind"), [(True, InputError), (False, TargetError)])
def test_what_goes_wrong_in_a_process_is_told_here_in_its_words(monkeypatch, is_input, kind) -> None:
    said = json.dumps({"wrong": "cannot read a.csv.gz", "input": is_input}).encode()
    answer = subprocess.CompletedProcess([], 0, stdout=b"noise\n" + said + b"\n")
    monkeypatch.setattr(job.subprocess, "run", lambda *_, **__: answer)
    with pytest.raises(kind, match=r"^cannot read a\.csv\.gz$"):
        run_in_a_process(input=Path("a"), instances=1)


@pytest.fixture
def session(spark, monkeypatch) -> Iterator[None]:
    """Jobs run in the session that all tests share, with settings of their own for as long."""
    monkeypatch.setattr(job, "local_session", lambda *_, **__: contextlib.nullcontext(spark))
    before = {key: spark.conf.get(key, None) for key in settings(1) if key != "spark.ui.showConsoleProgress"}
    for key in before:
        spark.conf.set(key, settings(2)[key])
    yield
    for key, value in before.items():
        spark.conf.unset(key) if value is None else spark.conf.set(key, value)


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_two_halves_with_other_instances_give_what_the_plain_loop_gives(tmp_path, monkeypatch, wait) -> None:
    """``stats`` in two halves: broken off after two batches, and gone on with by a run that asks for more instances."""
    folder, output = tmp_path / "trace", tmp_path / "out"
    made = ClusterTrace(TraceSpec(events=4_000, machines=25, span_s=4_000, seed=11, parts=4))
    for number in range(made.parts):
        made.write(number, folder)
    expected = plain_query(folder)

    def broken_off(query: StreamingQuery) -> list[Any]:
        wait(lambda: (last := query.lastProgress) is not None and last["batchId"] >= 1, "two batches", 120)
        query.stop()
        return []

    with monkeypatch.context() as first:
        first.setattr(job, "run_to_the_end", broken_off)
        run_job(input=folder, output=output, master="local[2]", instances=2, max_parts=1)
    found = run_job(input=folder, output=output, master="local[2]", instances=3, max_parts=1)
    holds(output, expected)
    assert found.events == 4_000
    assert found.reports == len(expected.cluster)
    before_it = begun(output / ".checkpoint")
    assert before_it is not None
    assert before_it.instances == 2, "Spark keeps the partitions of the state"
    (folder / made.name(3)).unlink()
    with pytest.raises(InputError, match="begun with other parts"):
        run_job(input=folder, output=output, master="local[2]", instances=2)


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_a_broken_archive_is_named_through_spark(tmp_path) -> None:
    (tmp_path / "trace").mkdir()
    lines = "".join(EVENT.format(time=600_000_000 + number) for number in range(20_000))
    (tmp_path / "trace" / "part-0.csv.gz").write_bytes(gzip.compress(lines.encode())[:-500])
    (tmp_path / "trace" / "part-1.csv").write_text(EVENT.format(time=700_000_000))
    with pytest.raises(InputError, match=r"^cannot read .*part-0\.csv\.gz"):
        run_job(input=tmp_path / "trace", output=tmp_path / "out", master="local[2]", instances=1)
