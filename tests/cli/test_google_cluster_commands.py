"""Commands of the Google cluster query: what a person gets wrong is told before anything is started."""

from __future__ import annotations

import pytest
from console import ebbflow


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was started")

    for name in ("google_cluster.run_job", "google_cluster.make_trace", "bench_google_cluster.run_static",
                 "bench_google_cluster.run_dynamic", "bench_google_cluster.make_trace_in_a_process"):  # fmt: skip
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
            ["google-cluster", "stats", "--input", "TRACE", "--output", "out", "--master", "mesos"],
            "not a master",
        ),
        (["google-cluster", "stats", "--input", "EMPTY", "--output", "out"], "no task-event files"),
        (["google-cluster", "generate", "--output", "TRACE"], "new or empty folder"),
        (["google-cluster", "generate", "--output", "out", "--events", "0"], "at least 1 of events"),
        (["google-cluster", "generate", "--output", "out", "--span", "1 week"], "write it like"),
        (["bench", "google-cluster", "static", "--instances", "1,many"], "write whole numbers"),
        (["bench", "google-cluster", "static", "--input", "/no/such"], "there is no folder"),
        (["bench", "google-cluster", "static", "--report", "/no/such/page.html"], "there is no folder"),
        (["bench", "google-cluster", "dynamic", "--minutes", "0"], "write 0.5 to 1440"),
        (["bench", "google-cluster", "dynamic", "--speed", "0"], "write 1 for real time"),
    ],
)
def test_what_cannot_be_meant_is_told_in_one_line(
    monkeypatch, capsys, tmp_path, tmp_path_factory, arguments, words
) -> None:
    (tmp_path / "a.csv").write_text("")
    empty = tmp_path_factory.mktemp("empty")
    replaced = [a.replace("TRACE", str(tmp_path)).replace("EMPTY", str(empty)) for a in arguments]
    code, out, err = ebbflow(monkeypatch, capsys, *replaced)
    assert code == 2
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""
