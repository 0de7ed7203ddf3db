"""A Spark application behind the target port."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ebbflow.core.clock import Clock
from ebbflow.core.decision import Outcome
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.ports import DEFAULT_LEAD_TIME_S, Observation
from ebbflow.core.readings import Reading
from ebbflow.errors import TargetError, TargetGoneError
from ebbflow.targets.spark.act.actuator import GrowTimes, SparkActuator
from ebbflow.targets.spark.act.cluster_capacity import ClusterCapacity
from ebbflow.targets.spark.act.draining import ShrinkTimes
from ebbflow.targets.spark.act.restart import ManagedQuery
from ebbflow.targets.spark.driver import Driver
from ebbflow.targets.spark.launch.settings import is_dynamic_allocation_active
from ebbflow.targets.spark.observe.lead_time import ExecutorRequests
from ebbflow.targets.spark.observe.monitor import SparkMonitor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


class SparkTarget:
    """One Spark application: its queries are monitored, its executors scaled.

    The ``managed`` queries can also be restarted with another parallelism of their operators. Executor requests that
    are not met in time are withdrawn, but not below ``min_nodes``.
    """

    def __init__(
        self,
        spark: SparkSession,
        clock: Clock,
        *,
        managed: tuple[ManagedQuery, ...] = (),
        min_nodes: int = 1,
        master_web_url: str | None = None,
        grow_times: GrowTimes | None = None,
        shrink_times: ShrinkTimes | None = None,
    ) -> None:
        self._driver = Driver(spark)
        if self._driver.master.startswith("local"):
            raise TargetError(
                f"master {self._driver.master} runs everything in one process and has no executors to scale; "
                "use a standalone master, YARN or Kubernetes"
            )
        if is_dynamic_allocation_active(self._driver.setting):
            log.warning(
                "Spark's dynamic allocation is on and will work against Ebbflow; set "
                "spark.dynamicAllocation.enabled=false where the job turns it on"
            )
        self._clock = clock
        self._managed = managed
        self._restart_readings: list[Reading] = []
        """Durations of restarts since the last observation."""
        self._requests = ExecutorRequests(clock, DEFAULT_LEAD_TIME_S)
        operators = {name: query.name for query in managed for name in query.parallelism}
        self._monitor = SparkMonitor(self._driver, clock, self._requests, operators)
        self._actuator = SparkActuator(
            self._driver,
            clock,
            self._monitor,
            self._requests,
            ClusterCapacity(self._driver, self._monitor, master_web_url),
            grow_times=grow_times,
            shrink_times=shrink_times,
            min_nodes=min_nodes,
        )

    def observe(self) -> Observation:
        """Poll the application once."""
        if self._driver.stopped:
            raise TargetGoneError("the Spark application has ended")
        now_s = self._clock.now_s()  # before the poll: if that takes long, the data is that old
        readings, batches, first_batches = self._monitor.poll()
        nodes = len(self._actuator.staying())
        withdrawn = 0
        if self._actuator.in_control:
            self._actuator.reconcile()
            withdrawn = self._actuator.withdraw_overdue()
        else:
            self._actuator.requested = nodes
        requested = self._actuator.requested
        readings += self._restart_readings
        self._restart_readings = []
        readings.append(Reading(now_s, MAIN, Metric.NODES, float(nodes)))
        readings.append(Reading(now_s, MAIN, Metric.NODES_REQUESTED, float(requested)))
        return Observation(
            time_s=now_s,
            pipeline=self._monitor.pipeline,
            layout=self._layout(nodes),
            requested=self._layout(requested),
            slots_per_node=self._monitor.slots_per_node,
            lead_time_s=self._requests.lead_time_s,
            readings=readings,
            batches=batches,
            first_batches=first_batches,
            under_way=self._actuator.under_way(),
            queries=self._monitor.current_batches(),
            read_limited=self._monitor.read_limited(),
            active=bool(self._monitor.queries) and (nodes > 0 or self._actuator.in_control),
            held_nodes=len(self._monitor.live_executors) + len(self._requests.pending_since_s),
            given_up_nodes=withdrawn,
        )

    def apply(self, planned: Layout) -> Outcome:
        """Request the executors, and restart managed queries whose parallelism changes."""
        result = self._actuator.set_nodes(planned.main_nodes)
        notes = []
        for query in self._managed:
            if query.differs(planned.parallelism):
                try:
                    query.restart(planned.parallelism)
                    self._add_restart_readings(query)
                    notes.append(f"restarted {query.name} from its checkpoint")
                except TargetError as error:
                    notes.append(str(error))
        return Outcome(
            requested=self._layout(result.requested),
            infeasible_nodes=result.infeasible,
            note="; ".join(filter(None, [*notes, result.note])),
        )

    def _add_restart_readings(self, query: ManagedQuery) -> None:
        took, now_s = query.last_restart, self._clock.now_s()
        if took is not None:
            self._restart_readings += [
                Reading(now_s, query.name, Metric.RESTART_STOP, took.stop_s),
                Reading(now_s, query.name, Metric.RESTART_STATE, took.state_s),
                Reading(now_s, query.name, Metric.RESTART_START, took.start_s),
            ]

    def close(self) -> None:
        """Let a scale-in that has begun finish; the application runs on."""
        self._actuator.close()

    def _layout(self, nodes: int) -> Layout:
        parallelism = {name: n for query in self._managed for name, n in query.parallelism.items()}
        return Layout(nodes={MAIN: nodes}, parallelism=parallelism)
