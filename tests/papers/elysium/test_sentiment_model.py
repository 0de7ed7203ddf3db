"""Sentiment of a text: the vectorised steps against loops, by hand, and from labelled tweets."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.errors import InputError
from ebbflow.papers.elysium.pipelines.sentiment import steps
from ebbflow.papers.elysium.pipelines.sentiment.model import SentimentModel, lexicon_model, read_model, train
from ebbflow.papers.elysium.pipelines.sentiment.tokens import NEGATORS, tokens_of

WORDS = ("bad", "don't", "good", "not", "sun")
TOKENS = st.lists(st.lists(st.sampled_from([*WORDS, "and", "so", "?"]), max_size=9), max_size=8)


def features_in_a_loop(tokens: list[str], words: tuple[str, ...]) -> list[int]:
    found = []
    for place, token in enumerate(tokens):
        if token in words:
            behind = tokens[max(0, place - steps.SCOPE) : place]
            turned = any(other in NEGATORS and other in words for other in behind)
            found.append(words.index(token) + len(words) * turned)
    return found


@pytest.fixture(scope="module")
def model() -> SentimentModel:
    weights = np.random.default_rng(1).normal(size=(2 * len(WORDS), 3))
    return SentimentModel(words=WORDS, weights=weights, bias=np.array([0.1, 0.2, -0.3]), learned_from="dice")


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
def test_a_tweet_is_classified_alike_in_any_batch(model, lists, first, count) -> None:
    """Batches are slices of others, and may have rows without a list."""
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
def test_the_lexicon_knows_what_anybody_knows(text, sentiment) -> None:
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
    asked = {"bad": "negative", "good": "positive", "not bad": "positive", "sun today": "neutral"}
    assert model.predict(asked) == list(asked.values())
    assert {"bad", "good", "sun", "today"} <= set(model.words)
    assert set(model.words) >= NEGATORS
    assert model.weights.shape == (2 * len(model.words), 3)


def test_rare_words_are_not_learned() -> None:
    texts, labels = labelled()
    assert "seldom" not in train([*texts, "seldom bad", "seldom"], [*labels, "negative", "neutral"]).words


def test_a_sentiment_without_a_tweet_cannot_be_learned() -> None:
    with pytest.raises(InputError, match="no tweet is labelled neutral"):
        train(["a", "b"], ["positive", "negative"])


def test_a_model_is_the_same_from_its_file(tmp_path) -> None:
    model = replace(train(*labelled()), learned_from="a test")
    (tmp_path / "model.json").write_text(model.to_text())
    again = read_model(tmp_path / "model.json")
    assert again.words == model.words
    assert again.weights == pytest.approx(model.weights, abs=1e-4)
    assert again.bias == pytest.approx(model.bias, abs=1e-4)
    assert again.learned_from == "a test"
    assert again.to_text() == model.to_text()
    assert '\n"good":[' in model.to_text(), "a word a line"


def test_files_that_are_no_model_are_told(tmp_path) -> None:
    text = train(*labelled()).to_text()
    for wrong, words in (
        ("[]", "is no sentiment model"),
        (text.replace('"version":1', '"version":9'), "of version 9"),
        (text.replace('"bias":[', '"bias":[0.5,'), "the bias 3"),
        (
            text[: text.index('"words":')] + '"words":{}}',
            "words is empty, and a model needs one or more, each with 6",
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
def test_what_is_not_installed_is_told_with_the_command_that_installs_it(monkeypatch, package, call) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=r"pip install 'ebbflow\[sentiment\]'"):
        call()
