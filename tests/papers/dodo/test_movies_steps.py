"""The steps of the movie stream, called as Spark calls them but without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from test_similarity import recount

from ebbflow.errors import InputError
from ebbflow.papers.dodo.movies.ratings import Ratings, generated_ratings
from ebbflow.papers.dodo.movies.similarity import FAN_ABOVE, MovieList
from ebbflow.papers.dodo.movies.stream import _history, _similar, _whole, merge_lists, read_lists


class State:
    """A Spark ``GroupState``."""

    def __init__(self) -> None:
        self.get: tuple[Any, ...] = ()

    @property
    def exists(self) -> bool:
        return bool(self.get)

    def update(self, value: tuple[Any, ...]) -> None:
        self.get = value


class Stream:
    """The three operators, with their state by bucket."""

    def __init__(self, file: Path, *, max_pairs: int, buckets: int = 3) -> None:
        self.file, self.max_pairs, self.buckets = file, max_pairs, buckets
        self.users = {bucket: State() for bucket in range(buckets)}
        self.movies = {bucket: State() for bucket in range(buckets)}
        self.waiting = 0

    def take(self, ratings: Ratings) -> None:
        frame = ratings.to_arrow().to_pandas()
        pairs = []
        for bucket, rows in frame.groupby(frame["user"] % self.buckets):
            pairs += _history(
                (int(bucket),), iter([rows]), self.users[int(bucket)],
                movie_buckets=self.buckets, max_pairs=self.max_pairs,
            )  # fmt: skip
        made = pd.concat(pairs)
        self.waiting = int(made["waiting"].sum())
        for bucket, rows in made[made["pairs"].notna()].groupby("bucket"):
            for lists in _similar((int(bucket),), iter([rows]), self.movies[int(bucket)], top=4):
                merge_lists(self.file, [MovieList(**row) for row in lists.to_dict("records")])


@pytest.mark.parametrize("max_pairs", [10**9, 300])
def test_the_file_has_the_lists_of_all_ratings_so_far(tmp_path: Path, max_pairs: int) -> None:
    ratings = generated_ratings(900, users=12, movies=60)
    stream = Stream(tmp_path / "lists.tsv", max_pairs=max_pairs)
    waited = 0
    for start in range(0, 900, 300):
        stream.take(ratings.part(start, start + 300))
        while stream.waiting:
            waited += 1
            stream.take(Ratings(user=ratings.user, movie=ratings.movie, rating=0 * ratings.rating, source=""))
        fans = {
            (user, movie)
            for user, movie, stars in zip(*(c.tolist()[: start + 300] for c in columns(ratings)), strict=True)
            if stars > FAN_ABOVE
        }
        lists = read_lists(stream.file)
        found = {
            movie: list(zip(each.similar, each.mutual_fans, strict=True)) for movie, each in lists.items()
        }
        assert found == recount(fans, 4)
    assert (waited > 0) is (max_pairs == 300)


def columns(ratings: Ratings) -> tuple[Any, ...]:
    return ratings.user, ratings.movie, ratings.rating


def test_an_option_that_is_no_number_is_refused() -> None:
    assert _whole({"top": "5"}, "top") == 5
    with pytest.raises(
        InputError, match="option top is 'five'; it must be a whole number from 1 on, like 10"
    ):
        _whole({"top": "five"}, "top")
