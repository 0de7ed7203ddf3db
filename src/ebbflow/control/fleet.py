"""The controller of a fleet: starts hosts, dispatches queries, and runs the control loop over all applications.

Of several controllers, one leads; the others wait for the lead. Hosts and queries go on without any. The ledger has
every decision, every move with its down-time, and every change that a user made.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress

from ebbflow.control.loop import ControlLoop, CycleReport, Note
from ebbflow.control.policy_file import PolicyInForce
from ebbflow.control.upkeep import with_upkeep
from ebbflow.core.clock import Clock, SystemClock
from ebbflow.core.decision import Decision
from ebbflow.core.failures import FailureLimits
from ebbflow.core.folders import Owner
from ebbflow.core.ports import Guard, Strategy
from ebbflow.core.slo import Slo
from ebbflow.core.snapshot import Snapshot
from ebbflow.errors import EbbflowError, InputError, TargetError
from ebbflow.monitoring.agent import host_name
from ebbflow.monitoring.buffered_store import BufferedStore
from ebbflow.monitoring.store import Store
from ebbflow.targets.fleet.coordination import Coordination, Member, Wish
from ebbflow.targets.fleet.coordination.opening import open_coordination
from ebbflow.targets.fleet.dispatch import Dispatcher, Moved
from ebbflow.targets.fleet.keeper import HostKeeper
from ebbflow.targets.fleet.links import HostLinks
from ebbflow.targets.fleet.model import Fleet
from ebbflow.targets.fleet.target import FleetTarget
from ebbflow.targets.fleet.wire.messages import Shutdown

log = logging.getLogger(__name__)

STEP_EVERY_S, STEP_IN_MOVES_S = 0.5, 0.05


class HoldWhilePaused(Guard):
    """Hold every size and place while a user has paused the fleet."""

    name = "paused"

    def __init__(self) -> None:
        self.paused = False

    def restrain(self, snapshot: Snapshot, decision: Decision) -> Decision:
        """Keep the plan while paused."""
        if not self.paused or decision.wanted == snapshot.planned:
            return decision
        return decision.bound(
            snapshot.planned, self.name, "the fleet is paused; go on with fleet pause --resume"
        )


class FleetController:
    """Leads a fleet, or waits for the lead."""

    def __init__(
        self,
        fleet: Fleet,
        *,
        strategy: Strategy,
        guards: Sequence[Guard],
        slo: Slo,
        cycle_s: float = 1.0,
        dry_run: bool = False,
        failures: FailureLimits | None = None,
        fallback: Strategy | None = None,
        policy: PolicyInForce | None = None,
        clock: Clock | None = None,
        on_cycle: Callable[[CycleReport], None] | None = None,
        host_command: Sequence[str] | None = None,
    ) -> None:
        """``on_cycle``: called after each cycle of the loop, in its thread. ``host_command`` starts a host, followed by
        the fleet file and the application."""
        self._fleet = fleet
        self._strategy = strategy
        self._guards = tuple(guards)
        self._slo = slo
        self._cycle_s = cycle_s
        self._dry_run = dry_run
        self._failures = failures
        self._fallback = fallback
        self._policy = policy
        self._clock = clock or SystemClock()
        self._on_cycle = on_cycle
        self._paused = HoldWhilePaused()
        self._notes: deque[Note] = deque()
        self._target: FleetTarget | None = None
        self.stop = threading.Event()
        self.leads = False
        self.keeper = HostKeeper(fleet, self._clock, host_command)
        self.coordination: Coordination = open_coordination(fleet, self._clock)
        self._links = HostLinks(fleet, self.coordination)
        self.dispatcher = Dispatcher(fleet, self.coordination, self._links, self._clock)
        self.member = Member(
            name=f"controller-{secrets.token_hex(4)}",
            boot=secrets.token_hex(8),
            address="",
            machine=host_name(),
            owner=Owner.this_process(),
        )

    def run(self) -> None:
        """Lead whenever possible, until ``stop`` is set or a user takes the fleet down."""
        try:
            while not self.stop.is_set():
                try:
                    self.leads = self.coordination.lead(self.member)
                except TargetError as error:
                    log.warning("waiting for the coordination: %s", error)
                    self.leads = False
                if self.leads:
                    self._lead()
                self.stop.wait(1.0)
        finally:
            with suppress(TargetError):
                self.coordination.resign(self.member)

    def _lead(self) -> None:
        """Dispatch and decide until another leads."""
        log.info("%s leads fleet %s", self.member.name, self._fleet.name)
        lost = threading.Event()
        deciding: threading.Thread | None = None
        with ExitStack() as stack:
            while not self.stop.is_set():
                moving = False
                try:
                    self.leads = self.coordination.lead(self.member)
                    if not self.leads:
                        log.warning("another controller leads now")
                        break
                    wish = self.coordination.wish()
                    if wish is Wish.DOWN:
                        self.stop.set()
                        break
                    self._paused.paused = wish is Wish.PAUSE
                    self.keeper.ensure(self._links.update())
                    moving = self.dispatcher.step()
                    if deciding is None and self._all_placed():
                        deciding = self._start_loop(stack, lost)
                except EbbflowError as error:
                    log.warning("nothing is started or moved for now: %s", error)
                self.stop.wait(STEP_IN_MOVES_S if moving else STEP_EVERY_S)

    def _all_placed(self) -> bool:
        return set(self.dispatcher.hosts) >= set(self._fleet.applications)

    def _start_loop(self, stack: ExitStack, lost: threading.Event) -> threading.Thread:
        """Start the control loop in a thread of its own."""
        links = HostLinks(self._fleet, self.coordination)
        stack.callback(links.close)
        target = FleetTarget(self._fleet, self.coordination, links, self.dispatcher, self._clock)
        self._target = target
        store = Store(self._fleet.store, self._clock)
        stack.callback(store.close)
        store.begin_run(
            {
                "name": self._fleet.name,
                "slo": str(self._slo),
                "nodes": str(self._fleet.limits),
                "target": "fleet",
                "strategy": self._strategy.name,
                "started_s": repr(self._clock.now_s()),
            }
        )
        loop = ControlLoop(
            target=target,
            strategy=self._strategy,
            guards=(*self._guards, self._paused),
            store=BufferedStore(store, self._clock),
            clock=self._clock,
            limits=self._fleet.limits,
            cluster_limits=self._fleet.cluster_limits,
            slo=self._slo,
            cycle_s=self._cycle_s,
            dry_run=self._dry_run,
            failures=self._failures,
            fallback=self._fallback,
            on_cycle=with_upkeep(self._strategy, self._clock, stack, self._on_cycle),
            before_cycle=self._before_cycle,
        )
        thread = threading.Thread(target=loop.run, args=(lost,), name="ebbflow-loop", daemon=True)
        thread.start()
        stack.callback(thread.join, 10.0)  # before the store is closed
        stack.callback(lost.set)
        return thread

    def _before_cycle(self) -> Note | None:
        """The next note for the ledger: a policy that was replaced, or a move that has ended."""
        note = None if self._policy is None else self._policy.refresh()
        if self._target is not None:
            moved, self._target.moved = self._target.moved, []
            self._notes += map(moved_note, moved)
        if note is not None:
            self._notes.append(note)
        return self._notes.popleft() if self._notes else None

    def close(self) -> None:
        """Release connections; hosts go on."""
        self._links.close()
        self.coordination.close()


def moved_note(moved: Moved) -> Note:
    """A move as an entry of the ledger."""
    inputs: dict[str, float | str] = {
        "operator": moved.query,
        "from": moved.source,
        "to": moved.application,
        "took_s": round(moved.took_s, 3),
    }
    if moved.down_s is not None:
        inputs["down_s"] = round(moved.down_s, 3)
    if moved.why:
        inputs["given_up"] = moved.why
    return Note(text=str(moved), inputs=inputs)


def shut_down(fleet: Fleet, clock: Clock, *, within_s: float = 150.0) -> list[str]:
    """End the controller and every host, queries after their running batches; returns the hosts that did not end."""
    coordination = open_coordination(fleet, clock)
    links = HostLinks(fleet, coordination)
    pause = threading.Event()
    try:
        coordination.set_wish(Wish.DOWN)
        deadline_s = clock.now_s() + within_s
        while clock.now_s() < deadline_s:
            hosts = links.update()
            if not hosts and coordination.leader() is None:
                return []
            for name in hosts:
                with suppress(TargetError):
                    links.ask(name, Shutdown())
            clock.wait(0.3, pause)
        return sorted(links.update())
    finally:
        links.close()
        coordination.close()


def check_can_lead(fleet: Fleet, coordination: Coordination) -> None:
    """Raise ``InputError`` if the store serves another controller already. In ZooKeeper, a second one waits."""
    leader = coordination.leader()
    if leader is not None and not fleet.coordination:
        raise InputError(
            f"a controller of {fleet.path.name} runs already (process {leader.owner.pid}); end it with "
            "`ebbflow fleet down`, or name a coordination in ZooKeeper for several"
        )
