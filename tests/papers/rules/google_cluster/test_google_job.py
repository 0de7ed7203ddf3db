"""Runs of the Google cluster query: resuming them, their processes, and their errors."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ebbflow.errors import InputError, TargetError
from ebbflow.papers.rules.google_cluster import job
from ebbflow.papers.rules.google_cluster.generator import ClusterTrace, TraceSpec
from ebbflow.papers.rules.google_cluster.job import read_checkpoint, run_in_a_process, run_job, run_to_resume
from ebbflow.papers.rules.google_cluster.query import settings
from ebbflow.papers.rules.google_cluster.source import TaskEventReader

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

from google_cluster_results import assert_results
from plain_google_cluster import plain_query

EVENT = "{time},,1,1,5,1,u,0,0,0.5,0.5,0.5,0\n"


def trace(folder: Path, parts: int = 2) -> Path:
    folder.mkdir()
    for number in range(parts):
        text = EVENT.format(time=600_000_000 + number)
        (folder / f"part-{number}.csv").write_text(text)
    return folder


def planned(checkpoint: Path, folder: Path, instances: int = 3) -> None:
    """Write what Spark writes when it plans a batch."""
    reader = TaskEventReader(path=str(folder), speed=None, max_parts=None, max_trace_us=None)
    offsets = checkpoint / "offsets"
    offsets.mkdir(parents=True, exist_ok=True)
    for batch in (2, 10):
        conf = {"spark.sql.shuffle.partitions": str(instances if batch == 10 else 1)}
        lines = ("v1", json.dumps({"batchWatermarkMs": 0, "conf": conf}), json.dumps(reader.initialOffset()))
        (offsets / str(batch)).write_text("\n".join(lines))
    (offsets / ".10.crc").write_text("")


def test_a_new_folder_and_a_checkpoint_without_a_batch_start_a_new_run(tmp_path) -> None:
    folder = trace(tmp_path / "a")
    assert run_to_resume(input=folder, output=tmp_path / "new") is None
    (tmp_path / "out" / ".checkpoint" / "offsets").mkdir(parents=True)
    assert run_to_resume(input=folder, output=tmp_path / "out") is None


def test_a_run_resumes_with_its_own_folder_even_if_moved_and_with_its_instances(tmp_path) -> None:
    folder = trace(tmp_path / "a")
    planned(tmp_path / "out" / ".checkpoint", folder)
    before = run_to_resume(input=folder, output=tmp_path / "out")
    assert before is not None
    assert before.instances == 3
    assert run_to_resume(input=folder.rename(tmp_path / "moved"), output=tmp_path / "out") == before


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "part-1.csv").unlink(),
        lambda folder: (folder / "part-2.csv").write_text(EVENT.format(time=700_000_000)),
        lambda folder: (folder / "part-1.csv").rename(folder / "part-3.csv"),
        lambda folder: (folder / "part-1.csv").write_text(EVENT.format(time=600_000_007)),
    ],
)
def test_another_folder_is_refused_before_spark_starts(tmp_path, monkeypatch, change) -> None:
    folder = trace(tmp_path / "a")
    planned(tmp_path / "out" / ".checkpoint", folder)
    change(folder)
    monkeypatch.setattr(job, "local_session", None)
    with pytest.raises(InputError, match="started with other parts"):
        run_job(input=folder, output=tmp_path / "out", master="local[1]", instances=1)


def test_results_without_their_checkpoint_are_refused(tmp_path) -> None:
    (tmp_path / "out" / "cluster").mkdir(parents=True)
    with pytest.raises(InputError, match="without their checkpoint"):
        run_to_resume(input=trace(tmp_path / "a"), output=tmp_path / "out")


def test_a_folder_with_other_files_is_refused(tmp_path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match=r"it contains letter\.txt, which is not a result"):
        run_to_resume(input=trace(tmp_path / "a"), output=tmp_path / "home")


def test_a_checkpoint_of_another_query_has_no_folder(tmp_path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{"conf": {}}\n{"rows": 7}')
    before = read_checkpoint(tmp_path)
    assert before is not None
    assert before.folder == ""
    (tmp_path / "offsets" / "0").write_text("v7")
    assert read_checkpoint(tmp_path) == before


def test_only_one_run_at_a_time_writes_to_a_folder(tmp_path, monkeypatch) -> None:
    folder, output = trace(tmp_path / "a"), tmp_path / "out"
    options = {"input": folder, "output": output, "master": "local[1]", "instances": 1}

    def start_a_second_run(*_: object, **__: object) -> None:
        (output / ".staging").mkdir()
        with pytest.raises(InputError, match="another run writes to"):
            run_job(**options)
        assert (output / ".staging").exists(), "the unfinished files of the first run"
        raise InputError("stop here")

    monkeypatch.setattr(job, "local_session", start_a_second_run)
    for _ in range(2):
        with pytest.raises(InputError, match="stop here"):
            run_job(**options)


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
        raise InputError("stop here")

    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)
    monkeypatch.setattr(job, "local_session", session)
    with pytest.raises(InputError, match="stop here"):
        run_job(input=trace(tmp_path / "a"), output=tmp_path / "out", master=master, instances=1, conf=conf)
    assert seen["remote"] is remote
    assert seen["python"] == python


@pytest.mark.parametrize(("is_input", "kind"), [(True, InputError), (False, TargetError)])
def test_an_error_in_the_process_is_raised_here(monkeypatch, is_input, kind) -> None:
    answer = {"error": "cannot read a.csv.gz", "is_input_error": is_input}
    monkeypatch.setattr(job, "run_in_process", lambda *_, **__: answer)
    with pytest.raises(kind, match=r"^cannot read a\.csv\.gz$"):
        run_in_a_process(input=Path("a"), instances=1)


@pytest.fixture
def session(spark, monkeypatch) -> Iterator[None]:
    """Run jobs in the session that all tests share, with their own settings."""
    monkeypatch.setattr(job, "local_session", lambda *_, **__: contextlib.nullcontext(spark))
    before = {key: spark.conf.get(key, None) for key in settings(1) if key != "spark.ui.showConsoleProgress"}
    for key in before:
        spark.conf.set(key, settings(2)[key])
    yield
    for key, value in before.items():
        spark.conf.unset(key) if value is None else spark.conf.set(key, value)


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_an_interrupted_run_resumed_with_other_instances_gives_exact_results(
    tmp_path, monkeypatch, wait
) -> None:
    """``stats`` interrupted after two batches, then resumed by a run that requests more instances."""
    folder, output = tmp_path / "trace", tmp_path / "out"
    made = ClusterTrace(TraceSpec(events=4_000, machines=25, span_s=4_000, seed=11, parts=4))
    for number in range(made.parts):
        made.write(number, folder)
    expected = plain_query(folder)

    def interrupted(query: StreamingQuery) -> list[Any]:
        wait(lambda: (last := query.lastProgress) is not None and last["batchId"] >= 1, "two batches", 120)
        query.stop()
        return []

    with monkeypatch.context() as first:
        first.setattr(job, "run_to_the_end", interrupted)
        run_job(input=folder, output=output, master="local[2]", instances=2, max_parts=1)
    found = run_job(input=folder, output=output, master="local[2]", instances=3, max_parts=1)
    assert_results(output, expected)
    assert found.events == 4_000
    assert found.reports == len(expected.cluster)
    checkpoint = read_checkpoint(output / ".checkpoint")
    assert checkpoint is not None
    assert checkpoint.instances == 2, "Spark keeps the partitions of the state"
    (folder / made.name(3)).unlink()
    with pytest.raises(InputError, match="started with other parts"):
        run_job(input=folder, output=output, master="local[2]", instances=2)


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_an_error_on_spark_names_the_broken_file(tmp_path) -> None:
    (tmp_path / "trace").mkdir()
    lines = "".join(EVENT.format(time=600_000_000 + number) for number in range(20_000))
    (tmp_path / "trace" / "part-0.csv.gz").write_bytes(gzip.compress(lines.encode())[:-500])
    (tmp_path / "trace" / "part-1.csv").write_text(EVENT.format(time=700_000_000))
    with pytest.raises(InputError, match=r"^cannot read .*part-0\.csv\.gz"):
        run_job(input=tmp_path / "trace", output=tmp_path / "out", master="local[2]", instances=1)
