"""The demo's load under dynamic allocation, ``capacity`` twice, and the static maximum, one after the other.

Dynamic allocation has no objective. So ``capacity`` runs once with the SLO of the demo, which lets it trade
freshness for executors, and once with an unreachable one (FRESHER times the freshness of dynamic allocation): then
it stops at the size beyond which freshness does not improve. That run is compared with dynamic allocation.

At the peak both hold sizes with the same number of waves (8 tasks on 4 or 6 executors: two), so their p95 can at
best be about equal; the bar is "no worse" all the same. Runs of one strategy have differed by 1 to 3 % on a quiet
machine, and by 9 % on a busy one.

Writes ``benchmarks/side-by-side.html`` with all runs, and the scores as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from benchmarks.figures import Figure
from ebbflow.core.slo import Slo
from ebbflow.papers.elysium.demo import SPARK_DRA, LiveResult, LiveScenario, prepare, run_live
from ebbflow.report.page import write_page

SECONDS = float(os.environ.get("EBBFLOW_BENCH_SECONDS", "420"))
FRESHER = 0.7
REPORT = Path(__file__).parent / "side-by-side.html"


def measure() -> list[Figure]:
    scenario = LiveScenario(seconds=SECONDS)
    prepare(_say)
    runs: list[LiveResult] = []

    def run(asked: LiveScenario, strategy: str, label: str) -> LiveResult:
        runs.append(_run(asked, strategy, label))
        _write(scenario, runs)  # after each run, so that no result is lost
        return runs[-1]

    spark = run(scenario, SPARK_DRA, "dynamic allocation")
    fresher = replace(scenario, slo=_fresher_than(spark, scenario.slo))
    ours = run(fresher, "capacity", f"capacity, {fresher.slo}")
    run(scenario, "capacity", f"capacity, {scenario.slo}")
    run(scenario, "static", "static maximum")
    cost_s = {result.run.strategy: result.scores.node_seconds for result in runs}
    p95_s = {result.run.strategy: result.scores.latency_p95_s or 0.0 for result in runs}
    figures = []
    for name, values in (("executor-seconds", cost_s), ("p95 freshness", p95_s)):
        for label, value in values.items():
            bar = values[spark.run.strategy] if label == ours.run.strategy else None
            figures.append(Figure(what=f"{name}, {label}", value=value, unit="s", bar=bar))
    wrong = sum(r.scores.rows_lost + r.scores.rows_repeated for r in runs)
    figures.append(Figure(what="rows lost or repeated in all runs", value=wrong, unit="rows", bar=0))
    return figures


def _run(scenario: LiveScenario, strategy: str, label: str) -> LiveResult:
    _say(f"{label}: {SECONDS:g} s of {scenario.load}")
    # Each run in its own process: a driver's JVM keeps the settings of its first session.
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as own_process:
        result = own_process.submit(run_live, scenario, strategy).result()
    scores = result.scores
    _say(f"{label}: {scores.node_seconds:.0f} executor-seconds, p95 {scores.latency_p95_s} s")
    labelled = replace(result.run, strategy=label)
    return replace(result, stored=replace(result.stored, run=labelled))


def _fresher_than(result: LiveResult, otherwise: Slo) -> Slo:
    p95_s = result.scores.latency_p95_s
    return otherwise if p95_s is None else Slo(freshness_s=round(FRESHER * p95_s, 1), quantile=0.95)


def _write(scenario: LiveScenario, runs: list[LiveResult]) -> None:
    scores = [result.scores.to_json() for result in runs]
    write_page(
        REPORT,
        title="The demo's day under four regimes",
        runs=[result.run for result in runs],
        scores=scores,
        notes=[f"Load: {scenario.load}; executors {scenario.limits}."],
    )
    by_name = {result.run.strategy: each for result, each in zip(runs, scores, strict=True)}
    REPORT.with_suffix(".json").write_text(json.dumps(by_name, indent=2))


def _say(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)
