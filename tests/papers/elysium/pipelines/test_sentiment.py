"""Sentiment on Spark gives the result of a plain loop, at any parallelism."""

from __future__ import annotations

import plain_pipelines as plain
import pytest
from pyspark.errors import PySparkException

from ebbflow.papers.elysium.pipelines.classifier import lexicon_model, tokens_of
from ebbflow.papers.elysium.pipelines.sentiment import OPERATORS, Sentiment
from ebbflow.workloads import read_labelled_tweets

pytestmark = pytest.mark.spark

ODD = [
    "",
    "!!!",
    "@a @b",
    "it isn’t GOOD :-( caf\xe9",
    "\U0001f620 don't like http://x.y/z #Fail 24/7",
    "no, never bad",
]


class Found:
    """A sink that collects rows."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple] = {}

    def take(self, batch, batch_id) -> None:
        self.rows.update({row["row"]: tuple(row) for row in batch.collect()})


@pytest.mark.parametrize(
    "sizes",
    [{}, {"tokeniser": 3, "preprocessing": 2, "features": 1, "classifier": 4}],
    ids=["fused", "spread"],
)
def test_tweets_are_classified_as_in_a_plain_loop(spark, sizes) -> None:
    app = Sentiment(load="constant(50)", seed=4)
    tweets = plain.tweets(app, 1000, start_ms=1_700_000_000_000)
    found = {row["row"]: row for row in app.classified(spark.createDataFrame(tweets), sizes).collect()}
    expected = [plain.sentiment(lexicon_model(), text) for text in tweets["text"].to_pylist()]
    assert [found[row]["sentiment"] for row in range(1000)] == expected
    assert len(set(expected)) == 3
    assert all(1 / 3 <= row["certainty"] <= 1 for row in found.values())


def test_spark_finds_the_tokens_that_python_finds(spark) -> None:
    app, texts = Sentiment(load="constant(1)"), [*ODD, *plain.messy_tweets(3000)]
    df = spark.createDataFrame(list(enumerate(texts)), "row long, text string")
    found = dict(map(tuple, app.preprocess(app.tokenise(df)).collect()))
    assert [found[row] for row in range(len(texts))] == [tokens_of(text) for text in texts]


def test_results_are_the_same_after_a_restart_with_another_parallelism(spark, tmp_path, wait) -> None:
    file = tmp_path / "labelled.csv"
    lines = [f'neutral,"{text}"' for text in ODD] + ["positive,so good", "negative,so bad"]
    file.write_text("\n".join(["sentiment,text", *lines, ""]))
    app = Sentiment(load="constant(200)", file=str(file), max_rows=300, trigger_s=0.2)
    found = Found()
    query = app.managed(spark, tmp_path / "c", found.take, {"reader": 1, "preprocessing": 2, "classifier": 1})
    whole = plain.WholeBatch(spark, query.query, set(OPERATORS))

    wait(whole, "a batch in which every operator was counted")
    query.restart({"reader": 2, "preprocessing": 1, "classifier": 3})
    wait(lambda: plain.has_processed_rows(query.query), "a batch after the restart")
    query.stop()
    assert all(run.rows_in == run.rows_out for run in whole.runs.values())
    assert whole.runs["features"].cpu_s is not None
    rows, _ = plain.offset(query.query)
    tweets = read_labelled_tweets(file)
    assert sorted(found.rows) == list(range(rows))
    answers = [plain.sentiment(lexicon_model(), text) for text in tweets.texts.to_pylist()]
    for row, _, label, answer, _ in found.rows.values():
        assert (label, answer) == (tweets.labels[row % len(tweets)].as_py(), answers[row % len(tweets)])


def test_a_missing_file_of_labelled_tweets_is_reported(spark, tmp_path) -> None:
    app = Sentiment(load="constant(1)", file="none.csv")
    with pytest.raises(PySparkException, match="there is no file of labelled tweets"):
        app.start(spark, str(tmp_path / "c"), None).awaitTermination(30)
