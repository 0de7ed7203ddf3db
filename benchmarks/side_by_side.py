"""The demo's load, one run after the other: static maximum, Spark's dynamic allocation, capacity.

Writes ``benchmarks/side-by-side.html`` with the three runs over each other, and the scores as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.figures import Figure
from ebbflow.bench.live_run import SPARK_DRA, LiveScenario, prepare, run_live
from ebbflow.report.page import write_page

SECONDS = float(os.environ.get("EBBFLOW_BENCH_SECONDS", "600"))
REPORT = Path(__file__).parent / "side-by-side.html"


def measure() -> list[Figure]:
    scenario = LiveScenario(seconds=SECONDS)

    def say(line: str) -> None:
        print(f"  {line}", file=sys.stderr, flush=True)

    prepare(say)
    results = {}
    for strategy in ("capacity", SPARK_DRA, "static"):
        say(f"{strategy}: {SECONDS:g} s of {scenario.load}")
        # Each in a process of its own: a driver's JVM keeps the settings of its first session for later ones.
        with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as own_process:
            results[strategy] = own_process.submit(run_live, scenario, strategy).result()
        scores = results[strategy].scores
        say(f"{strategy}: {scores.node_seconds:.0f} executor-seconds, p95 {scores.latency_p95_s} s")
    runs = list(results.values())
    write_page(
        REPORT,
        title="The demo's day under three regimes",
        runs=[result.run for result in runs],
        scores=[result.scores.to_json() for result in runs],
        notes=[f"Load: {scenario.load}; executors {scenario.limits}; objective {scenario.slo}."],
    )
    REPORT.with_suffix(".json").write_text(
        json.dumps({n: r.scores.to_json() for n, r in results.items()}, indent=2)
    )
    ours, spark, static = (results[name].scores for name in ("capacity", SPARK_DRA, "static"))
    lost = sum(r.scores.rows_lost + r.scores.rows_repeated for r in runs)
    return [
        Figure(what="executor-seconds, static maximum", value=static.node_seconds, unit="s"),
        Figure(what="executor-seconds, Spark dynamic allocation", value=spark.node_seconds, unit="s"),
        Figure(what="executor-seconds, capacity", value=ours.node_seconds, unit="s", bar=spark.node_seconds),
        Figure(what="p95 freshness, static maximum", value=static.latency_p95_s or 0.0, unit="s"),
        Figure(what="p95 freshness, Spark dynamic allocation", value=spark.latency_p95_s or 0.0, unit="s"),
        Figure(
            what="p95 freshness, capacity", value=ours.latency_p95_s or 0.0, unit="s", bar=spark.latency_p95_s
        ),
        Figure(what="rows lost or repeated in the three runs", value=lost, unit="rows", bar=0),
    ]
