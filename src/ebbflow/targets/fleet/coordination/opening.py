"""Opens the coordination that a fleet file names."""

from __future__ import annotations

from ebbflow.core.clock import Clock
from ebbflow.targets.fleet.coordination import Coordination
from ebbflow.targets.fleet.coordination import zookeeper as zookeeper_module
from ebbflow.targets.fleet.coordination.store import StoreCoordination
from ebbflow.targets.fleet.model import Fleet


def open_coordination(fleet: Fleet, clock: Clock) -> Coordination:
    """ZooKeeper if the file names one, else the store."""
    if fleet.coordination:
        return zookeeper_module.connect(fleet.coordination, fleet.name)
    return StoreCoordination(fleet.store, clock)
