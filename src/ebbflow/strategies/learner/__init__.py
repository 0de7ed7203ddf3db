"""Learner: executors by reinforcement learning, after S. Azimi Gehraz (2018)."""

from __future__ import annotations

from ebbflow.strategies.learner.strategy import Learner

__all__ = ["Learner"]
