"""What a policy names and is not there: told once, because a rule about it never does anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ebbflow.core.duration import format_duration
from ebbflow.core.snapshot import Snapshot
from ebbflow.policy.model import EACH_OPERATOR, Policy
from ebbflow.strategies.rule_sizes import Sizes

NAMES_AFTER_S = 30.0
"""Queries of a job start one by one: a name may be missing so long."""
READINGS_AFTER_S = 300.0
"""What only a finished batch tells may take a while."""


class MissingNames:
    """Looks for them twice after the start of a policy: for names, and later for readings."""

    def __init__(self) -> None:
        self.start_over()

    def start_over(self) -> None:
        """Another policy, or another time."""
        self._since_s: float | None = None
        self._told_names = self._told_readings = False

    def news(
        self,
        policy: Policy,
        unheard: Callable[[], Mapping[str, Iterable[str]]],
        sizes: Sizes,
        snapshot: Snapshot,
    ) -> list[str]:
        """What is to be told now."""
        if self._since_s is None:
            self._since_s = snapshot.now_s
        lasts_s = snapshot.now_s - self._since_s
        found: list[str] = []
        if lasts_s >= NAMES_AFTER_S and not self._told_names:
            self._told_names = True
            found += _nameless(policy, sizes, snapshot)
        if lasts_s >= READINGS_AFTER_S and not self._told_readings:
            self._told_readings = True
            since = format_duration(READINGS_AFTER_S)
            found += [
                f"rule '{name}' waits for {' and '.join(silent)}, of which nothing was read in {since}"
                for name, silent in unheard().items()
            ]
        return found


def _nameless(policy: Policy, sizes: Sizes, snapshot: Snapshot) -> Iterator[str]:
    there = ", ".join(snapshot.pipeline.order) or "none"
    for kind, parts in (("rule", policy.rules), ("bounds", policy.bounds)):
        for part in parts:
            if part.operator != EACH_OPERATOR and not sizes.known(part.operator, snapshot):
                name = "name" if kind == "bounds" else "names"
                yield f"{kind} '{part.name}' {name} operator {part.operator}, which is not there; there are {there}"
