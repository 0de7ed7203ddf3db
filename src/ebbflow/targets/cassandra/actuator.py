"""Adds and removes nodes one at a time, and follows each step until the cluster shows that it is done.

A state machine without a thread of its own: ``advance`` is called with each observed topology, and begins, follows or
repeats a step. Operations that block (``nodetool decommission`` runs until all data has moved) run one at a time in the
background. What the cluster shows decides what is done, not what an operation returned. So a controller that was killed
resumes from its journal and the cluster, and follows steps that others began.

====================================  =======================================================================
what is seen                          what is done
====================================  =======================================================================
a node joins or leaves, no journal    it is followed as a step of ours
a node died while it joined           stopped, started anew without data; given up after ``MOST_JOINS``
a node died while it left             restarted with its data, and decommissioned again
an active node is down                restarted with its data after ``restart_after_s``
a step is unsafe now                  it waits, and the reason is reported
====================================  =======================================================================
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

from msgspec.structs import replace

from ebbflow.core.backoff import Backoff
from ebbflow.core.clock import Clock
from ebbflow.core.metrics import Metric
from ebbflow.core.parameters import Duration
from ebbflow.core.readings import Reading
from ebbflow.core.topology import (
    AllNodesUp,
    NoBackgroundWork,
    NodeState,
    OneChangeAtATime,
    Rule,
    StoreNode,
    Topology,
    next_to_join,
    next_to_leave,
    objection,
)
from ebbflow.errors import EbbflowError
from ebbflow.targets.cassandra.journal import Journal, Step, StepKind

log = logging.getLogger(__name__)

MOST_JOINS = 3
"""Attempts to add a node before it is given up."""
RETRY = Backoff(first_s=10.0, longest_s=600.0)
_MAY_CLEAN = (OneChangeAtATime(), AllNodesUp(), NoBackgroundWork())


class Operations(Protocol):
    """What is done to one node. Each blocks until it is done, and raises ``TargetError`` if it fails."""

    def start(self, host: str, *, fresh: bool) -> None:
        """Start the node of a host (``Provisioner.start``)."""

    def stop(self, host: str) -> None:
        """Stop the node of a host."""

    def decommission(self, host: str) -> None:
        """Move the data of a node to the others."""

    def cleanup(self, host: str) -> None:
        """Drop the data that a node handed over."""


@dataclass(frozen=True, kw_only=True)
class ResizeTimes:
    """Waiting times of a resize."""

    cleanup_after_s: Annotated[float, Duration("Time after a join until the other nodes clean up.")] = 60.0
    start_within_s: Annotated[
        float,
        Duration("Time for a started node to show up in the cluster before its start counts as failed."),
    ] = 180.0
    restart_after_s: Annotated[
        float, Duration("Time after which an active node that is down is restarted.")
    ] = 30.0


class Actuator:
    """Carries out one requested size after the other."""

    def __init__(
        self,
        operations: Operations,
        rules: Sequence[Rule],
        journal_file: Path,
        cluster: str,
        clock: Clock,
        executor: Executor,
        *,
        times: ResizeTimes | None = None,
    ) -> None:
        self._operations = operations
        self._rules = tuple(rules)
        self._file = journal_file
        self._journal = Journal.read(journal_file, cluster)
        self._clock = clock
        self._executor = executor
        self._times = times or ResizeTimes()
        self._task: Future[None] | None = None
        self._resumed = self._journal.step is not None
        self._down_since_s: dict[str, float] = {}
        self._left_s: float | None = None
        self._readings: list[Reading] = []
        self._given_up = 0
        self.waiting = ""
        """Why the next step is not safe now; empty if none waits."""

    # -- what the target asks for ----------------------------------------------------------------------

    @property
    def requested(self) -> int | None:
        """The requested number of nodes; None before the first request."""
        return self._journal.requested

    @property
    def step(self) -> Step | None:
        """The step under way."""
        return self._journal.step

    def request(self, nodes: int) -> None:
        """Request a number of nodes; ``advance`` does the rest."""
        if nodes != self._journal.requested:
            self._remember(requested=nodes)

    def take_readings(self) -> list[Reading]:
        """Durations of steps that ended since the last call."""
        readings, self._readings = self._readings, []
        return readings

    def take_given_up(self) -> int:
        """Nodes given up since the last call."""
        given_up, self._given_up = self._given_up, 0
        return given_up

    # -- one observation -------------------------------------------------------------------------------

    def advance(self, topology: Topology) -> Topology:
        """Take the next action for what was observed; returns the topology with what only the actuator knows."""
        if (
            self._journal.needs_cleanup is None
        ):  # nobody knows what happened before: cleaning up twice does no harm
            known = tuple(node.address for node in topology.active)
            self._remember(needs_cleanup=known, joined_s=self._clock.now_s())
        seen = self._annotated(topology)
        self._note_down(seen)
        self._note_left(seen)
        if self._task is None or self._task.done():
            error, self._task = self._error_of(self._task), None
            if self._journal.step is None:
                if not self._adopt(seen):
                    self._begin(seen)
            else:
                self._follow(seen, self._journal.step, error)
        return self._reported(self._annotated(topology))

    def _annotated(self, topology: Topology) -> Topology:
        due, step = self._journal.needs_cleanup or (), self._journal.step
        cleaning = step.host if step is not None and step.kind is StepKind.CLEANUP else None
        return replace(
            topology,
            nodes=tuple(
                replace(
                    node,
                    needs_cleanup=node.address in due,
                    cleanups=max(node.cleanups, 1 if node.address == cleaning and self._task else 0),
                )
                for node in topology.nodes
            ),
        )

    def _reported(self, topology: Topology) -> Topology:
        step, active = self._journal.step, len(topology.active)
        left = 0
        if step is not None and step.kind is not StepKind.CLEANUP:
            left = 1
        elif self.requested is not None and not self.waiting:
            left = abs(self.requested - active)
        unfinished = ""
        if step is not None and step.why:
            unfinished = f"{step.kind} {step.host} failed ({step.why}); attempt {step.attempts} follows"
        return replace(topology, steps_left=left, unfinished=unfinished)

    def _note_down(self, topology: Topology) -> None:
        now_s = self._clock.now_s()
        down = {node.address for node in topology.active if not node.up}
        self._down_since_s = {host: self._down_since_s.get(host, now_s) for host in down}

    def _note_left(self, topology: Topology) -> None:
        """When the data of a leaving node had moved; ``nodetool`` returns some seconds later."""
        step = self._journal.step
        if step is None or step.kind is not StepKind.REMOVE:
            self._left_s = None
        elif self._left_s is None and any(
            node.address == step.host and node.state is NodeState.INACTIVE for node in topology.nodes
        ):
            self._left_s = self._clock.now_s()

    # -- beginning a step ------------------------------------------------------------------------------

    def _adopt(self, topology: Topology) -> bool:
        """Follow a join or leave that is under way and that the journal does not know."""
        for node in topology.changing:
            kind = StepKind.ADD if node.state is NodeState.JOINING else StepKind.REMOVE
            log.warning("%s is %s, and the journal does not say why; following it", node.address, node.state)
            self._set_step(Step(kind=kind, host=node.address, since_s=self._clock.now_s(), seen=True))
            self._resumed = True
            if self.requested is None:
                self._remember(requested=len(topology.active) + (1 if kind is StepKind.ADD else 0))
            return True
        return False

    def _begin(self, topology: Topology) -> None:
        self.waiting = ""
        active = len(topology.active)
        wanted = active if self.requested is None else self.requested
        if dead := self._dead():
            self._start_step(StepKind.RESTART, dead, lambda: self._operations.start(dead, fresh=False))
        elif wanted > active:
            self._begin_add(topology)
        elif self._cleanup_is_due(topology, wanted < active):
            self._begin_cleanup(topology)
        elif wanted < active:
            self._begin_remove(topology)

    def _dead(self) -> str:
        now_s = self._clock.now_s()
        late = self._times.restart_after_s
        return next((host for host, since_s in self._down_since_s.items() if now_s - since_s >= late), "")

    def _begin_add(self, topology: Topology) -> None:
        node = next_to_join(topology)
        self.waiting = objection(self._rules, topology, +1) if node else "no inactive host is left"
        if node and not self.waiting:
            host = node.address
            self._start_step(StepKind.ADD, host, lambda: self._operations.start(host, fresh=True))

    def _begin_remove(self, topology: Topology) -> None:
        node = next_to_leave(topology)
        self.waiting = objection(self._rules, topology, -1)
        if node and not self.waiting:
            host = node.address
            self._start_step(StepKind.REMOVE, host, lambda: self._operations.decommission(host))

    def _cleanup_is_due(self, topology: Topology, at_once: bool) -> bool:
        due = any(node.needs_cleanup for node in topology.active)
        passed_s = self._clock.now_s() - self._journal.joined_s
        return due and (at_once or passed_s >= self._times.cleanup_after_s)

    def _begin_cleanup(self, topology: Topology) -> None:
        self.waiting = "; ".join(filter(None, (rule.reason(topology) for rule in _MAY_CLEAN)))
        if not self.waiting:
            host = next(node.address for node in topology.active if node.needs_cleanup)
            self._start_step(StepKind.CLEANUP, host, lambda: self._operations.cleanup(host))

    # -- following a step ------------------------------------------------------------------------------

    def _follow(self, topology: Topology, step: Step, error: str) -> None:
        node = next((each for each in topology.nodes if each.address == step.host), None)
        if node is None:
            self._end_step(f"{step.host} is not one of the hosts any more")
            return
        if error:
            self._set_step(
                replace(step, why=error, retry_s=self._clock.now_s() + RETRY.delay_s(step.attempts))
            )
            step = self._journal.step or step
        if step.kind is StepKind.ADD:
            self._follow_add(topology, step, node)
        elif step.kind is StepKind.REMOVE:
            self._follow_remove(topology, step, node)
        elif step.kind is StepKind.CLEANUP:
            self._follow_cleanup(step, node, error)
        elif node.up or node.state is not NodeState.ACTIVE:
            self._end_step()
        elif error or self._late(step):
            self._again(step, lambda: self._operations.start(step.host, fresh=False))

    def _follow_add(self, topology: Topology, step: Step, node: StoreNode) -> None:
        if node.state is NodeState.ACTIVE:
            others = {each.address for each in topology.active if each.address != step.host}
            due = {*(self._journal.needs_cleanup or ()), *others}
            now_s = self._clock.now_s()
            self._measured(step, Metric.JOIN_TIME)
            self._remember(step=None, needs_cleanup=tuple(sorted(due)), joined_s=now_s)
        elif step.leaving:  # stopped after a failed attempt
            if step.attempts > MOST_JOINS:
                self._given_up += 1
                self._remember(step=None, requested=max(len(topology.active), (self.requested or 1) - 1))
                log.error("gave up adding %s: %s", step.host, step.why)
            elif node.state is NodeState.INACTIVE and self._clock.now_s() >= step.retry_s:
                self.waiting = objection(self._rules, topology, +1)
                if not self.waiting:
                    again = replace(step, leaving=False, seen=False, since_s=self._clock.now_s())
                    self._run(again, lambda: self._operations.start(step.host, fresh=True))
        elif node.state is NodeState.JOINING and node.up:
            if not step.seen or step.why:
                self._set_step(replace(step, seen=True, why=""))
        elif step.seen or step.why or self._late(step):
            why = step.why or (
                "it died while it joined" if step.seen else "it did not show up in the cluster"
            )
            failed = replace(
                step,
                leaving=True,
                why=why,
                attempts=step.attempts + 1,
                retry_s=self._clock.now_s() + RETRY.delay_s(step.attempts),
            )
            log.warning("adding %s failed: %s", step.host, why)
            self._run(failed, lambda: self._operations.stop(step.host))

    def _follow_remove(self, topology: Topology, step: Step, node: StoreNode) -> None:
        host = step.host
        if node.state is NodeState.INACTIVE:
            if step.leaving and not step.why:
                self._end_step()
            elif not step.leaving or self._clock.now_s() >= step.retry_s:
                if not step.leaving:
                    self._measured(step, Metric.LEAVE_TIME, self._left_s)
                self._run(replace(step, leaving=True, why=""), lambda: self._operations.stop(host))
        elif not node.up and (node.state is NodeState.DECOMMISSIONING or host in self._down_since_s):
            if self._clock.now_s() >= step.retry_s:
                self._again(step, lambda: self._operations.start(host, fresh=False), "it died while it left")
        elif node.state is NodeState.ACTIVE and node.up and self._clock.now_s() >= step.retry_s:
            if self.requested is not None and self.requested >= len(topology.active):
                self._end_step(
                    "the removal is not wanted any more"
                )  # nothing has moved, as the node is active
                return
            self.waiting = objection(self._rules, topology, -1)
            if not self.waiting:
                self._again(step, lambda: self._operations.decommission(host))

    def _follow_cleanup(self, step: Step, node: StoreNode, error: str) -> None:
        if error or self._resumed:
            if node.cleanups or self._clock.now_s() < step.retry_s:
                return  # it still runs, or waits
            self._resumed = False
            if node.up:
                self._again(step, lambda: self._operations.cleanup(step.host))
            return
        if step.why:
            if self._clock.now_s() >= step.retry_s and node.up:
                self._again(step, lambda: self._operations.cleanup(step.host))
            return
        self._measured(step, Metric.CLEANUP_TIME)
        due = tuple(host for host in self._journal.needs_cleanup or () if host != step.host)
        self._remember(step=None, needs_cleanup=due)

    def _late(self, step: Step) -> bool:
        return self._clock.now_s() - step.since_s >= self._times.start_within_s

    def _again(self, step: Step, operation: Callable[[], None], why: str = "") -> None:
        """Repeat an attempt. A resumed step counts as the first: nobody knows how far the last one came."""
        now_s = self._clock.now_s()
        if why or step.why:
            log.warning("%s %s: %s; trying again", step.kind, step.host, why or step.why)
        retry_s = now_s + RETRY.delay_s(step.attempts)
        again = replace(step, attempts=step.attempts + 1, retry_s=retry_s, why="", leaving=False)
        if step.kind is StepKind.RESTART:
            again = replace(again, since_s=now_s)
        self._run(again, operation)

    # -- bookkeeping -----------------------------------------------------------------------------------

    def _start_step(self, kind: StepKind, host: str, operation: Callable[[], None]) -> None:
        log.info("%s %s", kind, host)
        self._resumed = False
        self._run(Step(kind=kind, host=host, since_s=self._clock.now_s()), operation)

    def _run(self, step: Step, operation: Callable[[], None]) -> None:
        """Remember the step, then begin: a controller killed in between must find it."""
        self._set_step(step)
        self._task = self._executor.submit(operation)

    def _end_step(self, why: str = "") -> None:
        if why:
            log.warning("%s", why)
        self._remember(step=None)

    def _set_step(self, step: Step) -> None:
        self._remember(step=step)

    def _remember(self, **changes: object) -> None:
        self._journal = replace(self._journal, **changes)
        self._journal.write(self._file)

    def _measured(self, step: Step, metric: Metric, ended_s: float | None = None) -> None:
        now_s = self._clock.now_s()
        took_s = (now_s if ended_s is None else ended_s) - step.since_s
        self._readings.append(Reading(now_s, step.host, metric, took_s))

    @staticmethod
    def _error_of(task: Future[None] | None) -> str:
        if task is None:
            return ""
        try:
            task.result()
        except EbbflowError as error:
            return str(error)
        except Exception as error:  # a provisioner of the user's own
            log.exception("an operation failed")
            return f"{type(error).__name__}: {error}"
        return ""
