"""What happens in a run of a case, how it is recorded, and the run in the simulator."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ebbflow.control.loop import CycleReport
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.ports import Observation
from ebbflow.papers.rules.cases import Case, Change
from ebbflow.policy.evaluation.routing import needs, sources
from ebbflow.policy.model import Policy
from ebbflow.runs.simulation import run_simulation
from ebbflow.strategies.rules import Rules
from ebbflow.targets.simulator import Continuous, NodeKind, Scenario

Points = list[tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class CaseRun:
    """What happened in a run of a case. Times are seconds since the start of the load."""

    changes: tuple[Change, ...] = ()
    queues: dict[str, Points] = field(default_factory=dict)
    """(time, rows) per operator: the readings its rules evaluated."""
    sizes: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    """(time, instances) per operator."""

    def gaps_s(self, operator: str, since_s: float, until_s: float) -> list[float]:
        """Return the times between readings of an operator in a period, starting with the beginning of the period.

        >>> run = CaseRun(queues={"a": [(0.5, 1.0), (2.0, 1.0), (4.0, 1.0), (9.0, 1.0)]})
        >>> run.gaps_s("a", 0.0, 5.0)
        [0.5, 1.5, 2.0]
        """
        times_s = [t for t, _ in self.queues.get(operator, ()) if since_s < t <= until_s]
        return [later - earlier for earlier, later in pairwise([since_s, *times_s])]

    def to_json(self) -> dict[str, Any]:
        """Return the run as JSON values."""
        changes = [change.to_json() for change in self.changes]
        return {"changes": changes, "queues": self.queues, "sizes": self.sizes}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> CaseRun:
        """Read what ``to_json`` wrote, possibly in another process."""
        return cls(
            changes=tuple(Change.from_json(change) for change in document["changes"]),
            queues={name: [(t, v) for t, v in points] for name, points in document["queues"].items()},
            sizes={name: [(t, n) for t, n in points] for name, points in document["sizes"].items()},
        )


@dataclass
class CaseRecorder:
    """Records the cycles of a control loop, in the simulator or on Spark."""

    policy: Policy
    started_s: float = 0.0
    sizes: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    _points: dict[tuple[str, Metric], Points] = field(default_factory=dict)
    _last: Observation | None = None

    def record(self, report: CycleReport) -> None:
        """Record the readings, sizes and changes of one cycle."""
        observation = report.observation
        if observation is None or (self._last is not None and observation.time_s <= self._last.time_s):
            return
        self._last = observation
        needed = needs(self.policy, observation.pipeline.name)
        for reading in observation.readings:
            if any(need.matches(reading.subject, reading.metric) for need in needed):
                points = self._points.setdefault((reading.subject, reading.metric), [])
                points.append((reading.time_s - self.started_s, reading.value))
        if report.planned is not None:
            for operator, size in report.planned.parallelism.items():
                self.sizes.setdefault(operator, []).append((observation.time_s - self.started_s, size))
        entry = report.entry
        if entry is not None and entry.verdict == "act" and entry.outcome is not None:
            resized = entry.outcome.requested.difference(entry.before).parallelism
            self.changes += [
                Change(time_s=entry.time_s - self.started_s, operator=operator, before=old, after=new)
                for operator, (old, new) in resized.items()
            ]

    def run(self) -> CaseRun:
        """Return everything recorded so far."""
        queues = {operator: self._evaluated(operator) for operator in self.sizes}
        return CaseRun(changes=tuple(self.changes), queues=queues, sizes=self.sizes)

    def _evaluated(self, operator: str) -> Points:
        """Return the readings that an operator's rules evaluate: those of the best source that has any."""
        if self._last is None:
            return []
        name, limited = self._last.pipeline.name, self._last.read_limited
        triggers = [t for rule in self.policy.rules if rule.operator == operator for t in rule.triggers]
        for trigger in triggers:
            for need in sources(trigger, operator, name, limited):
                if points := self._points.get((need.subject or "", need.metric)):
                    return points
        return []


def run_in_simulator(case: Case, *, pause_s: float = 0.0) -> CaseRun:
    """Run a case in the continuous engine with one reading per second.

    Each instance has its own node, as in the thesis. Nodes start at once, so times depend on the rules alone. A change
    pauses the operators for ``pause_s``.
    """
    engine = Continuous(
        pipeline=Pipeline.chain(case.name, *case.rates_per_s),
        row_cost_s={name: 1.0 / rate for name, rate in case.rates_per_s.items()},
        pause_s=(pause_s, pause_s),
        drain_limit_s=0.0,
    )
    scenario = Scenario(
        engine=engine,
        load=case.load,
        limits=Limits(min_nodes=1, max_nodes=10),
        nodes=NodeKind(lead_time_s=0.0),
        initial_nodes=len(case.rates_per_s),
        seconds=case.lasts_s,
        cycle_s=1.0,
    )
    recorder = CaseRecorder(case.policy)
    run_simulation(scenario, Rules(case.policy), on_cycle=recorder.record)
    return recorder.run()
