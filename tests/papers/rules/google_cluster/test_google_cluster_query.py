"""The Google cluster query on Spark gives the results of a plain loop over the lines, however it runs."""

from __future__ import annotations

import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from google_cluster_results import assert_results
from plain_google_cluster import PlainResults, plain_query

from ebbflow.papers.rules.google_cluster.generator import PARQUET, ClusterTrace, TraceSpec
from ebbflow.papers.rules.google_cluster.query import MACHINE, GoogleClusterQuery, run_to_the_end, settings
from ebbflow.papers.rules.google_cluster.sink import prepare_output
from ebbflow.targets.spark.act.restart import stop_between_batches
from ebbflow.targets.spark.driver import Driver
from ebbflow.targets.spark.observe.progress import Progress, operator_runs

pytestmark = pytest.mark.spark
SPEC = TraceSpec(events=9_000, machines=60, span_s=2.2 * 3600, seed=3, parts=4)


LONG = pytest.mark.long


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, PlainResults]:
    """A generated trace in gzip CSV, plain CSV with some invalid lines, and Parquet; and its results."""
    folder = tmp_path_factory.mktemp("trace")
    trace = ClusterTrace(SPEC)
    first, second, third, *_ = [folder / trace.name(number) for number in range(trace.parts)]
    for number in range(trace.parts):
        trace.write(number, folder)
    lines = gzip.decompress(second.read_bytes()).splitlines(keepends=True)
    lines[10:10] = [b"not,an,event\n", b"soon,,1,1,1,1,u,0,0,0.1,0.1,0.1,0\n"]
    second.with_suffix("").write_bytes(b"".join(lines))
    second.unlink()
    expected = plain_query(folder)
    assert len(expected.cluster) == 9
    assert len(expected.rejected) == 2
    trace.write(2, folder, PARQUET)
    third.unlink()
    assert first.exists()
    return folder, expected


@pytest.fixture(scope="module")
def folder(made) -> Path:
    return made[0]


@pytest.fixture(scope="module")
def expected(made) -> PlainResults:
    return made[1]


@pytest.fixture(scope="module", autouse=True)
def query_settings(spark):
    before = {key: spark.conf.get(key, None) for key in settings(1) if key != "spark.ui.showConsoleProgress"}
    for key in before:
        spark.conf.set(key, settings(1)[key])
    yield
    for key, value in before.items():
        spark.conf.unset(key) if value is None else spark.conf.set(key, value)


@LONG
@pytest.mark.parametrize(
    ("instances", "parts", "span", "packed"),
    [(2, 4, None, True), (1, None, "17m", True), (1, 2, None, False)],
)
def test_results_equal_the_plain_loop(
    spark, folder, expected, tmp_path, instances, parts, span, packed
) -> None:
    output = tmp_path / "out"
    prepare_output(output)
    query = GoogleClusterQuery(input=folder, output=output, max_parts=parts, max_trace=span, packed=packed)
    batches = run_to_the_end(query.start(spark, tmp_path / "c", instances, to_the_end=True))
    assert_results(output, expected)
    assert len(batches) == {4: 1, 2: 2, None: 8}[parts]


def test_results_survive_stops_a_resized_machine_operator_and_a_lost_executor(
    spark, cluster, folder, expected, tmp_path, wait
) -> None:
    output = tmp_path / "out"
    prepare_output(output)
    query = GoogleClusterQuery(input=folder, output=output, max_parts=None, max_trace="22m")
    running = query.managed(spark, tmp_path / "c", 2)

    def batches_done(least: int):
        return lambda: (last := running.query.lastProgress) is not None and last["batchId"] >= least

    wait(batches_done(0), "a batch")
    _uses_cpu_in_python_and_in_the_jvm(spark, running.query.recentProgress[0], instances=2)
    with ThreadPoolExecutor(1) as loop:  # like the control loop: in a thread without a session
        loop.submit(running.restart, {MACHINE: 3}).result()
    wait(batches_done(2), "batches after the resize")
    assert running.query.lastProgress["stateOperators"][0]["numShufflePartitions"] == 3
    jvm = spark.sparkContext._jvm
    backend = spark.sparkContext._jsc.sc().schedulerBackend()
    executors = [e for e in _executors(spark) if e != "driver"]
    backend.killExecutors(jvm.PythonUtils.toSeq(executors[:1]), False, True, True)
    wait(batches_done(3), "a batch after an executor was lost", within_s=120)
    running.query.stop()  # at any point of a batch
    resumed = query.start(spark, tmp_path / "c", 3)
    wait(lambda: _at_the_end(resumed, folder), "the end", within_s=120)
    stop_between_batches(resumed)
    assert_results(output, expected)


@LONG
def test_a_replay_in_fast_motion_gives_the_same_results(spark, folder, expected, tmp_path, wait) -> None:
    output = tmp_path / "out"
    prepare_output(output)
    query = GoogleClusterQuery(input=folder, output=output, max_parts=None, speed="x2000")
    running = query.start(spark, tmp_path / "c", 1)
    wait(lambda: _at_the_end(running, folder), "the end", within_s=120)
    stop_between_batches(running)
    assert_results(output, expected)
    assert len([p for p in running.recentProgress if p["numInputRows"]]) > 1


def _uses_cpu_in_python_and_in_the_jvm(spark, batch, *, instances: int) -> None:
    progress = msgspec.json.decode(batch.json.encode(), type=Progress)
    in_jvm_s = Driver(spark).stage_cpu_s
    (machine,) = [run for run in operator_runs(progress, {}, in_jvm_s) if run.name == MACHINE]
    (in_python,) = [run for run in operator_runs(progress, {}, lambda _: 0.0) if run.name == MACHINE]
    assert machine.instances == instances
    assert machine.rows_in > 0
    assert machine.rows_out > 0
    assert machine.cpu_s > in_python.cpu_s > 0


def _at_the_end(query, folder) -> bool:
    last = query.lastProgress
    if last is None:
        return False
    end = last["sources"][0]["endOffset"]
    return int((json.loads(end) if isinstance(end, str) else end)["part"]) == len(list(folder.iterdir()))


def _executors(spark) -> list[str]:
    infos = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    return [infos.apply(i).id() for i in range(infos.size())]
