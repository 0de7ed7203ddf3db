"""The policy that decides now, and how another takes its place: between two cycles, validated first."""

from __future__ import annotations

import logging
import threading

from ebbflow.control.ledger import ACT
from ebbflow.control.loop import Note
from ebbflow.core.decision import LedgerEntry
from ebbflow.errors import EbbflowError, InputError
from ebbflow.monitoring.store import Store
from ebbflow.policy.model import Policy
from ebbflow.strategies.rules import Rules

log = logging.getLogger(__name__)


class PolicyInForce:
    """Rules whose policy can be replaced from any thread; the loop takes it up before its next cycle."""

    def __init__(self, policy: Policy) -> None:
        self.rules = Rules(policy)
        self._next: Policy | None = None
        self._handing_over = threading.Lock()
        """One that is handed over while the loop takes another up must not get lost."""

    def use(self, policy: Policy) -> None:
        """Another policy from the next cycle on. One that cannot be meant raises, and changes nothing."""
        if not isinstance(policy, Policy):
            raise InputError(f"{policy!r} is no policy; give a Policy(…), or load_policy(FILE)")
        Rules(policy)
        with self._handing_over:
            self._next = policy

    def look(self) -> Note | None:
        """Called between two cycles; what changed, for the ledger."""
        with self._handing_over:
            policy, self._next = self._next, None
        if policy is None:
            return None
        change = self.rules.use(policy)
        log.info("policy replaced: %s", change)
        return Note(text=f"policy replaced: {change}", inputs={"rules": len(policy.rules)})


def recall_acts(policy: PolicyInForce, store: Store, now_s: float) -> None:
    """Guard times that began before this start, from the ledger of the store; where that cannot be read, from now."""
    try:
        acts = [LedgerEntry.from_json(act) for act in store.ledger(verdict=ACT)]
    except (EbbflowError, LookupError, TypeError) as error:  # of another version, or damaged
        log.warning("guard times start afresh, the ledger before cannot be read: %s", error)
        return
    policy.rules.recall(act for act in acts if act.time_s <= now_s)
