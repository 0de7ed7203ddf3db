"""Adds executors to a Spark application, and removes them without disturbing a batch.

To grow is to request; executors that the cluster has no capacity for are reported instead of requested. To shrink is
to drain (``draining``). The executors to remove are those whose removal moves the least state. An executor that holds
cached data is never removed: no other has that data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from ebbflow.core.clock import Clock
from ebbflow.core.parameters import Duration
from ebbflow.core.snapshot import ActionKind, ActionUnderWay
from ebbflow.targets.spark.act.cluster_capacity import ClusterCapacity
from ebbflow.targets.spark.act.draining import Drain, ShrinkTimes, choose_victims, named
from ebbflow.targets.spark.driver import Driver, ExecutorInfo
from ebbflow.targets.spark.observe.lead_time import ExecutorRequests
from ebbflow.targets.spark.observe.monitor import SparkMonitor


class SetNodesResult(NamedTuple):
    """What ``set_nodes`` requested."""

    requested: int
    infeasible: int
    """Executors that cannot be added, or cannot be removed."""
    note: str


@dataclass(frozen=True, kw_only=True)
class GrowTimes:
    """How patient a scale-out is."""

    withdraw_after_s: Annotated[
        float, Duration("How long a request for an executor may stay unmet before it is withdrawn.", above=0)
    ] = 120.0


class SparkActuator:
    """Requests executors from Spark, and drains them."""

    def __init__(
        self,
        driver: Driver,
        clock: Clock,
        monitor: SparkMonitor,
        requests: ExecutorRequests,
        capacity: ClusterCapacity,
        *,
        grow_times: GrowTimes | None = None,
        shrink_times: ShrinkTimes | None = None,
        min_nodes: int = 1,
    ) -> None:
        self._driver = driver
        self._clock = clock
        self._monitor = monitor
        self._requests = requests
        self._capacity = capacity
        self._grow_times = grow_times or GrowTimes()
        self._shrink_times = shrink_times or ShrinkTimes()
        self._min_nodes = min_nodes
        self._drain: Drain | None = None
        self._refused: tuple[int, frozenset[str]] | None = None
        """The last size that could not be reached, and the executors with cached data that prevented it."""
        self.requested = 0
        self.in_control = False
        """Whether ``set_nodes`` was ever called; until then this only follows the size that others set."""

    @property
    def leaving(self) -> frozenset[str]:
        """Executors that are being drained, until a poll no longer shows them."""
        drain = self._drain
        if drain is None or self._clock.monotonic_s() > drain.ends_by_s:
            return frozenset()
        if drain.is_alive():
            return drain.victims
        return drain.victims & {e.id for e in self._monitor.live_executors}  # a poll may predate their end

    def staying(self) -> list[ExecutorInfo]:
        """Live executors that are not being drained."""
        leaving = self.leaving
        return [e for e in self._monitor.live_executors if e.id not in leaving]

    def set_nodes(self, wanted: int) -> SetNodesResult:
        """Request a number of executors.

        The loop repeats a plan that was not granted at every decision. A scale-in prevented by cached data is reported
        once, and Spark is not called again until the wanted size or the polled executors change.
        """
        self.in_control = True
        if self._refused is not None and self._refused[0] != wanted:
            self._refused = None
        drain = self._drain
        if wanted > self.requested and drain is not None and drain.is_alive() and drain.cancel():
            self._drain = None
            self.requested = len(self.staying())
        self._adopt_surplus()
        staying = len(self.staying())
        if wanted >= max(staying, self.requested):
            return self._grow(wanted)
        if wanted >= staying:  # fewer than requested, but not fewer than live: withdraw requests
            self._requests.withdraw_newest(self.requested - wanted)
            self._driver.request_total(wanted)
            self.requested = wanted
            return SetNodesResult(wanted, 0, "")
        return self._shrink(wanted, staying)

    def _grow(self, wanted: int) -> SetNodesResult:
        missing = wanted - self.requested
        fit, limit = self._capacity.fit(missing, self.requested + len(self.leaving))
        granted = self.requested + fit
        if fit > 0:
            self._driver.request_total(granted)
            self._requests.add(fit)
            self.requested = granted
        return SetNodesResult(granted, missing - fit, limit)

    def _shrink(self, wanted: int, staying: int) -> SetNodesResult:
        if self._refused == (wanted, self._only_holders()):
            return SetNodesResult(self.requested, 0, "")  # reported before, and nothing has changed
        if self.leaving:
            return SetNodesResult(self.requested, 0, "the last scale-in is still in progress")
        staying_ids = {e.id for e in self.staying()}
        candidates = [e for e in self._driver.executors() if e.id in staying_ids]
        holders = [e.id for e in candidates if e.rdd_blocks]
        state: Mapping[str, int] = {}
        if len(holders) < len(candidates):  # skip the costly lookup if no executor can be removed
            state = self._driver.state_partitions_by_executor(self._monitor.last_progress())
        surplus = max(0, len(candidates) - wanted)
        victims = choose_victims(candidates, state, surplus)
        not_removable = surplus - len(victims)
        why = ""
        if not_removable:
            why = f"{named(holders)} hold{'s' * (len(holders) == 1)} cached data that Spark would lose"
        self._requests.withdraw_newest(self.requested - staying)
        if self.requested > wanted + surplus:
            self._driver.request_total(wanted + surplus)
        self.requested = wanted + not_removable
        self._refused = (wanted, frozenset(holders)) if not_removable else None
        if not victims:
            return SetNodesResult(self.requested, not_removable, why)
        self._drain = Drain(
            self._driver,
            self._clock,
            self._monitor.queries,
            victims=victims,
            total=lambda: max(self.requested, len(self.staying())),
            times=self._shrink_times,
        )
        self._drain.start()
        moved = sum(state.get(victim, 0) for victim in victims)
        note = f"removing {named(victims)}, {moved} state partition{'s' * (moved != 1)} to reload on other executors"
        return SetNodesResult(self.requested, not_removable, "; ".join(filter(None, [note, why])))

    def _only_holders(self) -> frozenset[str] | None:
        """The staying executors, if the last poll showed cached data on every one of them."""
        staying = self.staying()
        return frozenset(e.id for e in staying) if all(e.rdd_blocks for e in staying) else None

    def under_way(self) -> list[ActionUnderWay]:
        """Growth and shrinking that were requested and are not complete."""
        actions = []
        pending = self._requests.pending_since_s
        if pending:
            actions.append(ActionUnderWay(kind=ActionKind.GROW, since_s=pending[-1], nodes=len(pending)))
        drain, leaving = self._drain, self.leaving
        if drain is not None and leaving:
            note = "decommissioned" if drain.decommissioned else "waiting for a pause between batches"
            actions.append(
                ActionUnderWay(kind=ActionKind.SHRINK, since_s=drain.since_s, nodes=len(leaving), note=note)
            )
        return actions

    def reconcile(self) -> None:
        """Account for changes that others made: Spark replaces lost executors, so they count as requested again."""
        self._adopt_surplus()
        missing = self.requested - len(self.staying()) - len(self._requests.pending_since_s)
        if missing > 0 and not self.leaving:
            self._requests.add(missing)

    def _adopt_surplus(self) -> None:
        """Count executors beyond the requested number as requested, also with Spark.

        They were starting when Ebbflow attached, or registered after their request was withdrawn. Otherwise every later
        request would be too small by that number.
        """
        staying = len(self.staying())
        if staying > self.requested:
            self._driver.request_total(staying)
            self.requested = staying

    def withdraw_overdue(self) -> int:
        """Withdraw requests that were not met in time, but keep the minimum; returns how many."""
        overdue = sum(age_s > self._grow_times.withdraw_after_s for age_s in self._requests.pending_ages_s)
        withdrawn = min(overdue, max(0, self.requested - self._min_nodes))
        if withdrawn:
            self._requests.withdraw_oldest(withdrawn)
            self.requested -= withdrawn
            self._driver.request_total(self.requested)
        return withdrawn

    def close(self) -> None:
        """Cancel a drain, or wait for its end if it has begun."""
        if self._drain is not None and self._drain.is_alive() and not self._drain.cancel():
            self._drain.join(self._shrink_times.deadline_s + 5.0)
