"""The policy in force, and how another replaces it while a pipeline runs.

A policy file is checked before each cycle, by modification time and then by content. A change takes effect once the
content is the same in two checks, so that a half-written file is never used. An invalid or empty file leaves the old
policy in force. The ledger records both.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from pathlib import Path

from msgspec.structs import replace

from ebbflow.control.ledger import ACT
from ebbflow.control.loop import Note
from ebbflow.core.clock import Clock
from ebbflow.core.decision import LedgerEntry
from ebbflow.errors import EbbflowError, InputError, PolicyError
from ebbflow.monitoring.store import Store
from ebbflow.policy.files import parse_policy, read_text
from ebbflow.policy.model import Policy
from ebbflow.strategies.rules import Rules

log = logging.getLogger(__name__)


class PolicyInForce:
    """Rules whose policy can be replaced from any thread; it takes effect before the next cycle."""

    def __init__(self, policy: Policy) -> None:
        self.rules = Rules(policy)
        self._next: Policy | None = None
        self._handing_over = threading.Lock()

    def use(self, policy: Policy) -> None:
        """Replace the policy from the next cycle on. An invalid one raises and changes nothing."""
        if not isinstance(policy, Policy):
            raise InputError(f"{policy!r} is not a policy; give a Policy(…), or load_policy(FILE)")
        Rules(policy)
        with self._handing_over:
            self._next = policy

    def refresh(self) -> Note | None:
        """Put a new policy into force, between two cycles; returns a note for the ledger."""
        with self._handing_over:
            policy, self._next = self._next, None
        if policy is None:
            return None
        change = self.rules.use(policy)
        log.info("policy replaced: %s", change)
        return Note(text=f"policy replaced: {change}", inputs={"rules": len(policy.rules)})


def recall_acts(policy: PolicyInForce, store: Store, now_s: float) -> None:
    """Continue guard times from the acts of earlier runs in the store; restart them if the ledger cannot be read.

    An act dated after ``now_s`` is from a run during or after which the clock was set back; it counts as just done.
    """
    try:
        acts = [LedgerEntry.from_json(act) for act in store.ledger(verdict=ACT)]
    except (EbbflowError, LookupError, TypeError) as error:  # written by another version, or damaged
        log.warning("guard times restart, because the ledger of earlier runs cannot be read: %s", error)
        return
    policy.rules.recall(replace(act, time_s=min(act.time_s, now_s)) for act in acts)


_UNREADABLE = "unreadable"


class PolicyFile(PolicyInForce):
    """A policy file, and the rules in force from it."""

    def __init__(self, path: Path | str) -> None:
        """Read the file; an invalid policy raises at once."""
        self.path = Path(path).absolute()  # a job may change its working directory
        self._signature = self._stat()  # before reading, so that a change meanwhile is noticed
        text = read_text(Path(path))
        super().__init__(parse_policy(text, str(path)))
        self._in_force: str | None = digest_of(text.encode())
        self._reported: str | None = self._in_force
        self._settling: str | None = None

    def refresh(self) -> Note | None:
        """Put a new policy into force, from ``use`` or from the file; returns a note for the ledger."""
        handed_over = super().refresh()
        if handed_over is not None:
            self._in_force = self._reported = (
                None  # the next change of the file counts, even to the same content
            )
            return handed_over
        signature = self._stat()
        if signature == self._signature and self._settling is None:
            return None
        self._signature = signature
        try:
            content = self.path.read_bytes()
        except OSError as error:
            return self._missing(error)
        digest = digest_of(content)
        if digest == self._reported:
            self._settling = None
            return None
        if digest != self._settling:
            self._settling = digest
            return None
        self._settling, self._reported = None, digest
        try:
            text = content.decode("utf-8")
            policy = parse_policy(text, str(self.path))
        except UnicodeDecodeError:
            return self._refused(PolicyError(f"{self.path}:1:1: not a text file; write policies in UTF-8"))
        except PolicyError as error:
            return self._refused(error)
        return self._taken(policy, digest)

    def _taken(self, policy: Policy, digest: str) -> Note:
        again = digest == self._in_force
        self._in_force = digest
        change = self.rules.use(policy)
        what = "is in force again" if again else f"replaced: {change}"
        log.info("policy %s %s", self.path, what)
        return Note(
            text=f"policy {self.path.name} {what}",
            inputs={"policy": str(self.path), "sha256": digest, "rules": len(policy.rules)},
        )

    def _refused(self, error: PolicyError) -> Note:
        log.warning("policy not replaced, the old one stays in force: %s", error)
        wrong: dict[str, float | str] = {
            f"problem {number}": text for number, text in enumerate(error.problems, start=1)
        }
        return Note(
            text=f"policy {self.path.name} not replaced, the old one stays in force: {error}",
            inputs={"policy": str(self.path), "sha256": self._reported or "", **wrong},
        )

    def _missing(self, error: OSError) -> Note | None:
        self._settling = None
        if self._reported == _UNREADABLE:
            return None
        self._reported = _UNREADABLE
        why = error.strerror or str(error)
        log.warning("policy %s cannot be read (%s); the old one stays in force", self.path, why)
        return Note(
            text=f"policy {self.path.name} cannot be read ({why}); the old one stays in force",
            inputs={"policy": str(self.path)},
        )

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def digest_of(content: bytes) -> str:
    """The name of a policy's content in the ledger, where ``ebbflow policy apply`` looks for it."""
    return hashlib.sha256(content).hexdigest()[:16]


def answer_of_ledger(store: Path, digest: str, since_id: int, within_s: float, clock: Clock) -> str | None:
    """What the ledger of a running job says about a policy file; None if nothing in time."""
    deadline_s, never = clock.monotonic_s() + within_s, threading.Event()
    while True:
        for row in Store.read_ledger(store, since_id):
            if row["inputs"].get("sha256") == digest:
                return str(row["reason"])
        if clock.monotonic_s() >= deadline_s:
            return None
        clock.wait(0.2, never)
