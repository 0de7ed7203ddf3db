"""The sentiment classifier: tokens of a tweet, a linear model over them, its training and its accuracy.

The model has a weight for every word, plain and negated, and each sentiment:

    score(tweet, s) = bias(s) + Σ over its known words of weight(word, negated or not, s)

The sentiment with the highest score is the result. The weights come from a lexicon or are learned from labelled tweets;
the cost of classifying is the same.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ebbflow.errors import InputError
from ebbflow.papers.elysium.pipelines import steps
from ebbflow.workloads.tweets import SENTIMENTS, LabelledTweets

# -- tokens ------------------------------------------------------------------------------------------------------

PATTERN = r"https?://[!-~]+|[@#]?[A-Za-z0-9_]+(?:['’][A-Za-z]+)*|[:;=][-']?[()DPp]|[!?]+|[^\x00-\x7F]"
"""A URL, a word with the # or @ before it, an emoticon, a run of ! and ?, or one character outside ASCII.

Spark and Python share this expression, so it uses only what Java and Python interpret alike: no ``\\w``, no ``\\s``.
"""
URL, MENTION, NUMBER = "http", "@", "0"
"""Stand for every URL, every mentioned user, and every number."""

_NEGATOR_TEXT = """
no not never none nobody nothing neither nor nowhere without hardly barely cannot ain't aren't can't couldn't didn't
doesn't don't hadn't hasn't haven't isn't mustn't shouldn't wasn't weren't won't wouldn't cant couldnt didnt doesnt
dont hasnt havent isnt wasnt wont wouldnt
"""
NEGATORS: frozenset[str] = frozenset(_NEGATOR_TEXT.split())
"""Words that reverse the words after them."""

_TOKENS = re.compile(PATTERN)


def tokens_of(text: str) -> list[str]:
    """The normalised tokens of a tweet.

    >>> tokens_of("@united Isn’t it GREAT?! #fail 24h http://t.co/x1 :-(")
    ['@', "isn't", 'it', 'great', '?', 'fail', '0', 'http', ':-(']
    """
    return [_normalised(token) for token in _TOKENS.findall(text)]


def _normalised(token: str) -> str:
    first = token[0]
    if first == "@":
        return MENTION
    if token.startswith(("http://", "https://")):
        return URL
    if first in "!?":
        return first
    if "0" <= first <= "9":
        return NUMBER
    return token.lower().replace("’", "'").removeprefix("#")


# -- the model ---------------------------------------------------------------------------------------------------

VERSION = 1
_INSTALL = "install it with: pip install 'ebbflow[sentiment]'"
_NEGATED = -0.74
"""Factor of a negator on the valence of a word (Hutto and Gilbert, "VADER", ICWSM 2014)."""
_NEUTRAL = 0.2
"""Sums of valences between −0.2 and 0.2 are neutral: the limit of VADER, ±0.05 of its s/√(s² + 15)."""
_INVERSE_PENALTY = 0.3
"""C of the regression. From 0.1 to 1 the accuracy on held-out tweets changes by one percentage point."""
_RARE = 3
"""Words in fewer tweets are not learned: their weights would be chance."""


class _File(msgspec.Struct, frozen=True):
    version: int
    learned_from: str
    sentiments: list[str]
    bias: list[float]
    words: dict[str, list[float]]
    """Weights of a word for each sentiment, then those of the negated word."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SentimentModel:
    """Words and their weights: row i has those of word i, row len(words) + i those of word i negated."""

    words: tuple[str, ...]
    weights: steps.Floats
    bias: steps.Floats
    learned_from: str

    @functools.cached_property
    def vocabulary(self) -> pa.StringArray:
        """The words as an Arrow array."""
        return pa.array(self.words, pa.string())

    @functools.cached_property
    def negators(self) -> npt.NDArray[np.bool_]:
        """Which of the words are negators."""
        return np.array([word in NEGATORS for word in self.words])

    def predict(self, texts: Iterable[str]) -> list[str]:
        """The sentiment of each text."""
        features = steps.feature_ids(_token_lists(texts), self.vocabulary, self.negators)
        return [SENTIMENTS[i] for i in steps.scores(features, self.weights, self.bias).argmax(axis=1)]

    def to_text(self) -> str:
        """As a readable file with one line for each word."""
        rows = zip(self.words, np.hstack(np.split(self.weights, 2)).round(4).tolist(), strict=True)
        file = _File(
            VERSION, self.learned_from, list(SENTIMENTS), self.bias.round(4).tolist(), dict(sorted(rows))
        )
        encoded = msgspec.json.encode(file).decode()
        return encoded.replace('],"', '],\n"').replace('{"', '{\n"') + "\n"

    @classmethod
    def from_text(cls, text: str, name: str = "the model") -> SentimentModel:
        """From the output of ``to_text``; raises ``InputError`` if the text is something else."""
        try:
            file = msgspec.json.decode(text, type=_File)
        except msgspec.MsgspecError as error:
            raise InputError(f"{name} is not a sentiment model: {error}; {_MAKE_ONE}") from None
        if file.version != VERSION or tuple(file.sentiments) != SENTIMENTS:
            raise InputError(
                f"{name} is a sentiment model of version {file.version} for {', '.join(file.sentiments)}; "
                f"version {VERSION} for {', '.join(SENTIMENTS)} is needed; {_MAKE_ONE}"
            )
        size = len(SENTIMENTS)
        if len(file.bias) != size or any(len(row) != 2 * size for row in file.words.values()):
            raise InputError(f"{name}: a word needs {2 * size} weights and the bias {size}; {_MAKE_ONE}")
        if not file.words:
            raise InputError(
                f"{name}: words is empty, but a model needs at least one, with {2 * size} weights each; {_MAKE_ONE}"
            )
        rows = np.array(list(file.words.values()), dtype=np.float64).reshape(-1, 2 * size)
        return cls(
            words=tuple(file.words),
            weights=np.vstack((rows[:, :size], rows[:, size:])),
            bias=np.array(file.bias),
            learned_from=file.learned_from,
        )


_MAKE_ONE = "create one with: ebbflow bench sentiment tweets.csv.gz --save model.json"


def read_model(file: str | Path) -> SentimentModel:
    """Read a model from a file."""
    try:
        text = Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the sentiment model {file}: {error}; {_MAKE_ONE}") from None
    return SentimentModel.from_text(text, str(file))


@functools.cache
def lexicon_model() -> SentimentModel:
    """The model without training: the valences of the VADER lexicon, from −4 to 4.

    With s their sum, the scores of negative, neutral and positive are −s, 0.2 and s.
    """
    try:
        lexicon = importlib.resources.files("vaderSentiment").joinpath("vader_lexicon.txt")
        lines = lexicon.read_text(encoding="utf-8").splitlines()
    except (ModuleNotFoundError, OSError):
        raise InputError(f"the sentiment pipeline needs the lexicon of vaderSentiment; {_INSTALL}") from None
    valences = dict.fromkeys(NEGATORS, 0.0)
    for line in lines:
        word, valence = line.split("\t")[:2]
        if tokens_of(word) == [word.lower()]:  # others never occur as a token
            valences[word.lower()] = float(valence)
    plain = np.outer(list(valences.values()), [-1.0, 0.0, 1.0])
    return SentimentModel(
        words=tuple(valences),
        weights=np.vstack((plain, _NEGATED * plain)),
        bias=np.array([0.0, _NEUTRAL, 0.0]),
        learned_from="the lexicon of vaderSentiment",
    )


def train(texts: Sequence[str], labels: Sequence[str], *, learned_from: str = "") -> SentimentModel:
    """Learn the weights by multinomial logistic regression (scikit-learn)."""
    try:
        from scipy.sparse import csr_matrix
        from sklearn.linear_model import LogisticRegression
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError:
        raise InputError(f"training on labelled tweets needs scikit-learn; {_INSTALL}") from None
    missing = [name for name in SENTIMENTS if name not in set(labels)]
    if missing:
        raise InputError(f"no tweet is labelled {missing[0]}; training needs tweets of every sentiment")
    lists = _token_lists(texts)
    words = _vocabulary(lists)
    empty = SentimentModel(words=words, weights=np.zeros((0, 0)), bias=np.zeros(0), learned_from="")
    features = steps.feature_ids(lists, empty.vocabulary, empty.negators)
    ids, borders = features.values.to_numpy(), features.offsets.to_numpy()
    counts = csr_matrix((np.ones(len(ids)), ids, borders), shape=(len(features), 2 * len(words)))
    with threadpool_limits(1):  # takes a second; contending threads would take much longer
        fitted: Any = LogisticRegression(C=_INVERSE_PENALTY, max_iter=300).fit(counts, np.array(labels))
    return SentimentModel(
        words=words,
        weights=fitted.coef_.T.copy(),
        bias=fitted.intercept_.copy(),
        learned_from=learned_from or f"{len(features)} labelled tweets",
    )


def _vocabulary(lists: pa.ListArray) -> tuple[str, ...]:
    tweets_with: Counter[str] = Counter()
    for tokens in lists.to_pylist():
        tweets_with.update(set(tokens))
    return tuple(sorted(NEGATORS | {word for word, tweets in tweets_with.items() if tweets >= _RARE}))


def _token_lists(texts: Iterable[str]) -> pa.ListArray:
    return pa.array([tokens_of(text) for text in texts], pa.list_(pa.string()))


# -- accuracy ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ClassifierScore:
    """The predictions of one model compared with the labels."""

    model: str
    accuracy: float
    """Share of tweets with the right sentiment."""
    macro_f1: float
    """Mean over the sentiments of 2·hits / (predicted + labelled): a rare sentiment counts as much as a common one."""
    recall: dict[str, float]
    """Share of the tweets of each sentiment that were found."""

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "model": self.model,
            "accuracy": round(self.accuracy, 4),
            "macro_f1": round(self.macro_f1, 4),
            "recall": {name: round(share, 4) for name, share in self.recall.items()},
        }


def classifier_score(model: str, predicted: Sequence[str], labels: Sequence[str]) -> ClassifierScore:
    """Compare predictions with labels.

    >>> score = classifier_score("mine", ["positive", "positive", "neutral"], ["positive", "negative", "neutral"])
    >>> round(score.accuracy, 3), round(score.macro_f1, 3), score.recall["negative"]
    (0.667, 0.556, 0.0)
    """
    hits = Counter(label for answer, label in zip(predicted, labels, strict=True) if answer == label)
    given, labelled = Counter(predicted), Counter(labels)
    return ClassifierScore(
        model=model,
        accuracy=hits.total() / len(labels),
        macro_f1=sum(2 * hits[s] / max(1, given[s] + labelled[s]) for s in SENTIMENTS) / len(SENTIMENTS),
        recall={s: hits[s] / labelled[s] for s in SENTIMENTS if labelled[s]},
    )


def compare_models(tweets: LabelledTweets, *, folds: int = 5) -> list[ClassifierScore]:
    """Score three models: always the most common sentiment, the lexicon, and weights learned from the tweets.

    Learned models predict only tweets they were not trained on. Tweets are assigned to ``folds`` by their text, so that
    duplicates are in the same fold, and each fold is predicted by a model trained on the others.
    """
    if folds < 2:
        raise InputError(f"--folds {folds} leaves nothing to train on; use 2 or more")
    texts, labels = tweets.texts.to_pylist(), tweets.labels.to_pylist()
    most_common = Counter(labels).most_common(1)[0][0]
    return [
        classifier_score(f"always {most_common}", [most_common] * len(labels), labels),
        classifier_score("lexicon", lexicon_model().predict(texts), labels),
        classifier_score(f"learned, {folds} folds", _cross_validated(texts, labels, folds), labels),
    ]


def _cross_validated(texts: list[str], labels: list[str], folds: int) -> list[str]:
    fold_of = [zlib.crc32(text.encode()) % folds for text in texts]
    predicted = [""] * len(texts)
    for fold in range(folds):
        training = [i for i, own in enumerate(fold_of) if own != fold]
        test = [i for i, own in enumerate(fold_of) if own == fold]
        model = train([texts[i] for i in training], [labels[i] for i in training])
        for i, answer in zip(test, model.predict(texts[i] for i in test), strict=True):
            predicted[i] = answer
    return predicted
