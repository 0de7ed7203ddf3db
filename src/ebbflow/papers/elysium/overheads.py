"""What reconfiguring costs by itself (Figure 6c): T1 over-provisioned on a sine of nine minutes, rebalanced at every
assessment for no reason, for different assessment periods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ebbflow.core.decision import Decision
from ebbflow.core.ports import Strategy
from ebbflow.core.snapshot import Snapshot
from ebbflow.papers.elysium.cases import Case
from ebbflow.papers.elysium.published import FIGURE_6C, T1, Key
from ebbflow.papers.elysium.run import play_case
from ebbflow.workloads import parse_load

PERIODS_S: tuple[float, ...] = (60.0, 120.0, 180.0, 240.0)
OVER_PROVISIONED = Case(
    key=Key(T1, "sine", "restless", "4 nodes, parallelism 4"),
    loads=((T1, parse_load("sine(base=100, peak=600, period=9m)")),),
    seconds=540.0,
    initial_nodes=4,
    initial_parallelism=4,
)
"""No node and no operator is in stress throughout."""


class Restless(Strategy):
    """Takes an instance of the reader away at one assessment and gives it back at the next."""

    name = "restless"
    brings_own_guards = True

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._moved_s = 0.0

    def decide(self, snapshot: Snapshot) -> Decision:
        """Another layout after each period, as good as the one before."""
        planned = snapshot.planned
        if snapshot.now_s - self._moved_s < self._period_s:
            return Decision(wanted=planned, reason="the next assessment is yet to come")
        self._moved_s = snapshot.now_s
        reader = snapshot.pipeline.sources[0]
        instances = 7 - planned.parallelism[reader]  # 4 and 3
        wanted = type(planned)(
            nodes=planned.nodes,
            parallelism={**planned.parallelism, reader: instances},
            placement=planned.placement,
        )
        return Decision(wanted=wanted, reason="to see what a rebalance costs")


@dataclass(frozen=True, kw_only=True)
class Overhead:
    """Degradation with a rebalance every so often; None: never."""

    period_s: float | None
    throughput_degradation: float
    throughput_degradation_unsmoothed: float
    published: float | None

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "period_s": self.period_s,
            "throughput_degradation": round(self.throughput_degradation, 4),
            "throughput_degradation_unsmoothed": round(self.throughput_degradation_unsmoothed, 4),
            "published": self.published,
        }


def reconfiguration_overheads(periods_s: Sequence[float] = PERIODS_S) -> list[Overhead]:
    """For each period, and without any rebalance."""
    found = []
    for period_s in (None, *periods_s):
        strategy = Restless(float("inf") if period_s is None else period_s)
        measured, _ = play_case(OVER_PROVISIONED, strategy)
        found.append(
            Overhead(
                period_s=period_s,
                throughput_degradation=measured.throughput_degradation or 0.0,
                throughput_degradation_unsmoothed=measured.throughput_degradation_unsmoothed or 0.0,
                published=0.05 if period_s is None else FIGURE_6C.get(period_s),
            )
        )
    return found
