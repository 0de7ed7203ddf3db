"""Who leaves when executors are too many, and how: between batches, decommissioned, killed only at a deadline."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ebbflow.core.clock import Clock, wait_until
from ebbflow.errors import TargetError
from ebbflow.targets.spark.driver import Driver, ExecutorInfo
from ebbflow.targets.spark.observe.monitor import SparkMonitor

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ShrinkTimes:
    """How patient shrinking is."""

    between_batches_within_s: float = 10.0
    """How long to wait for a moment in which no batch runs."""
    gone_within_s: float = 30.0
    """How long after decommissioning an executor is killed."""
    look_every_s: float = 0.02


def choose_victims(
    executors: Sequence[ExecutorInfo], state_partitions: Mapping[str, int], count: int
) -> list[str]:
    """The executors whose leaving costs least: fewest state partitions to load elsewhere, then least
    memory in use, then the youngest, whose JVM is the coldest. Fewer than ``count`` if others hold cached data: with
    them went what was cached (computed again at best) or checkpointed locally (lost, and the query with it).

    >>> a = ExecutorInfo("a", True, 1, 1, 0, 9, 9, 0, 0, 0, 100)
    >>> b = ExecutorInfo("b", True, 1, 1, 0, 9, 9, 0, 0, 0, 200)
    >>> choose_victims([a, b], {"b": 3}, 1)
    ['a']
    >>> choose_victims([a, b], {}, 1)
    ['b']
    >>> with_data = ExecutorInfo("c", True, 1, 1, 0, 9, 9, 0, 7, 0, 300)
    >>> choose_victims([a, b, with_data], {}, 3)
    ['b', 'a']
    """
    ranked = sorted(
        (e for e in executors if not e.rdd_blocks),
        key=lambda e: (state_partitions.get(e.id, 0), e.memory_used, -e.add_time),
    )
    return [executor.id for executor in ranked[:count]]


def named(executor_ids: Iterable[str]) -> str:
    """As people read it."""
    return ", ".join(f"executor {executor_id}" for executor_id in executor_ids)


class Drain(threading.Thread):
    """Lets some executors go, in a thread of its own because the moment between batches is short."""

    def __init__(
        self,
        driver: Driver,
        clock: Clock,
        monitor: SparkMonitor,
        *,
        victims: list[str],
        total: Callable[[], int],
        times: ShrinkTimes,
    ) -> None:
        super().__init__(name="ebbflow-drain", daemon=True)
        self._total = total
        self.victims = frozenset(victims)
        """Those that leave; who stays after all is taken out."""
        self.since_s = clock.now_s()
        self.gone_by_s = float("inf")
        """When it was over, and who is still there after it has not left."""
        self.decommissioned = False
        self._driver = driver
        self._clock = clock
        self._queries = list(monitor.queries)
        self._times = times
        self._told: set[str] = set()
        self._cancelled = threading.Event()
        self._lock = threading.Lock()

    def cancel(self) -> bool:
        """Call it off. False if it is too late: the executors have been told."""
        with self._lock:
            if not self.decommissioned:
                self._cancelled.set()
            return not self.decommissioned

    def run(self) -> None:
        """Wait for a moment between batches, decommission, and at the deadline kill."""
        try:
            self._wait_until(
                self._between_batches, self._times.between_batches_within_s, self._times.look_every_s
            )
            with self._lock:
                if self._cancelled.is_set():
                    return
                self._spare_holders()
                if not self.victims:
                    return
                self.decommissioned = True
                for victim in sorted(self.victims):
                    self._driver.decommission(victim)
                    self._told.add(victim)
                # Each decommissioning lowers Spark's target by one, but two in a row have been seen to
                # leave it too high, and the leavers were replaced. So the target is said once more, outright.
                self._driver.request_total(self._total())
            if not self._wait_until(self._gone, self._times.gone_within_s, 0.25):
                left = self._still_there()
                log.warning("executors %s did not leave in time and are killed", ", ".join(sorted(left)))
                self._driver.kill(sorted(left))
                self._driver.request_total(self._total())
        except TargetError as error:
            log.warning("letting executors go was cut short: %s", error)
            self.victims = frozenset(self._told)
        finally:
            self.gone_by_s = self._clock.now_s() + self._times.gone_within_s

    def _spare_holders(self) -> None:
        """Those that hold cached data by now stay."""
        holders = self.victims & {e.id for e in self._driver.executors() if e.rdd_blocks}
        if holders:
            log.info("%s: cached data came there meanwhile, and stays", named(sorted(holders)))
            self.victims -= holders

    def _between_batches(self) -> bool:
        return not any(
            self._driver.status(query).is_trigger_active for query in self._queries if query.isActive
        )

    def _still_there(self) -> frozenset[str]:
        return self.victims & {e.id for e in self._driver.executors() if e.is_active}

    def _gone(self) -> bool:
        return not self._still_there()

    def _wait_until(self, condition: Callable[[], bool], within_s: float, every_s: float) -> bool:
        deadline_s = self._clock.now_s() + within_s
        return wait_until(condition, self._clock, deadline_s, every_s=every_s, stop=self._cancelled)
