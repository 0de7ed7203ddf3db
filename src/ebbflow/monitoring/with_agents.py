"""A target whose observations also hold what agents measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from ebbflow.core.decision import Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import SubjectKind
from ebbflow.core.ports import Observation, Target
from ebbflow.monitoring.collector import Collector, Series


class WithAgents:
    """Adds the collector's readings to what a target shows, so that strategies see them as in the simulator.

    ``needed`` tells at every look which series the active policy needs; they, and nothing else, are
    subscribed to. Readings of a node are added only while the target itself shows that node: one that is
    still starting, or has been given up, is none to decide on. Silent agents leave the observation as it was.
    """

    def __init__(self, target: Target, collector: Collector, needed: Callable[[], Iterable[Series]]) -> None:
        self._target = target
        self._needed = needed
        self.collector = collector

    def observe(self) -> Observation:
        """Look at the target, and take what the agents sent."""
        seen = self._target.observe()
        self.collector.subscribe_to(self._needed())
        told = self.collector.take(seen.time_s)
        nodes = {reading.subject for reading in seen.readings if reading.metric.about is SubjectKind.NODE}
        joined = [r for r in told if r.metric.about is not SubjectKind.NODE or r.subject in nodes]
        return replace(seen, readings=(*seen.readings, *joined)) if joined else seen

    def apply(self, planned: Layout) -> Outcome:
        """Ask the target."""
        return self._target.apply(planned)

    def close(self) -> None:
        """Hang up, and let go of the target."""
        self.collector.close()
        self._target.close()
