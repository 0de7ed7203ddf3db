"""Removes executors: wait for a pause between batches, decommission, and kill at a deadline.

Each step is only as harsh as it must be. A decommissioned executor finishes its running tasks and gets no new ones.
``ShrinkTimes.deadline_s`` is the deadline after which it is killed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from ebbflow.core.clock import Clock, wait_until
from ebbflow.core.parameters import Duration
from ebbflow.errors import TargetError
from ebbflow.targets.spark.driver import Driver, ExecutorInfo

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ShrinkTimes:
    """How patient a scale-in is."""

    pause_within_s: Annotated[
        float, Duration("How long to wait for a pause between batches before decommissioning.")
    ] = 10.0
    deadline_s: Annotated[
        float, Duration("Drain deadline: how long after decommissioning an executor is killed.")
    ] = 30.0
    poll_every_s: Annotated[float, Duration("Time between two checks for a pause.", at_least=0.001)] = 0.02


def choose_victims(
    executors: Sequence[ExecutorInfo], state_partitions: Mapping[str, int], count: int
) -> list[str]:
    """The executors that cost least to remove: fewest state partitions, then least memory in use, then the youngest,
    whose JVM is the coldest.

    Executors with cached data are left out, even if fewer than ``count`` remain: their blocks would be recomputed at
    best, and after ``localCheckpoint`` they would be lost, and the query with them.

    >>> a = ExecutorInfo("a", True, 1, 1, 0, 9, 0, 0, 0, 100)
    >>> b = ExecutorInfo("b", True, 1, 1, 0, 9, 0, 0, 0, 200)
    >>> choose_victims([a, b], {"b": 3}, 1)
    ['a']
    >>> choose_victims([a, b], {}, 1)
    ['b']
    >>> with_data = ExecutorInfo("c", True, 1, 1, 0, 9, 0, 7, 0, 300)
    >>> choose_victims([a, b, with_data], {}, 3)
    ['b', 'a']
    """
    ranked = sorted(
        (e for e in executors if not e.rdd_blocks),
        key=lambda e: (state_partitions.get(e.id, 0), e.memory_used, -e.add_time),
    )
    return [executor.id for executor in ranked[:count]]


def named(executor_ids: Iterable[str]) -> str:
    """Executors as they are named in notes and logs."""
    return ", ".join(f"executor {executor_id}" for executor_id in executor_ids)


class Drain(threading.Thread):
    """One scale-in, in a thread of its own because a pause between batches is short."""

    def __init__(
        self,
        driver: Driver,
        clock: Clock,
        queries: Sequence[StreamingQuery],
        *,
        victims: list[str],
        total: Callable[[], int],
        times: ShrinkTimes,
    ) -> None:
        """``total``: how many executors Spark is to keep."""
        super().__init__(name="ebbflow-drain", daemon=True)
        self._driver = driver
        self._clock = clock
        self._queries = queries
        self._total = total
        self._times = times
        self.victims = frozenset(victims)
        """Executors that leave."""
        self.since_s = clock.now_s()
        self.decommissioned = False
        self.ends_by_s = float("inf")
        """Monotonic time. Executors that are still live after it have not left after all."""
        self._signalled: set[str] = set()
        self._cancelled = threading.Event()
        self._lock = threading.Lock()

    def cancel(self) -> bool:
        """Cancel the drain; False if the executors are decommissioned already."""
        with self._lock:
            if not self.decommissioned:
                self._cancelled.set()
            return not self.decommissioned

    def run(self) -> None:
        """Wait for a pause between batches, decommission, and kill at the deadline."""
        try:
            self._wait_until(self._is_paused, self._times.pause_within_s, self._times.poll_every_s)
            with self._lock:
                if self._cancelled.is_set():
                    return
                self._spare_holders()
                if not self.victims:
                    return
                self.decommissioned = True
                for victim in sorted(self.victims):
                    self._driver.decommission(victim)
                    self._signalled.add(victim)
                # Each decommissioning lowers Spark's target by one, but two in a row were seen to leave it too
                # high, so that Spark replaced the executors. Therefore the target is set once more.
                self._driver.request_total(self._total())
            if not self._wait_until(lambda: not self._remaining(), self._times.deadline_s, 0.25):
                remaining = sorted(self._remaining())
                log.warning("%s did not leave within %g s, killing", named(remaining), self._times.deadline_s)
                self._driver.kill(remaining)
                self._driver.request_total(self._total())
        except TargetError as error:
            log.warning("scale-in failed: %s", error)
            self.victims = frozenset(self._signalled)
        finally:
            self.ends_by_s = self._clock.monotonic_s() + self._times.deadline_s

    def _spare_holders(self) -> None:
        """Keep the executors that have got cached data meanwhile."""
        holders = self.victims & {e.id for e in self._driver.executors() if e.rdd_blocks}
        if holders:
            log.info("keeping %s: new cached data", named(sorted(holders)))
            self.victims -= holders

    def _is_paused(self) -> bool:
        return not any(
            self._driver.status(query).is_trigger_active for query in self._queries if query.isActive
        )

    def _remaining(self) -> frozenset[str]:
        return self.victims & {e.id for e in self._driver.executors() if e.is_active}

    def _wait_until(self, condition: Callable[[], bool], within_s: float, every_s: float) -> bool:
        return wait_until(condition, self._clock, within_s=within_s, every_s=every_s, stop=self._cancelled)
