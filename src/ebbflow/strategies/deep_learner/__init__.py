"""Deep agents: reinforcement learning with small networks, beside the table of ``learner``."""

from __future__ import annotations

from ebbflow.strategies.deep_learner.strategy import DeepLearner

__all__ = ["DeepLearner"]
