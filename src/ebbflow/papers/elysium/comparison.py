"""Compare symbiotic scaling with joint scaling, load by load: does it save more nodes at no more degradation?

Where it does not, an explanation says how the runs differed; it does not claim to know the cause. Proactive rows are
compared separately, and their explanation includes the error of the forecast (``foresight``).

If symbiotic scaling degrades more, both strategies run again with the minutes of the load sorted. Both react to the
last minute once a minute, so on a load that jumps from minute to minute the strategy that follows more closely is
further off. Sorting the minutes (the quietest first and last, the busiest in the middle) removes the jumps and changes
nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ebbflow.core.curve import Floats
from ebbflow.papers import SIMULATOR
from ebbflow.papers.elysium.calibration import ASSESSED_EVERY_S, LIMITS
from ebbflow.papers.elysium.cases import Case
from ebbflow.papers.elysium.models import Models
from ebbflow.papers.elysium.published import FIGURE_9, JOINT, PROACTIVE, SYMBIOTIC, Key
from ebbflow.papers.elysium.run import Result, RowMetrics, run_cases
from ebbflow.workloads.load import Load, refined

SAME_DEGRADATION = 0.005
"""Half a percent of the input counts as equal. Over ten seeds of a row the standard deviation was 0.002 (stair, sine)
to 0.011 (joint on Twitter), so on Twitter three seeds cannot resolve less than a hundredth."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Symbiotic or proactive scaling against joint scaling, for an application, a load and a target."""

    application: str
    load: str
    target: str
    strategy: str = SYMBIOTIC
    """Symbiotic or symbiotic-proactive."""
    saves_more: bool
    degrades_no_more: bool
    explanation: str
    """Empty if ``ok``."""

    @property
    def ok(self) -> bool:
        """Whether it saves more nodes and degrades no more than joint scaling."""
        return self.saves_more and self.degrades_no_more

    @property
    def what(self) -> str:
        """The compared rows, in words."""
        name = f"{self.application} {self.load}" + (f" {self.strategy}" if self.strategy != SYMBIOTIC else "")
        return name if self.target == SIMULATOR else f"{name} on {self.target}"

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "application": self.application,
            "load": self.load,
            "strategy": self.strategy,
            "target": self.target,
            "ok": self.ok,
            "saves_more": self.saves_more,
            "degrades_no_more": self.degrades_no_more,
            "explanation": self.explanation,
        }


def compare(results: Sequence[Result]) -> list[Comparison]:
    """Compare symbiotic, then proactive scaling with joint scaling on each load that both ran on."""
    groups: dict[tuple[str, str, str], dict[str, Result]] = {}
    for result in results:
        key = result.case.key
        if not key.setting:
            rows = groups.setdefault((key.application, key.load, result.target), {})
            rows[key.strategy] = result
    return [
        _compare_rows(rows, rows[strategy])
        for strategy in (SYMBIOTIC, PROACTIVE)
        for rows in groups.values()
        if JOINT in rows and strategy in rows
    ]


@dataclass(frozen=True, kw_only=True)
class Tally:
    """The number of loads on which a strategy is better than joint scaling."""

    strategy: str
    loads: int
    saves_more: int
    degrades_no_more: int
    ok: int
    """Loads on which it is both."""

    def __str__(self) -> str:
        return (
            f"{self.strategy.capitalize()} saves more nodes than joint on {self.saves_more} of {self.loads} loads, "
            f"degrades no more on {self.degrades_no_more}, and does both on {self.ok}"
        )


def tally(comparisons: Sequence[Comparison]) -> list[Tally]:
    """One tally for each strategy.

    >>> worse = Comparison(application="T1", load="stair", target="simulator", saves_more=True,
    ...                    degrades_no_more=False, explanation="")
    >>> [str(each) for each in tally([worse])]
    ['Symbiotic saves more nodes than joint on 1 of 1 loads, degrades no more on 0, and does both on 0']
    """
    by_strategy: dict[str, list[Comparison]] = {}
    for comparison in comparisons:
        by_strategy.setdefault(comparison.strategy, []).append(comparison)
    return [
        Tally(
            strategy=strategy,
            loads=len(own),
            saves_more=sum(each.saves_more for each in own),
            degrades_no_more=sum(each.degrades_no_more for each in own),
            ok=sum(each.ok for each in own),
        )
        for strategy, own in by_strategy.items()
    ]


def _compare_rows(rows: Mapping[str, Result], row: Result) -> Comparison:
    joint, symbiotic, key = rows[JOINT].metrics, row.metrics, row.case.key
    name = "Proactive" if key.strategy == PROACTIVE else "Symbiotic"
    saves_more = (symbiotic.nodes_saved or 0.0) > (joint.nodes_saved or 0.0)
    degrades_no_more = all(
        ours is not None and theirs is not None and ours <= theirs + SAME_DEGRADATION
        for ours, theirs in (
            (symbiotic.throughput_degradation, joint.throughput_degradation),
            (symbiotic.throughput_degradation_unsmoothed, joint.throughput_degradation_unsmoothed),
        )
    )
    why = []
    if not saves_more:
        why.append(_why_not_saved(name, joint, symbiotic))
    if not degrades_no_more:
        why.append(_why_degraded(name, joint, symbiotic))
    if why:
        if symbiotic.foresight is not None:
            why.append(str(symbiotic.foresight))
            if SYMBIOTIC in rows:
                why.append(f"Without a forecast symbiotic held {_nodes(rows[SYMBIOTIC].metrics):.2f}.")
        why.append(_published(key))
    return Comparison(
        application=key.application,
        load=key.load,
        target=row.target,
        strategy=key.strategy,
        saves_more=saves_more,
        degrades_no_more=degrades_no_more,
        explanation=" ".join(filter(None, why)),
    )


def _nodes(metrics: RowMetrics) -> float:
    return (1.0 - (metrics.nodes_saved or 0.0)) * LIMITS.max_nodes


def _why_not_saved(name: str, joint: RowMetrics, symbiotic: RowMetrics) -> str:
    text = f"{name} held {_nodes(symbiotic):.2f} nodes on average, joint {_nodes(joint):.2f}"
    own, other = symbiotic.latency_mean_s, joint.latency_mean_s
    if own is not None and other is not None and other > 1.1 * own:
        return f"{text}; a row took {other:.1f} s with joint, {own:.1f} s here."
    return f"{text}."


def _why_degraded(name: str, joint: RowMetrics, symbiotic: RowMetrics) -> str:
    pairs = (
        (symbiotic.throughput_degradation, joint.throughput_degradation, "in windows of a minute"),
        (symbiotic.throughput_degradation_unsmoothed, joint.throughput_degradation_unsmoothed, "unsmoothed"),
    )
    text = ", ".join(f"{_decimals(ours)} against {_decimals(theirs)} {how}" for ours, theirs, how in pairs)
    return (
        f"Degradation {text}. {name} reconfigured {symbiotic.reconfigurations or 0.0:.1f} times, "
        f"joint {joint.reconfigurations or 0.0:.1f}; it held {_nodes(symbiotic):.2f} nodes where joint held "
        f"{_nodes(joint):.2f}."
    )


def _decimals(degradation: float | None) -> str:
    return "unknown" if degradation is None else f"{degradation:.3f}"


def _published(key: Key) -> str:
    """Says so if the published rows do not show the advantage either."""
    joint, symbiotic = FIGURE_9.get(key._replace(strategy=JOINT)), FIGURE_9.get(key)
    if joint is None or symbiotic is None:
        return ""
    if symbiotic.throughput_degradation > joint.throughput_degradation:
        return (
            f"The published row degrades more as well ({symbiotic.throughput_degradation:g} against "
            f"{joint.throughput_degradation:g})."
        )
    if symbiotic.nodes_saved <= joint.nodes_saved:
        return (
            f"The published row saves less as well ({100 * symbiotic.nodes_saved:.0f} % against "
            f"{100 * joint.nodes_saved:.0f} %)."
        )
    return ""


# -- the same load with its minutes sorted ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SortedMinutes(Load):
    """The minutes of another load from the quietest to the busiest and down again.

    >>> from ebbflow.workloads import Square
    >>> load = Square(base_per_s=10, peak_per_s=30, period_s=120)  # 10, 30, 10, 30 and so on, a minute each
    >>> SortedMinutes(load=load, seconds=300.0).rate_per_s(np.arange(5) * 60.0)
    array([10., 10., 30., 30., 10.])
    """

    load: Load
    seconds: float
    """Length of the part that is sorted; an incomplete minute at its end is left out."""

    @property
    def duration_s(self) -> float:
        """Length in whole minutes."""
        return float(len(self.minutes_per_s) * ASSESSED_EVERY_S)

    @property
    def span_s(self) -> float:
        """The same as the duration."""
        return self.duration_s

    @property
    def sample_step_s(self) -> float:
        """The step of the original load."""
        return self.load.sample_step_s

    @cached_property
    def minutes_per_s(self) -> Floats:
        """Rate of each minute of the original load."""
        count = int(self.seconds // ASSESSED_EVERY_S)
        return (
            self.load.rows_between(ASSESSED_EVERY_S * np.arange(count + 1, dtype=np.float64))
            / ASSESSED_EVERY_S
        )

    @property
    def jump(self) -> float:
        """Mean difference between consecutive minutes, relative to the mean load."""
        each = self.minutes_per_s
        return float(np.abs(np.diff(each)).mean() / each.mean()) if len(each) > 1 else 0.0

    @cached_property
    def _order(self) -> npt.NDArray[np.intp]:
        rising = np.argsort(self.minutes_per_s, kind="stable")
        return np.concatenate((rising[::2], rising[1::2][::-1]))

    def _original_times(self, times_s: Floats, minutes: npt.NDArray[np.intp]) -> Floats:
        """The same times in the original load."""
        return np.asarray(ASSESSED_EVERY_S * self._order[minutes] + (times_s - ASSESSED_EVERY_S * minutes))

    def _rate_per_s(self, times_s: Floats) -> Floats:
        minutes = np.minimum((times_s // ASSESSED_EVERY_S).astype(np.intp), len(self._order) - 1)
        return self.load.rate_per_s(self._original_times(times_s, minutes))

    def _rows_between(self, edges_s: Floats) -> Floats:
        fine_s, old = refined(edges_s, ASSESSED_EVERY_S)
        minutes = np.minimum((fine_s[:-1] // ASSESSED_EVERY_S).astype(np.intp), len(self._order) - 1)
        begins_s = self._original_times(fine_s[:-1], minutes)
        ends_s = self._original_times(fine_s[1:], minutes)
        times_s = np.unique(np.concatenate((begins_s, ends_s)))
        by_then = np.concatenate(([0.0], np.cumsum(self.load.rows_between(times_s))))
        rows = by_then[np.searchsorted(times_s, ends_s)] - by_then[np.searchsorted(times_s, begins_s)]
        return np.diff(np.concatenate(([0.0], np.cumsum(rows)))[old])

    def __str__(self) -> str:
        return f"the sorted minutes of {self.load}"


def explain_with_sorted_minutes(
    comparisons: Sequence[Comparison],
    cases: Sequence[Case],
    models: Models,
    *,
    seeds: int = 3,
    workers: int | None = None,
) -> list[Comparison]:
    """The comparisons; where symbiotic scaling degrades more, the explanation has the result on sorted minutes."""
    return [
        replace(each, explanation=f"{each.explanation} {text}")
        if (text := _on_sorted_minutes(each, cases, models, seeds, workers))
        else each
        for each in comparisons
    ]


def _on_sorted_minutes(
    comparison: Comparison, cases: Sequence[Case], models: Models, seeds: int, workers: int | None
) -> str:
    if (
        comparison.degrades_no_more
        or comparison.target != SIMULATOR
        or comparison.strategy != SYMBIOTIC  # a forecaster is trained on the original order
    ):
        return ""
    rows = {
        case.key.strategy: case
        for case in cases
        if (case.key.application, case.key.load) == (comparison.application, comparison.load)
        and case.key.strategy in (JOINT, SYMBIOTIC)
        and not case.key.setting
    }
    loads = rows[SYMBIOTIC].loads
    if len(loads) > 1:
        return ""
    (application, load) = loads[0]
    ordered = SortedMinutes(load=load, seconds=rows[SYMBIOTIC].seconds)
    again = [
        replace(rows[name], loads=((application, ordered),), seconds=ordered.duration_s)
        for name in (SYMBIOTIC, JOINT)
    ]
    ours, theirs = (
        each.metrics.throughput_degradation or 0.0
        for each in run_cases(again, models, seeds=seeds, workers=workers)
    )
    return (
        f"From one minute to the next the load changes by {100 * ordered.jump:.0f} % on average, as fast as it is "
        f"assessed. With the same minutes sorted, the quietest first and last: {ours:.3f} against {theirs:.3f}."
    )
