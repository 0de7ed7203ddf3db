"""Ratings from files and generated ones, and the costs of batch and stream."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from ebbflow.errors import InputError
from ebbflow.papers.dodo.movies.bench import Growth, MoviesResult, published_break_even, published_model
from ebbflow.papers.dodo.movies.page import movies_page
from ebbflow.papers.dodo.movies.published import (
    HADOOP_INSTANCES,
    HADOOP_USD_PER_HOUR,
    REFRESHES_S,
    TABLE_2,
    TABLE_3,
)
from ebbflow.papers.dodo.movies.ratings import generated_ratings, read_ratings
from ebbflow.papers.dodo.movies.run import StreamRun, Timed
from ebbflow.papers.dodo.movies.similarity import MovieList
from ebbflow.papers.dodo.movies.stream import merge_lists, read_lists


def test_ratings_are_read_in_the_order_of_their_time(tmp_path: Path) -> None:
    file = tmp_path / "ratings.csv.gz"
    with gzip.open(file, "wt") as out:
        out.write("userId,movieId,rating,timestamp\n1,10,4.0,300\n2,20,3.5,100\n1,30,0.5,200\n")
    ratings = read_ratings(file)
    assert ratings.movie.tolist() == [20, 30, 10]
    assert ratings.fans == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("user,movie\n1,2\n", "it needs the columns userId, movieId, rating and timestamp"),
        ("userId,movieId,rating,timestamp\n", "has no ratings"),
        ("userId,movieId,rating,timestamp\n-1,2,3,4\n", "rating 1: userId -1 is not an id"),
        ("userId,movieId,rating,timestamp\n1,2,good,4\n", "cannot read ratings"),
    ],
)
def test_an_invalid_file_is_refused_in_one_line(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "ratings.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=problem) as error:
        read_ratings(file)
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="there is no file of ratings"):
        read_ratings(tmp_path / "none.csv")


def test_generated_ratings_have_popular_movies_and_long_histories() -> None:
    made = generated_ratings(50_000)
    per_user = np.sort(np.bincount(made.user))[::-1]
    per_movie = np.sort(np.bincount(made.movie))[::-1]
    assert per_user[0] > 5 * per_user[per_user > 0].mean()
    assert per_movie[:90].sum() > 0.25 * len(made)  # one in a hundred movies
    assert np.array_equal(made.user, generated_ratings(50_000).user)


def test_a_list_is_replaced_by_newer_ones_only(tmp_path: Path) -> None:
    file = tmp_path / "lists.tsv"
    new = MovieList(movie=1, version=2, similar=[5, 7], mutual_fans=[3, 1])
    merge_lists(file, [new, MovieList(movie=2, version=1, similar=[1], mutual_fans=[1])])
    before = file.read_bytes()
    merge_lists(file, [MovieList(movie=1, version=1, similar=[9], mutual_fans=[1])])
    assert file.read_bytes() == before
    assert read_lists(file)[1] == new


def test_the_published_costs_follow_from_the_published_times() -> None:
    """Table 3: instances · price · whole hours of a run · runs a day."""
    for each in TABLE_2:
        for refresh, seconds in REFRESHES_S.items():
            hours = -(-each.seconds // 3600)
            usd = HADOOP_INSTANCES * HADOOP_USD_PER_HOUR * hours * 86_400 / seconds
            published = TABLE_3.get((refresh, each.ratings))
            if each.seconds > seconds:
                assert published is None
            else:
                assert published == pytest.approx(usd)


def made_result() -> MoviesResult:
    def timed(ratings: int, seconds: float) -> Timed:
        return Timed(ratings=ratings, seconds=seconds, cpu_s=2 * seconds)

    growth = [
        Growth(ratings=n, pairs=10 * n, batch=timed(n, n / 5_000), stream=timed(25_000, 1.0))
        for n in (25_000, 50_000, 75_000, 100_000)
    ]
    stream = StreamRun(
        parts=[each.stream for each in growth], longest_batch_s=0.7, most_waiting=0, lists={1: [(2, 3)]}
    )
    return MoviesResult(ratings=generated_ratings(1_000), stream=stream, growth=growth, same_lists=True)


def test_the_stream_is_cheaper_from_a_lower_rate_on_the_fresher_lists_must_be() -> None:
    result = made_result()
    assert result.ok
    assert result.times_published == pytest.approx(25_000 / 850)
    rates = [result.costs.break_even_rate_per_s(refresh_s) for refresh_s in (60.0, 3_600.0, 86_400.0)]
    assert rates[0] is not None
    assert rates[1] is not None
    assert rates[0] < rates[1]
    hourly = published_break_even(3_600.0)
    assert hourly is not None
    # At 200 ratings/s Hadoop takes 56 minutes for a day's data: an hourly refresh costs nearly as much as the stream.
    assert 150 < hourly < 276
    assert published_model().seconds(17_280_000) == pytest.approx(56 * 60, rel=0.05)


def test_rows_and_page_have_published_figures_beside_ours() -> None:
    result = made_result()
    rows = result.to_json()
    assert rows[0]["throughput"] == 25_000.0
    assert rows[0]["published"]["throughput"][-1] == 850.0
    cases = [row["case"] for row in rows]
    assert cases.count("growth") == 4
    assert all("published" in row for row in rows)
    page = movies_page(result)
    assert "29.4 times the paper" in page
    assert "paper: 17,280,000" in page
    assert "$21.12" in page
