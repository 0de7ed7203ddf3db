"""What is done to a Spark application: executors are added, and leave without disturbing a batch.

Growing is a request; what the cluster has no room for is not requested but reported. Shrinking takes
three steps, each only as rough as it must be: wait for a moment between batches, decommission
(running tasks finish, no new ones start), and at a deadline kill. The victims are those whose leaving
moves the least state; one that holds cached data is none, because nobody else has it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ebbflow.core.clock import Clock
from ebbflow.core.snapshot import ActionKind, ActionUnderWay
from ebbflow.targets.spark.act.draining import Drain, ShrinkTimes, choose_victims, named
from ebbflow.targets.spark.act.room import ClusterRoom
from ebbflow.targets.spark.driver import Driver, ExecutorInfo
from ebbflow.targets.spark.observe.monitor import SparkMonitor
from ebbflow.targets.spark.observe.tracking import ExecutorTracker


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
        self._drain: Drain | None = None
        self._refused: tuple[int, frozenset[str]] | None = None
        """The last size that could not be had, and those who are in its way: all that stay hold cached data."""
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
        """Ask for a number of executors. (now requested, how many cannot come or cannot leave, why).

        The loop asks for a plan that was not granted again at every decision. Who stays for cached data is told once,
        and Spark is not asked, until another size is wanted or a look shows something else.
        """
        self.in_charge = True
        if self._refused is not None and self._refused[0] != wanted:
            self._refused = None
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
        if self._refused == (wanted, self._all_holders()):
            return self.requested, 0, ""  # it was told when it was asked first, and nothing has changed
        if self.leaving:
            return self.requested, 0, "the last scale-in is still under way"
        there = {e.id for e in self.staying()}
        now_there = [e for e in self._driver.executors() if e.id in there]
        holders = [e.id for e in now_there if e.rdd_blocks]
        state: Mapping[str, int] = {}
        if len(holders) < len(now_there):  # else it would be asked for at every decision, for nothing
            state = self._driver.state_partitions_by_executor(self._monitor.last_progress())
        too_many = max(0, len(now_there) - wanted)
        victims = choose_victims(now_there, state, too_many)
        kept = too_many - len(victims)
        why = ""
        if kept:
            why = f"{named(holders)} hold{'s' * (len(holders) == 1)} cached data that Spark would lose"
        self._executors.gave_up(self.requested - staying)
        if self.requested > wanted + too_many:
            self._driver.request_total(wanted + too_many)
        self.requested = wanted + kept
        self._refused = (wanted, frozenset(holders)) if kept else None
        if not victims:
            return self.requested, kept, why
        self._drain = Drain(
            self._driver,
            self._clock,
            self._monitor,
            victims=victims,
            total=lambda: max(self.requested, len(self.staying())),
            times=self._shrink_times,
        )
        self._drain.start()
        moved = sum(state.get(victim, 0) for victim in victims)
        note = f"letting go {named(victims)}, with {moved} state partition(s) to load elsewhere"
        return self.requested, kept, "; ".join(filter(None, [note, why]))

    def _all_holders(self) -> frozenset[str] | None:
        """Those that stay, if the last look showed cached data on every one of them."""
        staying = self.staying()
        return frozenset(e.id for e in staying) if all(e.rdd_blocks for e in staying) else None

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
