"""Made-up runs for figures and pages: a sine load on one to six nodes, sized by a simple rule."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ebbflow.core.batches import Batch
from ebbflow.core.curve import Curve
from ebbflow.core.decision import Decision, Effect, LedgerEntry, Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.run import Run
from ebbflow.core.slo import Slo

LIMITS = Limits(min_nodes=1, max_nodes=6)
EPOCH_S = 1_760_000_000.0
ROWS_PER_NODE_S = 60.0
LEAD_TIME_S = 9.0
TRIGGER_S = 5.0


@dataclass
class _World:
    """A pipeline that processes what its working nodes can, in batches of five seconds."""

    nodes: int
    working: int
    held: list[tuple[float, float]] = field(default_factory=list)
    at_work: list[tuple[float, float]] = field(default_factory=list)
    arriving: list[tuple[float, int]] = field(default_factory=list)

    def resize(self, now_s: float, nodes: int) -> None:
        if nodes > self.nodes:
            self.arriving.append((now_s + LEAD_TIME_S, nodes))
        else:
            self.arriving.clear()
            self.working = min(self.working, nodes)
            self.at_work.append((now_s, self.working))
        self.nodes = nodes
        self.held.append((now_s, nodes))

    def advance(self, now_s: float) -> None:
        for due_s, nodes in [a for a in self.arriving if a[0] <= now_s]:
            self.working = min(nodes, self.nodes)
            self.at_work.append((due_s, self.working))
            self.arriving.remove((due_s, nodes))


def load_per_s(elapsed_s: float) -> float:
    """30 to 290 rows/s, twice in three minutes."""
    return 160.0 - 130.0 * math.cos(2 * math.pi * elapsed_s / 90.0)


def sine_run(
    strategy: str = "symbiotic",
    *,
    fixed_nodes: int | None = None,
    span_s: float = 180.0,
    slo_s: float = 15.0,
    hostile: str = "",
    headroom: float = 1.15,
) -> Run:
    """A run of a strategy that follows the load, or holds ``fixed_nodes``."""
    start = fixed_nodes or 1
    world = _World(nodes=start, working=start, held=[(EPOCH_S, start)], at_work=[(EPOCH_S, start)])
    arrived, processed = [(0.0, 0.0)], [(0.0, 0.0)]
    batches: list[Batch] = []
    entries: list[LedgerEntry] = []
    started_s, batch_end_s = 0.0, TRIGGER_S
    for second in range(1, int(span_s) + 1):
        now_s = float(second)
        world.advance(EPOCH_S + now_s)
        arrived.append((now_s, arrived[-1][1] + load_per_s(now_s)))
        if now_s >= batch_end_s:
            waiting = arrived[int(started_s)][1] - processed[-1][1]
            if waiting > 0:
                batches.append(_batch(len(batches), started_s, now_s, waiting, world.working))
            processed.append((now_s, arrived[int(started_s)][1]))
            started_s = now_s
            rows = arrived[-1][1] - processed[-1][1]
            took_s = 0.8 + rows / (ROWS_PER_NODE_S * world.working)
            batch_end_s = now_s + max(TRIGGER_S, round(took_s))
        if second % 8 == 0 and fixed_nodes is None:
            entries.append(_entry(len(entries) + 1, strategy, now_s, world, hostile, headroom))
    shifted = [(EPOCH_S + t, v) for t, v in arrived], [(EPOCH_S + t, v) for t, v in processed]
    return Run(
        strategy=strategy,
        pipeline="word-count",
        slo=Slo(freshness_s=slo_s, quantile=0.95),
        limits=LIMITS,
        started_s=EPOCH_S,
        ended_s=EPOCH_S + span_s,
        arrived=Curve.of(shifted[0]),
        processed=Curve.of(shifted[1]),
        nodes=Curve.of(world.held),
        nodes_working=Curve.of(world.at_work),
        batches=tuple(batches),
        decisions=tuple(entries),
        reconfigurations=sum(entry.verdict == "act" for entry in entries),
    )


def _batch(batch_id: int, started_s: float, ended_s: float, rows: float, slots: int) -> Batch:
    return Batch(
        query="q",
        batch_id=batch_id,
        started_s=EPOCH_S + started_s,
        duration_s=ended_s - started_s,
        rows=round(rows),
        slots=slots,
        trigger_interval_s=TRIGGER_S,
        arrival_rate_per_s=load_per_s(ended_s),
        backlog_rows=0.0,
        oldest_arrival_s=EPOCH_S + started_s,
    )


def _entry(
    entry_id: int, strategy: str, now_s: float, world: _World, hostile: str, headroom: float
) -> LedgerEntry:
    load = load_per_s(now_s + LEAD_TIME_S)
    wanted = math.ceil(load * headroom / ROWS_PER_NODE_S)
    before = world.nodes
    inputs: dict[str, float | str] = {"λ": round(load_per_s(now_s), 1), "λ′": round(load, 1), "c": 60.0}
    formula = "nodes = ⌈λ′ · h / c⌉"
    if wanted == before:
        reason = f"{before} executors hold the {load:.0f} rows/s expected in 9 s {hostile}".strip()
        decision = Decision(wanted=Layout.of(before), reason=reason, formula=formula, inputs=inputs)
    else:
        word = "they need" if wanted > before else "they need only"
        decision = Decision(
            wanted=Layout.of(wanted),
            reason=f"the {load:.0f} rows/s expected in 9 s: {word} {wanted} executors {hostile}".strip(),
            formula=formula,
            inputs=inputs,
            expected=Effect(metric=Metric.FRESHNESS, value=7.5, at_s=EPOCH_S + now_s + 25.0),
            instead={1: Effect(metric=Metric.FRESHNESS, value=7.5, at_s=EPOCH_S + now_s + 25.0)},
        )
        allowed = min(max(wanted, before - 1, 1), before + 2, LIMITS.max_nodes)
        if allowed != wanted:
            name = "step-cap" if allowed < LIMITS.max_nodes else "bounds"
            decision = decision.bound(
                Layout.of(allowed), name, f"at most {abs(allowed - before)} in one step"
            )
        world.resize(EPOCH_S + now_s, allowed)
    after = decision.wanted
    return LedgerEntry(
        entry_id=entry_id,
        time_s=EPOCH_S + now_s,
        strategy=strategy,
        verdict="act" if after.main_nodes != before else "hold",
        before=Layout.of(before),
        decision=decision,
        outcome=Outcome(requested=after),
        achieved=8.1 if decision.expected and entry_id % 3 else None,
    )


def empty_run() -> Run:
    """A run in which nothing arrived and nothing was decided."""
    return Run(
        strategy="static",
        pipeline="idle",
        slo=Slo(freshness_s=30.0),
        limits=LIMITS,
        started_s=0.0,
        ended_s=60.0,
        arrived=Curve.of([]),
        processed=Curve.of([]),
        nodes=Curve.of([]),
        nodes_working=Curve.of([]),
    )


def scores_of(run: Run, **changes: float | int | None) -> dict[str, float | int | None]:
    """Scores with the fields of ``runs.score``, plausible but not computed."""
    seconds = run.ended_s - run.started_s
    held = run.nodes.integral(run.started_s, run.ended_s) if len(run.nodes) else None
    rows_in = int(run.arrived.values[-1]) if len(run.arrived) else 0
    rows_out = int(run.processed.values[-1]) if len(run.processed) else 0
    scores: dict[str, float | int | None] = {
        "node_seconds": held,
        "cost_ratio": None if held is None else held / (3.1 * seconds),
        "violation": 0.0123,
        "latency_p50_s": 6.04,
        "latency_p95_s": 10.21,
        "latency_max_s": 17.4,
        "throughput_degradation": 0.081,
        "nodes_saved": None if held is None else 1 - held / (run.limits.max_nodes * seconds),
        "reconfigurations": run.reconfigurations,
        "rows_in": rows_in,
        "rows_out": rows_out,
        "rows_lost": 0,
        "rows_repeated": run.rows_repeated,
    }
    return {**scores, **changes}
