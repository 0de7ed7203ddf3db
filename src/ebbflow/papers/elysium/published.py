"""The published results: Figure 9, Table 1, Figure 6(c) and the learned thresholds, as numbers.

The paper contradicts itself in two places. The text says that symbiotic scaling on the Twitter trace saves 45 % (T1)
and 52 % (T2) of the nodes; Figure 9 has 45 and 50. The numbers here are those of the figure. And the text says that
Elysium *always* saves more nodes than joint scaling, while Figure 9 has 22 % against 30 % for T2 on a sine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

T1, T2, BOTH = "T1", "T2", "T1+T2"
"""The names in the paper: rolling top-k words, sentiment analysis, and both on the same nodes."""
APPLICATIONS = (T1, T2, BOTH)

TWITTER = "twitter"
LOADS = ("stair", "step", "square", "sine", TWITTER, "step+stair", "sine+sine")

STATIC, ONLY_OPERATORS, ONLY_RESOURCES = "static", "only-operators", "only-resources"
JOINT, SYMBIOTIC, PROACTIVE = "joint", "symbiotic", "symbiotic-proactive"
STRATEGIES = (STATIC, ONLY_OPERATORS, ONLY_RESOURCES, JOINT, SYMBIOTIC, PROACTIVE)


class Key(NamedTuple):
    """Identifies a row of Figure 9."""

    application: str
    load: str
    strategy: str
    setting: str = ""
    """The fixed setting of a row that has one: its nodes or its parallelism."""

    def __str__(self) -> str:
        fixed = f" ({self.setting})" if self.setting else ""
        return f"{self.application} {self.load} {self.strategy}{fixed}"


@dataclass(frozen=True, kw_only=True)
class Published:
    """A row of Figure 9."""

    throughput_degradation: float
    nodes_saved: float
    """As a fraction of the nodes."""
    figure: str = ""
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        row: dict[str, Any] = {
            "throughput_degradation": self.throughput_degradation,
            "nodes_saved": self.nodes_saved,
        }
        if self.figure:
            row["figure"] = self.figure
        if self.note:
            row["note"] = self.note
        return row


def _row(degradation: float, saved_percent: int, figure: str = "", note: str = "") -> Published:
    return Published(
        throughput_degradation=degradation, nodes_saved=saved_percent / 100, figure=figure, note=note
    )


FIGURE_9: dict[Key, Published] = {
    Key(T1, "stair", STATIC, "4 nodes, parallelism 4"): _row(0.05, 0),
    Key(T1, "stair", ONLY_OPERATORS, "2 nodes"): _row(1.47, 50),
    Key(T1, "stair", ONLY_OPERATORS, "4 nodes"): _row(0.98, 0),
    Key(T1, "stair", ONLY_RESOURCES, "parallelism 2"): _row(1.43, 19),
    Key(T1, "stair", ONLY_RESOURCES, "parallelism 4"): _row(0.97, 33),
    Key(T1, "stair", JOINT): _row(0.97, 32, "10(f)"),
    Key(T1, "stair", SYMBIOTIC): _row(0.81, 43, "10(f)"),
    Key(T1, "stair", PROACTIVE): _row(0.81, 43, "13(a)"),
    Key(T1, "step", JOINT): _row(0.78, 50, "10(a–c)"),
    Key(T1, "step", SYMBIOTIC): _row(0.59, 58, "10(a–c)"),
    Key(T1, "square", JOINT): _row(1.49, 25, "10(d–e), 11(a)"),
    Key(T1, "square", SYMBIOTIC): _row(1.7, 35, "10(d–e), 11(a)"),
    Key(T1, "square", PROACTIVE): _row(1.2, 35, "13(b)"),
    Key(T1, "sine", JOINT): _row(1.25, 25, "10(g), 11(b)"),
    Key(T1, "sine", SYMBIOTIC): _row(1.01, 47, "10(g), 11(b)"),
    Key(T1, "twitter", JOINT): _row(1.25, 24, "10(h), 11(c)"),
    Key(T1, "twitter", SYMBIOTIC): _row(0.86, 45, "10(h), 11(c)"),
    Key(T1, "twitter", PROACTIVE): _row(0.9, 45, "13(c)"),
    Key(T2, "square", JOINT): _row(0.99, 13, "10(i), 11(d)"),
    Key(T2, "square", SYMBIOTIC): _row(1.03, 33, "10(i), 11(d)"),
    Key(T2, "sine", JOINT): _row(0.63, 30, "10(j), 11(e)"),
    Key(T2, "sine", SYMBIOTIC): _row(0.17, 22, "10(j), 11(e)"),
    Key(T2, "twitter", JOINT): _row(0.49, 48, "10(k), 11(f)"),
    Key(T2, "twitter", SYMBIOTIC): _row(0.48, 50, "10(k), 11(f)", "the text says 52 %"),
    Key(BOTH, "step+stair", SYMBIOTIC): _row(0.80, 17, "12(a–c)"),
    Key(BOTH, "sine+sine", SYMBIOTIC): _row(0.46, 21, "12(d–f)"),
}
"""In the order of the paper."""

TABLE_1 = {0.60: 0.53, 0.65: 0.57, 0.70: 0.62, 0.75: 0.66, 0.80: 0.71, 0.85: 0.65, 0.90: 0.43}
"""Rewards of the values of ``cpu_max``."""

FIGURE_6C: dict[float, float] = {60.0: 0.64, 120.0: 0.43}
"""Throughput degradation by assessment period, if every assessment reconfigures. The text gives these two."""

THRESHOLDS: dict[str, float] = {"cpu_max": 0.80, "core_max": 0.65, "core_min": 0.25}
"""Learned by Q-learning (§5.1)."""
