"""The published results of §7.1, as numbers.

The text gives nearly all of them (§7.1.5); Figure 14 shows the same as bars. It contradicts itself once: PASCAL's mean
latency on the square is 955 ms in one sentence and 995 ms in another. Values that the paper calls "quasi-zero" are 0
here. Reactive latency and failures on Twitter, and PASCAL's failures there, are only in the bars, and are not here.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

SAWTOOTH, SINE, SQUARE, TWITTER = "sawtooth", "sine", "square", "twitter"
LOADS = (SAWTOOTH, SINE, SQUARE, TWITTER)

PROACTIVE, REACTIVE, STATIC = "proactive", "reactive", "static"
STRATEGIES = (PROACTIVE, REACTIVE, STATIC)


@dataclass(frozen=True, kw_only=True)
class Published:
    """What the paper reports of one load and strategy; None if it does not."""

    nodes_saved: float | None = None
    latency_mean_s: float | None = None
    failed: float | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


SECTION_7_1_5: dict[tuple[str, str], Published] = {
    (SAWTOOTH, PROACTIVE): Published(nodes_saved=0.2142, latency_mean_s=1.259, failed=0.0),
    (SAWTOOTH, REACTIVE): Published(nodes_saved=0.1785, latency_mean_s=2.944, failed=0.01),
    (SAWTOOTH, STATIC): Published(nodes_saved=0.0, latency_mean_s=1.478, failed=0.0),
    (SINE, PROACTIVE): Published(nodes_saved=0.25, latency_mean_s=1.638, failed=0.0),
    (SINE, REACTIVE): Published(nodes_saved=0.1785, latency_mean_s=1.370, failed=0.0),
    (SINE, STATIC): Published(nodes_saved=0.0, latency_mean_s=0.121, failed=0.0),
    (SQUARE, PROACTIVE): Published(nodes_saved=0.4107, latency_mean_s=0.955, failed=0.0),
    (SQUARE, REACTIVE): Published(nodes_saved=0.4407, latency_mean_s=13.535, failed=0.0522),
    (SQUARE, STATIC): Published(nodes_saved=0.0, latency_mean_s=0.258),
    (TWITTER, PROACTIVE): Published(nodes_saved=0.35, latency_mean_s=2.284),
    (TWITTER, REACTIVE): Published(nodes_saved=0.30),
    (TWITTER, STATIC): Published(nodes_saved=0.0, latency_mean_s=1.633),
}
"""By load and strategy. PASCAL is ``proactive``, the over-provisioned configuration of 4 nodes ``static``."""

FORECAST_ERROR = 0.03
"""Mean square error of the forecast on loads scaled to [0, 1] (§7)."""
IMBALANCE = 2.0
"""Load of the fullest node ÷ that of the emptiest, "almost" and "in some periods" (§7.1.2)."""
