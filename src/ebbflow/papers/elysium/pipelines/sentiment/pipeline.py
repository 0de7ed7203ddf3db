"""Sentiment of tweets: T2 of the Elysium seed (§5.1).

::

    reader ─► tokeniser ─► preprocessing ─► features ─► classifier ─► (row, timestamp, sentiment, certainty)
     source    ├─ Spark's own functions ─┤   ├─ Python, Arrow ──┤

The first steps work on text and are compiled by Spark; the last two work on numbers, batch by batch, and their
CPU is measured. Nothing is kept between tweets, so any step can have any parallelism.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import cloudpickle
from pyspark.sql import functions as F  # noqa: N812

from ebbflow.papers.elysium.pipelines.reader import READER, TweetReader, start_query, with_text
from ebbflow.papers.elysium.pipelines.sentiment import steps
from ebbflow.papers.elysium.pipelines.sentiment.model import SentimentModel, lexicon_model
from ebbflow.papers.elysium.pipelines.sentiment.tokens import ADDRESS, NUMBER, PARTS, SOMEBODY
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
    """The application and its settings. Without a model it takes the lexicon's; see ``sentiment_model``."""

    load: str
    seed: int = 0
    source_partitions: int = 4
    max_rows: int | None = None
    """Of a batch."""
    start_ms: int | None = None
    file: str | None = None
    """Of labelled tweets, instead of generated ones: the label then stands beside what was found."""
    trigger_s: float = 2.0
    model: SentimentModel | None = None

    # -- steps; with them a benchmark builds the same without names --------------------------------------------

    def tokenise(self, df: DataFrame) -> DataFrame:
        """``tokens`` in place of the text."""
        return df.withColumn("tokens", F.regexp_extract_all("text", F.lit(PARTS), F.lit(0))).drop("text")

    def preprocess(self, df: DataFrame) -> DataFrame:
        """Each token in the form in which it is counted: ``sentiment_tokens.tokens_of`` says the same in Python."""
        return df.withColumn("tokens", F.transform("tokens", _normal))

    def extract(self) -> ArrowStep:
        """Known words as numbers."""
        model = self.model or lexicon_model()
        return partial(steps.extract, words=model.vocabulary, negators=model.negators)

    def classify(self) -> ArrowStep:
        """The sentiment with the highest score."""
        model = self.model or lexicon_model()
        return partial(steps.classify, weights=model.weights, bias=model.bias, names=SENTIMENTS)

    # -- the pipeline -------------------------------------------------------------------------------------------

    def classified(self, tweets: DataFrame, parallelism: Mapping[str, int] | None = None) -> DataFrame:
        """Tweets with ``sentiment`` and ``certainty`` in place of their text."""
        sizes = dict(parallelism or {})
        df = tweets.transform(operator(READER)(with_text))  # its parallelism is that of the source
        df = df.transform(operator("tokeniser", parallelism=sizes.get("tokeniser"))(self.tokenise))
        df = df.transform(operator("preprocessing", parallelism=sizes.get("preprocessing"))(self.preprocess))
        features = operator("features", parallelism=sizes.get("features"))
        df = df.transform(features.map_in_arrow(self.extract(), feature_columns(df)))
        classifier = operator("classifier", parallelism=sizes.get("classifier"))
        return df.transform(classifier.map_in_arrow(self.classify(), sentiment_columns(df)))

    def reader(self) -> TweetReader:
        """Where its tweets come from."""
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
        """Start it so that Ebbflow may restart it with another parallelism of the operators named here."""
        return ManagedQuery(
            spark,
            name=SENTIMENT,
            checkpoint=checkpoint,
            parallelism=parallelism,
            start=lambda sizes: self.start(spark, str(checkpoint), sink, sizes),
        )


def feature_columns(df: DataFrame) -> StructType:
    """Columns behind the feature extraction of ``df``."""
    return _replaced(df, "tokens", "features array<int>")


def sentiment_columns(df: DataFrame) -> StructType:
    """Columns behind the classification of ``df``."""
    return _replaced(df, "features", "sentiment string, certainty double")


def _replaced(df: DataFrame, without: str, columns: str) -> StructType:
    from pyspark.sql.types import StructType

    kept = [field for field in df.schema.fields if field.name != without]
    added = StructType.fromDDL(columns)
    assert isinstance(added, StructType)
    return StructType([*kept, *added.fields])


def _normal(token: Column) -> Column:
    first = F.substring(token, 1, 1)
    lower = F.replace(F.lower(token), F.lit("’"), F.lit("'"))
    return (
        F.when(first == "@", F.lit(SOMEBODY))
        .when(token.startswith("http://") | token.startswith("https://"), F.lit(ADDRESS))
        .when(first.isin("!", "?"), first)
        .when(first.between("0", "9"), F.lit(NUMBER))
        .when(first == "#", F.substring(lower, 2, 1000))
        .otherwise(lower)
    )


# Sent to executors as code, not as a name: they need pyarrow and numpy, but not Ebbflow.
cloudpickle.register_pickle_by_value(steps)  # type: ignore[no-untyped-call]
