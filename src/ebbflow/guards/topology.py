"""Guards of a datastore, whose nodes hold data: one for each rule of ``core.topology``."""

from __future__ import annotations

from ebbflow.core.decision import Decision
from ebbflow.core.ports import Guard
from ebbflow.core.snapshot import Snapshot
from ebbflow.core.topology import Rule, safety_rules


class TopologyGuard(Guard):
    """Restrains a decision to the sizes that a rule allows. Targets without a topology are not restrained."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self.name = rule.name

    def restrain(self, snapshot: Snapshot, decision: Decision) -> Decision:
        """Take the nearest safe size."""
        size, wanted = snapshot.planned.main_nodes, decision.wanted.main_nodes
        if snapshot.topology is None or size == wanted:
            return decision
        verdict = self._rule.allowed(snapshot.topology, size, wanted)
        if not verdict.why:
            return decision
        return decision.bound(decision.wanted.with_nodes(verdict.size), self.name, verdict.why)


def topology_guards(*, free_share: float = 0.5) -> tuple[Guard, ...]:
    """The guards that a datastore needs, for ``guards_for(strategy, added=…)``.

    ``free_share``: how much of the free disk space of a node a scale-in may fill.

    >>> [guard.name for guard in topology_guards()][-1]
    'replication factor'
    """
    return tuple(TopologyGuard(rule) for rule in safety_rules(free_share=free_share))
