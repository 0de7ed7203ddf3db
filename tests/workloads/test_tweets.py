"""Generated tweets depend only on seed and row, and have the statistics of real ones."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbflow.workloads import STOP_WORDS, Tweets
from ebbflow.workloads.tweets import word_shares, words


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return Tweets(seed=1).texts(0, 50_000).to_pylist()


def plain_words(texts: list[str]) -> Counter[str]:
    return Counter(word.strip(".!?") for text in texts for word in text.split() if word[0] not in "@#")


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**40),
    st.integers(0, 6000),
    st.integers(0, 6000),
    st.integers(0, 200),
)
def test_a_row_does_not_depend_on_its_block(seed: int, first: int, count: int, skip: int, size: int) -> None:
    tweets = Tweets(seed)
    whole = tweets.texts(first, count)
    assert len(whole) == count
    skip = min(skip, count)
    size = min(size, count - skip)
    assert tweets.texts(first + skip, size) == whole[skip : skip + size]


def test_seeds_make_different_tweets() -> None:
    assert Tweets(1).texts(0, 10) == Tweets(1).texts(0, 10)
    assert Tweets(1).texts(0, 10) != Tweets(2).texts(0, 10)


def test_tweets_are_the_same_in_another_process() -> None:
    code = "from ebbflow.workloads import Tweets; print(Tweets(5).texts(10**6, 3).to_pylist())"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == str(Tweets(5).texts(10**6, 3).to_pylist())


def test_importing_workloads_and_generating_tweets_does_not_load_pandas() -> None:
    code = (
        "import sys; from ebbflow.workloads import Tweets, parse_load; Tweets(1).texts(0, 5);"
        "assert 'pandas' not in sys.modules and 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_two_rows_are_alike(texts: list[str]) -> None:
    assert len(set(texts)) > 0.99 * len(texts)


def test_word_frequencies_follow_zipf(texts: list[str]) -> None:
    counts = np.array(sorted(plain_words(texts).values(), reverse=True), dtype=float)
    ranks = np.arange(1, len(counts) + 1)
    middle = slice(9, 1000)
    exponent = -np.polyfit(np.log(ranks[middle]), np.log(counts[middle]), 1)[0]
    assert 0.85 < exponent < 1.1
    assert counts[0] / counts.sum() == pytest.approx(0.0368, rel=0.05)
    assert counts[99] / counts.sum() == pytest.approx(0.0013, rel=0.1)
    assert len(counts) > 4900


def test_each_word_has_its_share(texts: list[str]) -> None:
    counts = plain_words(texts)
    total = sum(counts.values())
    for rank in (1, 5, 20, 60):
        assert counts[words()[rank - 1]] / total == pytest.approx(float(word_shares()[rank - 1]), rel=0.07)


def test_about_half_of_the_words_are_stop_words(texts: list[str]) -> None:
    counts = plain_words(texts)
    share = sum(counts[word] for word in STOP_WORDS) / sum(counts.values())
    assert 0.4 < share < 0.6
    assert set(words()[: len(STOP_WORDS)]) == STOP_WORDS
    assert len(set(words())) == len(words()) == 5000


def test_mentions_come_first_hashtags_last_and_neither_is_a_stop_word(texts: list[str]) -> None:
    mentioned = [text for text in texts if "@" in text]
    tagged = [text for text in texts if "#" in text]
    assert len(mentioned) / len(texts) == pytest.approx(0.35, abs=0.02)
    assert len(tagged) / len(texts) == pytest.approx(0.17, abs=0.02)
    assert all(text[0] == "@" for text in mentioned)
    assert all(text.split()[-1][0] == "#" for text in tagged)
    assert not {text.split()[0][1:] for text in mentioned} & STOP_WORDS
    assert not {text.split()[-1][1:] for text in tagged} & STOP_WORDS


def test_tweets_are_clean_text(texts: list[str]) -> None:
    assert all(text == " ".join(text.split()) for text in texts)
    assert all(2 <= len(text.split()) <= 30 for text in texts)


def test_lengths_are_like_those_of_real_tweets(texts: list[str]) -> None:
    """Mean and standard deviation of 14,640 tweets to US airlines (2015), counted once."""
    words_per_tweet = [len(text.split()) for text in texts]
    assert (np.mean(words_per_tweet), np.std(words_per_tweet)) == pytest.approx((17.65, 6.88), rel=0.1)
    characters = [len(text) for text in texts]
    assert (np.mean(characters), np.std(characters)) == pytest.approx((103.8, 36.28), rel=0.15)


def test_negative_rows_and_seeds_are_refused() -> None:
    assert Tweets(1).texts(5, 0).to_pylist() == []
    with pytest.raises(ValueError, match="rows are numbered from 0"):
        Tweets(1).texts(-1, 5)
    with pytest.raises(ValueError, match="seed of tweets is -1"):
        Tweets(-1)


def test_tweets_are_generated_faster_than_a_pipeline_reads_them() -> None:
    tweets = Tweets(3)
    tweets.texts(0, 1)
    started = time.perf_counter()
    tweets.texts(0, 100_000)
    assert 100_000 / (time.perf_counter() - started) > 50_000  # 400,000 on an idle core
