"""A Cassandra cluster behind the target port."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from ebbflow.core.clock import Clock
from ebbflow.core.decision import Outcome
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.plural import counted
from ebbflow.core.ports import Observation
from ebbflow.core.readings import Reading
from ebbflow.core.snapshot import ActionKind, ActionUnderWay
from ebbflow.core.topology import NodeState, Topology, safety_rules
from ebbflow.errors import InputError
from ebbflow.targets.cassandra.actuator import Actuator, Operations, ResizeTimes
from ebbflow.targets.cassandra.host_command import HostCommand
from ebbflow.targets.cassandra.journal import Step, StepKind
from ebbflow.targets.cassandra.provisioner import Provisioner

DEFAULT_JOIN_S = 120.0
"""Lead time assumed until a join was measured."""


class ClusterMonitor(Protocol):
    """What the target needs of ``monitor.Monitor``."""

    def poll(self) -> tuple[Topology, list[Reading]]:
        """The nodes now, and what was measured."""
        ...


class NodetoolOperations:
    """Operations by a provisioner and ``nodetool``."""

    def __init__(self, provisioner: Provisioner, nodetool: HostCommand) -> None:
        self._provisioner, self._nodetool = provisioner, nodetool

    def start(self, host: str, *, fresh: bool) -> None:
        """Start the node of a host."""
        self._provisioner.start(host, fresh=fresh)

    def stop(self, host: str) -> None:
        """Stop the node of a host."""
        self._provisioner.stop(host)

    def decommission(self, host: str) -> None:
        """Move its data away; as long as that takes."""
        self._nodetool.run(host, "decommission", within_s=None)

    def cleanup(self, host: str) -> None:
        """Drop the data that is no longer its own; as long as that takes."""
        self._nodetool.run(host, "cleanup", within_s=None)


class CassandraTarget:
    """One Cassandra cluster: its nodes are monitored, added and removed.

    ``hosts``: how many hosts there are in all, the most nodes that the cluster can have. ``journal_file``: what is
    remembered if the controller dies in the middle of a change. ``free_share``: how much of the free disk space of a
    node a scale-in may fill.
    """

    def __init__(
        self,
        monitor: ClusterMonitor,
        operations: Operations,
        clock: Clock,
        *,
        name: str,
        hosts: int,
        journal_file: Path,
        times: ResizeTimes | None = None,
        free_share: float = 0.5,
    ) -> None:
        self._monitor = monitor
        self._clock = clock
        self._hosts = hosts
        self._pipeline = Pipeline.chain(name, "serve")
        # One thread: two operations can never run at the same time.
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ebbflow-cassandra")
        self._actuator = Actuator(
            operations,
            safety_rules(free_share=free_share),
            journal_file,
            name,
            clock,
            self._executor,
            times=times,
        )
        self._lead_time_s = DEFAULT_JOIN_S
        self._active = 0

    def observe(self) -> Observation:
        """Poll the cluster, and let the actuator take its next action."""
        now_s = self._clock.now_s()
        topology, readings = self._monitor.poll()
        topology = self._actuator.advance(topology)
        active = len(topology.active)
        self._active = active
        nodes = sum(node.up for node in topology.active)
        requested = active if self._actuator.requested is None else self._actuator.requested
        for reading in self._actuator.take_readings():
            if reading.metric is Metric.JOIN_TIME:
                self._lead_time_s = reading.value
            readings.append(reading)
        readings.append(Reading(now_s, MAIN, Metric.NODES, float(nodes)))
        readings.append(Reading(now_s, MAIN, Metric.NODES_REQUESTED, float(requested)))
        step = self._actuator.step
        held = sum(node.state is not NodeState.INACTIVE for node in topology.nodes)
        starting = step is not None and step.kind is StepKind.ADD and not step.seen
        return Observation(
            time_s=now_s,
            pipeline=self._pipeline,
            layout=Layout.of(nodes),
            requested=Layout.of(requested),
            slots_per_node=1,
            lead_time_s=self._lead_time_s,
            readings=readings,
            under_way=self._under_way(requested, active, step),
            held_nodes=held + int(starting),
            given_up_nodes=self._actuator.take_given_up(),
            topology=topology,
        )

    def _under_way(self, requested: int, active: int, step: Step | None) -> Sequence[ActionUnderWay]:
        since_s = self._clock.now_s() if step is None else step.since_s
        note = self._actuator.waiting or ("" if step is None else f"{step.kind} {step.host}")
        if requested > active:
            return [
                ActionUnderWay(kind=ActionKind.GROW, since_s=since_s, nodes=requested - active, note=note)
            ]
        if requested < active:
            return [
                ActionUnderWay(kind=ActionKind.SHRINK, since_s=since_s, nodes=active - requested, note=note)
            ]
        if step is not None and step.kind is StepKind.REMOVE:  # its data has moved; its host is being stopped
            return [ActionUnderWay(kind=ActionKind.SHRINK, since_s=since_s, nodes=1, note=note)]
        return []

    @property
    def is_idle(self) -> bool:
        """Whether no step is under way."""
        return self._actuator.step is None

    def apply(self, planned: Layout) -> Outcome:
        """Request a number of nodes; the next observations show the steps."""
        nodes = min(planned.main_nodes, self._hosts)
        self._actuator.request(nodes)
        infeasible = planned.main_nodes - nodes
        note = f"the cluster has {counted(self._hosts, 'host')}" if infeasible else self._actuator.waiting
        return Outcome(requested=planned.with_nodes(nodes), infeasible_nodes=infeasible, note=note)

    def close(self) -> None:
        """Leave the cluster as it is. A step under way goes on in the cluster; the next controller follows it."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def check_floor(minimum: int, replication_factor: int, hosts: int) -> None:
    """Raise ``InputError`` if the bounds do not fit the cluster.

    >>> check_floor(2, 3, 6)
    Traceback (most recent call last):
    ebbflow.errors.InputError: at least 2 nodes is below the replication factor of 3; write 3:6
    """
    if replication_factor > hosts:
        raise InputError(
            f"a replication factor of {replication_factor} needs {replication_factor} nodes, but there are only "
            f"{counted(hosts, 'host')}; lower the factor, or add hosts"
        )
    if minimum < replication_factor:
        raise InputError(
            f"at least {counted(minimum, 'node')} is below the replication factor of {replication_factor}; "
            f"write {replication_factor}:{hosts}"
        )
