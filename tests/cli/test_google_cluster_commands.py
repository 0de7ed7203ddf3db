"""Commands of the Google cluster query: invalid input is an error before Spark starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from console import ebbflow

from ebbflow.cli.bench.google_cluster import _point, _with_small_parts
from ebbflow.papers.rules.google_cluster.generator import TraceSpec
from ebbflow.papers.rules.google_cluster.job import MIN_BATCHES, InterruptedRun, JobFigures, parts_per_batch
from ebbflow.papers.rules.google_cluster.sink import locked_output
from ebbflow.papers.rules.google_cluster.static import CROWDED, MEASURED, SIMULATED, run_static


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    for name in ("google_cluster.run_job", "google_cluster.make_trace", "bench.google_cluster.run_static",
                 "bench.google_cluster.run_dynamic", "bench.google_cluster.make_trace_in_a_process"):  # fmt: skip
        monkeypatch.setattr(f"ebbflow.cli.{name}", refuse)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["google-cluster", "stats", "--input", "/no/such", "--output", "out"],
            "there is no folder /no/such",
        ),
        (["google-cluster", "stats", "--input", "TRACE", "--output", "out", "--instances", "0"], "1 to 48"),
        (["google-cluster", "stats", "--input", "TRACE", "--output", "TRACE/a.csv"], "it is a file"),
        (
            ["google-cluster", "stats", "--input", "TRACE", "--output", "out", "--conf", "x"],
            "not a Spark setting",
        ),
        (
            [
                "google-cluster",
                "stats",
                "--input",
                "TRACE",
                "--output",
                "out",
                "--conf",
                "spark.driver.memory=4g",
            ],
            "PYSPARK_SUBMIT_ARGS='--conf spark.driver.memory=4g pyspark-shell'",
        ),
        (
            ["google-cluster", "stats", "--input", "TRACE", "--output", "out", "--master", "mesos"],
            "not a master",
        ),
        (
            ["google-cluster", "stats", "--input", "TRACE", "--output", "out", "--master", "localhost:7077"],
            "'localhost:7077' is not a master",
        ),
        (
            ["google-cluster", "stats", "--input", "TRACE", "--output", "out", "--master", "local[abc]"],
            "'local[abc]' is not a master",
        ),
        (
            ["google-cluster", "stats", "--input", "TRACE", "--output", "out", "--master", "local[0]"],
            "master",
        ),
        (
            ["google-cluster", "stats", "--input", "TRACE", "--output", "out", "--master", "spark://a:²"],
            "write spark://HOST:PORT",
        ),
        (
            ["google-cluster", "stats", "--input", "TRACE", "--output", "TRACE"],
            "it contains a.csv, which is not a result",
        ),
        (
            ["google-cluster", "stats", "--input", "TRACE", "--output", "/proc/x"],
            "cannot write to /proc/x: no such",
        ),
        (
            ["google-cluster", "stats", "--input", "TRACE", "--output", "TRACE/a.csv/sub"],
            "not a directory; name",
        ),
        (["google-cluster", "generate", "--output", "/proc/gg"], "cannot write to /proc/gg: no such file"),
        (["google-cluster", "generate", "--output", "TRACE/a.csv/sub"], "a.csv/sub: not a directory; name"),
        (["google-cluster", "stats", "--input", "EMPTY", "--output", "out"], "no task-event files"),
        (["google-cluster", "generate", "--output", "out", "--events", "1000"], "too few for"),
        (["google-cluster", "generate", "--output", "out", "--seed", "-1"], "Invalid value for '--seed'"),
        (
            ["google-cluster", "generate", "--output", "out", "--span", "8m", "--parts", "20"],
            "the trace has 8: 20 parts are too many",
        ),
        (["bench", "google-cluster", "static", "--instances", "1,²"], "use whole numbers"),
        (["bench", "google-cluster", "static", "--events", "1000"], "too few for"),
        (["bench", "google-cluster", "static", "--seed", "-1"], "Invalid value for '--seed'"),
        (["google-cluster", "generate", "--output", "TRACE"], "new or empty folder"),
        (["google-cluster", "generate", "--output", "out", "--events", "0"], "at least 1 of events"),
        (["google-cluster", "generate", "--output", "out", "--span", "1 week"], "write it like"),
        (["bench", "google-cluster", "static", "--instances", "1,many"], "use whole numbers"),
        (["bench", "google-cluster", "static", "--input", "/no/such"], "there is no folder"),
        (["bench", "google-cluster", "static", "--report", "/no/such/page.html"], "there is no folder"),
        (["google-cluster", "generate", "--output", "out", "--span", "5000000d"], "at most 365 days"),
        (["google-cluster", "generate", "--output", "out", "--events", "9" * 23], "more than 365 days"),
        (["bench", "google-cluster", "static", "--events", "9" * 23], "more than 365 days"),
        (["bench", "google-cluster", "static", "--input", "TRACE"], "has no events"),
        (["bench", "google-cluster", "dynamic", "--input", "TRACE"], "has no events"),
        (
            ["bench", "google-cluster", "dynamic", "--minutes", "60", "--speed", "10000"],
            "would replay 431 days, and a trace has at most 365",
        ),
        (["bench", "google-cluster", "dynamic", "--minutes", "0"], "use 0.5 to 1440"),
        (["bench", "google-cluster", "dynamic", "--speed", "0"], "use 1 for real time"),
    ],
)
def test_invalid_input_is_one_line_of_error(
    monkeypatch, capsys, tmp_path, tmp_path_factory, arguments, words
) -> None:
    (tmp_path / "a.csv").write_text("")
    (tmp_path / "b.csv").write_text("bad\n")
    empty = tmp_path_factory.mktemp("empty")
    replaced = [a.replace("TRACE", str(tmp_path)).replace("EMPTY", str(empty)) for a in arguments]
    code, out, err = ebbflow(monkeypatch, capsys, *replaced)
    assert code == 2
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""


def test_the_static_test_suggests_no_machines_because_it_has_no_such_option(monkeypatch, capsys) -> None:
    code, _, err = ebbflow(monkeypatch, capsys, "bench", "google-cluster", "static", "--events", "300000")
    assert code == 2
    assert err.endswith(" events\n")
    assert ", or " not in err


def test_a_given_folder_needs_no_generated_trace(monkeypatch, capsys, tmp_path) -> None:
    (tmp_path / "a.csv").write_text("600000001,,42,3,17,1,someone,2,9,0.0625,0.03,3.815e-05,0\n")
    monkeypatch.setattr("ebbflow.cli.bench.google_cluster.check_java", lambda: None)
    words = ("--input", str(tmp_path), "--minutes", "60", "--speed", "10000")
    with pytest.raises(AssertionError, match="Spark was started"):
        ebbflow(monkeypatch, capsys, "bench", "google-cluster", "dynamic", *words)


@pytest.fixture
def ran(monkeypatch) -> dict[str, object]:
    """The options of the started job; a test may set its figures before, as ``found``."""
    ran: dict[str, object] = {}
    nothing = JobFigures(
        events=0, without_machine=0, rejected=0, reports=0, machines=0, batches=0, seconds=0.0, rates_per_s=()
    )  # fmt: skip

    def run_job(**options: object) -> JobFigures:
        found: Any = ran.get("found", {})
        ran.update(options)
        return replace(nothing, **found)

    monkeypatch.setattr("ebbflow.cli.google_cluster.run_job", run_job)
    monkeypatch.setattr("ebbflow.cli.google_cluster.check_java", lambda: None)
    monkeypatch.setattr("ebbflow.cli.google_cluster.check_master", lambda _: None)
    return ran


@pytest.mark.parametrize(
    ("words", "instances", "hint"),
    [
        ([], 3, False),
        (["--master", "local"], 1, False),
        (["--master", "local[7,2]"], 7, False),
        (["--master", "local-cluster[2,5,1024]"], 10, False),
        (["--master", "local[90]"], 48, False),
        (["--master", "spark://far:1"], 3, True),
        (["--master", "spark://far:1", "--conf", "spark.cores.max=9"], 9, False),
        (["--master", "yarn", "--conf", "spark.executor.instances=4", "--conf", "spark.executor.cores=2"], 8, False),
        (["--master", "spark://far:1", "--instances", "5"], 5, False),
    ],
)  # fmt: skip
def test_there_are_as_many_instances_as_the_master_has_slots(
    monkeypatch, capsys, tmp_path, ran, words, instances, hint
) -> None:
    (tmp_path / "a.csv").write_text("")
    monkeypatch.setattr("ebbflow.cli.google_cluster.cores", lambda: 3)
    own = ["google-cluster", "stats", "--input", str(tmp_path), "--output", str(tmp_path / "out")]
    code, _, err = ebbflow(monkeypatch, capsys, *own, *words)
    assert code == 0
    assert ran["instances"] == instances
    assert ("set the number for the cluster with --instances" in " ".join(err.split())) is hint


def test_a_group_without_a_command_shows_its_help_and_nothing_else(monkeypatch, capsys) -> None:
    code, out, err = ebbflow(monkeypatch, capsys, "google-cluster")
    assert code == 2
    assert "generate" in out + err
    assert "ebbflow:" not in err


def test_a_run_on_too_few_cores_is_drawn_as_measured() -> None:
    run = JobFigures(
        events=100, without_machine=0, rejected=0, reports=1, machines=1, batches=2, seconds=4.0,
        rates_per_s=(1.0, 2.0, 3.0, 4.0), batch_events=(50, 50),
    )  # fmt: skip
    result = run_static(Path(), (1, 2, 4), cores=1, run=lambda _: run)
    assert [row.source for row in result.rows] == [MEASURED, CROWDED, SIMULATED]
    assert [_point(result, index).measured for index in range(3)] == [True, True, False]


def test_a_resumed_run_says_that_it_keeps_its_instances(monkeypatch, capsys, tmp_path, ran) -> None:
    (tmp_path / "a.csv").write_text("")
    monkeypatch.setattr(
        "ebbflow.cli.google_cluster.run_to_resume", lambda **_: InterruptedRun(folder="", instances=3)
    )
    words = ["google-cluster", "stats", "--input", str(tmp_path), "--output", str(tmp_path / "out")]
    code, _, err = ebbflow(monkeypatch, capsys, *words, "--instances", "5")
    assert code == 0
    assert "resumes with the 3 instances it was started with, not 5" in err
    assert "1 part with 3 instances" in err
    assert ran["instances"] == 3
    assert "not 5" not in ebbflow(monkeypatch, capsys, *words)[2]


def test_a_second_run_into_a_folder_is_refused_and_removes_nothing(monkeypatch, capsys, tmp_path) -> None:
    (tmp_path / "a.csv").write_text("")
    written = tmp_path / "out" / ".staging" / "machines-1.parquet"
    written.parent.mkdir(parents=True)
    written.write_text("unfinished")
    words = ["google-cluster", "stats", "--input", str(tmp_path), "--output", str(tmp_path / "out")]
    with locked_output(tmp_path / "out"):
        code, out, err = ebbflow(monkeypatch, capsys, *words)
    assert (code, out) == (2, "")
    assert f"another run writes to {tmp_path / 'out'}" in err
    assert len(err.strip().splitlines()) == 1
    assert written.exists()


@pytest.mark.parametrize(
    ("events", "rejected", "words"),
    [
        (
            0,
            3,
            "warning: no row of the files is a valid task event: 3 rows were rejected; the reasons are in",
        ),
        (
            0,
            0,
            "warning: no row of the files is a valid task event: 0 rows were rejected; the reasons are in",
        ),
        (9, 1, "1 row was rejected; the reasons are in"),
        (9, 0, None),
    ],
)
def test_rejected_rows_are_reported_at_the_end_with_a_warning_if_no_row_is_valid(
    monkeypatch, capsys, tmp_path, ran, events, rejected, words
) -> None:
    (tmp_path / "a.csv").write_text("")
    ran["found"] = {"events": events, "rejected": rejected}
    own = ["google-cluster", "stats", "--input", str(tmp_path), "--output", str(tmp_path / "out"), "--json"]
    code, _, err = ebbflow(monkeypatch, capsys, *own)
    text = " ".join(err.split())
    assert code == 0
    if words is None:
        assert "rejected" not in text
    else:
        assert text.partition(words)[2].replace(" ", "") == str(tmp_path / "out" / "rejected")


def test_the_static_test_has_enough_batches() -> None:
    for events, per_batch in ((400_000, 3), (5_000_000, 8), (80_000_000, 8)):
        parts = _with_small_parts(TraceSpec(events=events)).parts or 0
        assert parts_per_batch(parts) == per_batch, "as many parts as eight instances read at once"
        assert parts / per_batch >= MIN_BATCHES
    assert _with_small_parts(TraceSpec(events=80_000_000)).parts == 277
