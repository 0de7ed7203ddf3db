"""What is seen of a case while it runs: the readings that its rules judge, the sizes, and their changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ebbflow.control.loop import CycleReport
from ebbflow.core.metrics import Metric
from ebbflow.core.ports import Observation
from ebbflow.papers.rules.cases import Change
from ebbflow.policy.evaluation.routing import needs, sources
from ebbflow.policy.model import Policy

Points = list[tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What happened in a run of a case. Times count from the start of the load."""

    changes: tuple[Change, ...]
    queues: dict[str, Points]
    """(second, rows) of each operator: the readings that its rules judged."""
    sizes: dict[str, list[tuple[float, int]]]

    def gaps_s(self, operator: str, since_s: float, until_s: float) -> list[float]:
        """How far apart the readings of an operator were in a stretch of time, from its begin on.

        >>> seen = Seen(changes=(), queues={"a": [(0.5, 1.0), (2.0, 1.0), (4.0, 1.0), (9.0, 1.0)]}, sizes={})
        >>> seen.gaps_s("a", 0.0, 5.0)
        [0.5, 1.5, 2.0]
        """
        times_s = [t for t, _ in self.queues.get(operator, ()) if since_s < t <= until_s]
        return [later - earlier for earlier, later in pairwise([since_s, *times_s])]

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        changes = [change.to_json() for change in self.changes]
        return {"changes": changes, "queues": self.queues, "sizes": self.sizes}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Seen:
        """What another process saw."""
        return cls(
            changes=tuple(Change.from_json(change) for change in document["changes"]),
            queues={name: [(t, v) for t, v in points] for name, points in document["queues"].items()},
            sizes={name: [(t, n) for t, n in points] for name, points in document["sizes"].items()},
        )


@dataclass
class Watching:
    """Takes in the cycles of a loop, in the simulator or on Spark."""

    policy: Policy
    started_s: float = 0.0
    sizes: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    _points: dict[tuple[str, Metric], Points] = field(default_factory=dict)
    _last: Observation | None = None

    def take(self, report: CycleReport) -> None:
        """What one cycle saw and did."""
        seen = report.observation
        if seen is None or (self._last is not None and seen.time_s <= self._last.time_s):
            return
        self._last = seen
        needed = needs(self.policy, seen.pipeline.name)
        for reading in seen.readings:
            if any(need.matches(reading.subject, reading.metric) for need in needed):
                points = self._points.setdefault((reading.subject, reading.metric), [])
                points.append((reading.time_s - self.started_s, reading.value))
        if report.planned is not None:
            for operator, size in report.planned.parallelism.items():
                self.sizes.setdefault(operator, []).append((seen.time_s - self.started_s, size))
        entry = report.entry
        if entry is not None and entry.verdict == "act" and entry.outcome is not None:
            self.changes += [
                Change(time_s=entry.time_s - self.started_s, operator=operator, before=old, after=new)
                for operator, (old, new) in entry.outcome.requested.difference(
                    entry.before
                ).parallelism.items()
            ]

    def seen(self) -> Seen:
        """All of it."""
        queues = {operator: self._judged(operator) for operator in self.sizes}
        return Seen(changes=tuple(self.changes), queues=queues, sizes=self.sizes)

    def _judged(self, operator: str) -> Points:
        """The readings of the best source that spoke: the one that the rules of an operator listen to."""
        if self._last is None:
            return []
        name, limited = self._last.pipeline.name, self._last.read_limited
        triggers = [t for rule in self.policy.rules if rule.operator == operator for t in rule.triggers]
        for trigger in triggers:
            for need in sources(trigger, operator, name, limited):
                if points := self._points.get((need.subject or "", need.metric)):
                    return points
        return []
