"""The published results of §7.2, as numbers: Tables 3 to 5, and what the text says about Figures 18 to 23."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Any

MOST_PER_S = {3: 92_476.0, 4: 105_869.0, 5: 118_036.0, 6: 131_406.0}
"""Table 3: X_max by number of nodes."""
BOUNDED_PER_S = {3: 64_733.0, 4: 74_108.0, 5: 82_625.0, 6: 91_984.0}
"""Table 3: X_B by number of nodes, with p = 0.7."""
BOUND = 0.7
RESPONSE_S = 0.0045
"""The response time from which on p was found (§7.2.1)."""
CHANGE_S = {(3, 4): 155.0, (4, 5): 155.0, (5, 6): 155.0, (4, 3): 120.0, (5, 4): 145.0, (6, 5): 160.0}
"""Table 4: seconds to change from one number of nodes to another."""
IMPACT_PER_S = 50_000.0
"""Figures 18 and 19: the constant load."""
IMPACT_AT_S = 120.0
"""When the node is added or removed."""
JOINED_S = 210.0
"""Figure 18: when the node has joined."""
SAVED = 0.40
"""§8: up to 40 % of the resources."""


@dataclass(frozen=True, kw_only=True)
class PublishedAction:
    """A row of Table 5."""

    action: int
    tp_s: float
    rp_s: float
    dp_s: float

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "action": f"{self.action:+d}",
            "tp_s": self.tp_s,
            "rp_s": self.rp_s,
            "dp_s": self.dp_s,
            "duration_s": self.rp_s - self.tp_s,
            "delta_s": self.dp_s - self.rp_s,
        }


TABLE_5 = (
    PublishedAction(action=+1, tp_s=7242.0, rp_s=7347.0, dp_s=7380.0),
    PublishedAction(action=+1, tp_s=9399.0, rp_s=9492.0, dp_s=9540.0),
    PublishedAction(action=+1, tp_s=10_848.0, rp_s=10_935.0, dp_s=10_980.0),
    PublishedAction(action=-2, tp_s=13_602.0, rp_s=13_833.0, dp_s=13_860.0),
    PublishedAction(action=-1, tp_s=14_379.0, rp_s=14_514.0, dp_s=14_580.0),
)
MEAN_DELTA_S = fmean(abs(each.dp_s - each.rp_s) for each in TABLE_5)
"""43.8 s."""


def published_json() -> dict[str, Any]:
    """Everything as JSON values."""
    return {
        "table_3": [
            {"nodes": n, "most_per_s": rate, "bounded_per_s": BOUNDED_PER_S[n]}
            for n, rate in MOST_PER_S.items()
        ],
        "bound": BOUND,
        "response_s": RESPONSE_S,
        "table_4": [{"before": a, "after": b, "seconds": s} for (a, b), s in CHANGE_S.items()],
        "table_5": [each.to_json() for each in TABLE_5],
        "mean_delta_s": MEAN_DELTA_S,
        "nodes_saved": SAVED,
    }
