"""What another policy brings: which rules are new, gone, changed, or go on as they were."""

from __future__ import annotations

from dataclasses import dataclass

from ebbflow.policy.model import Policy


@dataclass(frozen=True, kw_only=True)
class PolicyChange:
    """What another policy brought."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    kept: tuple[str, ...]
    """Rules that are the same, and go on with the readings they have."""

    @classmethod
    def between(cls, before: Policy, after: Policy) -> PolicyChange:
        """Rules compared by their names."""
        old = {rule.name: rule for rule in before.rules}
        new = {rule.name: rule for rule in after.rules}
        return cls(
            added=tuple(name for name in new if name not in old),
            removed=tuple(name for name in old if name not in new),
            changed=tuple(name for name in new if name in old and new[name] != old[name]),
            kept=tuple(name for name in new if old.get(name) == new[name]),
        )

    def __str__(self) -> str:
        parts = [
            f"{len(names)} {word} ({', '.join(names)})"
            for word, names in (("added", self.added), ("changed", self.changed), ("removed", self.removed))
            if names
        ]
        return "; ".join([*parts, f"{len(self.kept)} kept with their histories"])
