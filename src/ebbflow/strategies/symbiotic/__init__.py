"""Elysium's symbiotic scaling of operators and nodes."""

from __future__ import annotations

from ebbflow.strategies.symbiotic.algorithm_one import Dimensions, UsageThresholds
from ebbflow.strategies.symbiotic.strategy import Symbiotic, SymbioticProactive

__all__ = ["Dimensions", "Symbiotic", "SymbioticProactive", "UsageThresholds"]
