"""The default strategy: the fewest nodes that keep freshness within the SLO."""

from ebbflow.strategies.capacity.strategy import Capacity

__all__ = ["Capacity"]
