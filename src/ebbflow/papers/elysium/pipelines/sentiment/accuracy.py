"""How often the sentiment pipeline is right, on tweets that people labelled."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ebbflow.errors import InputError
from ebbflow.papers.elysium.pipelines.sentiment.model import lexicon_model, train
from ebbflow.workloads.tweets import SENTIMENTS, LabelledTweets


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One model's answers against the labels."""

    model: str
    accuracy: float
    """Share of tweets whose sentiment was found."""
    macro_f1: float
    """Mean over the sentiments of 2·hits / (found + labelled): a rare sentiment counts as much as a common one."""
    recall: dict[str, float]
    """Share of the tweets of each sentiment that were found."""

    def to_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "model": self.model,
            "accuracy": round(self.accuracy, 4),
            "macro_f1": round(self.macro_f1, 4),
            "recall": {name: round(share, 4) for name, share in self.recall.items()},
        }


def verdict(model: str, found: Sequence[str], labels: Sequence[str]) -> Verdict:
    """Compare answers with labels.

    >>> told = verdict("mine", ["positive", "positive", "neutral"], ["positive", "negative", "neutral"])
    >>> round(told.accuracy, 3), round(told.macro_f1, 3), told.recall["negative"]
    (0.667, 0.556, 0.0)
    """
    hits = Counter(label for answer, label in zip(found, labels, strict=True) if answer == label)
    given, labelled = Counter(found), Counter(labels)
    return Verdict(
        model=model,
        accuracy=hits.total() / len(labels),
        macro_f1=sum(2 * hits[s] / max(1, given[s] + labelled[s]) for s in SENTIMENTS) / len(SENTIMENTS),
        recall={s: hits[s] / labelled[s] for s in SENTIMENTS if labelled[s]},
    )


def verdicts(tweets: LabelledTweets, *, folds: int = 5) -> list[Verdict]:
    """The commonest sentiment as the answer to all, the lexicon, and what is learned from the tweets themselves.

    Learned models only answer for tweets they have not seen: the tweets are dealt into ``folds`` by their text (so
    that a text that is there twice is in one fold), and each fold is asked of a model that learned from the others.
    """
    if folds < 2:
        raise InputError(f"--folds {folds}: nothing would be left to learn from; 2 or more")
    texts, labels = tweets.texts.to_pylist(), tweets.labels.to_pylist()
    commonest = Counter(labels).most_common(1)[0][0]
    return [
        verdict(f"always {commonest}", [commonest] * len(labels), labels),
        verdict("lexicon", lexicon_model().predict(texts), labels),
        verdict(f"learned, {folds} folds", _cross_validated(texts, labels, folds), labels),
    ]


def _cross_validated(texts: list[str], labels: list[str], folds: int) -> list[str]:
    fold = [zlib.crc32(text.encode()) % folds for text in texts]
    found = [""] * len(texts)
    for held in range(folds):
        rest = [i for i, own in enumerate(fold) if own != held]
        asked = [i for i, own in enumerate(fold) if own == held]
        model = train([texts[i] for i in rest], [labels[i] for i in rest])
        for i, answer in zip(asked, model.predict(texts[i] for i in asked), strict=True):
            found[i] = answer
    return found
