"""All hosts of a fleet behind the target port.

An observation joins the reports of all hosts. For the query of each operator it has the event rate λ and the time per
event p, for each application its nodes and its load Σ λ·p / nodes (DoDo §6.1):

    p = Σ over stages of task time / rows / slots of a node

If a host does not answer, there is no observation: a plan for all applications cannot be made without one of them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ebbflow.core.batches import Batch
from ebbflow.core.clock import Clock
from ebbflow.core.decision import Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.ports import DEFAULT_LEAD_TIME_S, Observation
from ebbflow.core.readings import Reading
from ebbflow.core.snapshot import ActionKind, ActionUnderWay
from ebbflow.errors import InputError, OutdatedError, TargetError
from ebbflow.targets.fleet.coordination import Coordination, Record, Step
from ebbflow.targets.fleet.dispatch import Dispatcher, Links, Moved, request_move
from ebbflow.targets.fleet.model import Fleet
from ebbflow.targets.fleet.wire.messages import (
    Done,
    QueryPhase,
    Refused,
    Report,
    SetExecutors,
    unpack_readings,
)

log = logging.getLogger(__name__)


def time_per_event_s(batch: Batch, slots_per_node: int) -> float | None:
    """Node seconds for an event of a batch; None if it had no rows.

    Without reported stages, the duration of the batch stands for the work of one slot.

    >>> batch = Batch(query="q", batch_id=1, started_s=0.0, duration_s=2.0, rows=100, slots=2, trigger_interval_s=0.0,
    ...     arrival_rate_per_s=9.0, backlog_rows=None, oldest_arrival_s=0.0)
    >>> time_per_event_s(batch, 2), time_per_event_s(batch, 1)
    (0.01, 0.02)
    """
    if batch.rows <= 0:
        return None
    worked_s = sum(stage.task_time_s for stage in batch.stages) or batch.duration_s
    return worked_s / batch.rows / max(1, slots_per_node)


class FleetTarget:
    """The applications of a fleet and the placement of its queries."""

    def __init__(
        self, fleet: Fleet, coordination: Coordination, links: Links, dispatcher: Dispatcher, clock: Clock
    ) -> None:
        self._fleet = fleet
        self._coordination = coordination
        self._links = links
        self._dispatcher = dispatcher
        self._clock = clock
        self._after: dict[tuple[str, str], int] = {}
        """The last measurement taken from each host, by application and boot."""
        self._given_up: dict[str, int] = {}
        self._taken: list[tuple[Report, list[Reading]]] = []
        """Reports of an observation that failed at another host."""
        self._time_per_event_s: dict[str, float] = {}
        self._known: dict[str, str] = {}
        """Where each query was asked to be, as of the last observation or request."""
        self.moved: list[Moved] = []
        """Moves that have ended and are not in the ledger yet."""

    # -- observing -----------------------------------------------------------------------------

    def observe(self) -> Observation:
        """Join the reports of all hosts."""
        now_s = self._clock.now_s()
        self._links.update()
        records = self._coordination.records()
        reports: dict[str, Report] = {}
        failures = []
        for name in self._fleet.applications:
            try:
                reports[name] = self._report(name)
            except TargetError as error:
                failures.append(f"{name}: {error}")
        if failures:
            raise TargetError("; ".join(failures))
        taken, self._taken = self._taken, []
        moved = self._dispatcher.take_moved()
        self.moved += moved
        batches = [batch for report, _ in taken for each in report.measured for batch in each.batches]
        first = [batch for report, _ in taken for each in report.measured for batch in each.first_batches]
        readings = [reading for _, of_report in taken for reading in of_report]
        readings += self._operator_readings(now_s, reports, taken)
        readings += self._load_readings(now_s, reports, records)
        readings += self._fleet_readings(now_s, readings)
        readings += [reading for each in moved for reading in _move_readings(now_s, each)]
        given_up = sum(report.given_up_nodes - self._given_up.get(n, 0) for n, report in reports.items())
        self._given_up = {name: report.given_up_nodes for name, report in reports.items()}
        slots = [report.slots_per_node for report in reports.values()]
        return Observation(
            time_s=min(report.time_s for report in reports.values()),
            pipeline=self._fleet.pipeline,
            layout=self._layout({n: r.nodes for n, r in reports.items()}, _placement(records, observed=True)),
            requested=self._layout({n: r.requested for n, r in reports.items()}, _placement(records)),
            slots_per_node=max(1, min(slots)),
            lead_time_s=max((r.lead_time_s for r in reports.values()), default=DEFAULT_LEAD_TIME_S),
            readings=readings,
            batches=batches,
            first_batches=first,
            under_way=[*_changes(reports), *_moves(records)],
            queries={q: at for report in reports.values() for q, at in report.current_batches.items()},
            read_limited=frozenset(q for report in reports.values() for q in report.read_limited),
            held_nodes=sum(report.held for report in reports.values()),
            given_up_nodes=max(0, given_up),
            changed_placements=self._changed_placements(records, moved),
            active=any(
                each.phase is QueryPhase.RUNNING for report in reports.values() for each in report.queries
            ),
        )

    def _report(self, name: str) -> Report:
        boot = next((b for (n, b) in self._after if n == name), "")
        report = self._links.report(name, self._after.get((name, boot), 0))
        if report.boot != boot:  # another start of the host counts from 1 again
            self._after = {key: value for key, value in self._after.items() if key[0] != name}
            self._given_up.pop(name, None)
            if boot:
                report = self._links.report(name, 0)
        if report.error:
            raise TargetError(report.error)
        if not report.time_s:
            raise TargetError("the application has not been polled yet")
        self._after[name, report.boot] = max(
            (each.number for each in report.measured), default=self._after.get((name, report.boot), 0)
        )
        readings = [reading for each in report.measured for reading in unpack_readings(each.readings)]
        self._taken.append((report, readings))
        return report

    def _operator_readings(
        self, now_s: float, reports: Mapping[str, Report], taken: list[tuple[Report, list[Reading]]]
    ) -> list[Reading]:
        """λ of each query now, and p of each finished batch."""
        readings = []
        for report, _ in taken:
            for batch in (batch for each in report.measured for batch in each.batches):
                each_s = time_per_event_s(batch, report.slots_per_node)
                if each_s is not None and batch.query in self._fleet.queries:
                    self._time_per_event_s[batch.query] = each_s
                    readings.append(Reading(batch.ended_s, batch.query, Metric.TIME_PER_EVENT, each_s))
        for report in reports.values():
            for state in report.queries:
                if state.phase is QueryPhase.RUNNING and state.rate_per_s is not None:
                    readings.append(Reading(now_s, state.name, Metric.EVENT_RATE, state.rate_per_s))
        return readings

    def _load_readings(
        self, now_s: float, reports: Mapping[str, Report], records: Mapping[str, Record]
    ) -> list[Reading]:
        """Load of each application whose queries are all known."""
        readings = []
        for name, report in reports.items():
            placed = [
                r.query for r in records.values() if r.runs_in == name and r.query in self._fleet.queries
            ]
            rates = {state.name: state.rate_per_s for state in report.queries}
            known = [
                (rates.get(query) or 0.0) * self._time_per_event_s.get(query, 0.0)
                for query in placed
                if rates.get(query) is not None and query in self._time_per_event_s
            ]
            if len(known) == len(placed) and report.nodes:
                readings.append(Reading(now_s, name, Metric.LOAD, sum(known) / report.nodes))
        return readings

    def _fleet_readings(self, now_s: float, readings: list[Reading]) -> list[Reading]:
        """The fleet as a whole: arrivals at its sources, rows that wait, the worst freshness."""
        name, sources = self._fleet.name, set(self._fleet.pipeline.sources)
        rates = [r.value for r in readings if r.metric is Metric.EVENT_RATE and r.subject in sources]
        found = [Reading(now_s, name, Metric.ARRIVAL_RATE, sum(rates))] if rates else []
        queries = self._fleet.queries
        for metric, join in (
            (Metric.QUEUE_LENGTH, sum), (Metric.BATCH_ROWS, sum), (Metric.BATCH_TIME, max), (Metric.FRESHNESS, max),
        ):  # fmt: skip
            newest = {r.subject: r.value for r in readings if r.metric is metric and r.subject in queries}
            if newest:
                found.append(Reading(now_s, name, metric, float(join(newest.values()))))
        return found

    def _changed_placements(self, records: Mapping[str, Record], moved: list[Moved]) -> dict[str, str]:
        """Queries that are to be elsewhere than at the last observation or request, and why."""
        why = {each.query: str(each) for each in moved if each.why}
        placement = _placement(records)
        changed = {
            query: why.get(query) or f"it goes to {application}, by a user or because its host was gone"
            for query, application in placement.items()
            if query in self._known and self._known[query] != application
        }
        self._known = placement
        return changed

    def _layout(self, nodes: Mapping[str, int], placement: Mapping[str, str]) -> Layout:
        return Layout(nodes=dict(nodes), placement=dict(placement))

    # -- acting --------------------------------------------------------------------------------

    def apply(self, planned: Layout) -> Outcome:
        """Request executors of each application, and moves of queries."""
        self._links.update()
        nodes: dict[str, int] = {}
        notes, infeasible = [], 0
        for name in self._fleet.applications:
            wanted = planned.nodes.get(name)
            requested, missing, note = self._set_nodes(name, wanted)
            nodes[name] = requested
            infeasible += missing
            notes += [note] if note else []
        for name in planned.nodes.keys() - self._fleet.applications.keys():
            infeasible += planned.nodes[name]
            notes.append(f"there is no application {name} in the fleet")
        records = dict(self._coordination.records())
        for query, application in planned.placement.items():
            record = records.get(query)
            if record is None or record.application == application:
                continue
            try:
                records[query] = request_move(
                    self._fleet, self._coordination, query, application, self._clock.now_s()
                )
            except (InputError, OutdatedError) as error:
                notes.append(str(error))
        self._known = _placement(records)
        return Outcome(
            requested=self._layout(nodes, self._known),
            infeasible_nodes=infeasible,
            note="; ".join(notes),
        )

    def _set_nodes(self, name: str, wanted: int | None) -> tuple[int, int, str]:
        """Executors now requested, those that are infeasible, and a note."""
        report = self._links.report(name)
        if wanted is None or wanted == report.requested:
            return report.requested, 0, ""
        if self._fleet.applications[name].is_local:
            return 1, wanted - 1, f"{name} has a local master, whose one node cannot change"
        answer = self._links.ask(name, SetExecutors(nodes=wanted))
        if isinstance(answer, Refused):
            return report.requested, 0, f"{name}: {answer.why}"
        if not isinstance(answer, Done):
            raise TargetError(f"the host of {name} answered with something else than what was done")
        return answer.requested, answer.infeasible, f"{name}: {answer.note}" if answer.note else ""

    def close(self) -> None:
        """Leave hosts and queries running."""


def _placement(records: Mapping[str, Record], *, observed: bool = False) -> dict[str, str]:
    """Where queries are, or where they were asked to be."""
    found = {}
    for name, record in records.items():
        back = record.step is Step.RETURNING or (observed and record.step is Step.STOPPING)
        found[name] = record.source if back else record.application
    return found


def _changes(reports: Mapping[str, Report]) -> list[ActionUnderWay]:
    return [
        ActionUnderWay(
            kind=ActionKind.GROW if change.grows else ActionKind.SHRINK,
            since_s=change.since_s,
            nodes=change.nodes,
            cluster=name,
            note=change.note,
        )
        for name, report in reports.items()
        for change in report.changes
    ]


def _moves(records: Mapping[str, Record]) -> list[ActionUnderWay]:
    return [
        ActionUnderWay(
            kind=ActionKind.RESTART,
            since_s=record.since_s,
            cluster=record.application,
            note=f"{record.query}: {record.source} → {record.application}, {record.step.value}",
        )
        for record in records.values()
        if record.is_moving
    ]


def _move_readings(now_s: float, moved: Moved) -> list[Reading]:
    """Time to stop and time to run again, as for other restarts."""
    if moved.down_s is None:
        return []
    return [
        Reading(now_s, moved.query, Metric.RESTART_STOP, max(0.0, moved.took_s - moved.down_s)),
        Reading(now_s, moved.query, Metric.RESTART_STATE, 0.0),
        Reading(now_s, moved.query, Metric.RESTART_START, moved.down_s),
    ]
