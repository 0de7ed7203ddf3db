"""The handle that ``attach`` returns: a loop that runs in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from ebbflow.control.loop import ControlLoop
from ebbflow.control.policy_file import PolicyInForce
from ebbflow.core.decision import LedgerEntry
from ebbflow.errors import EbbflowError, InputError
from ebbflow.monitoring.collector import Collector
from ebbflow.monitoring.store import Store
from ebbflow.policy.files import load_policy
from ebbflow.policy.model import Policy

log = logging.getLogger(__name__)


class Attached:
    """A running loop. It ends with the application, or when ``stop`` is called."""

    def __init__(
        self,
        loop: ControlLoop | None,
        store: Store | None,
        close: Callable[[], None],
        *,
        policy: PolicyInForce | None = None,
        collector: Collector | None = None,
        application: str | None = None,
        reason: str = "",
    ) -> None:
        self._loop = loop
        self._application = application
        self.reason = reason
        """Why nothing is scaled; empty if the loop was started."""
        self.store = store
        self._close = close
        self._policy = policy
        self._collector = collector
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if loop is not None:
            if application is not None:
                _RUNNING[application] = self
            # Daemon, so that a job never waits for the loop when it ends.
            self._thread = threading.Thread(target=self._run, args=(loop,), name="ebbflow-loop", daemon=True)
            self._thread.start()

    def _run(self, loop: ControlLoop) -> None:
        try:
            loop.run(self._stop)
        finally:
            if self._application is not None and _RUNNING.get(self._application) is self:
                _RUNNING.pop(self._application, None)

    def __repr__(self) -> str:
        if self._loop is None:
            return f"<Attached: not scaling, {self.reason}>"
        last = self._loop.ledger.last
        decided = "no decision yet" if last is None else f"last {last.verdict}: {last.decision.reason}"
        return f"<Attached: {'active' if self.active else 'ended'}, {decided}>"

    @property
    def active(self) -> bool:
        """Whether the loop runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def decisions(self) -> Sequence[LedgerEntry]:
        """The newest ledger entries of this run; the store has all of them."""
        return [] if self._loop is None else self._loop.ledger.entries

    @property
    def reconfigurations(self) -> int:
        """Number of layout changes."""
        return 0 if self._loop is None else self._loop.ledger.reconfigurations

    @property
    def agents(self) -> dict[str, int] | None:
        """Numbers of messages received from agents, and dropped by cause; None if there are no agents."""
        return None if self._collector is None else self._collector.counts.to_json()

    def use(self, policy: str | Path | Policy) -> None:
        """Replace the policy from the next cycle on. Unchanged rules keep their history.

        An invalid policy raises an error and changes nothing. A policy file is still watched: its next change replaces
        this policy again.
        """
        if self._policy is None:
            raise InputError("there is no policy to replace; attach with policy=… first")
        self._policy.use(policy if isinstance(policy, Policy) else load_policy(policy))

    def stop(self, within_s: float = 40.0) -> None:
        """End the loop and leave the application as it is. Errors are logged, never raised."""
        self._stop.set()
        if self._thread is None:
            return
        self._thread.join(within_s)
        self._thread = None
        try:
            self._close()
        except EbbflowError as error:
            log.warning("scaling has ended, but cleaning up failed: %s", error)
        except Exception:
            log.exception("scaling has ended, but cleaning up failed; the job is not affected")


_RUNNING: dict[str, Attached] = {}
"""The running loop of each application, by id. Two loops would undo each other's changes."""


def take_over(application: str) -> None:
    """End the loop that already scales the application, for example when a notebook cell runs again."""
    before = _RUNNING.pop(application, None)
    if before is not None and before.active:
        log.warning("this application is already being scaled; the new loop replaces the old one")
        before.stop()
