"""Scaling by the rules of a policy."""

from ebbflow.strategies.rules.strategy import Rules

__all__ = ["Rules"]
