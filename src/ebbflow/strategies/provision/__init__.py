"""Provision nodes for every cluster, and balance operators over them (DoDo, §7)."""

from ebbflow.strategies.provision.strategy import Provision

__all__ = ["Provision"]
