"""Movie recommendation as a batch job of three rounds (§5.2), on all ratings so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from ebbflow.papers.dodo.movies.similarity import FAN_ABOVE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LIST = "movie int, similar array<int>, mutual_fans array<int>"
"""The columns of the result: the most similar movies first, with their numbers of mutual fans."""


def recommend(ratings: DataFrame, *, top: int) -> DataFrame:
    """The list of each movie that has mutual fans with another, from the columns user, movie and rating."""
    return most_similar(mutual_fans(fans(ratings)), top=top)


def fans(ratings: DataFrame) -> DataFrame:
    """Round 1: each user and movie of which the user is a fan, once."""
    return ratings.where(F.col("rating") > FAN_ABOVE).select("user", "movie").distinct()


def mutual_fans(fans: DataFrame) -> DataFrame:
    """Round 2: each pair of movies, the smaller id first, and its number of mutual fans."""
    a, b = fans.alias("a"), fans.alias("b")
    pairs = a.join(b, (F.col("a.user") == F.col("b.user")) & (F.col("a.movie") < F.col("b.movie")))
    return pairs.groupBy(F.col("a.movie").alias("first"), F.col("b.movie").alias("second")).agg(
        F.count(F.lit(1)).cast("int").alias("fans")
    )


def most_similar(mutual: DataFrame, *, top: int) -> DataFrame:
    """Round 3: for each movie the ``top`` others with the most mutual fans, by id among equals."""
    both = mutual.select(
        F.explode(
            F.array(
                F.struct(F.col("first").alias("movie"), F.col("second").alias("other"), "fans"),
                F.struct(F.col("second").alias("movie"), F.col("first").alias("other"), "fans"),
            )
        ).alias("pair")
    ).select("pair.*")
    ranked = both.withColumn(
        "rank", F.row_number().over(Window.partitionBy("movie").orderBy(F.col("fans").desc(), "other"))
    ).where(F.col("rank") <= top)
    listed = ranked.groupBy("movie").agg(
        F.sort_array(F.collect_list(F.struct("rank", "other", "fans"))).alias("l")
    )
    return listed.select("movie", F.col("l.other").alias("similar"), F.col("l.fans").alias("mutual_fans"))
