"""The applications that can be profiled on Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ebbflow.errors import UnknownNameError
from ebbflow.pipelines import sentiment, top_words
from ebbflow.targets.spark.restart import ManagedQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRIGGER_S = 2.0
"""Two cycles of the loop: so the plan of every batch is met, and with it the rows of all operators."""


@dataclass(frozen=True, kw_only=True)
class Application:
    """An application that can be profiled: how to start it on a load, and what is changed at the top of the stair."""

    start: Callable[[SparkSession, Path, str, Mapping[str, int]], ManagedQuery]
    """(session, checkpoint, load, parallelism) → its query."""
    operators: tuple[str, ...]
    """A chain."""
    parallelism: Mapping[str, int]
    """Of the operators that have one of their own, at the start."""
    larger: Mapping[str, int]
    """The same after the top of the stair."""
    peak_per_s: float
    """The highest step, where nobody says another: about a third of what two cores can do, with driver and source."""


def _top_words(spark: SparkSession, folder: Path, load: str, sizes: Mapping[str, int]) -> ManagedQuery:
    return top_words.TopWords(load=load, trigger_s=TRIGGER_S).managed(spark, folder, None, sizes)


def _sentiment(spark: SparkSession, folder: Path, load: str, sizes: Mapping[str, int]) -> ManagedQuery:
    return sentiment.Sentiment(load=load, trigger_s=TRIGGER_S).managed(spark, folder, None, sizes)


APPLICATIONS = {
    "top-words": Application(
        start=_top_words,
        operators=top_words.OPERATORS,
        parallelism={"reader": 2, "counter": 2, "intermediate-ranker": 2},
        larger={"reader": 3, "counter": 3, "intermediate-ranker": 3},
        peak_per_s=8000.0,
    ),
    "sentiment": Application(
        start=_sentiment,
        operators=sentiment.OPERATORS,
        parallelism={"reader": 2, "features": 2, "classifier": 2},
        larger={"reader": 3, "features": 3, "classifier": 3},
        peak_per_s=12_000.0,
    ),
}


def application(name: str) -> Application:
    """An application by its name."""
    try:
        return APPLICATIONS[name]
    except KeyError:
        raise UnknownNameError("pipeline", name, APPLICATIONS) from None
