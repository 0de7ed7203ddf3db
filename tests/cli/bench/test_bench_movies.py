"""``ebbflow bench movies``: rows, page and invalid input. Runs on Spark are tested in tests/papers/dodo."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from console import ebbflow

from ebbflow.papers.dodo.movies.bench import Growth, MoviesResult
from ebbflow.papers.dodo.movies.ratings import Ratings
from ebbflow.papers.dodo.movies.run import StreamRun, Timed


@pytest.mark.parametrize("same", [True, False])
def test_rows_are_printed_and_drawn(monkeypatch, capsys, tmp_path: Path, same: bool) -> None:
    def made(ratings: Ratings, *, top: int, on_step: object) -> MoviesResult:
        assert (len(ratings), top) == (2_000, 5)
        timed = Timed(ratings=1_000, seconds=0.1, cpu_s=0.15)
        growth = [
            Growth(ratings=n, pairs=9, batch=Timed(ratings=n, seconds=n / 1e3, cpu_s=1.0), stream=timed)
            for n in (1_000, 2_000)
        ]
        stream = StreamRun(parts=[timed, timed], longest_batch_s=0.1, most_waiting=0, lists={1: [(2, 3)]})
        return MoviesResult(ratings=ratings, stream=stream, growth=growth, same_lists=same)

    monkeypatch.setattr("ebbflow.papers.dodo.movies.bench.run_movies", made)
    page = tmp_path / "page.html"
    arguments = ["--count", "2000", "--top", "5", "--report", str(page)]
    code, out, err = ebbflow(monkeypatch, capsys, "bench", "movies", *arguments, "--json")
    rows = json.loads(out)
    assert code == (0 if same else 1)
    assert rows[0] | {"published": None} == rows[0] | {
        "published": None,
        "throughput": 10_000.0,
        "same_lists": same,
    }
    assert ("DIFFERENT" in err) is not same
    assert "Daily cost (Tables 3 and 6)" in page.read_text()
    code, out, _ = ebbflow(monkeypatch, capsys, "bench", "movies", *arguments)
    assert "paper, S4 on 23 nodes" in out
    assert "$21.12" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--ratings", "/no/such/ratings.csv"], "there is no file of ratings"),
        (["--ratings", __file__], "it needs the columns userId"),
        (["--count", "0"], "leaves nothing to process"),
        (["--count", "20"], "too few to measure; give at least 1,000"),
        (["--top", "0"], "the minimum is 1"),
        (["--report", "/no/such/folder/page.html"], "there is no folder"),
    ],
)
def test_invalid_input_is_one_line_and_code_2(monkeypatch, capsys, arguments, words) -> None:
    def started(*_: object, **__: object) -> None:
        pytest.fail("Spark was started")

    monkeypatch.setattr("ebbflow.papers.dodo.movies.bench.local_session", started)
    code, out, err = ebbflow(monkeypatch, capsys, "bench", "movies", *arguments)
    assert (code, out) == (2, "")
    assert words in err
