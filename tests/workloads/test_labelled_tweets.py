"""Labelled tweets are read unchanged and repeated; invalid files are refused with the reason."""

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
def test_texts_may_have_commas_quotes_and_line_breaks_and_other_columns_are_ignored(file, name) -> None:
    tweets = read_labelled_tweets(
        file('created,text,sentiment\n1,"so, ""good""\nbye",positive\n2,,neutral\n3,meh,negative\n', name)
    )
    assert len(tweets) == 3
    assert tweets.texts.to_pylist() == ['so, "good"\nbye', "", "meh"]
    assert tweets.labels.to_pylist() == ["positive", "neutral", "negative"]


def test_rows_start_over_after_the_last_tweet(file) -> None:
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
        ("sentiment,text\ngood,a\n", "'good' is not a sentiment"),
        ("sentiment,text\nneutral,a,b\n", "Expected 2 columns"),
    ],
)
def test_an_invalid_file_is_refused_in_one_line(file, text, words) -> None:
    with pytest.raises(InputError, match=words) as error:
        read_labelled_tweets(file(text))
    assert "it needs the columns sentiment (negative, neutral, positive) and text" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_refused() -> None:
    with pytest.raises(InputError, match=r"there is no file of labelled tweets 'none\.csv'"):
        read_labelled_tweets("none.csv")


def test_a_file_of_several_megabytes_with_line_breaks_in_texts_is_read_completely(file) -> None:
    """Arrow reads blocks of 1 MB; a quoted text may cross the border of one."""
    sentiments = ["negative", "neutral", "positive", "negative"]
    texts = [f"@airline flight {n}, delayed\nagain: " + "so long " * (n % 40) for n in range(20_000)]
    lines = [f'{sentiments[n % 4]},"{text}"' for n, text in enumerate(texts)]
    tweets = read_labelled_tweets(file("\n".join(["sentiment,text", *lines]), "tweets.csv.gz"))
    assert tweets.texts.to_pylist() == texts
    assert Counter(tweets.labels.to_pylist()) == {"negative": 10_000, "neutral": 5_000, "positive": 5_000}
