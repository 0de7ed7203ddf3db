"""Balance the load of operators over clusters by moving them (DoDo, §6)."""

from ebbflow.strategies.balance.strategy import Balance

__all__ = ["Balance"]
