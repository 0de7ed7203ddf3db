"""Symbiotic against joint scaling, row by row: more nodes saved at no more degradation, or why not. The proactive rows
are judged as well, by themselves.

The explanation tells how the two runs differed, as measured. What of that is the cause it does not claim to know. Of a
proactive row it tells besides what was sized for and what came (``foresight``), and what a forecast less would hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ebbflow.papers.elysium.calibration import LIMITS
from ebbflow.papers.elysium.published import FIGURE_9, JOINT, PROACTIVE, SIMULATOR, SYMBIOTIC, Key
from ebbflow.papers.elysium.result import Measured, Result

SAME_DEGRADATION = 0.005
"""Half a percent of the input. Between ten seeds of a row the standard deviation was 0.002 (stair, sine) to 0.011
(joint on Twitter), so on Twitter three seeds do not tell less than a hundredth apart."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Of one strategy and application on one load, on one target."""

    application: str
    load: str
    target: str
    strategy: str = SYMBIOTIC
    """Symbiotic, or symbiotic-proactive."""
    saves_more: bool
    degrades_no_more: bool
    explanation: str
    """Empty where it is as it should be."""

    @property
    def ok(self) -> bool:
        """Whether symbiotic scaling is better in one and not worse in the other."""
        return self.saves_more and self.degrades_no_more

    @property
    def what(self) -> str:
        """Which rows are judged, in words."""
        named = f"{self.application} {self.load}" + (
            f" {self.strategy}" if self.strategy != SYMBIOTIC else ""
        )
        return named if self.target == SIMULATOR else f"{named} on {self.target}"

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
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


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    """One for each application and load on which joint ran, and symbiotic or its proactive kind, in the order of the
    results; the proactive ones come last."""
    found: dict[tuple[str, str, str], dict[str, Result]] = {}
    for result in results:
        key = result.case.key
        if not key.setting:
            rows = found.setdefault((key.application, key.load, result.target), {})
            rows[key.strategy] = result
    return [
        _judged(rows, rows[strategy])
        for strategy in (SYMBIOTIC, PROACTIVE)
        for rows in found.values()
        if JOINT in rows and strategy in rows
    ]


@dataclass(frozen=True, kw_only=True)
class Count:
    """On how many loads a strategy is better than joint."""

    strategy: str
    loads: int
    saves_more: int
    degrades_no_more: int
    ok: int
    """On how many it does both."""

    def __str__(self) -> str:
        return (
            f"{self.strategy.capitalize()} saves more nodes than joint on {self.saves_more} of {self.loads} loads, "
            f"degrades no more on {self.degrades_no_more}, and does both on {self.ok}"
        )


def counts(judged: Sequence[Verdict]) -> list[Count]:
    """One for each strategy that was judged.

    >>> lost = Verdict(application="T1", load="stair", target="simulator", saves_more=True, degrades_no_more=False,
    ...                explanation="")
    >>> [str(count) for count in counts([lost])]
    ['Symbiotic saves more nodes than joint on 1 of 1 loads, degrades no more on 0, and does both on 0']
    """
    by_strategy: dict[str, list[Verdict]] = {}
    for verdict in judged:
        by_strategy.setdefault(verdict.strategy, []).append(verdict)
    return [
        Count(
            strategy=strategy,
            loads=len(own),
            saves_more=sum(verdict.saves_more for verdict in own),
            degrades_no_more=sum(verdict.degrades_no_more for verdict in own),
            ok=sum(verdict.ok for verdict in own),
        )
        for strategy, own in by_strategy.items()
    ]


def _judged(rows: Mapping[str, Result], row: Result) -> Verdict:
    joint, symbiotic, key = rows[JOINT].measured, row.measured, row.case.key
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
                why.append(f"Without a forecast symbiotic held {_nodes(rows[SYMBIOTIC].measured):.2f}.")
        why.append(_published(key))
    return Verdict(
        application=key.application,
        load=key.load,
        target=row.target,
        strategy=key.strategy,
        saves_more=saves_more,
        degrades_no_more=degrades_no_more,
        explanation=" ".join(filter(None, why)),
    )


def _nodes(measured: Measured) -> float:
    return (1.0 - (measured.nodes_saved or 0.0)) * LIMITS.max_nodes


def _why_not_saved(name: str, joint: Measured, symbiotic: Measured) -> str:
    said = f"{name} held {_nodes(symbiotic):.2f} nodes in the mean, joint {_nodes(joint):.2f}"
    own, other = symbiotic.latency_mean_s, joint.latency_mean_s
    if own is not None and other is not None and other > 1.1 * own:
        return f"{said}, and a row took {other:.1f} s with joint, {own:.1f} s here."
    return f"{said}."


def _why_degraded(name: str, joint: Measured, symbiotic: Measured) -> str:
    pairs = (
        (symbiotic.throughput_degradation, joint.throughput_degradation, "in windows of a minute"),
        (symbiotic.throughput_degradation_unsmoothed, joint.throughput_degradation_unsmoothed, "unsmoothed"),
    )
    told = ", ".join(f"{_told(ours)} against {_told(theirs)} {how}" for ours, theirs, how in pairs)
    return (
        f"Degradation {told}. {name} reconfigured {symbiotic.reconfigurations or 0.0:.1f} times, "
        f"joint {joint.reconfigurations or 0.0:.1f}; it held {_nodes(symbiotic):.2f} nodes where joint held "
        f"{_nodes(joint):.2f}."
    )


def _told(degradation: float | None) -> str:
    return "nothing measured" if degradation is None else f"{degradation:.3f}"


def _published(key: Key) -> str:
    """What the seed's own rows show, where they do not show it either."""
    joint, symbiotic = FIGURE_9.get(key._replace(strategy=JOINT)), FIGURE_9.get(key)
    if joint is None or symbiotic is None:
        return ""
    if symbiotic.throughput_degradation > joint.throughput_degradation:
        return (
            f"The seed's row degrades more as well ({symbiotic.throughput_degradation:g} against "
            f"{joint.throughput_degradation:g})."
        )
    if symbiotic.nodes_saved <= joint.nodes_saved:
        return (
            f"The seed's row saves less as well ({100 * symbiotic.nodes_saved:.0f} % against "
            f"{100 * joint.nodes_saved:.0f} %)."
        )
    return ""
