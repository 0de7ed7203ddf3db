"""Movie recommendation on real Spark: batch and stream give the same lists."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ebbflow.papers.dodo.movies.ratings import Ratings, generated_ratings, read_ratings
from ebbflow.papers.dodo.movies.run import run_batch, run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_batch_and_stream_give_the_same_lists(spark: SparkSession, tmp_path: Path) -> None:
    """In several parts, with ratings that are repeated, and with a user whose pairs exceed the bound of a batch."""
    made = generated_ratings(3_000, users=30, movies=300)
    eager = np.arange(1, 201, dtype=np.int32)
    ratings = Ratings(
        user=np.concatenate((made.user, np.full(200, 500, np.int32), made.user[:100])),
        movie=np.concatenate((made.movie, eager, made.movie[:100])),
        rating=np.concatenate((made.rating, np.full(200, 4.0), made.rating[:100])),
        source="",
    )
    _, lists = run_batch(spark, tmp_path / "batch", ratings, top=5)
    parts = [ratings.part(0, 2_000), ratings.part(2_000, len(ratings))]
    stream = run_stream(
        spark, tmp_path / "stream", parts, options={"top": 5, "max_pairs": 20_000, "user_buckets": 4}
    )
    assert stream.most_waiting > 0, "the bound must have held fans back, or this tests nothing"
    assert len(lists) > 200
    assert stream.lists == lists


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_batch_and_stream_give_the_same_lists_on_movielens(
    spark: SparkSession, tmp_path: Path, shared_data: Path
) -> None:
    ratings = read_ratings(shared_data / "movies" / "ratings.csv.gz")
    _, lists = run_batch(spark, tmp_path / "batch", ratings, top=10)
    quarter = len(ratings) // 4
    parts = [ratings.part(i * quarter, (i + 1) * quarter if i < 3 else len(ratings)) for i in range(4)]
    stream = run_stream(spark, tmp_path / "stream", parts)
    assert len(lists) == 7_363
    assert stream.lists == lists
