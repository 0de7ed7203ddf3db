"""The error of profiles on a load that they were not learned from, and the time to learn and to query them.

On Spark this is the whole phase of ``ebbflow profile``: a stair with a restart, then a sine. Elysium reports
estimates within 3 % (§5.2); on real Spark the bar is 10 %.
"""

from __future__ import annotations

import time

from benchmarks.figures import Figure
from ebbflow.core.placement import even
from ebbflow.papers.elysium.profiling_on_spark import SparkPhase
from ebbflow.profiling.estimator import Estimator
from ebbflow.runs.profiling import ProfilingResult
from ebbflow.runs.profiling.simulated import SimulatedProfiling
from ebbflow.targets.simulator.catalogue import costed_pipeline

ON_SPARK = ("top-words", "sentiment")


def measure() -> list[Figure]:
    figures = []
    for pipeline in ("top-words", "sentiment"):
        phase = SimulatedProfiling(pipeline=pipeline, noise=0.05).run()
        figures += _figures(f"simulator, {pipeline}", phase, bar=3.0)
        figures += _asked(pipeline, phase)
    for pipeline in ON_SPARK:
        figures += _figures(f"Spark, {pipeline}", SparkPhase(pipeline=pipeline).run(), bar=10.0)
    return figures


def _figures(where: str, phase: ProfilingResult, *, bar: float) -> list[Figure]:
    checked = phase.accuracy
    assert checked is not None
    assert checked.mean is not None
    figures = [
        Figure(what=f"{where}: CPU of an instance, mean error on a sine", value=100 * checked.mean, unit="%", bar=bar),
        Figure(
            what=f"{where}: of its worst operator", value=100 * max(checked.cpu.values()), unit="%",
        ),
        Figure(what=f"{where}: finding the models", value=phase.training_s, unit="s", bar=10.0),
    ]  # fmt: skip
    if checked.node is not None:
        figures.insert(2, Figure(what=f"{where}: CPU of a node", value=100 * checked.node, unit="%", bar=bar))
    return figures


def _asked(pipeline: str, phase: ProfilingResult) -> list[Figure]:
    graph = costed_pipeline(pipeline).pipeline
    ask = Estimator(graph, phase.profile)
    rates = ask.input_rates(dict.fromkeys(graph.sources, 1000.0))
    sizes = dict.fromkeys(graph.order, 4)
    placement = even(list(sizes.values()), 1000)
    began = time.perf_counter()
    for _ in range(20):
        ask.node_cpu(placement, rates, sizes)
    return [
        Figure(
            what=f"{pipeline}: CPU of 1,000 nodes, asked once",
            value=(time.perf_counter() - began) / 20 * 1000,
            unit="ms",
            bar=20.0,
        )
    ]
