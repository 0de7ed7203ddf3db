"""A fake Spark application, and an actuator on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ebbflow.core.clock import ManualClock
from ebbflow.targets.spark.act.actuator import SparkActuator
from ebbflow.targets.spark.act.cluster_capacity import ExecutorFit
from ebbflow.targets.spark.act.draining import ShrinkTimes
from ebbflow.targets.spark.driver import ExecutorInfo, QueryStatus
from ebbflow.targets.spark.observe.lead_time import ExecutorRequests


class FakeQuery:
    isActive = True  # noqa: N815


@dataclass
class FakeSpark:
    """Driver, monitor and cluster in one: tests add executors, and decommissioned ones leave."""

    clock: ManualClock
    capacity: int = 100
    busy: bool = False
    leaves_when_decommissioned: bool = True
    ids: list[str] = field(default_factory=lambda: ["0"])
    totals: list[int] = field(default_factory=list)
    decommissioned: list[str] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)
    state: dict[str, int] = field(default_factory=dict)
    cached: dict[str, int] = field(default_factory=dict)
    queries: list[Any] = field(default_factory=lambda: [FakeQuery()])
    last_poll: list[ExecutorInfo] | None = None
    """What the monitor polled last; None if it is always up to date."""

    def executors(self) -> list[ExecutorInfo]:
        return [
            ExecutorInfo(i, True, 1, 1, 0, 1, 0, self.cached.get(i, 0), 0, 1000 * int(i)) for i in self.ids
        ]

    @property
    def live_executors(self) -> list[ExecutorInfo]:
        return self.executors() if self.last_poll is None else self.last_poll

    def last_progress(self) -> list[Any]:
        return []

    def status(self, query: Any) -> QueryStatus:
        return QueryStatus("", True, self.busy)

    def state_partitions_by_executor(self, progress: Any) -> dict[str, int]:
        return self.state

    def request_total(self, count: int) -> bool:
        self.totals.append(count)
        return True

    def decommission(self, executor_id: str) -> bool:
        self.decommissioned.append(executor_id)
        if self.leaves_when_decommissioned:
            self.ids.remove(executor_id)
        return True

    def kill(self, executor_ids: Any) -> None:
        self.killed += executor_ids
        self.ids = [i for i in self.ids if i not in executor_ids]

    def fit(self, executors: int, held: int) -> ExecutorFit:
        fit = max(0, min(executors, self.capacity - held))
        return ExecutorFit(fit, "" if fit == executors else "no free cores")

    def add(self, *ids: str) -> None:
        self.ids += ids


class Scene:
    def __init__(self, *, min_nodes: int = 1, **spark: Any) -> None:
        self.clock = ManualClock(1000.0)
        self.spark = FakeSpark(self.clock, **spark)
        self.requests = ExecutorRequests(self.clock, 12.0)
        fake: Any = self.spark
        self.actuator = SparkActuator(
            fake, self.clock, fake, self.requests, fake, min_nodes=min_nodes,
            shrink_times=ShrinkTimes(pause_within_s=1.0, deadline_s=5.0),
        )  # fmt: skip
        self.actuator.requested = len(self.spark.ids)
        self.poll()

    def poll(self) -> None:
        if self.spark.last_poll is not None:
            self.spark.last_poll = self.spark.executors()
        self.requests.update(self.spark.live_executors)
        if self.actuator.in_control:
            self.actuator.reconcile()

    def drained(self) -> None:
        drain = self.actuator._drain
        assert drain is not None
        drain.join(10)
        assert not drain.is_alive()
