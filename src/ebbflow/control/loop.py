"""The control loop: observe → store → decide → restrain → record → ask; once a cycle.

Three layouts are kept apart. *Planned* is what the last decision, after the guards, wants. *Requested*
is what the target was asked for. *Observed* is what the monitor sees. A decision is made when there is
something new to decide on: a finished batch, a node that came or went, a growth seconds ago of which
guards may have held back a part, or, at the latest, every ``decide_at_least_every_s``, because a batch
that never ends is news too.

A look that failed, or is too old, is nothing to decide on: the strategy is not even asked, because it would take what
was not seen for what did not happen, and learn that. The size is held, and the ledger says why.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Protocol

import msgspec

from ebbflow.control.ledger import ACT, Ledger, LedgerStore
from ebbflow.control.set_back import SetBack
from ebbflow.core.batches import Batch
from ebbflow.core.clock import Clock
from ebbflow.core.decision import Constraint, Decision, LedgerEntry, Outcome
from ebbflow.core.duration import format_duration
from ebbflow.core.layout import MAIN, Layout
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.ports import Guard, Observation, StartsOver, Strategy, Target
from ebbflow.core.readings import Reading, Windows
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import ActionKind, Snapshot
from ebbflow.errors import TargetError, TargetGoneError
from ebbflow.guards.missing_data import MISSING_DATA, too_old

log = logging.getLogger(__name__)

REMEMBER_S = 600.0
"""How far back the windows reach; a series that was silent for so long (a node that left) is dropped."""
FORGET_EVERY_S = 60.0
"""How often silent series are looked for: there are many, and seldom one that ended."""


class LoopStore(LedgerStore, Protocol):
    """Where a loop keeps what it saw and decided: ``monitoring.store.Store``, or one in memory."""

    def add(
        self,
        readings: Iterable[Reading],
        batches: Iterable[Batch] = (),
        first_batches: Iterable[Batch] = (),
    ) -> None:
        """Keep readings and finished batches."""
        ...


class CycleReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one cycle saw and did: for live views and tests."""

    observation: Observation | None
    entry: LedgerEntry | None
    planned: Layout | None


@dataclass(frozen=True, kw_only=True)
class Note:
    """Something for the ledger that is no decision about size: a policy was replaced, or was not."""

    text: str
    inputs: Mapping[str, float | str] = field(default_factory=dict)


class ControlLoop:
    """One pipeline on one target under one strategy."""

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
        cycle_s: float = 1.0,
        decide_at_least_every_s: float = 5.0,
        dry_run: bool = False,
        remember_decisions: int = 1_000,
        on_cycle: Callable[[CycleReport], None] | None = None,
        between: Callable[[], Note | None] | None = None,
    ) -> None:
        """``dry_run``: decide and write it down, but ask the target for nothing. ``remember_decisions``: how
        many are kept at hand; the store keeps them all. ``between`` is called before each cycle: what may
        change between two of them changes there, and what it notes is written to the ledger as a hold."""
        self._dry_run = dry_run
        self._target = target
        self._strategy = strategy
        self._guards = tuple(guards)
        self._store = store
        self._clock = clock
        self._limits = limits
        self._slo = slo
        self._cycle_s = cycle_s
        self._decide_every_s = decide_at_least_every_s
        self._on_cycle = on_cycle
        self._between = between
        self._notes: list[Note] = []
        self.ledger = Ledger(store, keep=remember_decisions)
        self.windows = Windows(REMEMBER_S)
        self._planned: Layout | None = None
        self._last: Observation | None = None
        self._undecided: list[Batch] = []
        self._decided_s = float("-inf")
        self._forgot_s = float("-inf")
        self._set_back = SetBack()
        self._pace_s = 0.0
        """How long it takes until the next batch ends, as the last ones did."""
        self._last_out_s: float | None = None
        self._last_in_s: float | None = None
        self._asked_s: float | None = None
        self._failures = 0
        self._blind = 0
        """Looks in a row that failed."""
        self._trouble = ""
        """Why the last one did; empty if it did not."""
        self._had_data = True

    # -- running -------------------------------------------------------------------------------

    def run(self, stop: threading.Event) -> None:
        """Cycle until told to stop. No failure of ours ends the loop, let alone the job."""
        while not stop.is_set():
            started_s = self._clock.now_s()
            try:
                report = self.cycle()
                self._failures = 0
                if self._on_cycle is not None:
                    self._on_cycle(report)
            except TargetGoneError as error:
                log.info("the loop ends: %s", error)
                return
            except Exception:
                self._failures += 1
                if self._failures in (1, 10, 100) or self._failures % 1000 == 0:
                    log.exception("cycle failed (%d in a row); the job goes on untouched", self._failures)
            took_s = max(0.0, self._clock.now_s() - started_s)  # it may have been set back meanwhile
            self._clock.wait(self._cycle_s - took_s, stop)

    def cycle(self) -> CycleReport:
        """Look once, decide if there is something to decide on, and act on it."""
        if self._between is not None and (note := self._between()) is not None:
            self._notes.append(note)
        seen = self._look()
        now_s = self._clock.now_s()  # after the look: one that hangs, and then fails, is not a fresh one
        if back_s := self._set_back.by_s(now_s):
            self._start_over(now_s, back_s)
        news = seen is not None and self._take_in(now_s, seen)
        self._write_notes(now_s)
        last = self._last
        if last is None or not last.active:
            return CycleReport(observation=last, entry=None, planned=self._planned)
        self.ledger.settle(
            now_s,
            last.pipeline.name,
            self.windows,
            within_s=last.lead_time_s + max(self._pace_s, self._cycle_s),
        )
        missing = self._missing(now_s, last)
        turned, self._had_data = self._had_data == bool(missing), not missing
        due = turned or now_s - self._decided_s >= self._decide_every_s
        entry = None
        if missing:
            entry = self._hold(now_s, last, missing) if due else None
        elif news or due or self._still_growing(now_s):
            entry = self._decide(now_s, last)
        return CycleReport(observation=last, entry=entry, planned=self._planned)

    def _start_over(self, now_s: float, back_s: float) -> None:
        """The clock was set back. Readings of before would look newer than all that come, and acts of before as if
        they were still to come: forget the former, and date the latter to now."""
        self.windows = Windows(REMEMBER_S)
        self.ledger.forget_expectations()
        self._decided_s = self._forgot_s = float("-inf")
        self._last_out_s, self._last_in_s, self._asked_s = (
            None if then_s is None else min(then_s, now_s)
            for then_s in (self._last_out_s, self._last_in_s, self._asked_s)
        )
        if self._last is not None:
            # What it brought was told under its old date, and must not be taken for news under the new one.
            self._last = msgspec.structs.replace(
                self._last, time_s=min(self._last.time_s, now_s), readings=(), batches=(), first_batches=()
            )
        for part in chain([self._strategy], self._guards):
            if isinstance(part, StartsOver):
                part.start_over(now_s)
        back = format_duration(round(back_s))
        log.warning("the clock was set back by %s; readings and waiting times start over", back)
        self._notes.append(
            Note(text=f"the clock was set back by {back}: readings and waiting times start over")
        )

    def _write_notes(self, now_s: float) -> None:
        """Notes go to the ledger as holds, once there is a layout to hold."""
        if self._planned is None:
            return
        for note in self._notes:
            decision = Decision(wanted=self._planned, reason=note.text, inputs=note.inputs)
            self.ledger.open(now_s, self._strategy.name, self._planned, decision)
        self._notes.clear()

    def _still_growing(self, now_s: float) -> bool:
        """Whether a growth is so recent that guards may have held back a part of it: who waits for nodes
        must not wait for the next look as well."""
        return self._last_out_s is not None and now_s - self._last_out_s < self._decide_every_s

    # -- observing -----------------------------------------------------------------------------

    def _look(self) -> Observation | None:
        """What the target shows; None if it cannot be seen."""
        try:
            seen = self._target.observe()
        except TargetGoneError:
            raise
        except TargetError as error:
            self._blind += 1
            self._trouble = str(error) or type(error).__name__
            if self._blind in (1, 10) or self._blind % 100 == 0:
                log.warning("the target cannot be seen (%d in a row): %s", self._blind, error)
            self._store.add(())  # what was seen before must not wait in memory until the target is back
            return None
        self._blind, self._trouble = 0, ""
        return seen

    def _take_in(self, now_s: float, seen: Observation) -> bool:
        """Keep what was seen. True if there is something new to decide on."""
        if seen.time_s > now_s:  # the clock was set back during the look
            seen = msgspec.structs.replace(seen, time_s=now_s)
        before, self._last = self._last, seen
        self._undecided += seen.batches
        if seen.batches:
            self._pace_s = max(max(b.trigger_interval_s, b.duration_s) for b in seen.batches)
        self.windows.add(self._set_back.of_now(seen.readings))
        held = seen.layout.main_nodes if seen.held_nodes is None else seen.held_nodes
        self._store.add(
            [*seen.readings, Reading(seen.time_s, MAIN, Metric.NODES_HELD, float(held))],
            seen.batches,
            seen.first_batches,
        )
        if self._dry_run:
            self._planned = seen.layout  # others decide how large it is; we only follow
        elif self._asked_s is None:
            # What is there when we arrive, and what still comes of what others asked for, is taken as planned.
            self._planned = seen.requested
        if seen.given_up_nodes and self._planned is not None:
            self._give_up(seen, self._planned)
        return bool(seen.batches) or before is None or before.layout != seen.layout

    def _give_up(self, seen: Observation, planned: Layout) -> None:
        """Nodes were asked for and never came: plan with those there are, and say so."""
        decision = Decision(
            wanted=seen.requested,
            reason=f"gave up on {seen.given_up_nodes} node(s) that were asked for and never came",
            bound_by=(Constraint(name="infeasible", why="the cluster did not deliver them in time"),),
        )
        self.ledger.open(self._clock.now_s(), self._strategy.name, planned, decision)
        self._planned = seen.requested

    # -- deciding ------------------------------------------------------------------------------

    def _missing(self, now_s: float, last: Observation) -> str:
        """Why there is nothing to decide on; empty where there is."""
        age_s = now_s - last.time_s
        if self._trouble:
            return f"the target cannot be seen ({self._trouble}); it last was {format_duration(age_s)} ago"
        return too_old(age_s)

    def _hold(self, now_s: float, last: Observation, why: str) -> LedgerEntry:
        """Missing data means no change, with a reason."""
        assert self._planned is not None
        self._decided_s = now_s
        decision = Decision(
            wanted=self._planned,
            reason=f"{MISSING_DATA}: {why}",
            inputs={"data_age_s": round(now_s - last.time_s, 3)},
            bound_by=(Constraint(name=MISSING_DATA, why=why),),
        )
        return self.ledger.open(now_s, self._strategy.name, self._planned, decision)

    def _decide(self, now_s: float, seen: Observation) -> LedgerEntry:
        snapshot = self._snapshot(now_s, seen)
        if now_s - self._forgot_s >= FORGET_EVERY_S:
            self.windows.forget_before(now_s - REMEMBER_S)
            self._forgot_s = now_s
        self._undecided.clear()
        self._decided_s = now_s
        decision = self._strategy.decide(snapshot)
        for guard in self._guards:
            decision = guard.restrain(snapshot, decision)
        change = decision.wanted.difference(snapshot.planned)
        if self._dry_run and change:
            decision = decision.bound(snapshot.planned, "dry run", f"recommended only: {change}")
        entry = self.ledger.open(now_s, self._strategy.name, snapshot.planned, decision)
        if entry.verdict == ACT:
            self._note_direction(now_s, decision.wanted, entry.before)
            self._planned = decision.wanted
            return self._ask(entry, decision)
        if not self._dry_run and self._strayed(snapshot, seen.time_s):
            return self._ask(entry, decision)
        return entry

    def _strayed(self, snapshot: Snapshot, seen_s: float) -> bool:
        """Whether the world is not on its way to the plan: something was not granted, or a node came that
        nobody waits for any more. The plan stands, so it is asked for again; but never on a look from before the
        last asking."""
        if self._asked_s is not None and seen_s <= self._asked_s:
            return False
        if snapshot.planned.difference(snapshot.requested):
            return True
        surplus = sum(snapshot.observed.nodes.values()) > sum(snapshot.planned.nodes.values())
        return surplus and all(action.kind is not ActionKind.SHRINK for action in snapshot.under_way)

    def _ask(self, entry: LedgerEntry, decision: Decision) -> LedgerEntry:
        self._asked_s = entry.time_s
        try:
            outcome = self._target.apply(decision.wanted)
        except TargetError as error:
            requested = self._last.requested if self._last is not None else entry.before
            outcome = Outcome(requested=requested, note=f"not carried out: {error}")
        if outcome.requested.parallelism != decision.wanted.parallelism:
            # A shape that cannot be had is not planned any more; asking again would stop the query each time.
            self._planned = replace(decision.wanted, parallelism=outcome.requested.parallelism)
        return self.ledger.close(entry, outcome)

    def _note_direction(self, now_s: float, wanted: Layout, before: Layout) -> None:
        grown = sum(wanted.nodes.values()) - sum(before.nodes.values())
        if grown > 0:
            self._last_out_s = now_s
        elif grown < 0:
            self._last_in_s = now_s

    def _snapshot(self, now_s: float, seen: Observation) -> Snapshot:
        assert self._planned is not None
        return Snapshot(
            now_s=now_s,
            pipeline=seen.pipeline,
            planned=self._planned,
            requested=seen.requested,
            observed=seen.layout,
            windows=self.windows,
            batches=tuple(self._undecided),
            under_way=tuple(seen.under_way),
            limits=self._limits,
            slo=self._slo,
            slots_per_node=seen.slots_per_node,
            lead_time_s=seen.lead_time_s,
            data_age_s=now_s - seen.time_s,
            queries=seen.queries,
            read_limited=seen.read_limited,
            last_out_s=self._last_out_s,
            last_in_s=self._last_in_s,
        )
