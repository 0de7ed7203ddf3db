"""An application of which executors come when told to, and leave when decommissioned; and the actuator on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ebbflow.core.clock import ManualClock
from ebbflow.targets.spark.act.actuator import SparkActuator
from ebbflow.targets.spark.act.draining import ShrinkTimes
from ebbflow.targets.spark.driver import ExecutorInfo, QueryStatus
from ebbflow.targets.spark.observe.tracking import ExecutorTracker


class FakeQuery:
    isActive = True  # noqa: N815


@dataclass
class FakeSpark:
    """Driver, monitor and cluster in one: executors come when told to, and leave when decommissioned."""

    clock: ManualClock
    room: int = 100
    busy: bool = False
    obedient: bool = True
    ids: list[str] = field(default_factory=lambda: ["0"])
    totals: list[int] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)
    state: dict[str, int] = field(default_factory=dict)
    cached: dict[str, int] = field(default_factory=dict)
    queries: list[Any] = field(default_factory=lambda: [FakeQuery()])
    last_look: list[ExecutorInfo] | None = None
    """What the monitor saw last; None: it looks all the time."""

    def executors(self) -> list[ExecutorInfo]:
        return [
            ExecutorInfo(i, True, 1, 1, 0, 1, 1, 0, self.cached.get(i, 0), 0, 1000 * int(i)) for i in self.ids
        ]

    @property
    def present(self) -> list[ExecutorInfo]:
        return self.executors() if self.last_look is None else self.last_look

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
        self.told.append(executor_id)
        if self.obedient:
            self.ids.remove(executor_id)
        return True

    def kill(self, executor_ids: Any) -> None:
        self.killed += executor_ids
        self.ids = [i for i in self.ids if i not in executor_ids]

    def fits(self, executors: int, held: int) -> tuple[int, str]:
        fit = max(0, min(executors, self.room - held))
        return fit, "" if fit == executors else "no free cores"

    def come(self, *ids: str) -> None:
        self.ids += ids


class Scene:
    def __init__(self, *, min_nodes: int = 1, **spark: Any) -> None:
        self.clock = ManualClock(1000.0)
        self.spark = FakeSpark(self.clock, **spark)
        self.tracker = ExecutorTracker(12.0)
        fake: Any = self.spark
        self.actuator = SparkActuator(
            fake, self.clock, fake, self.tracker, fake, min_nodes=min_nodes,
            shrink_times=ShrinkTimes(between_batches_within_s=1.0, gone_within_s=5.0),
        )  # fmt: skip
        self.actuator.requested = len(self.spark.ids)
        self.look()

    def look(self) -> None:
        if self.spark.last_look is not None:
            self.spark.last_look = self.spark.executors()
        self.tracker.seen(self.clock.now_s(), self.spark.present)
        if self.actuator.in_charge:
            self.actuator.take_stock()

    def drained(self) -> None:
        drain = self.actuator._drain
        assert drain is not None
        drain.join(10)
        assert not drain.is_alive()
