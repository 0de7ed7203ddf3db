"""Readings per second through the router and 100 rules, and the cost of ten times the history per reading and
per decision."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

from benchmarks.figures import Figure
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import Snapshot
from ebbflow.policy import (
    Policy,
    above,
    absolute,
    below,
    cluster,
    metric,
    minutes,
    nodes,
    operator,
    per_second,
    percent,
    rule,
    seconds,
    tuples,
)
from ebbflow.policy.evaluation.routing import Router
from ebbflow.policy.language.builder import Guarded
from ebbflow.policy.model import Trigger
from ebbflow.policy.values import Span
from ebbflow.strategies.rules import Rules

OPERATORS, RULES, READINGS = 50, 100, 200_000

KINDS: dict[str, Callable[[Span], Trigger]] = {
    "for at least": lambda time: metric("operator-queue").is_(above(tuples(300))).for_at_least(time),
    "mean": lambda time: metric("operator-queue").mean_over(time).is_(above(tuples(300))),
    "percentile": lambda time: metric("operator-queue").percentile(95, over=time).is_(above(tuples(300))),
    "rate of change": lambda time: (
        metric("operator-queue").rate_of_change_over(time).is_(above(per_second(tuples(5))))
    ),
    "forecast": lambda time: metric("operator-queue").is_forecast_to_be(above(tuples(300)), ahead=time),
    "four fifths of the readings": lambda time: (
        metric("operator-queue")
        .is_(above(tuples(300)))
        .in_at_least(round(0.8 * time.seconds), of=round(time.seconds))
    ),
}


def measure() -> list[Figure]:
    figures = [
        Figure(
            what=f"readings through the router and {RULES} rules, each read by 2",
            value=_per_second(_mixed()),
            unit="per s",
            bar=100_000.0,
            at_least=True,
        ),
        Figure(
            what=f"  the same, each read by all {RULES}: rules on all nodes",
            value=_per_second_of_nodes(),
            unit="per s",
        ),
        Figure(
            what="  the same, no rule needs the reading",
            value=_per_second(_mixed(), Metric.ROWS_IN),
            unit="per s",
        ),
    ]
    for kind, condition in KINDS.items():
        short, long = _costs_us(condition, minutes(1), minutes(10))
        figures.append(Figure(what=f"a reading, {kind} of 1 min", value=short, unit="µs"))
        figures.append(Figure(what="  ten times the history, ratio", value=long / short, unit="×", bar=1.5))
    short, long = _decisions_ms(minutes(1), minutes(10))
    figures.append(Figure(what=f"a hold on {RULES} rules with history of 1 min", value=short, unit="ms"))
    figures.append(Figure(what="  ten times the history, ratio", value=long / short, unit="×", bar=1.5))
    return figures


def _mixed(history: Span | None = None) -> Policy:
    """Half of the rules as in the Rules thesis, the others on means, percentiles, trends and m of n."""
    others = itertools.cycle([*KINDS.values()][1:])
    rules: list[Guarded] = []
    for number in range(OPERATORS):
        name = f"op-{number}"
        shrink = rule(f"shrink {name}").scale_in(operator(name)).by(absolute(1))
        grow = rule(f"grow {name}").scale_out(operator(name)).by(absolute(1)).but_never_above(nodes(8))
        rules.append(shrink.when(metric("operator-queue")).is_(below(tuples(1))).for_at_least(seconds(30)))
        rules.append(grow.when(next(others)(history or minutes(1))))
    return Policy(*rules)


def _per_second(policy: Policy, metric_read: Metric = Metric.OPERATOR_QUEUE) -> float:
    router = Router(policy, "bench", [f"op-{n}" for n in range(OPERATORS)])
    readings = [
        Reading(float(k // OPERATORS), f"op-{k % OPERATORS}", metric_read, float(k * 7919 % 600))
        for k in range(READINGS)
    ]
    began_s = time.process_time()
    for reading in readings:
        router.add(reading)
    return READINGS / (time.process_time() - began_s)


def _per_second_of_nodes() -> float:
    """The worst case: every reading of every node goes to every rule."""
    rules = [
        rule(f"grow {number}").scale_out(cluster()).by(absolute(1))
        .when(metric("node-cpu")).is_(above(percent(50 + number / 4))).for_at_least(seconds(30))
        for number in range(RULES)
    ]  # fmt: skip
    router = Router(Policy(*rules), "bench", [])
    readings = [
        Reading(float(k // OPERATORS), f"executor-{k % OPERATORS}", Metric.NODE_CPU, k * 7919 % 100 / 100)
        for k in range(READINGS // 10)
    ]
    began_s = time.process_time()
    for reading in readings:
        router.add(reading)
    return len(readings) / (time.process_time() - began_s)


def _decisions_ms(*histories: Span) -> list[float]:
    """The time of ``Rules.decide`` with a new reading of each operator, no rule firing and every history full. The
    histories take turns; the best turn of each counts."""
    worlds = [(Rules(_mixed(history)), Windows(600.0)) for history in histories]
    names = [f"op-{n}" for n in range(OPERATORS)]
    pipeline = Pipeline.chain("bench", *names)
    layout = Layout(nodes={MAIN: OPERATORS}, parallelism=dict.fromkeys(names, 1))
    best_s = [float("inf")] * len(worlds)
    for second in range(700):
        for which, (rules, windows) in enumerate(worlds):
            windows.add(
                Reading(float(second), name, Metric.OPERATOR_QUEUE, 100.0 + (second * 7919 + number) % 100)
                for number, name in enumerate(names)
            )
            snapshot = Snapshot(
                now_s=float(second),
                pipeline=pipeline,
                planned=layout,
                requested=layout,
                observed=layout,
                windows=windows,
                batches=(),
                under_way=(),
                limits=Limits(min_nodes=1, max_nodes=100),
                slo=Slo(freshness_s=30.0),
                slots_per_node=1,
                lead_time_s=12.0,
                data_age_s=0.0,
            )
            began_s = time.process_time()
            rules.decide(snapshot)
            if second > 620:
                best_s[which] = min(best_s[which], time.process_time() - began_s)
    return [1e3 * each for each in best_s]


def _costs_us(condition: Callable[[Span], Trigger], *histories: Span) -> list[float]:
    """Of a reading in one trigger once its history is full. In turns, and the best turn of each: what others
    do on the machine meanwhile is no cost of ours."""
    grow = rule("grow").scale_out(operator("op")).by(absolute(1)).but_never_above(nodes(8))
    routers = [Router(Policy(grow.when(condition(history))), "bench", ["op"]) for history in histories]
    values = [(float(t), float(t * 7919 % 600)) for t in range(40_000)]
    best_s = [float("inf")] * len(routers)
    for first in range(0, len(values), 2_000):
        for which, router in enumerate(routers):
            began_s = time.process_time()
            router.add_points("op", Metric.OPERATOR_QUEUE, values[first : first + 2_000])
            if first:
                best_s[which] = min(best_s[which], (time.process_time() - began_s) / 2_000)
    return [1e6 * each for each in best_s]
