"""Sentiment of tweets: T2 of Elysium (§5.1).

::

    reader ─► tokeniser ─► preprocessing ─► features ─► classifier ─► (row, timestamp, sentiment, certainty)
     source    ├─ Spark's own functions ─┤   ├─ Python, Arrow ──┤

The first steps work on text and are compiled by Spark. The last two work on numbers, batch by batch, and their CPU is
measured. The pipeline is stateless, so every operator can have any parallelism.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import cloudpickle
from pyspark.sql import functions as F  # noqa: N812

from ebbflow.papers.elysium.pipelines import steps
from ebbflow.papers.elysium.pipelines.classifier import (
    MENTION,
    NUMBER,
    PATTERN,
    URL,
    SentimentModel,
    lexicon_model,
)
from ebbflow.papers.elysium.pipelines.reader import READER, TweetReader, start_query, with_text
from ebbflow.targets.spark.act.restart import ManagedQuery
from ebbflow.targets.spark.operators.operator import operator
from ebbflow.workloads.tweets import SENTIMENTS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from ebbflow.papers.elysium.pipelines.reader import Sink

    ArrowStep = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

SENTIMENT = "sentiment"
OPERATORS = (READER, "tokeniser", "preprocessing", "features", "classifier")


@dataclass(frozen=True, kw_only=True)
class Sentiment:
    """The pipeline and its settings. Without a model it uses the lexicon; see ``classifier``."""

    load: str
    seed: int = 0
    source_partitions: int = 4
    max_rows: int | None = None
    """Maximum per batch."""
    start_ms: int | None = None
    file: str | None = None
    """A file of labelled tweets, instead of generated ones; the output then has the label beside the sentiment."""
    trigger_s: float = 2.0
    model: SentimentModel | None = None

    # -- steps; a benchmark builds the same pipeline from them without operators -------------------------------

    def tokenise(self, df: DataFrame) -> DataFrame:
        """Replace the text by ``tokens``."""
        return df.withColumn("tokens", F.regexp_extract_all("text", F.lit(PATTERN), F.lit(0))).drop("text")

    def preprocess(self, df: DataFrame) -> DataFrame:
        """Normalise each token, as ``classifier.tokens_of`` does in Python."""
        return df.withColumn("tokens", F.transform("tokens", _normalised))

    def extract(self) -> ArrowStep:
        """The step that maps known words to numbers."""
        model = self.model or lexicon_model()
        return partial(steps.extract, words=model.vocabulary, negators=model.negators)

    def classify(self) -> ArrowStep:
        """The step that picks the sentiment with the highest score."""
        model = self.model or lexicon_model()
        return partial(steps.classify, weights=model.weights, bias=model.bias, names=SENTIMENTS)

    # -- the pipeline -------------------------------------------------------------------------------------------

    def classified(self, tweets: DataFrame, parallelism: Mapping[str, int] | None = None) -> DataFrame:
        """Replace the text of tweets by ``sentiment`` and ``certainty``."""
        sizes = dict(parallelism or {})
        df = tweets.transform(operator(READER)(with_text))  # sized by the partitions of the source
        df = df.transform(operator("tokeniser", parallelism=sizes.get("tokeniser"))(self.tokenise))
        df = df.transform(operator("preprocessing", parallelism=sizes.get("preprocessing"))(self.preprocess))
        features = operator("features", parallelism=sizes.get("features"))
        df = df.transform(features.map_in_arrow(self.extract(), feature_columns(df)))
        classifier = operator("classifier", parallelism=sizes.get("classifier"))
        return df.transform(classifier.map_in_arrow(self.classify(), sentiment_columns(df)))

    def reader(self) -> TweetReader:
        """The source of tweets."""
        return TweetReader(
            load=self.load, seed=self.seed, partitions=self.source_partitions, max_rows=self.max_rows,
            start_ms=self.start_ms, file=self.file,
        )  # fmt: skip

    def start(
        self,
        spark: SparkSession,
        checkpoint: str,
        sink: Sink | None,
        parallelism: Mapping[str, int] | None = None,
    ) -> StreamingQuery:
        """Start the query; classified tweets go to ``sink``."""
        sizes = dict(parallelism or {})
        found = self.classified(self.reader().stream(spark, sizes), sizes)
        return start_query(found, name=SENTIMENT, checkpoint=checkpoint, trigger_s=self.trigger_s, sink=sink)

    def managed(
        self, spark: SparkSession, checkpoint: str | Path, sink: Sink | None, parallelism: Mapping[str, int]
    ) -> ManagedQuery:
        """Start a query that Ebbflow can restart with another parallelism of the given operators."""
        return ManagedQuery(
            spark,
            name=SENTIMENT,
            checkpoint=checkpoint,
            parallelism=parallelism,
            start=lambda sizes: self.start(spark, str(checkpoint), sink, sizes),
        )


def feature_columns(df: DataFrame) -> StructType:
    """Columns after the feature extraction of ``df``."""
    return _replaced(df, "tokens", "features array<int>")


def sentiment_columns(df: DataFrame) -> StructType:
    """Columns after the classification of ``df``."""
    return _replaced(df, "features", "sentiment string, certainty double")


def _replaced(df: DataFrame, removed: str, columns: str) -> StructType:
    from pyspark.sql.types import StructType

    others = [field for field in df.schema.fields if field.name != removed]
    added = StructType.fromDDL(columns)
    assert isinstance(added, StructType)
    return StructType([*others, *added.fields])


def _normalised(token: Column) -> Column:
    first = F.substring(token, 1, 1)
    lower = F.replace(F.lower(token), F.lit("’"), F.lit("'"))
    return (
        F.when(first == "@", F.lit(MENTION))
        .when(token.startswith("http://") | token.startswith("https://"), F.lit(URL))
        .when(first.isin("!", "?"), first)
        .when(first.between("0", "9"), F.lit(NUMBER))
        .when(first == "#", F.substring(lower, 2, 1000))
        .otherwise(lower)
    )


# Pickled by value: executors need pyarrow and numpy, but not Ebbflow.
cloudpickle.register_pickle_by_value(steps)  # type: ignore[no-untyped-call]
