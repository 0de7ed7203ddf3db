"""Runs and decisions in words: the headline of a report, and the phrases its tables and hovers share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ebbflow.core.decision import Decision, LedgerEntry
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.metrics import Metric, Unit
from ebbflow.core.run import Run
from ebbflow.core.slo import Slo
from ebbflow.report.numbers import UNKNOWN, number, seconds, share

Scores = Mapping[str, float | int | None]
"""The scores of one run by name, as ``bench`` computes them; None is not known."""

_LATENCY_KEYS = {0.5: "latency_p50_s", 0.95: "latency_p95_s", 1.0: "latency_max_s"}


def labels(runs: Sequence[Run]) -> list[str]:
    """One name per run: its strategy, numbered where a strategy ran more than once."""
    names = [run.strategy for run in runs]
    return [
        f"{name} ({names[: index + 1].count(name)})" if names.count(name) > 1 else name
        for index, name in enumerate(names)
    ]


def change(before: Layout, after: Layout) -> str:
    """What a decision changes, in few characters.

    >>> change(Layout.of(1), Layout.of(3)), change(Layout.of(2), Layout.of(2))
    ('1 → 3', '2')
    >>> change(Layout.of(2, split=4), Layout.of(2, split=8))
    'split ×4→8'
    """
    difference = after.difference(before)
    if not difference:
        return str(after.main_nodes)
    parts = []
    for cluster in difference.nodes:
        old_nodes, new_nodes = before.nodes.get(cluster, 0), after.nodes.get(cluster, 0)
        parts.append(f"{'' if cluster == MAIN else cluster + ' '}{old_nodes} → {new_nodes}")
    parts += [f"{name} ×{old}→{new}" for name, (old, new) in difference.parallelism.items()]
    parts += [f"{name}: {old} → {new}" for name, (old, new) in difference.moved.items()]
    return ", ".join(parts)


def inputs(decision: Decision) -> str:
    """The numbers a decision was made from: ``λ = 240, c = 60``."""
    return ", ".join(
        f"{name} = {value if isinstance(value, str) else number(value)}"
        for name, value in decision.inputs.items()
    )


def bound_by(decision: Decision) -> str:
    """The constraints that bound a decision, with their reasons; empty where it was free."""
    return "; ".join(f"{c.name}: {c.why}" if c.why else c.name for c in decision.bound_by)


def effect(entry: LedgerEntry) -> str:
    """What a decision was to bring, and what it brought: ``freshness 7.5 s → 8.1 s``."""
    expected = entry.decision.expected
    if expected is None:
        return ""
    achieved = UNKNOWN if entry.achieved is None else quantity(expected.metric, entry.achieved)
    return f"{expected.metric.key} {quantity(expected.metric, expected.value)} → {achieved}"


def quantity(metric: Metric, value: float) -> str:
    """A value of a metric with its unit.

    >>> quantity(Metric.ARRIVAL_RATE, 240.0), quantity(Metric.NODES, 3.0)
    ('240 rows/s', '3')
    """
    match metric.unit:
        case Unit.SECONDS:
            return seconds(value)
        case Unit.SHARE:
            return share(value)
        case Unit.COUNT:
            return number(value)
        case _:
            return f"{number(value)} {metric.unit.value}"


def slo_text(slo: Slo) -> str:
    """An SLO for people: ``p95 ≤ 30 s``."""
    which = "max" if slo.quantile == 1.0 else f"p{slo.quantile * 100:g}"
    return f"{which} ≤ {seconds(slo.freshness_s)}"


def kept_slo(slo: Slo, scores: Scores) -> bool | None:
    """Whether enough rows were in time; None where neither violation nor the latency is known."""
    violation = scores.get("violation")
    if violation is not None:
        return violation <= 1.0 - slo.quantile + 1e-9
    latency_s = scores.get(_LATENCY_KEYS.get(slo.quantile, ""))
    return None if latency_s is None else latency_s <= slo.freshness_s


def headline(run: Run, scores: Scores, *, name: str = "") -> str:
    """What came of a run, in one sentence; ``name`` says whose run, where there are several.

    "Kept freshness p95 at 8.2 s (SLO 30 s) with 41 % fewer executor-seconds than holding the maximum."
    """
    sentence = f"{_freshness_clause(run.slo, scores)}{_cost_clause(scores)}."
    return sentence[0].upper() + sentence[1:] if not name else f"{name} {sentence}"


def _freshness_clause(slo: Slo, scores: Scores) -> str:
    limit = f"SLO {seconds(slo.freshness_s)}"
    which = "max" if slo.quantile == 1.0 else f"p{slo.quantile * 100:g}"
    kept = kept_slo(slo, scores)
    latency_s = scores.get(_LATENCY_KEYS.get(slo.quantile, ""))
    if kept is None:
        return f"had no rows to judge its freshness by ({limit})"
    if latency_s is not None:
        verb = "kept freshness {} at {} ({})" if kept else "missed the SLO: freshness {} was {} ({})"
        return verb.format(which, seconds(latency_s), limit)
    in_time = share(1.0 - (scores.get("violation") or 0.0))
    return f"{'kept' if kept else 'missed'} the SLO: {in_time} of the rows were in time ({limit}, {which})"


def _cost_clause(scores: Scores) -> str:
    saved = scores.get("nodes_saved")
    if saved is None:
        return ""
    if abs(saved) < 0.005:
        return " with as many executor-seconds as holding the maximum"
    word = "fewer" if saved > 0 else "more"
    return f" with {share(abs(saved))} {word} executor-seconds than holding the maximum"


def comparison(name: str, scores: Scores, other_name: str, other: Scores) -> str:
    """A run against another in one sentence; empty where either is not known."""
    mine, theirs = scores.get("node_seconds"), other.get("node_seconds")
    if not mine or not theirs:
        return ""
    ratio = mine / theirs - 1.0
    cost = "as many" if abs(ratio) < 0.005 else f"{share(abs(ratio))} {'fewer' if ratio < 0 else 'more'}"
    text = f"{name} used {cost} executor-seconds {'as' if cost == 'as many' else 'than'} {other_name}"
    late, their_late = scores.get("violation"), other.get("violation")
    if late is not None and their_late is not None:
        text += f"; {share(late)} of its rows were late, against {share(their_late)}"
    return f"{text}."
