"""Online parameter optimisation: thresholds that are searched for in a model whenever the load changes."""

from __future__ import annotations

from ebbflow.strategies.tuned.strategy import Tuned

__all__ = ["Tuned"]
