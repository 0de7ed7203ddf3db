"""Numbers and runs in words, for tables, hovers and headlines. An unknown value is a dash, never a zero."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ebbflow.core.decision import Decision, LedgerEntry
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.metrics import Metric, Unit
from ebbflow.core.run import Run
from ebbflow.core.slo import Slo
from ebbflow.runs.scaling_points import ScalingPoints

UNKNOWN = "–"
_MINUS = "\N{MINUS SIGN}"


def number(value: float | None) -> str:
    """Three significant digits, with thousands separators.

    >>> [number(v) for v in (None, 0.0, 0.0312, 8.25, 41.26, 412.6, 1204.0, -3.5)]
    ['–', '0', '0.0312', '8.25', '41.3', '413', '1,204', '−3.5']
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{min(digits, 6)}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", _MINUS)


def seconds(value: float | None) -> str:
    """Seconds, with one decimal below a hundred.

    >>> [seconds(v) for v in (None, 0.0, 0.04, 8.21, 30.0, 412.6, 4000.0)]
    ['–', '0 s', '0.04 s', '8.2 s', '30 s', '413 s', '4,000 s']
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if abs(value) < 1:
        return f"{number(round(value, 2))} s"
    return f"{number(round(value, 1) if abs(value) < 100 else round(value))} s"


def share(value: float | None) -> str:
    """A share of 1 as a percentage.

    >>> [share(v) for v in (None, 0.0, 0.004, 0.0431, 0.4137, 1.0, -0.2)]
    ['–', '0 %', '0.4 %', '4.3 %', '41 %', '100 %', '−20 %']
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    percent = value * 100.0
    digits = 1 if abs(percent) < 10 else 0
    text = f"{percent:,.{digits}f}"
    text = text.removesuffix(".0")
    if text in {"0", "-0"} and percent != 0:
        text = "<0.1" if percent > 0 else ">-0.1"
    return f"{text} %".replace("-", _MINUS)


def times(value: float | None) -> str:
    """A ratio.

    >>> times(1.234), times(None)
    ('1.23 ×', '–')
    """
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value:.2f} ×"


def whole(value: float | None) -> str:
    """A count.

    >>> whole(12345.0), whole(None)
    ('12,345', '–')
    """
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value:,.0f}".replace("-", _MINUS)


def clock(elapsed_s: float | None) -> str:
    """Time since the start, as on a stopwatch.

    >>> clock(83.4), clock(3723.0), clock(None)
    ('1:23', '1:02:03', '–')
    """
    if elapsed_s is None or not math.isfinite(elapsed_s):
        return UNKNOWN
    sign = _MINUS if elapsed_s < 0 else ""
    minutes, rest_s = divmod(int(abs(elapsed_s)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours}:{minutes:02d}:{rest_s:02d}" if hours else f"{sign}{minutes}:{rest_s:02d}"


Scores = Mapping[str, float | int | None]
"""The scores of one run by name, as ``runs.score`` computes them; None is unknown."""

_LATENCY_KEYS = {0.5: "latency_p50_s", 0.95: "latency_p95_s", 1.0: "latency_max_s"}


def labels(runs: Sequence[Run]) -> list[str]:
    """One name per run: its strategy, numbered where a strategy ran more than once."""
    names = [run.strategy for run in runs]
    return [
        f"{name} ({names[: index + 1].count(name)})" if names.count(name) > 1 else name
        for index, name in enumerate(names)
    ]


def change(before: Layout, after: Layout) -> str:
    """What a decision changes, in short.

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
    """The inputs of a decision: ``λ = 240, c = 60``."""
    return ", ".join(
        f"{name} = {value if isinstance(value, str) else number(value)}"
        for name, value in decision.inputs.items()
    )


def bound_by(decision: Decision) -> str:
    """The constraints that bound a decision, with their reasons; empty if there were none."""
    return "; ".join(f"{c.name}: {c.why}" if c.why else c.name for c in decision.bound_by)


def effect(entry: LedgerEntry) -> str:
    """The expected effect of a decision and the achieved one: ``freshness 7.5 s → 8.1 s``."""
    expected = entry.decision.expected
    if expected is None:
        return ""
    achieved = UNKNOWN if entry.achieved is None else quantity(expected.metric, entry.achieved)
    return f"{expected.metric.key} {quantity(expected.metric, expected.value)} → {achieved}"


def scaling_points(points: ScalingPoints | None) -> str:
    """When the nodes of an act were ready and when the load demanded them, relative to the decision.

    >>> known = ScalingPoints(entry_id=1, before=1, after=2, trigger_s=100.0, ready_s=112.0, demand_s=65.4)
    >>> scaling_points(known)
    'ready +12 s, demand −34.6 s'
    >>> scaling_points(ScalingPoints(entry_id=1, before=1, after=2, trigger_s=100.0, note="not complete"))
    'not complete'
    """
    if points is None:
        return ""
    named = (("ready", points.ready_s), ("demand", points.demand_s))
    parts = [f"{name} {_signed(at_s - points.trigger_s)}" for name, at_s in named if at_s is not None]
    return "; ".join(part for part in (", ".join(parts), points.note) if part)


def _signed(value_s: float) -> str:
    return seconds(value_s) if value_s < 0 else f"+{seconds(value_s)}"


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
    """An SLO in short: ``p95 ≤ 30 s``."""
    which = "max" if slo.quantile == 1.0 else f"p{slo.quantile * 100:g}"
    return f"{which} ≤ {seconds(slo.freshness_s)}"


def kept_slo(slo: Slo, scores: Scores) -> bool | None:
    """Whether enough rows were on time; None if neither the violation nor the latency is known."""
    violation = scores.get("violation")
    if violation is not None:
        return violation <= 1.0 - slo.quantile + 1e-9
    latency_s = scores.get(_LATENCY_KEYS.get(slo.quantile, ""))
    return None if latency_s is None else latency_s <= slo.freshness_s


def headline(run: Run, scores: Scores, *, name: str = "") -> str:
    """The result of a run in one sentence; ``name`` says which run, if there are several.

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
        return f"had no rows to judge freshness by ({limit})"
    if latency_s is not None:
        verb = "kept freshness {} at {} ({})" if kept else "missed the SLO: freshness {} was {} ({})"
        return verb.format(which, seconds(latency_s), limit)
    on_time = share(1.0 - (scores.get("violation") or 0.0))
    return f"{'kept' if kept else 'missed'} the SLO: {on_time} of the rows were on time ({limit}, {which})"


def _cost_clause(scores: Scores) -> str:
    saved = scores.get("nodes_saved")
    if saved is None:
        return ""
    if abs(saved) < 0.005:
        return " with as many executor-seconds as holding the maximum"
    word = "fewer" if saved > 0 else "more"
    return f" with {share(abs(saved))} {word} executor-seconds than holding the maximum"


def comparison(name: str, scores: Scores, other_name: str, other: Scores) -> str:
    """A run compared with another in one sentence; empty if the cost of either is unknown."""
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
