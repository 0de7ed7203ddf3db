"""The published results of §6.4 and §7.3, as numbers.

The throughput of "Opt with capacity" in the extreme case is 16,000 · 1.8773. For the optimal case the text says only
that "No-opt" and "Opt with capacity" are "almost the same"; their throughput is only in Figure 23, and not here.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

EXTREME, OPTIMAL, AUTOSCALING = "extreme", "optimal", "autoscaling"
CASES = (EXTREME, OPTIMAL, AUTOSCALING)

NONE, WITH_CAPACITY, WITHOUT_CAPACITY = "none", "with-capacity", "without-capacity"
STATIC, BALANCED, PROVISIONED, BY_MODEL = "static", "balanced", "provisioned", "provisioned-by-model"
VARIANTS: dict[str, tuple[str, ...]] = {
    EXTREME: (NONE, WITH_CAPACITY, WITHOUT_CAPACITY),
    OPTIMAL: (NONE, WITH_CAPACITY, WITHOUT_CAPACITY),
    AUTOSCALING: (STATIC, BALANCED, PROVISIONED, BY_MODEL),
}
"""By case; the first is the one without optimisation, to which gains relate."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """What the thesis reports; None if it does not."""

    throughput: float | None = None
    """Events per second."""
    gain: float | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


PUBLISHED: dict[tuple[str, str], Published] = {
    (EXTREME, NONE): Published(throughput=16_000, gain=0.0),
    (EXTREME, WITH_CAPACITY): Published(throughput=30_037, gain=0.8773),
    (EXTREME, WITHOUT_CAPACITY): Published(throughput=6_000, gain=-0.625),
    (OPTIMAL, NONE): Published(gain=0.0),
    (OPTIMAL, WITH_CAPACITY): Published(gain=0.0),
    (OPTIMAL, WITHOUT_CAPACITY): Published(throughput=7_000),
    (AUTOSCALING, STATIC): Published(throughput=9_500, gain=0.0),
    (AUTOSCALING, BALANCED): Published(throughput=14_400, gain=0.5158),
    (AUTOSCALING, PROVISIONED): Published(throughput=16_700, gain=0.7579),
}
LAST_NODES = (6, 9)
"""Nodes of Cluster₂ and Cluster₃ at the end of Experiment 3."""
