"""What ``attach`` answers: a loop that runs in a thread of its own, and what it can tell of itself."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ebbflow.control.ledger import ACT
from ebbflow.control.loop import ControlLoop
from ebbflow.control.policy_file import PolicyInForce
from ebbflow.core.decision import LedgerEntry
from ebbflow.errors import EbbflowError, InputError
from ebbflow.monitoring.collector import Collector
from ebbflow.monitoring.store import Store
from ebbflow.policy.files import load_policy
from ebbflow.policy.model import Policy

log = logging.getLogger("ebbflow")


@dataclass(frozen=True, kw_only=True)
class History:
    """The ledger of a run as far as it is told."""

    entries: Sequence[LedgerEntry]
    """Every act, and the newest holds, oldest first."""
    left_out: int
    """Older holds that are not among them."""


class Attached:
    """A running loop. Stop it with ``stop``, or leave it: it ends with the application."""

    def __init__(
        self,
        loop: ControlLoop | None,
        store: Store | None,
        close: Callable[[], None],
        *,
        policy: PolicyInForce | None = None,
        collector: Collector | None = None,
        application: str | None = None,
    ) -> None:
        self._loop = loop
        self._application = application
        self.store = store
        self._close = close
        self._policy = policy
        self._collector = collector
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if loop is not None:
            if application is not None:
                _RUNNING[application] = self
            # Daemon: a job that ends must never wait for us.
            self._thread = threading.Thread(target=self._run, args=(loop,), name="ebbflow-loop", daemon=True)
            self._thread.start()

    def _run(self, loop: ControlLoop) -> None:
        try:
            loop.run(self._stop)
        finally:
            if self._application is not None and _RUNNING.get(self._application) is self:
                _RUNNING.pop(self._application, None)

    @property
    def active(self) -> bool:
        """Whether anything is being scaled."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def decisions(self) -> Sequence[LedgerEntry]:
        """The newest entries of the ledger of this run; ``history`` has every act."""
        return [] if self._loop is None else self._loop.ledger.entries

    def history(self) -> History:
        """Every act of this run, from the store where they are no longer at hand, and the newest holds."""
        if self._loop is None or self.store is None:
            return History(entries=[], left_out=0)
        ledger = self._loop.ledger
        written, recent = ledger.written, ledger.entries
        older: list[LedgerEntry] = []
        if written > len(recent) and ledger.first_id is not None:
            try:
                acts = self.store.ledger(ledger.first_id - 1, verdict=ACT)
                older = [LedgerEntry.from_json(act) for act in acts if act["id"] < recent[0].entry_id]
            except (EbbflowError, LookupError, TypeError) as error:  # a full disk, or rows that were damaged
                log.warning("only the newest decisions can be told: %s", error)
        return History(entries=[*older, *recent], left_out=max(0, written - len(older) - len(recent)))

    @property
    def reconfigurations(self) -> int:
        """How often the layout was changed."""
        return 0 if self._loop is None else self._loop.ledger.reconfigurations

    @property
    def agents(self) -> dict[str, int] | None:
        """How many messages of agents were heard, and dropped for what; None where no agent was named."""
        return None if self._collector is None else self._collector.counts.to_json()

    def use(self, policy: str | Path | Policy) -> None:
        """Let another policy decide from the next cycle on; rules that are the same keep their histories.

        One that cannot be meant is an error and changes nothing. A policy file that is followed is followed
        on: what is written there later takes over again.
        """
        if self._policy is None:
            raise InputError("no policy decides here; attach with policy=… to be able to replace it")
        self._policy.use(policy if isinstance(policy, Policy) else load_policy(policy))

    def stop(self, within_s: float = 40.0) -> None:
        """End the loop; the application goes on as it is, and what goes wrong at our end is logged, never raised."""
        self._stop.set()
        if self._thread is None:
            return
        self._thread.join(within_s)
        self._thread = None
        try:
            self._close()
        except EbbflowError as error:
            log.warning("scaling has ended, and not all of it was put away: %s", error)
        except Exception:
            log.exception("scaling has ended, and not all of it was put away; the job goes on untouched")


_RUNNING: dict[str, Attached] = {}
"""The loop of each application while it runs, by its id: two would undo each other's work."""


def take_over(application: str) -> None:
    """End the loop that runs on the application already: a cell of a notebook is run again, a script has its own."""
    before = _RUNNING.pop(application, None)
    if before is not None and before.active:
        log.warning(
            "this application was being scaled already; that loop is ended, and the new one takes over"
        )
        before.stop()
