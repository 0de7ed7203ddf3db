"""Who is right about labelled tweets, and how that is told."""

from __future__ import annotations

import pytest

from ebbflow.errors import InputError
from ebbflow.papers.elysium.pipelines.sentiment.accuracy import verdict, verdicts
from ebbflow.workloads import LabelledTweets, read_labelled_tweets


def test_scores_of_a_hand_made_case() -> None:
    labels = ["negative"] * 6 + ["neutral"] * 2 + ["positive"] * 2
    found = ["negative"] * 5 + ["positive"] + ["neutral", "negative"] + ["positive", "negative"]
    told = verdict("mine", found, labels)
    assert told.accuracy == pytest.approx(0.7)
    assert told.recall == pytest.approx({"negative": 5 / 6, "neutral": 0.5, "positive": 0.5})
    # negative: 7 found, 6 labelled, 5 hits; neutral: 1, 2, 1; positive: 2, 2, 1
    assert told.macro_f1 == pytest.approx((10 / 13 + 2 / 3 + 2 / 4) / 3)


def test_one_fold_leaves_nothing_to_learn_from() -> None:
    with pytest.raises(InputError, match="2 or more"):
        verdicts(LabelledTweets(texts=None, labels=None), folds=1)


def test_on_real_tweets_the_lexicon_beats_chance_and_what_is_learned_beats_the_lexicon(shared_data) -> None:
    tweets = read_labelled_tweets(shared_data / "text" / "airline_tweets.csv.gz")
    always, lexicon, learned = verdicts(tweets, folds=2)
    assert always.accuracy == pytest.approx(0.627, abs=0.001)
    assert always.macro_f1 == pytest.approx(0.257, abs=0.001)
    assert lexicon.accuracy > 0.53
    assert lexicon.macro_f1 > 0.5
    assert learned.accuracy > 0.76
    assert learned.macro_f1 > 0.68
