"""The top-N topics: the distribution of topics, and the three operators on real Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ebbflow.papers.dodo.in_session import fleet_in, running
from ebbflow.papers.dodo.movies import stream
from ebbflow.papers.dodo.topics import operators
from ebbflow.papers.dodo.topics.operators import read_top
from ebbflow.papers.dodo.topics.tweets import TOPICS, topics_of, write_tweets
from ebbflow.targets.fleet.file import load_fleet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLEET = Path(operators.__file__).with_name("topics.toml")


def test_topics_follow_a_zipf_distribution_with_exponent_one_half() -> None:
    counts = np.bincount(topics_of(0, 1_000_000), minlength=TOPICS + 1)[1:]
    expected = np.arange(1, TOPICS + 1) ** -0.5
    expected *= 1_000_000 / expected.sum()
    assert counts.sum() == 1_000_000
    assert np.all(np.abs(counts - expected) < 6 * np.sqrt(expected))


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_list_has_the_most_frequent_topics_after_every_report(
    spark: SparkSession, tmp_path: Path
) -> None:
    text = FLEET.read_text(encoding="utf-8").replace(
        'file = "top.json", n = "10"', f'file = "{tmp_path / "top.json"}", n = "10", every = "0 seconds"'
    )
    fleet = fleet_in(tmp_path, text)
    expected = Counter[str]()
    with running(spark, fleet) as queries:
        for first in (0, 20_000):
            write_tweets(fleet.streams["tweets"].folder, first, 20_000)
            expected.update(f"topic{topic}" for topic in topics_of(first, 20_000))
            for query in queries.values():
                query.processAllAvailable()
            best = sorted(expected.items(), key=lambda each: (-each[1], each[0]))[:10]
            assert read_top(tmp_path / "top.json") == best


@pytest.mark.parametrize(
    "file", [FLEET, Path(stream.__file__).with_name("movies.toml")], ids=["topics", "movies"]
)
def test_the_fleet_files_in_the_package_are_valid(file: Path) -> None:
    fleet = load_fleet(file)
    assert len(fleet.operators) == 3
    assert [len(each.reads) for each in fleet.operators.values()] == [1, 1, 1]
