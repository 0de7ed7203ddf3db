"""A Spark application behind the target port."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ebbflow.core.clock import Clock
from ebbflow.core.decision import Outcome
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.metrics import Metric
from ebbflow.core.ports import USUAL_LEAD_TIME_S, Observation
from ebbflow.core.readings import Reading
from ebbflow.errors import TargetError, TargetGoneError
from ebbflow.targets.spark.act.actuator import SparkActuator
from ebbflow.targets.spark.act.draining import ShrinkTimes
from ebbflow.targets.spark.act.restart import ManagedQuery
from ebbflow.targets.spark.act.room import ClusterRoom
from ebbflow.targets.spark.driver import Driver
from ebbflow.targets.spark.launch.settings import own_allocation_is_awake
from ebbflow.targets.spark.observe.monitor import SparkMonitor
from ebbflow.targets.spark.observe.tracking import ExecutorTracker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("ebbflow")


class SparkTarget:
    """One Spark application: its queries are watched, its executors scaled.

    Queries given as ``managed`` can also be restarted with another parallelism of their operators. Requests that
    are never met are taken back, but not below ``min_nodes``.
    """

    def __init__(
        self,
        spark: SparkSession,
        clock: Clock,
        *,
        managed: tuple[ManagedQuery, ...] = (),
        min_nodes: int = 1,
        master_web_url: str | None = None,
        shrink_times: ShrinkTimes | None = None,
    ) -> None:
        self._driver = Driver(spark)
        if self._driver.master.startswith("local"):
            raise TargetError(
                f"master {self._driver.master} runs everything in one process and has no executors to scale; "
                "use a standalone master, YARN or Kubernetes"
            )
        if own_allocation_is_awake(self._driver.setting):
            log.warning(
                "Spark's own dynamic allocation is on and will work against Ebbflow; start the job with "
                "spark.dynamicAllocation.enabled=false, or with `ebbflow submit`, which sets what is needed"
            )
        self._clock = clock
        self._managed = managed
        self._restarts: list[Reading] = []
        """What restarts took, until the next look tells it."""
        self._executors = ExecutorTracker(USUAL_LEAD_TIME_S)
        operators = {name: query.name for query in managed for name in query.parallelism}
        self._monitor = SparkMonitor(self._driver, clock, self._executors, operators)
        room = ClusterRoom(self._driver, self._monitor, master_web_url)
        self._actuator = SparkActuator(
            self._driver,
            clock,
            self._monitor,
            self._executors,
            room,
            shrink_times=shrink_times,
            min_nodes=min_nodes,
        )

    def observe(self) -> Observation:
        """Look once."""
        if self._driver.stopped:
            raise TargetGoneError("the Spark application has ended")
        now_s = self._clock.now_s()  # before the look: what took long to be told is old when it is
        readings, batches, first_batches = self._monitor.look()
        nodes = len(self._actuator.staying())
        gave_up = 0
        if self._actuator.in_charge:
            self._actuator.take_stock()
            gave_up = self._actuator.give_up_on_overdue()
        else:
            self._actuator.requested = nodes
        requested = self._actuator.requested
        told, self._restarts = self._restarts, []
        readings += told
        readings.append(Reading(now_s, MAIN, Metric.NODES, float(nodes)))
        readings.append(Reading(now_s, MAIN, Metric.NODES_REQUESTED, float(requested)))
        return Observation(
            time_s=now_s,
            pipeline=self._monitor.pipeline,
            layout=self._layout(nodes),
            requested=self._layout(requested),
            slots_per_node=self._monitor.slots_per_node,
            lead_time_s=self._executors.lead_time_s,
            readings=readings,
            batches=batches,
            first_batches=first_batches,
            under_way=self._actuator.under_way(),
            queries=self._monitor.running(),
            read_limited=self._monitor.read_limited(),
            active=bool(self._monitor.queries) and (nodes > 0 or self._actuator.in_charge),
            held_nodes=len(self._monitor.present) + len(self._executors.asked_since_s),
            given_up_nodes=gave_up,
        )

    def apply(self, planned: Layout) -> Outcome:
        """Ask for the executors, and restart managed queries whose operators change."""
        requested, infeasible, note = self._actuator.set_nodes(planned.main_nodes)
        notes = []
        for query in self._managed:
            if query.differs(planned.parallelism):
                try:
                    query.restart(planned.parallelism)
                    self._note_restart(query)
                    notes.append(f"restarted {query.name} from its checkpoint")
                except TargetError as error:
                    notes.append(str(error))
        return Outcome(
            requested=self._layout(requested),
            infeasible_nodes=infeasible,
            note="; ".join(filter(None, [*notes, note])),
        )

    def _note_restart(self, query: ManagedQuery) -> None:
        took, now_s = query.last_restart, self._clock.now_s()
        if took is not None:
            self._restarts += [
                Reading(now_s, query.name, Metric.RESTART_STOP, took.stop_s),
                Reading(now_s, query.name, Metric.RESTART_STATE, took.state_s),
                Reading(now_s, query.name, Metric.RESTART_START, took.start_s),
            ]

    def close(self) -> None:
        """Let a scale-in that has begun end; the application goes on."""
        self._actuator.close()

    def _layout(self, nodes: int) -> Layout:
        parallelism = {name: n for query in self._managed for name, n in query.parallelism.items()}
        return Layout(nodes={MAIN: nodes}, parallelism=parallelism)
