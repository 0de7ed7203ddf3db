"""The two pipelines as plain loops in one process, to compare the real ones with."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from ebbflow.core.batches import OperatorRun
from ebbflow.papers.elysium.pipelines.classifier import NEGATORS, SentimentModel, tokens_of
from ebbflow.papers.elysium.pipelines.top_words import TopWords
from ebbflow.targets.spark.operators.operator import OperatorCounts
from ebbflow.workloads import STOP_WORDS, Arrivals, Tweets, parse_load
from ebbflow.workloads.tweets import SENTIMENTS

_PART_TEXT = """
@united @VirginAmerica @_x_ #fail #Fail2 #it's http://t.co/x1Yz https://a.b/c?d=e&f=g#h RT rt late LATE Late!!1 24/7
4h 3.5 $200 1,000 don't don’t isn’t ISN'T can't “great” ‘fine’ 'quoted' no-one's snake_case a#b plane@gate ##late
café CAFÉ naïve Straße ñandú Ångström привет Привет καλημέρα 東京 ありがとう 한국어 مرحبا ½ ² № … — · ✈ ❤️ 😠 👍🏽 🇺🇸 :)
:-( ;-) =D :'( :/ ?? !!! ?! & &amp; % * ~ ^ | <3 ( ) [ ] { } not never good bad so the and
"""
PARTS = _PART_TEXT.split()
GAPS = (" ", " ", " ", "  ", "", ", ", ". ", "\n")


def tweets(app: Any, rows: int, start_ms: int) -> pa.Table:
    """The first rows of an application's source: (row, timestamp, text)."""
    times_us = (Arrivals(parse_load(app.load)).times_of(0, rows) * 1e6).astype(np.int64) + start_ms * 1000
    return pa.table(
        {
            "row": pa.array(range(rows)),
            "timestamp": pa.array(times_us).cast(pa.timestamp("us", tz="UTC")),
            "text": Tweets(app.seed).texts(0, rows),
        }
    )


def messy_tweets(count: int) -> list[str]:
    """Generated tweets of mentions, hashtags, URLs, emoji, curly quotes, numbers, accents and other scripts."""
    rng = np.random.default_rng(count)
    return ["".join(part + gap for part, gap in zip(rng.choice(PARTS, n), rng.choice(GAPS, n), strict=True))
            for n in rng.integers(0, 25, count)]  # fmt: skip


def words_of(text: str) -> list[str]:
    """Runs of letters, digits, _ and ' with at least one letter or digit, with the # or @ right before them, without
    stop words: character by character."""
    words, run, mark = [], "", ""
    for character in f"{text.lower()} ":
        if character.isalnum() or character in "_'":
            run += character
            continue
        if any(each.isalnum() for each in run):
            words.append(mark + run)
        run, mark = "", character if character in "#@" else ""
    return [word for word in words if word not in STOP_WORDS]


def top_words(app: TopWords, rows: pa.Table) -> dict[int, list[tuple[str, int]]]:
    """The best words of every window, by the second in which it ends."""
    counts: dict[int, Counter[str]] = {}
    times_us = rows["timestamp"].cast(pa.int64()).to_pylist()
    for time_us, text in zip(times_us, rows["text"].to_pylist(), strict=True):
        first = (time_us // 1_000_000 // app.slide_s + 1) * app.slide_s
        for ends_s in range(first, first + app.window_s, app.slide_s):
            counts.setdefault(ends_s, Counter()).update(words_of(text))
    ranked = {
        end: sorted(found.items(), key=lambda x: (-x[1], x[0]))[: app.top] for end, found in counts.items()
    }
    return {end: ranked[end] for end in sorted(ranked) if ranked[end]}


def sentiment(model: SentimentModel, text: str) -> str:
    """The sentiment of a text, word by word."""
    place, scores = {word: i for i, word in enumerate(model.words)}, list(model.bias)
    tokens = tokens_of(text)
    for i, token in enumerate(tokens):
        if token in place:
            turned = any(other in NEGATORS for other in tokens[max(0, i - 3) : i])
            weights = model.weights[place[token] + len(model.words) * turned]
            scores = [score + weight for score, weight in zip(scores, weights, strict=True)]
    return SENTIMENTS[int(np.argmax(scores))]


class WholeBatch:
    """True once a batch has counted all of the given operators; ``runs`` then has them by name."""

    def __init__(self, spark: Any, query: Any, names: set[str]) -> None:
        self.runs: dict[str, OperatorRun] = {}
        self._counts = OperatorCounts(spark, query)
        self._names = names

    def __call__(self) -> bool:
        batches: dict[int, dict[str, OperatorRun]] = {}
        for batch_id, run in self._counts.new():
            if run.rows_in:
                batches.setdefault(batch_id, {})[run.name] = run
        self.runs = next((runs for runs in batches.values() if runs.keys() == self._names), self.runs)
        return bool(self.runs)


def has_processed_rows(query: Any) -> bool:
    """Whether a query has finished a batch with rows since its start."""
    return any(progress["numInputRows"] > 0 for progress in query.recentProgress)


def offset(query: Any) -> tuple[int, int]:
    """(rows that a stopped query has processed, the start of its load in ms)."""
    found = query.lastProgress["sources"][0]["endOffset"]
    found = json.loads(found) if isinstance(found, str) else found
    return int(found["row"]), int(found["startMs"])
