"""Top words on Spark gives the result of a plain loop, at any parallelism; and the demo, which runs it."""

from __future__ import annotations

import json
import subprocess
import sys

import plain_pipelines as plain
import pytest

from ebbflow.core.slo import Slo
from ebbflow.errors import PipelineError
from ebbflow.papers.elysium.pipelines.top_words import OPERATORS, Rankings, TopWords
from ebbflow.workloads import STOP_WORDS

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("sizes", "ranks_in_sink"),
    [({}, False), ({"words": 3, "stop-words": 2, "intermediate-ranker": 4}, False), ({}, True)],
    ids=["fused", "spread", "in the sink"],
)
def test_words_are_ranked_as_in_a_plain_loop(spark, sizes, ranks_in_sink) -> None:
    app = TopWords(
        load="constant(50)", seed=3, window_s=9, slide_s=3, top=5, ranks_in_sink=ranks_in_sink, audit=True
    )
    tweets = plain.tweets(app, 1500, start_ms=1_700_000_000_000)
    rankings = Rankings(window_s=9, slide_s=3, top=5, windows=1000)
    rankings.take(app.ranked(spark.createDataFrame(tweets), sizes), 0)
    assert rankings.windows() == plain.top_words(app, tweets)
    assert rankings.audit(1500) == ([], 0)


ODD = {
    "# @ ' '' _ #' @_ ''#": [],
    "flt# flt@ late!": ["flt", "flt", "late"],
    "a#b plane@gate": ["#b", "a", "plane", "@gate"],
    "##late #@crew @#gate": ["#late", "@crew", "#gate"],
    "'quoted' don't #it's 24/7 snake_case": ["#it's", "'quoted'", "24", "7", "don't", "snake_case"],
}


def test_marks_are_words_only_if_a_letter_or_digit_follows(spark) -> None:
    app = TopWords(load="constant(50)")
    rows = [(number, text) for number, text in enumerate(ODD)]
    df = spark.createDataFrame(rows, "second long, text string").selectExpr(
        "timestamp_seconds(second) timestamp", "text"
    )
    found: dict[int, list[str]] = {number: [] for number, _ in rows}
    for row in app.keep(app.split(df)).selectExpr("unix_seconds(timestamp) second", "word").collect():
        found[row["second"]].append(row["word"])
    for number, (text, words) in enumerate(ODD.items()):
        expected = [word for word in words if word not in STOP_WORDS]
        assert sorted(found[number]) == sorted(expected) == sorted(plain.words_of(text)), text


def test_spark_and_python_agree_on_letters(spark) -> None:
    """Emoji, accents, other scripts, curly quotes, mentions."""
    app = TopWords(load="constant(50)", window_s=60, slide_s=60, top=100_000)
    tweets = plain.tweets(app, 1000, start_ms=1_700_000_000_000)
    tweets = tweets.set_column(2, "text", [plain.messy_tweets(1000)])
    rankings = Rankings(window_s=60, slide_s=60, top=100_000)
    rankings.take(app.ranked(spark.createDataFrame(tweets)), 0)
    assert rankings.windows() == plain.top_words(app, tweets)


def test_rankings_are_exact_after_a_restart_with_another_parallelism(spark, tmp_path, wait) -> None:
    app = TopWords(
        load="constant(300)", seed=5, window_s=3, slide_s=1, top=5, max_rows=400, trigger_s=0.2, audit=True,
        lookup_wait_s=0.0,
    )  # fmt: skip
    rankings = Rankings(window_s=3, slide_s=1, top=5, windows=1000)
    first = {"reader": 1, "words": 2, "counter": 2, "intermediate-ranker": 1}
    query = app.managed(spark, tmp_path / "c", rankings.take, first)
    whole = plain.WholeBatch(spark, query.query, {*OPERATORS, "enrich"})

    def state_removed() -> bool:
        states = [state for progress in query.query.recentProgress for state in progress["stateOperators"]]
        return any(state["numRowsRemoved"] > 0 for state in states)

    wait(whole, "a batch in which every operator was counted")
    wait(state_removed, "a window to close and its counts to leave the state")
    query.restart({"reader": 3, "words": 1, "counter": 3, "intermediate-ranker": 2})
    wait(lambda: plain.has_processed_rows(query.query), "a batch after the restart")
    query.stop()
    assert query.query.lastProgress["stateOperators"][0]["numShufflePartitions"] == 3
    rows, start_ms = plain.offset(query.query)
    assert rankings.windows() == plain.top_words(app, plain.tweets(app, rows, start_ms))
    assert rankings.audit(rows) == ([], 0)
    assert whole.runs["words"].rows_out == whole.runs["stop-words"].rows_in > 15 * whole.runs["words"].rows_in
    assert whole.runs["intermediate-ranker"].rows_in == whole.runs["counter"].rows_out
    assert whole.runs["final-ranker"].cpu_s is not None
    assert whole.runs["final-ranker"].instances == 1


def test_there_is_only_one_final_ranker(spark, tmp_path) -> None:
    with pytest.raises(PipelineError, match="only one instance"):
        TopWords(load="constant(1)").start(spark, str(tmp_path), None, {"final-ranker": 2})


@pytest.mark.long
def test_the_demo_scales_out_and_in_and_loses_no_row(tmp_path) -> None:
    """From one executor to at least three and back to one; every row once; within the SLO; all of it in the JSON."""
    report = tmp_path / "report.html"
    command = [sys.executable, "-m", "ebbflow", "demo", "--seconds", "180", "--json", "--report", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=480)
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout)
    assert result["rows_lost"] == result["rows_repeated"] == 0
    assert result["rows_in"] > 3_000
    counts = [count for _, count in result["executors"]]
    assert result["executors"][0] == [0.0, 1.0]
    assert 3 <= max(counts) <= 6
    assert counts[-1] == 1
    assert result["latency_p95_s"] <= Slo.parse(result["slo"]).freshness_s
    assert result["decisions"]
    assert all(entry["reason"] and entry["verdict"] in ("act", "hold") for entry in result["decisions"])
    scores = {"node_seconds", "cost_ratio", "violation", "latency_p50_s", "latency_p95_s", "latency_max_s"}
    scores |= {"throughput_degradation", "nodes_saved", "reconfigurations", "rows_in", "rows_out"}
    assert scores | {"strategy", "slo", "report"} <= result.keys()
    assert report.read_text().startswith("<!DOCTYPE html>")
