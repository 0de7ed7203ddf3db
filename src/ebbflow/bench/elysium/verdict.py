"""Symbiotic against joint scaling, row by row: more nodes saved at no more degradation, or why not.

The explanation is made of what the two runs did, not of what the strategies intend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebbflow.bench.elysium.calibration import ASSESSED_EVERY_S, LIMITS, SAMPLED_EVERY_S
from ebbflow.bench.elysium.names import JOINT, SYMBIOTIC, Key
from ebbflow.bench.elysium.published import FIGURE_9
from ebbflow.bench.elysium.result import Measured, Result

BURST = 1.5
"""Times the mean of its minute: so much above it a sample is a burst."""
SAME_DEGRADATION = 0.005
"""Half a percent of the input: what two seeds of the same row differ by."""


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
        (ours or 0.0) <= (theirs or 0.0) + SAME_DEGRADATION
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
        why += [_bursts(row), _published(key.application, key.load)]
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
        return f"{said}: joint saved by falling behind (a row took {other:.1f} s there, {own:.1f} s here)."
    return f"{said}: both came to the same sizes, and symbiotic asked for its nodes no later."


def _why_degraded(joint: Measured, symbiotic: Measured) -> str:
    ours, theirs = symbiotic.reconfigurations or 0.0, joint.reconfigurations or 0.0
    said = (
        f"Symbiotic reconfigured {ours:.1f} times, joint {theirs:.1f}; "
        f"it held {_nodes(symbiotic):.2f} nodes where joint held {_nodes(joint):.2f}"
    )
    if ours > theirs:
        return f"{said}: it stopped more often, and each stop costs 5 to 8 s of input and the catching up."
    return f"{said}: fewer spare cores take longer to work off what came during a stop or before a scale-out."


def _bursts(row: Result) -> str:
    """How much of the load comes faster than an assessment can see: samples far above the mean of their minute."""
    if row.curves is None:
        return ""
    samples = next(iter(row.curves.load.values()))
    rates = np.asarray([rate for _, rate in samples])
    width = round(ASSESSED_EVERY_S / SAMPLED_EVERY_S)
    minutes = rates[: len(rates) // width * width].reshape(-1, width)
    high = minutes > BURST * minutes.mean(axis=1, keepdims=True)
    if not high.any():
        return ""
    times = float((minutes / minutes.mean(axis=1, keepdims=True)).max())
    return (
        f"The load bursts: {100 * float(minutes[high].sum() / minutes.sum()):.0f} % of its rows come in 10 s that "
        f"are up to {times:.1f} times as busy as their minute, and over before an assessment sees them; what helps "
        "there is spare nodes."
    )


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
