"""How applications, loads and strategies are called, and which rows there are."""

from __future__ import annotations

from typing import NamedTuple

T1, T2, BOTH = "T1", "T2", "T1+T2"
"""The seed's names: rolling top-k words, sentiment analysis, and the two on the same nodes."""
APPLICATIONS = (T1, T2, BOTH)

TWITTER = "twitter"
LOADS = ("stair", "step", "square", "sine", TWITTER, "step+stair", "sine+sine")

STATIC, ONLY_OPERATORS, ONLY_RESOURCES = "static", "only-operators", "only-resources"
JOINT, SYMBIOTIC, PROACTIVE = "joint", "symbiotic", "symbiotic-proactive"
STRATEGIES = (STATIC, ONLY_OPERATORS, ONLY_RESOURCES, JOINT, SYMBIOTIC, PROACTIVE)

SIMULATOR, SPARK = "simulator", "spark"
TARGETS = (SIMULATOR, SPARK)


class Key(NamedTuple):
    """Which row of the table."""

    application: str
    load: str
    strategy: str
    setting: str = ""
    """What is held still, where something is: nodes, parallelism."""

    def __str__(self) -> str:
        held = f" ({self.setting})" if self.setting else ""
        return f"{self.application} {self.load} {self.strategy}{held}"
