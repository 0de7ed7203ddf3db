"""Scaling by the rules of a policy.

``strategy`` follows the readings and decides, ``sizes`` tracks what the rules change and how far they may go, ``nodes``
adds and removes the nodes that instances need, ``reasons`` explains decisions in the ledger.
"""

from ebbflow.strategies.rules.default import default_policy
from ebbflow.strategies.rules.strategy import Rules

__all__ = ["Rules", "default_policy"]
