"""The control loop: observe → store → decide → restrain → record → apply, once per cycle.

Three layouts are kept apart. *Planned* is what the last decision wants, after the guards. *Requested* is what the
target was asked for. *Observed* is what the monitor sees.

The strategy decides when there is news: a batch finished, a node joined or left, or the loop scaled out so recently
that guards may have held back part of the increase. Without news it decides every ``decide_at_least_every_s``,
because a batch that never ends is also a reason to act.

If an observation fails or is stale, the loop holds the current size and does not call the strategy: a strategy would
mistake missing data for a lack of load and learn the wrong thing. The ledger says why.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import msgspec

from ebbflow.control.deciding import Decider
from ebbflow.control.ledger import ACT, Ledger, LedgerStore
from ebbflow.control.loop_clock import LoopClock
from ebbflow.core.batches import Batch
from ebbflow.core.clock import Clock
from ebbflow.core.decision import Constraint, Decision, LedgerEntry, Outcome
from ebbflow.core.duration import format_duration
from ebbflow.core.failures import FailureLimits, LogLimit
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.plural import counted, listed
from ebbflow.core.ports import Guard, Observation, Strategy, Target
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import ActionKind, Snapshot
from ebbflow.errors import TargetError, TargetGoneError
from ebbflow.guards.missing_data import MISSING_DATA, too_old

log = logging.getLogger(__name__)

WINDOW_S = 600.0
"""Span of the windows of readings. A series without readings for that long, such as a removed node's, is dropped."""
DROP_EVERY_S = 60.0
"""Interval between two checks for series to drop."""


class LoopStore(LedgerStore, Protocol):
    """Stores what the loop observes and decides: ``BufferedStore``, ``Store`` or ``MemoryStore`` of ``monitoring``."""

    @property
    def alarm(self) -> str:
        """What is wrong with it, for people; empty if nothing is."""
        ...

    def add(
        self,
        readings: Iterable[Reading],
        batches: Iterable[Batch] = (),
        first_batches: Iterable[Batch] = (),
    ) -> None:
        """Store readings and finished batches; ``first_batches`` are the first of each query run."""
        ...


class CycleReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one cycle observed and decided, for live views and tests."""

    observation: Observation | None
    """The newest observation, in loop time; from an earlier cycle if this one's failed."""
    entry: LedgerEntry | None
    planned: Layout | None
    alarm: str = ""
    """What needs attention, such as a store that cannot be written; empty if nothing does."""
    deciding: bool = False
    """Whether the strategy is still deciding, after the loop stopped waiting for it."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """A ledger entry that does not change the size, such as "policy replaced"."""

    text: str
    inputs: Mapping[str, float | str] = field(default_factory=dict)


class ControlLoop:
    """Scales one pipeline on one target with one strategy."""

    def __init__(
        self,
        *,
        target: Target,
        strategy: Strategy,
        guards: Sequence[Guard],
        store: LoopStore,
        clock: Clock,
        limits: Limits,
        slo: Slo,
        cluster_limits: Mapping[str, Limits] | None = None,
        cycle_s: float = 1.0,
        decide_at_least_every_s: float = 5.0,
        dry_run: bool = False,
        failures: FailureLimits | None = None,
        fallback: Strategy | None = None,
        remember_decisions: int = 1_000,
        on_cycle: Callable[[CycleReport], None] | None = None,
        before_cycle: Callable[[], Note | None] | None = None,
    ) -> None:
        """Set up a loop; ``run`` or ``cycle`` starts it.

        ``cluster_limits``: limits of clusters with limits of their own.
        ``dry_run``: decide and record, but apply nothing. ``failures``: when the strategy has failed and the
        ``fallback`` decides; None to raise its errors. ``remember_decisions``: how many ledger entries stay in
        memory; the store keeps all of them. ``before_cycle`` runs before each cycle, for changes that must not
        happen during one; a note it returns goes to the ledger.
        """
        self._dry_run = dry_run
        self._target = target
        self._decider = Decider(strategy, guards, clock, failures=failures, fallback=fallback)
        self._store = store
        self._wall_clock = clock
        self._clock = LoopClock(clock)
        self._limits = limits
        self._cluster_limits = dict(cluster_limits or {})
        self._slo = slo
        self._cycle_s = cycle_s
        self._decide_every_s = decide_at_least_every_s
        self._on_cycle = on_cycle
        self._before_cycle = before_cycle
        self._notes: list[Note] = []
        self.ledger = Ledger(store, keep=remember_decisions)
        self.windows = Windows(WINDOW_S)
        self._planned: Layout | None = None
        self._last: Observation | None = None
        """The newest observation, in loop time."""
        self._undecided: list[Batch] = []
        """Batches that finished since the last decision."""
        self._decided_s = float("-inf")
        self._dropped_s = float("-inf")
        self._batch_every_s = 0.0
        """Time between the ends of two batches, from the newest ones."""
        self._last_out_s: float | None = None
        self._last_in_s: float | None = None
        self._applied_s: float | None = None
        self._failed_cycles = 0
        self._cycle_log, self._observe_log = LogLimit(), LogLimit()
        self._failed_observations = 0
        """Failed observations in a row."""
        self._observe_error = ""
        """Why the last observation failed; empty if it did not."""
        self._had_data = True

    # -- running -------------------------------------------------------------------------------

    def run(self, stop: threading.Event) -> None:
        """Cycle until ``stop`` is set or the target has ended. Errors are logged and never stop the loop or the job."""
        while not stop.is_set():
            started_s = self._wall_clock.monotonic_s()
            try:
                report = self.cycle()
                self._failed_cycles = 0
                if self._on_cycle is not None:
                    self._on_cycle(report)
            except TargetGoneError as error:
                log.info("control loop stopped: %s", error)
                return
            except Exception:
                self._failed_cycles += 1
                if self._cycle_log.allows(self._wall_clock.monotonic_s()):
                    log.exception(
                        "cycle failed (%d in a row)%s; the job is not affected",
                        self._failed_cycles,
                        self._cycle_log.note(),
                    )
            self._wall_clock.wait(self._cycle_s - (self._wall_clock.monotonic_s() - started_s), stop)

    def cycle(self) -> CycleReport:
        """Observe once; decide and act if there is a reason to."""
        if self._before_cycle is not None and (note := self._before_cycle()) is not None:
            self._notes.append(note)
        observed = self._observe()
        now_s = self._clock.tick()  # after observing, which may take a while
        if self._clock.stepped_s:
            self._note_step(self._clock.stepped_s)
        if observed is not None and self._last is None:
            self._note_clusters(observed.layout)
        news = observed is not None and self._take_in(now_s, observed)
        self._write_notes(now_s)
        last = self._last
        if last is None or not last.active:
            return self._report(None)
        self.ledger.settle(
            now_s,
            last.pipeline.name,
            self.windows,
            within_s=last.lead_time_s + max(self._batch_every_s, self._cycle_s),
        )
        missing = self._missing_data(now_s, last)
        has_data = not missing
        changed = has_data != self._had_data
        self._had_data = has_data
        due = changed or now_s - self._decided_s >= self._decide_every_s
        entry = None
        if missing:
            entry = self._hold(now_s, last, missing) if due else None
        elif news or due or self._grew_recently(now_s):
            entry = self._decide(now_s, last)
        return self._report(entry)

    def _report(self, entry: LedgerEntry | None) -> CycleReport:
        alarm = f"store: {self._store.alarm}" if self._store.alarm else ""
        return CycleReport(
            observation=self._last,
            entry=entry,
            planned=self._planned,
            alarm=alarm,
            deciding=self._decider.is_late,
        )

    def _note_step(self, stepped_s: float) -> None:
        how = "was set back" if stepped_s < 0 else "leapt forward"
        offset_s = round(self._clock.offset_s)
        text = (
            f"the clock {how} by {format_duration(abs(round(stepped_s)))}; waiting times are not affected, and times "
            f"are recorded {format_duration(abs(offset_s))} {'ahead of' if offset_s > 0 else 'behind'} the clock from "
            "here on"
        )
        log.warning("%s", text)
        self._notes.append(Note(text=text))

    def _note_clusters(self, layout: Layout) -> None:
        """Say which clusters a strategy for one cluster leaves alone."""
        others = [name for name in layout.nodes if name != MAIN]
        if others and not self._decider.handles_clusters:
            text = (
                f"strategy {self._decider.name} sizes only the cluster {MAIN}; "
                f"{listed(others)} and placements stay as they are"
            )
            log.warning("%s", text)
            self._notes.append(Note(text=text))

    def _write_notes(self, now_s: float) -> None:
        """Write notes to the ledger as holds, once there is a layout to hold."""
        if self._planned is None:
            return
        for note in self._notes:
            decision = Decision(wanted=self._planned, reason=note.text, inputs=note.inputs)
            self.ledger.open(now_s, self._decider.name, self._planned, decision)
        self._notes.clear()

    def _grew_recently(self, now_s: float) -> bool:
        """Whether guards may have held back part of a recent scale-out; the rest should not wait for a batch."""
        return self._last_out_s is not None and now_s - self._last_out_s < self._decide_every_s

    # -- observing -----------------------------------------------------------------------------

    def _observe(self) -> Observation | None:
        """Observe the target; None if that fails."""
        try:
            observed = self._target.observe()
        except TargetGoneError:
            raise
        except TargetError as error:
            self._failed_observations += 1
            self._observe_error = str(error) or type(error).__name__
            if self._observe_log.allows(self._wall_clock.monotonic_s()):
                log.warning(
                    "cannot observe the target (%d in a row)%s: %s",
                    self._failed_observations,
                    self._observe_log.note(),
                    error,
                )
            self._store.add(())  # so that it writes what it has buffered
            return None
        self._failed_observations, self._observe_error = 0, ""
        return observed

    def _take_in(self, now_s: float, observed: Observation) -> bool:
        """Store an observation. True if it is a reason to decide."""
        observed = self._clock.date(observed)
        before, self._last = self._last, observed
        self._undecided += observed.batches
        if observed.batches:
            self._batch_every_s = max(max(b.trigger_interval_s, b.duration_s) for b in observed.batches)
        self.windows.add(observed.readings)
        self._write(observed)
        if self._dry_run:
            self._planned = observed.layout  # something else controls the size
        elif self._applied_s is None:
            self._planned = observed.requested  # until our first request, adopt what others requested
        if observed.given_up_nodes and self._planned is not None:
            why = "the cluster did not deliver them in time"
            nodes = counted(observed.given_up_nodes, "requested node")
            self._adopt(
                now_s, observed.requested, f"gave up on {nodes} that never arrived", "infeasible", why
            )
        if observed.changed_placements and self._planned is not None:
            wanted = replace(self._planned, placement=observed.requested.placement)
            reason = "; ".join(f"{name}: {why}" for name, why in observed.changed_placements.items())
            self._adopt(now_s, wanted, reason, "placement", "the plan follows")
        return bool(observed.batches) or before is None or before.layout != observed.layout

    def _write(self, observed: Observation) -> None:
        held = observed.layout.main_nodes if observed.held_nodes is None else observed.held_nodes
        readings = [*observed.readings, Reading(observed.time_s, MAIN, Metric.NODES_HELD, float(held))]
        self._store.add(readings, observed.batches, observed.first_batches)

    def _adopt(self, now_s: float, wanted: Layout, reason: str, name: str, why: str) -> None:
        """Continue with what the target has, such as fewer nodes than planned, and record why."""
        assert self._planned is not None
        decision = Decision(wanted=wanted, reason=reason, bound_by=(Constraint(name=name, why=why),))
        self.ledger.open(now_s, self._decider.name, self._planned, decision)
        self._planned = wanted

    # -- deciding ------------------------------------------------------------------------------

    def _missing_data(self, now_s: float, last: Observation) -> str:
        """Why there is no data to decide on; empty if there is."""
        age_s = now_s - last.time_s
        if self._observe_error:
            return f"cannot observe the target ({self._observe_error}); last observed {format_duration(age_s)} ago"
        return too_old(age_s)

    def _hold(self, now_s: float, last: Observation, why: str) -> LedgerEntry:
        """Record that the size is held because data is missing."""
        assert self._planned is not None
        self._decided_s = now_s
        decision = Decision(
            wanted=self._planned,
            reason=f"{MISSING_DATA}: {why}",
            inputs={"data_age_s": round(now_s - last.time_s, 3)},
            bound_by=(Constraint(name=MISSING_DATA, why=why),),
        )
        return self.ledger.open(now_s, self._decider.name, self._planned, decision)

    def _decide(self, now_s: float, observed: Observation) -> LedgerEntry:
        """Let the strategy decide and the guards restrain; record the decision and apply it if it changes anything."""
        snapshot = self._snapshot(now_s, observed)
        if now_s - self._dropped_s >= DROP_EVERY_S:
            self.windows.forget_before(now_s - WINDOW_S)
            self._dropped_s = now_s
        self._undecided.clear()
        self._decided_s = now_s
        name, decision = self._decider.name, self._decider.decide(snapshot)
        change = decision.wanted.difference(snapshot.planned)
        if self._dry_run and change:
            decision = decision.bound(snapshot.planned, "dry run", f"recommended only: {change}")
        entry = self.ledger.open(now_s, name, snapshot.planned, decision)
        if entry.verdict == ACT:
            self._note_direction(now_s, decision.wanted, entry.before)
            self._planned = decision.wanted
            return self._apply(now_s, entry, decision.wanted)
        if not self._dry_run and self._off_plan(snapshot, observed.time_s):
            return self._apply(now_s, entry, decision.wanted)
        return entry

    def _snapshot(self, now_s: float, observed: Observation) -> Snapshot:
        assert self._planned is not None
        return Snapshot(
            now_s=now_s,
            clock_offset_s=self._clock.offset_s,
            pipeline=observed.pipeline,
            planned=self._planned,
            requested=observed.requested,
            observed=observed.layout,
            windows=self.windows,
            batches=tuple(self._undecided),
            under_way=tuple(observed.under_way),
            limits=self._limits,
            cluster_limits=self._cluster_limits,
            slo=self._slo,
            slots_per_node=observed.slots_per_node,
            lead_time_s=observed.lead_time_s,
            data_age_s=now_s - observed.time_s,
            queries=observed.queries,
            read_limited=observed.read_limited,
            last_out_s=self._last_out_s,
            last_in_s=self._last_in_s,
            topology=observed.topology,
        )

    # -- acting --------------------------------------------------------------------------------

    def _off_plan(self, snapshot: Snapshot, observed_s: float) -> bool:
        """Whether the target is not on its way to the plan and must be asked again.

        Either a request was not granted, or there are more nodes than planned and none is leaving. An observation
        from before the last request says nothing about it.
        """
        if self._applied_s is not None and observed_s <= self._applied_s:
            return False
        if snapshot.planned.difference(snapshot.requested):
            return True
        surplus = sum(snapshot.observed.nodes.values()) > sum(snapshot.planned.nodes.values())
        return surplus and all(action.kind is not ActionKind.SHRINK for action in snapshot.under_way)

    def _apply(self, now_s: float, entry: LedgerEntry, wanted: Layout) -> LedgerEntry:
        """Ask the target for a layout and record the outcome."""
        self._applied_s = now_s
        try:
            outcome = self._target.apply(wanted)
        except TargetError as error:
            requested = self._last.requested if self._last is not None else entry.before
            outcome = Outcome(requested=requested, note=f"not carried out: {error}")
        asked = outcome.requested
        if (asked.parallelism, asked.placement) != (wanted.parallelism, wanted.placement):
            # Drop a parallelism or placement the target refused: asking again would stop the query each time.
            self._planned = replace(wanted, parallelism=asked.parallelism, placement=asked.placement)
        return self.ledger.close(entry, outcome)

    def _note_direction(self, now_s: float, wanted: Layout, before: Layout) -> None:
        grown = sum(wanted.nodes.values()) - sum(before.nodes.values())
        if grown > 0:
            self._last_out_s = now_s
        elif grown < 0:
            self._last_in_s = now_s
