"""What is done to a Spark application: executors are added, and leave without disturbing a batch.

Growing is a request; what the cluster has no room for is not requested but reported. Shrinking takes
three steps, each only as rough as it must be: wait for a moment between batches, decommission
(running tasks finish, no new ones start), and at a deadline kill. The victims are those whose leaving
moves the least state; one that holds cached data is none, because nobody else has it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ebbflow.core.clock import Clock, wait_until
from ebbflow.core.snapshot import ActionKind, ActionUnderWay
from ebbflow.errors import TargetError
from ebbflow.targets.spark.driver import Driver, ExecutorInfo
from ebbflow.targets.spark.monitor import SparkMonitor
from ebbflow.targets.spark.room import ClusterRoom
from ebbflow.targets.spark.tracking import ExecutorTracker

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


def _named(executor_ids: Iterable[str]) -> str:
    return ", ".join(f"executor {executor_id}" for executor_id in executor_ids)


class _Drain(threading.Thread):
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
            log.info("%s: cached data came there meanwhile, and stays", _named(sorted(holders)))
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


class SparkActuator:
    """Asks Spark for executors and lets them go."""

    def __init__(
        self,
        driver: Driver,
        clock: Clock,
        monitor: SparkMonitor,
        executors: ExecutorTracker,
        room: ClusterRoom,
        *,
        shrink_times: ShrinkTimes | None = None,
        min_nodes: int = 1,
        give_up_after_s: float = 120.0,
    ) -> None:
        self._driver = driver
        self._clock = clock
        self._monitor = monitor
        self._executors = executors
        self._room = room
        self._shrink_times = shrink_times or ShrinkTimes()
        self._min_nodes = min_nodes
        self._give_up_after_s = give_up_after_s
        self._drain: _Drain | None = None
        self.requested = 0
        self.in_charge = False
        """Whether anything was ever asked of us; until then, others decide and we only look."""

    @property
    def leaving(self) -> frozenset[str]:
        """Executors that have been told to leave, or are about to be, until a look no longer shows them."""
        drain = self._drain
        if drain is None or self._clock.now_s() > drain.gone_by_s:
            return frozenset()
        if drain.is_alive():
            return drain.victims
        return drain.victims & {e.id for e in self._monitor.present}  # that look may be older than their end

    def staying(self) -> list[ExecutorInfo]:
        """Executors that are there and stay."""
        leaving = self.leaving
        return [e for e in self._monitor.present if e.id not in leaving]

    def set_nodes(self, wanted: int) -> tuple[int, int, str]:
        """Ask for a number of executors. (now requested, not to be had, why)."""
        self.in_charge = True
        drain = self._drain
        if wanted > self.requested and drain is not None and drain.is_alive() and drain.cancel():
            self._drain = None
            self.requested = len(self.staying())  # those who were to leave stay
        self._note_surplus()
        staying = len(self.staying())
        if wanted >= max(staying, self.requested):
            return self._grow(wanted)
        if wanted >= staying:  # fewer than asked for, but no fewer than there are: take requests back
            self._executors.gave_up(self.requested - wanted)
            self._driver.request_total(wanted)
            self.requested = wanted
            return wanted, 0, ""
        return self._shrink(wanted, staying)

    def _grow(self, wanted: int) -> tuple[int, int, str]:
        missing = wanted - self.requested
        fit, why = self._room.fits(missing, self.requested + len(self.leaving))
        granted = self.requested + fit
        if fit > 0:
            self._driver.request_total(granted)
            self._executors.asked(self._clock.now_s(), fit)
            self.requested = granted
        return granted, missing - fit, why

    def _shrink(self, wanted: int, staying: int) -> tuple[int, int, str]:
        if self.leaving:
            return self.requested, 0, "the last scale-in is still under way"
        there = {e.id for e in self.staying()}
        now_there = [e for e in self._driver.executors() if e.id in there]
        state = self._driver.state_partitions_by_executor(self._monitor.last_progress())
        too_many = max(0, len(now_there) - wanted)
        victims = choose_victims(now_there, state, too_many)
        kept = too_many - len(victims)
        why = ""
        if kept:
            holders = [e.id for e in now_there if e.rdd_blocks]
            why = f"{_named(holders)} hold{'s' * (len(holders) == 1)} cached data that Spark would lose"
        self._executors.gave_up(self.requested - staying)
        if self.requested > wanted + too_many:
            self._driver.request_total(wanted + too_many)
        self.requested = wanted + kept
        if not victims:
            return self.requested, 0, why
        self._drain = _Drain(
            self._driver,
            self._clock,
            self._monitor,
            victims=victims,
            total=lambda: max(self.requested, len(self.staying())),
            times=self._shrink_times,
        )
        self._drain.start()
        moved = sum(state.get(victim, 0) for victim in victims)
        note = f"letting go {_named(victims)}, with {moved} state partition(s) to load elsewhere"
        return self.requested, 0, "; ".join(filter(None, [note, why]))

    def under_way(self) -> list[ActionUnderWay]:
        """What was asked for and is not there yet."""
        actions = []
        asked = self._executors.asked_since_s
        if asked:
            actions.append(ActionUnderWay(kind=ActionKind.GROW, since_s=asked[-1], nodes=len(asked)))
        drain, leaving = self._drain, self.leaving
        if drain is not None and leaving:
            note = "decommissioned" if drain.decommissioned else "waiting for a moment between batches"
            actions.append(
                ActionUnderWay(kind=ActionKind.SHRINK, since_s=drain.since_s, nodes=len(leaving), note=note)
            )
        return actions

    def take_stock(self) -> None:
        """Count what others did. Executors that went without being told to are replaced by Spark, so they count as
        asked for; and so do those that came without being waited for."""
        self._note_surplus()
        missing = self.requested - len(self.staying()) - len(self._executors.asked_since_s)
        if missing > 0 and not self.leaving:
            self._executors.asked(self._clock.now_s(), missing)

    def _note_surplus(self) -> None:
        """More may be there than were asked for: they were starting when we came, or came when they had been taken
        back. They count as asked for, also with Spark, or every later request would be so many too few."""
        staying = len(self.staying())
        if staying > self.requested:
            self._driver.request_total(staying)
            self.requested = staying

    def give_up_on_overdue(self) -> int:
        """Take back requests that were not met for long, down to the fewest nodes allowed. How many that were."""
        asked = self._executors.asked_since_s
        now_s = self._clock.now_s()
        overdue = sum(now_s - t > self._give_up_after_s for t in asked)
        given_up = min(overdue, max(0, self.requested - self._min_nodes))
        if given_up:
            self._executors.never_came(given_up)
            self.requested -= given_up
            self._driver.request_total(self.requested)
        return given_up

    def close(self) -> None:
        """Let a drain that has begun end."""
        if self._drain is not None and self._drain.is_alive() and not self._drain.cancel():
            self._drain.join(self._shrink_times.gone_within_s + 5.0)
