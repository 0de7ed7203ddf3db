"""Symbiotic against joint scaling, row by row: more nodes saved at no more degradation, or why not.

The explanation tells how the two runs differed, as measured. What of that is the cause it does not claim to know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ebbflow.bench.elysium.calibration import LIMITS
from ebbflow.bench.elysium.names import JOINT, SYMBIOTIC, Key
from ebbflow.bench.elysium.published import FIGURE_9
from ebbflow.bench.elysium.result import Measured, Result

SAME_DEGRADATION = 0.005
"""Half a percent of the input. Between ten seeds of a row the standard deviation was 0.002 (stair, sine) to 0.011
(joint on Twitter), so on Twitter three seeds do not tell less than a hundredth apart."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Of one application on one load, on one target."""

    application: str
    load: str
    target: str
    saves_more: bool
    degrades_no_more: bool
    explanation: str
    """Empty where it is as it should be."""

    @property
    def ok(self) -> bool:
        """Whether symbiotic scaling is better in one and not worse in the other."""
        return self.saves_more and self.degrades_no_more

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "application": self.application,
            "load": self.load,
            "target": self.target,
            "ok": self.ok,
            "saves_more": self.saves_more,
            "degrades_no_more": self.degrades_no_more,
            "explanation": self.explanation,
        }


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    """One for each application and load of which both strategies ran, in the order of the results."""
    found: dict[tuple[str, str, str], dict[str, Result]] = {}
    for result in results:
        key = result.case.key
        if not key.setting:
            rows = found.setdefault((key.application, key.load, result.target), {})
            rows[key.strategy] = result
    return [
        _judged(rows[JOINT], rows[SYMBIOTIC])
        for rows in found.values()
        if JOINT in rows and SYMBIOTIC in rows
    ]


def _judged(joint_row: Result, row: Result) -> Verdict:
    joint, symbiotic, key = joint_row.measured, row.measured, row.case.key
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
        why.append(_why_not_saved(joint, symbiotic))
    if not degrades_no_more:
        why.append(_why_degraded(joint, symbiotic))
    if why:
        why.append(_published(key.application, key.load))
    return Verdict(
        application=key.application,
        load=key.load,
        target=row.target,
        saves_more=saves_more,
        degrades_no_more=degrades_no_more,
        explanation=" ".join(filter(None, why)),
    )


def _nodes(measured: Measured) -> float:
    return (1.0 - (measured.nodes_saved or 0.0)) * LIMITS.max_nodes


def _why_not_saved(joint: Measured, symbiotic: Measured) -> str:
    said = f"Symbiotic held {_nodes(symbiotic):.2f} nodes in the mean, joint {_nodes(joint):.2f}"
    own, other = symbiotic.latency_mean_s, joint.latency_mean_s
    if own is not None and other is not None and other > 1.1 * own:
        return f"{said}, and joint fell behind (a row took {other:.1f} s there, {own:.1f} s here)."
    return f"{said}."


def _why_degraded(joint: Measured, symbiotic: Measured) -> str:
    pairs = (
        (symbiotic.throughput_degradation, joint.throughput_degradation, "in windows of a minute"),
        (symbiotic.throughput_degradation_unsmoothed, joint.throughput_degradation_unsmoothed, "unsmoothed"),
    )
    told = ", ".join(f"{_told(ours)} against {_told(theirs)} {how}" for ours, theirs, how in pairs)
    return (
        f"Degradation {told}. Symbiotic reconfigured {symbiotic.reconfigurations or 0.0:.1f} times, "
        f"joint {joint.reconfigurations or 0.0:.1f}; it held {_nodes(symbiotic):.2f} nodes where joint held "
        f"{_nodes(joint):.2f}."
    )


def _told(degradation: float | None) -> str:
    return "nothing measured" if degradation is None else f"{degradation:.3f}"


def _published(application: str, load: str) -> str:
    """What the seed's own rows show, where they do not show it either."""
    joint = FIGURE_9.get(Key(application, load, JOINT))
    symbiotic = FIGURE_9.get(Key(application, load, SYMBIOTIC))
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
