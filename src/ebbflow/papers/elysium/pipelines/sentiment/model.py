"""What the classifier knows: a weight of every word, plain and negated, for each sentiment.

    score(tweet, s) = bias(s) + Σ over its known words of weight(word, negated or not, s)

The sentiment with the highest score is the answer. The weights come from a lexicon, or are learned from labelled
tweets; the classifier cannot tell, and costs the same.
"""

from __future__ import annotations

import functools
import importlib.resources
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
from ebbflow.papers.elysium.pipelines.sentiment import steps
from ebbflow.papers.elysium.pipelines.sentiment.tokens import NEGATORS, tokens_of
from ebbflow.workloads.tweets import SENTIMENTS

VERSION = 1
_INSTALL = "install it with: pip install 'ebbflow[sentiment]'"
_NEGATED = -0.74
"""What a negator makes of a word's valence (Hutto and Gilbert, "VADER", ICWSM 2014)."""
_NEUTRAL = 0.2
"""Sums of valences between −0.2 and 0.2 say nothing: VADER's own limit, ±0.05 of its s/√(s² + 15)."""
_INVERSE_PENALTY = 0.3
"""C of the regression. From 0.1 to 1 the accuracy on held-back tweets moves by a point."""
_RARE = 3
"""Words in fewer tweets are not learned: what they say there is chance."""


class _File(msgspec.Struct, frozen=True):
    version: int
    learned_from: str
    sentiments: list[str]
    bias: list[float]
    words: dict[str, list[float]]
    """Weights of a word for each sentiment, then those of the word negated."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SentimentModel:
    """Words and their weights: row i those of word i, row len(words) + i those of word i negated."""

    words: tuple[str, ...]
    weights: steps.Floats
    bias: steps.Floats
    learned_from: str

    @functools.cached_property
    def vocabulary(self) -> pa.StringArray:
        """The words as the steps take them."""
        return pa.array(self.words, pa.string())

    @functools.cached_property
    def negators(self) -> npt.NDArray[np.bool_]:
        """Which of the words are negators."""
        return np.array([word in NEGATORS for word in self.words])

    def predict(self, texts: Iterable[str]) -> list[str]:
        """The sentiment of each text, in this process."""
        features = steps.feature_ids(_token_lists(texts), self.vocabulary, self.negators)
        return [SENTIMENTS[i] for i in steps.scores(features, self.weights, self.bias).argmax(axis=1)]

    def to_text(self) -> str:
        """As a readable file: one line for each word."""
        rows = zip(self.words, np.hstack(np.split(self.weights, 2)).round(4).tolist(), strict=True)
        file = _File(
            VERSION, self.learned_from, list(SENTIMENTS), self.bias.round(4).tolist(), dict(sorted(rows))
        )
        encoded = msgspec.json.encode(file).decode()
        return encoded.replace('],"', '],\n"').replace('{"', '{\n"') + "\n"

    @classmethod
    def from_text(cls, text: str, name: str = "the model") -> SentimentModel:
        """From what ``to_text`` gave; ``InputError`` where it is something else."""
        try:
            file = msgspec.json.decode(text, type=_File)
        except msgspec.MsgspecError as error:
            raise InputError(f"{name} is no sentiment model: {error}; {_MAKE_ONE}") from None
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
                f"{name}: words is empty, and a model needs one or more, each with {2 * size} weights; {_MAKE_ONE}"
            )
        rows = np.array(list(file.words.values()), dtype=np.float64).reshape(-1, 2 * size)
        return cls(
            words=tuple(file.words),
            weights=np.vstack((rows[:, :size], rows[:, size:])),
            bias=np.array(file.bias),
            learned_from=file.learned_from,
        )


_MAKE_ONE = "make one with: ebbflow bench sentiment tweets.csv.gz --save model.json"


def read_model(file: str | Path) -> SentimentModel:
    """A model from its file."""
    try:
        text = Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the sentiment model {file}: {error}; {_MAKE_ONE}") from None
    return SentimentModel.from_text(text, str(file))


@functools.cache
def lexicon_model() -> SentimentModel:
    """The model that needs no labelled tweets: the valences of VADER's lexicon, from −4 to 4.

    With s their sum, the scores of negative, neutral and positive are −s, 0.2 and s.
    """
    try:
        lexicon = importlib.resources.files("vaderSentiment").joinpath("vader_lexicon.txt")
        lines = lexicon.read_text(encoding="utf-8").splitlines()
    except (ModuleNotFoundError, OSError):
        raise InputError(f"the sentiment pipeline takes its words from vaderSentiment; {_INSTALL}") from None
    valences = dict.fromkeys(NEGATORS, 0.0)
    for line in lines:
        word, valence = line.split("\t")[:2]
        if tokens_of(word) == [word.lower()]:  # others can stand in no tweet of ours
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
        raise InputError(f"learning from labelled tweets needs scikit-learn; {_INSTALL}") from None
    missing = [name for name in SENTIMENTS if name not in set(labels)]
    if missing:
        raise InputError(f"no tweet is labelled {missing[0]}; of each sentiment there must be some")
    lists = _token_lists(texts)
    words = _vocabulary(lists)
    empty = SentimentModel(words=words, weights=np.zeros((0, 0)), bias=np.zeros(0), learned_from="")
    features = steps.feature_ids(lists, empty.vocabulary, empty.negators)
    ids, borders = features.values.to_numpy(), features.offsets.to_numpy()
    counts = csr_matrix((np.ones(len(ids)), ids, borders), shape=(len(features), 2 * len(words)))
    with threadpool_limits(1):  # it takes a second; threads that wait for each other would make it many
        fitted: Any = LogisticRegression(C=_INVERSE_PENALTY, max_iter=300).fit(counts, np.array(labels))
    return SentimentModel(
        words=words,
        weights=fitted.coef_.T.copy(),
        bias=fitted.intercept_.copy(),
        learned_from=learned_from or f"{len(features)} labelled tweets",
    )


def _vocabulary(lists: pa.ListArray) -> tuple[str, ...]:
    seen: Counter[str] = Counter()
    for tokens in lists.to_pylist():
        seen.update(set(tokens))
    return tuple(sorted(NEGATORS | {word for word, tweets in seen.items() if tweets >= _RARE}))


def _token_lists(texts: Iterable[str]) -> pa.ListArray:
    return pa.array([tokens_of(text) for text in texts], pa.list_(pa.string()))
