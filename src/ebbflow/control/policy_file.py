"""A policy that is followed while a pipeline runs: what is written to its file holds from the next cycle on.

Looked at before each cycle, by modification time and then by content. A change must rest for one look, so that
a file that is being written is not read by half. It is validated first; one that cannot be meant leaves the
old policy in force, and both are written to the ledger. So does an empty one: a file that lost its content must not
end the scaling of a job.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from pathlib import Path

from ebbflow.control.ledger import ACT
from ebbflow.control.loop import Note
from ebbflow.core.clock import Clock
from ebbflow.core.decision import LedgerEntry
from ebbflow.errors import EbbflowError, InputError, PolicyError
from ebbflow.monitoring.store import Store
from ebbflow.policy.files import parse_policy, read_text
from ebbflow.policy.model import Policy
from ebbflow.strategies.rules import Rules

# The policy that decides now, and how another takes its place: between two cycles, validated first.


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


_GONE = "gone"


class PolicyFile(PolicyInForce):
    """The file of a policy, and the rules that follow it."""

    def __init__(self, path: Path | str) -> None:
        """Read it now: a policy that cannot be meant at the start is an error at once."""
        self.path = Path(path).absolute()  # a job may change its folder
        self._signature = (
            self._stat()
        )  # before it is read: what is written meanwhile is seen at the next look
        text = read_text(Path(path))
        super().__init__(parse_policy(text, str(path)))
        self._in_force: str | None = digest_of(text.encode())
        self._told: str | None = self._in_force
        self._settling: str | None = None

    def look(self) -> Note | None:
        """Follow the file, and what was handed over; what changed, for the ledger."""
        handed_over = super().look()
        if handed_over is not None:
            self._in_force = self._told = (
                None  # whatever is written from now on takes over, also the same again
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
        if digest == self._told:
            self._settling = None
            return None
        if digest != self._settling:
            self._settling = digest
            return None
        self._settling, self._told = None, digest
        try:
            text = content.decode("utf-8")
            policy = parse_policy(text, str(self.path))
        except UnicodeDecodeError:
            return self._refused(
                PolicyError(f"{self.path}:1:1: this is not text; a policy is written in UTF-8")
            )
        except PolicyError as error:
            return self._refused(error)
        return self._taken(policy, digest)

    def _taken(self, policy: Policy, digest: str) -> Note:
        again = digest == self._in_force
        self._in_force = digest
        change = self.rules.use(policy)
        what = "is again the one in force" if again else f"replaced: {change}"
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
            inputs={"policy": str(self.path), "sha256": self._told or "", **wrong},
        )

    def _missing(self, error: OSError) -> Note | None:
        self._settling = None
        if self._told == _GONE:
            return None
        self._told = _GONE
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
    """By which the ledger names a policy that it took, and ``ebbflow policy apply`` finds it there."""
    return hashlib.sha256(content).hexdigest()[:16]


def answer_of_ledger(store: Path, digest: str, since_id: int, within_s: float, clock: Clock) -> str | None:
    """What the ledger of a running job says of a policy file that it was given; None if nothing in time."""
    deadline_s, never = clock.now_s() + within_s, threading.Event()
    while True:
        for row in Store.read_ledger(store, since_id):
            if row["inputs"].get("sha256") == digest:
                return str(row["reason"])
        if clock.now_s() >= deadline_s:
            return None
        clock.wait(0.2, never)
