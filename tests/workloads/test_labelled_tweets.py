"""Labelled tweets: read as they are, over and over, and what is wrong with a file is said."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest

from ebbflow.errors import InputError
from ebbflow.workloads import read_labelled_tweets


@pytest.fixture
def file(tmp_path: Path):
    def write(text: str, name: str = "tweets.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return write


@pytest.mark.parametrize("name", ["tweets.csv", "tweets.csv.gz"])
def test_a_text_may_have_commas_quotes_and_lines_and_other_columns_are_skipped(file, name) -> None:
    tweets = read_labelled_tweets(
        file('created,text,sentiment\n1,"so, ""good""\nbye",positive\n2,,neutral\n3,meh,negative\n', name)
    )
    assert len(tweets) == 3
    assert tweets.texts.to_pylist() == ['so, "good"\nbye', "", "meh"]
    assert tweets.labels.to_pylist() == ["positive", "neutral", "negative"]


def test_rows_go_round(file) -> None:
    tweets = read_labelled_tweets(file("sentiment,text\nneutral,a\npositive,b\nnegative,c\n"))
    texts, labels = tweets.rows(10**12, 7)
    first = 10**12 % 3
    assert texts.to_pylist() == [tweets.texts[(first + i) % 3].as_py() for i in range(7)]
    assert labels.to_pylist() == [tweets.labels[(first + i) % 3].as_py() for i in range(7)]
    assert tweets.rows(5, 0)[0].to_pylist() == []


def test_a_file_that_changed_is_read_again(file) -> None:
    assert len(read_labelled_tweets(file("sentiment,text\nneutral,a\n"))) == 1
    assert len(read_labelled_tweets(file("sentiment,text\nneutral,a\nneutral,b\n"))) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Empty CSV file"),
        ("sentiment,text\n", "it has no rows"),
        ("label,text\nneutral,a\n", "'sentiment'"),
        ("sentiment,text\ngood,a\n", "'good' is no sentiment"),
        ("sentiment,text\nneutral,a,b\n", "Expected 2 columns"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(file, text, words) -> None:
    with pytest.raises(InputError, match=words) as error:
        read_labelled_tweets(file(text))
    assert "it needs the columns sentiment (negative, neutral, positive) and text" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(InputError, match=r"there is no file of labelled tweets 'none\.csv'"):
        read_labelled_tweets("none.csv")


def test_the_shared_tweets_are_all_read(shared_data: Path) -> None:
    tweets = read_labelled_tweets(shared_data / "text" / "airline_tweets.csv.gz")
    assert Counter(tweets.labels.to_pylist()) == {"negative": 9178, "neutral": 3099, "positive": 2363}
