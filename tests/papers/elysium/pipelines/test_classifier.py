"""The sentiment classifier: vectorised steps against plain loops, the lexicon, training and accuracy."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.errors import InputError
from ebbflow.papers.elysium.pipelines import steps
from ebbflow.papers.elysium.pipelines.classifier import (
    NEGATORS,
    SentimentModel,
    classifier_score,
    compare_models,
    lexicon_model,
    read_model,
    tokens_of,
    train,
)
from ebbflow.workloads import LabelledTweets, read_labelled_tweets

WORDS = ("bad", "don't", "good", "not", "sun")
TOKENS = st.lists(st.lists(st.sampled_from([*WORDS, "and", "so", "?"]), max_size=9), max_size=8)


def features_in_a_loop(tokens: list[str], words: tuple[str, ...]) -> list[int]:
    found = []
    for place, token in enumerate(tokens):
        if token in words:
            before = tokens[max(0, place - steps.SCOPE) : place]
            negated = any(other in NEGATORS and other in words for other in before)
            found.append(words.index(token) + len(words) * negated)
    return found


@pytest.fixture(scope="module")
def model() -> SentimentModel:
    weights = np.random.default_rng(1).normal(size=(2 * len(WORDS), 3))
    return SentimentModel(
        words=WORDS, weights=weights, bias=np.array([0.1, 0.2, -0.3]), learned_from="random"
    )


@given(TOKENS)
def test_features_are_those_of_a_loop_over_the_tokens(lists) -> None:
    negators = np.array([word in NEGATORS for word in WORDS])
    found = steps.feature_ids(pa.array(lists, pa.list_(pa.string())), pa.array(WORDS), negators)
    assert found.to_pylist() == [features_in_a_loop(tokens, WORDS) for tokens in lists]


@given(lists=TOKENS)
def test_scores_are_those_of_a_loop_over_the_features(model, lists) -> None:
    rows = [features_in_a_loop(tokens, WORDS) for tokens in lists]
    found = steps.scores(pa.array(rows, steps.FEATURES), model.weights, model.bias)
    plain = [[model.bias[s] + sum(model.weights[i, s] for i in row) for s in range(3)] for row in rows]
    assert found == pytest.approx(np.array(plain).reshape(-1, 3))


@given(TOKENS, st.integers(0, 8), st.integers(0, 8))
def test_a_tweet_is_classified_the_same_in_any_batch(model, lists, first, count) -> None:
    """Batches may be slices, and have rows without a list."""
    tokens = pa.array([*lists, None], pa.list_(pa.string()))

    def classified(column: pa.ListArray) -> list[dict]:
        batch = pa.RecordBatch.from_arrays([pa.array(range(len(column))), column], ["row", "tokens"])
        extracted = steps.extract(iter([batch]), model.vocabulary, model.negators)
        found = steps.classify(extracted, model.weights, model.bias, ("a", "b", "c"))
        return [{k: v for k, v in row.items() if k != "row"} for each in found for row in each.to_pylist()]

    assert classified(tokens.slice(first, count)) == classified(tokens)[first : first + count]


def test_certainty_is_the_softmax_of_the_best_score(model) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([[0, 2], []], steps.FEATURES)], ["features"])
    (found,) = steps.classify(iter([batch]), model.weights, model.bias, ("a", "b", "c"))
    scores = np.vstack((model.bias + model.weights[0] + model.weights[2], model.bias))
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert found.schema.names == ["sentiment", "certainty"]
    assert found["certainty"].to_pylist() == pytest.approx(shares.max(axis=1))
    assert found["sentiment"].to_pylist() == ["abc"[i] for i in shares.argmax(axis=1)]


@pytest.mark.parametrize(
    ("text", "sentiment"),
    [
        ("what a great and happy day", "positive"),
        ("the WORST flight, i hate it", "negative"),
        ("this is not good", "negative"),
        ("it wasn’t so bad", "positive"),
        ("we land at 5pm", "neutral"),
        ("", "neutral"),
        ("see you :)", "positive"),
        ("@good @great http://good.com/great", "neutral"),
    ],
)
def test_the_lexicon_classifies_obvious_texts(text, sentiment) -> None:
    assert lexicon_model().predict([text]) == [sentiment]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("RT @you: no-one's #Happy!!1", ["rt", "@", "no", "one's", "happy", "!", "0"]),
        ("caf\xe9 \u2764\ufe0f", ["caf", "\xe9", "\u2764", "\ufe0f"]),
        ("\U0001f620", ["\U0001f620"]),
        ("=D ;-) :'(", ["=d", ";-)", ":'("]),
    ],
)
def test_tokens_of_odd_texts(text, tokens) -> None:
    assert tokens_of(text) == tokens


def labelled() -> tuple[list[str], list[str]]:
    pieces = {"negative": "bad sun", "neutral": "sun", "positive": "good sun"}
    texts = [f"{words} today" for words in pieces.values() for _ in range(10)]
    labels = [label for label in pieces for _ in range(10)]
    return [*texts, *["not bad"] * 10], [*labels, *["positive"] * 10]


def test_weights_are_learned_with_negation() -> None:
    model = train(*labelled())
    expected = {"bad": "negative", "good": "positive", "not bad": "positive", "sun today": "neutral"}
    assert model.predict(expected) == list(expected.values())
    assert {"bad", "good", "sun", "today"} <= set(model.words)
    assert set(model.words) >= NEGATORS
    assert model.weights.shape == (2 * len(model.words), 3)


def test_rare_words_are_not_learned() -> None:
    texts, labels = labelled()
    assert "seldom" not in train([*texts, "seldom bad", "seldom"], [*labels, "negative", "neutral"]).words


def test_training_needs_tweets_of_every_sentiment() -> None:
    with pytest.raises(InputError, match="no tweet is labelled neutral"):
        train(["a", "b"], ["positive", "negative"])


def test_a_model_survives_its_file(tmp_path) -> None:
    model = replace(train(*labelled()), learned_from="a test")
    (tmp_path / "model.json").write_text(model.to_text())
    again = read_model(tmp_path / "model.json")
    assert again.words == model.words
    assert again.weights == pytest.approx(model.weights, abs=1e-4)
    assert again.bias == pytest.approx(model.bias, abs=1e-4)
    assert again.learned_from == "a test"
    assert again.to_text() == model.to_text()
    assert '\n"good":[' in model.to_text(), "one word per line"


def test_invalid_model_files_are_refused(tmp_path) -> None:
    text = train(*labelled()).to_text()
    for wrong, words in (
        ("[]", "is not a sentiment model"),
        (text.replace('"version":1', '"version":9'), "of version 9"),
        (text.replace('"bias":[', '"bias":[0.5,'), "the bias 3"),
        (
            text[: text.index('"words":')] + '"words":{}}',
            "words is empty, but a model needs at least one, with 6",
        ),
    ):
        with pytest.raises(InputError, match=words) as error:
            SentimentModel.from_text(wrong)
        assert "ebbflow bench sentiment" in str(error.value)
    with pytest.raises(InputError, match="cannot read the sentiment model"):
        read_model(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("package", "call"),
    [("vaderSentiment", lexicon_model.__wrapped__), ("sklearn.linear_model", lambda: train(*labelled()))],
)
def test_a_missing_package_is_reported_with_the_command_that_installs_it(monkeypatch, package, call) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=r"pip install 'ebbflow\[sentiment\]'"):
        call()


# -- accuracy ------------------------------------------------------------------------------------


def test_scores_of_a_hand_made_case() -> None:
    labels = ["negative"] * 6 + ["neutral"] * 2 + ["positive"] * 2
    predicted = ["negative"] * 5 + ["positive"] + ["neutral", "negative"] + ["positive", "negative"]
    score = classifier_score("mine", predicted, labels)
    assert score.accuracy == pytest.approx(0.7)
    assert score.recall == pytest.approx({"negative": 5 / 6, "neutral": 0.5, "positive": 0.5})
    # negative: 7 predicted, 6 labelled, 5 hits; neutral: 1, 2, 1; positive: 2, 2, 1
    assert score.macro_f1 == pytest.approx((10 / 13 + 2 / 3 + 2 / 4) / 3)


def test_one_fold_leaves_nothing_to_train_on() -> None:
    with pytest.raises(InputError, match="2 or more"):
        compare_models(LabelledTweets(texts=None, labels=None), folds=1)


def complaints() -> LabelledTweets:
    """Generated tweets, mostly negative; half of the complaints have no word of the lexicon."""
    rng = np.random.default_rng(1)
    said = {
        "negative": ["worst flight ever", "i hate this", "waiting for two hours", "on hold for an hour"],
        "neutral": ["flight 24 to boston", "do you fly to denver", "see you at gate 7"],
        "positive": ["great crew thank you", "love the new seats"],
    }
    labels = [str(label) for label in rng.choice(list(said), 900, p=[0.6, 0.25, 0.15])]
    texts = [f"@airline {rng.choice(said[label])} {rng.integers(1000)}" for label in labels]
    return LabelledTweets(texts=pa.chunked_array([texts]), labels=pa.chunked_array([labels]))


def test_the_lexicon_beats_chance_and_training_beats_the_lexicon() -> None:
    always, lexicon, learned = compare_models(complaints(), folds=2)
    assert always.accuracy == pytest.approx(0.6, abs=0.05)
    assert always.macro_f1 < lexicon.macro_f1 < learned.macro_f1
    assert lexicon.accuracy < 0.8, "a lexicon misses complaints without a bad word"
    assert learned.accuracy > 0.95


@pytest.mark.long
def test_the_accuracy_on_real_tweets_is_that_of_the_documentation(shared_data) -> None:
    """The tweets may not be redistributed, so this test runs only where they are."""
    tweets = read_labelled_tweets(shared_data / "text" / "airline_tweets.csv.gz")
    always, lexicon, learned = compare_models(tweets, folds=2)
    assert always.accuracy == pytest.approx(0.627, abs=0.001)
    assert always.macro_f1 == pytest.approx(0.257, abs=0.001)
    assert lexicon.accuracy > 0.53
    assert lexicon.macro_f1 > 0.5
    assert learned.accuracy > 0.76
    assert learned.macro_f1 > 0.68
