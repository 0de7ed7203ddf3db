"""The strategy ``rules`` of the Rules thesis (§4.3.5), on any target.

In each cycle a router passes new readings to the triggers that need them. A rule whose conditions all hold and whose
guard times have passed changes its operator by its step, up to its limit. Guard times count from the last change of
*that* size, by any cause. After it has acted, a rule needs a full new period. If several rules fire for one size,
scale-out wins over scale-in, and of several the one with the largest result. Bounds need no trigger and no readings;
but while the target cannot be observed the loop does not call the strategy, so not even bounds are enforced.

An operator with a parallelism of its own is resized by it; one without is fused with its upstream and resized with
the nodes. Growth without free slots adds nodes, and shrinking releases the nodes it filled (``nodes``). A change
without effect is retried with back-off, and nodes added for it are released. Missing or stale readings fire nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from ebbflow.core.decision import Constraint, Decision, LedgerEntry
from ebbflow.core.duration import format_duration
from ebbflow.core.metrics import Metric
from ebbflow.core.parameters import PYTHON_ONLY
from ebbflow.core.ports import DecidesOn, Strategy
from ebbflow.core.readings import Series
from ebbflow.core.snapshot import Snapshot
from ebbflow.errors import PolicyError
from ebbflow.policy.checks import find_problems
from ebbflow.policy.evaluation.calendar import applies
from ebbflow.policy.evaluation.routing import Router, needs
from ebbflow.policy.evaluation.states import RuleState
from ebbflow.policy.language.english import bounds_in_english, measured_in_english
from ebbflow.policy.model import EACH_OPERATOR, NODES, Policy, PolicyChange
from ebbflow.strategies.rules.default import default_policy
from ebbflow.strategies.rules.nodes import InstanceNodes
from ebbflow.strategies.rules.reasons import (
    GUARD_TIME,
    LIMIT,
    RETRY_LATER,
    PolicyWarnings,
    Proposal,
    evidence_of,
    formula,
    hold,
)
from ebbflow.strategies.rules.sizes import (
    ActiveBounds,
    Attempts,
    Sizes,
    enforced,
    within_bounds,
    within_limit,
)

FUTURE_S = 1.0
"""A reading dated further in the future than this waits for its time."""


@dataclass(kw_only=True)
class _Changes:
    """The sizes to change in this cycle, and why."""

    sizes: dict[str, int] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    fired: list[RuleState] = field(default_factory=list)
    bound_by: list[Constraint] = field(default_factory=list)


class Rules(Strategy):
    """Scales by the rules and bounds of a policy.

    >>> Rules().policy.rules[0].name
    'Rows wait too long: add half as many nodes'
    """

    name = "rules"
    brings_own_guards = True
    decides_on = DecidesOn.READINGS

    def __init__(
        self, policy: Policy | None = None, *, begins_at_s: Annotated[float, PYTHON_ONLY] = 0.0
    ) -> None:
        """``begins_at_s``: the wall time when the clock of the snapshots is at 0, if that is not the epoch."""
        self._policy = _checked(policy) if policy is not None else default_policy()
        self._begins_at_s = begins_at_s
        self._router: Router | None = None
        self._previous_s = -math.inf
        """The time of the previous cycle. Rules added since ignore earlier readings."""
        self._sizes = Sizes()
        self._nodes = InstanceNodes()
        self._warnings = PolicyWarnings()
        self._acting: list[tuple[RuleState, str, int]] = []
        """Rules that fired in the previous cycle, each with its subject and the size before."""
        self._attempts = Attempts()
        self._idle_nodes = 0
        """Nodes added for instances that did not start."""

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._policy

    @property
    def needed_series(self) -> tuple[Series, ...]:
        """Every series the policy reads."""
        return tuple(Series(need.subject or "*", need.metric) for need in needs(self._policy))

    @property
    def unread(self) -> dict[str, tuple[str, ...]]:
        """The measures without any reading, by rule; their conditions cannot hold."""
        found: dict[str, list[str]] = {}
        for state in self._router.states if self._router is not None else ():
            measures = [measured_in_english(each.trigger) for each in state.triggers if not each.has_readings]
            if measures:
                found.setdefault(state.rule.name, []).extend(measures)
        return {name: tuple(dict.fromkeys(measures)) for name, measures in found.items()}

    def use(self, policy: Policy) -> PolicyChange:
        """Replace the policy from the next cycle on. Unchanged rules keep their readings; others start fresh."""
        change = PolicyChange.between(self._policy, _checked(policy))
        self._policy = policy
        self._warnings.reset()
        if self._router is not None:
            self._router.use(policy, self._previous_s)
        return change

    def recall(self, acts: Iterable[LedgerEntry]) -> None:
        """Take over the actions of earlier runs from the ledger, oldest first: guard times survive a restart."""
        for act in acts:
            self._sizes.recall(act)
            self._nodes.recall(act)

    # -- one cycle -----------------------------------------------------------------------------

    def decide(self, snapshot: Snapshot) -> Decision:
        """Return the sizes that the firing rules want; else a hold that names the rule that came closest."""
        decision = self._decide(snapshot)
        warnings = self._warnings.due(self._policy, lambda: self.unread, snapshot)
        if not warnings:
            return decision
        return msgspec.structs.replace(decision, reason="; ".join([*warnings, decision.reason]))

    def _decide(self, snapshot: Snapshot) -> Decision:
        router = self._current_router(snapshot)
        self._settle(snapshot)
        self._feed(router, snapshot)
        active = list(self._active_bounds(snapshot))
        proposals = [
            self._propose(state, snapshot, active)
            for state in router.states
            if self._sizes.exists(state.operator, snapshot) and state.fires(snapshot.now_s)
        ]
        changes = _Changes()
        self._choose(proposals, changes)
        self._release_idle_nodes(snapshot, changes)
        self._enforce_bounds(snapshot, active, changes)
        if not changes.sizes:
            return hold(router.states, proposals, snapshot)
        wanted, constraints = self._nodes.layout_with(
            snapshot,
            changes.sizes,
            active,
            release_nodes=not any(r.operator == NODES and not r.out for r in self._policy.rules),
        )
        if not wanted.difference(snapshot.planned):
            return hold(router.states, proposals, snapshot)
        self._acting = [
            (state, subject, self._sizes.planned(subject, snapshot))
            for state in changes.fired
            for subject in [self._sizes.subject(state.operator, snapshot)]
        ]
        self._attempts.note_all(snapshot, changes.sizes, wanted)
        self._sizes.note_decision(wanted, snapshot)
        return Decision(
            wanted=wanted,
            reason=f"{'; '.join(changes.reasons)} ({wanted.difference(snapshot.planned)})",
            formula=formula(changes.fired[0] if changes.fired else None),
            inputs=evidence_of(changes.fired, router, snapshot),
            bound_by=(*changes.bound_by, *constraints),
        )

    # -- readings ------------------------------------------------------------------------------

    def _current_router(self, snapshot: Snapshot) -> Router:
        names, read_limited = snapshot.pipeline.order, snapshot.read_limited
        router = self._router
        if router is None or router.pipeline != snapshot.pipeline.name:
            router = self._router = Router(
                self._policy, snapshot.pipeline.name, names, read_limited, starts_s=self._previous_s
            )
        elif router.operators != names or router.read_limited != read_limited:
            router.operators, router.read_limited = names, read_limited
            router.use(self._policy, self._previous_s)
        self._previous_s = snapshot.now_s
        return router

    def _settle(self, snapshot: Snapshot) -> None:
        """Account for changes since the previous cycle. Rules whose change happened start a new period; rules whose
        change a guard prevented have not acted."""
        for state, subject, before in self._acting:
            size = self._sizes.planned(subject, snapshot)
            if (size > before) if state.rule.out else (size < before):
                state.reset()
        self._acting = []
        self._idle_nodes = self._attempts.settle(snapshot)
        self._sizes.observe(snapshot)
        self._nodes.observe(snapshot, starting=self._sizes.starting)

    def _feed(self, router: Router, snapshot: Snapshot) -> None:
        newest_s = snapshot.now_s + FUTURE_S
        if len(router) > 2 * len(snapshot.windows) + 100:
            router.forget_all_but(snapshot.windows.series())
        new: dict[Metric, list[tuple[str, list[tuple[float, float]]]]] = {}
        for subject, metric in snapshot.windows.series():
            if not router.waits_for(subject, metric):
                continue
            window = snapshot.windows.of(subject, metric)
            last_s = router.last_s(subject, metric)
            if (window.last_time_s or 0.0) > last_s:
                points = [point for point in window.since(last_s) if point[0] <= newest_s]
                new.setdefault(metric, []).append((subject, points))
        for metric, series in new.items():
            router.add_merged(series, metric)
        router.cover(snapshot.windows, snapshot.now_s)

    # -- decisions -----------------------------------------------------------------------------

    def _active_bounds(self, snapshot: Snapshot) -> Iterator[ActiveBounds]:
        """The bounds that apply at this hour, with each subject they apply to."""
        for bounds in self._policy.bounds:
            if not applies(bounds, self._begins_at_s + snapshot.wall_s):
                continue
            operators = snapshot.pipeline.order if bounds.operator == EACH_OPERATOR else (bounds.operator,)
            for operator in operators:
                if self._sizes.exists(operator, snapshot):
                    yield ActiveBounds(bounds, self._sizes.subject(operator, snapshot))

    def _propose(self, state: RuleState, snapshot: Snapshot, active: list[ActiveBounds]) -> Proposal:
        """What a firing rule may do: check guard times, then the limit, the bounds and refused attempts."""
        rule, subject = state.rule, self._sizes.subject(state.operator, snapshot)
        current = self._sizes.planned(subject, snapshot)

        def blocked(name: str, why: str) -> Proposal:
            return Proposal(state=state, size=current, blocked=Constraint(name=name, why=why))

        for guard, changed_s, word in (
            (rule.no_scale_out_since, self._sizes.last_out_s.get(subject), "scale-out"),
            (rule.no_scale_in_since, self._sizes.last_in_s.get(subject), "scale-in"),
        ):
            if guard is not None and changed_s is not None:
                left_s = changed_s + guard.seconds - snapshot.now_s
                if left_s > 0:
                    ago = format_duration(snapshot.now_s - changed_s)
                    last = f"the last {word} was {f'{ago} ago' if ago else 'just now'}"
                    return blocked(GUARD_TIME, f"{last}; it waits another {format_duration(left_s)}")
        stepped = rule.to if rule.by is None else rule.by.from_size(current, out=rule.out)
        assert stepped is not None
        size, limit = within_limit(rule, stepped, subject, self._sizes.original.get(subject, 1), snapshot)
        if (size <= current) if rule.out else (size >= current):
            why = f"the size is already {current}"
            return blocked(LIMIT, f"{why} and the limit is {size}" if limit else why)
        size, bound = within_bounds(rule, size, subject, active)
        if bound is not None and ((size <= current) if rule.out else (size >= current)):
            return Proposal(state=state, size=current, blocked=bound)
        if self._attempts.wait_s(subject, size, snapshot.now_s) > 0:
            return blocked(RETRY_LATER, self._attempts.describe(subject, size, snapshot.now_s))
        return Proposal(state=state, size=size, limited=bound or limit)

    def _choose(self, proposals: list[Proposal], changes: _Changes) -> None:
        """Of several rules for one subject, choose the one with the largest size."""
        by_subject: dict[str, list[Proposal]] = {}
        for proposal in proposals:
            if proposal.blocked is None:
                by_subject.setdefault(self._sizes.last_subject(proposal.state.operator), []).append(proposal)
        for subject, able in by_subject.items():
            chosen = max(able, key=lambda each: (each.size, each.state.rule.out))
            changes.sizes[subject] = chosen.size
            agreeing = [
                each for each in able if each is not chosen and each.state.rule.out == chosen.state.rule.out
            ]
            changes.fired += [chosen.state, *(each.state for each in agreeing)]
            changes.bound_by += [chosen.limited] if chosen.limited else []
            text = f"rule '{chosen.state.rule.name}' fired"
            also = ", ".join(f"'{each.state.rule.name}'" for each in agreeing)
            changes.reasons.append(f"{text} (so did {also})" if also else text)

    def _release_idle_nodes(self, snapshot: Snapshot, changes: _Changes) -> None:
        count = self._idle_nodes
        if count and NODES not in changes.sizes:
            changes.sizes[NODES] = max(snapshot.limits.min_nodes, snapshot.planned.main_nodes - count)
            nodes = "1 node: its" if count == 1 else f"{count} nodes: their"
            changes.reasons.append(f"releasing {nodes} instances never started")

    def _enforce_bounds(self, snapshot: Snapshot, active: list[ActiveBounds], changes: _Changes) -> None:
        for bounds, subject in active:
            current = self._sizes.planned(subject, snapshot)
            wanted = changes.sizes.get(subject, current)
            size = enforced(bounds, wanted, subject, self._sizes.original.get(subject, 1), snapshot)
            if size == wanted or self._attempts.wait_s(subject, size, snapshot.now_s) > 0:
                continue
            changes.bound_by.append(Constraint(name=bounds.name, why=bounds_in_english(bounds)))
            changes.sizes[subject] = size
            if size != current:
                changes.reasons.append(f"bounds '{bounds.name}' apply")
        for subject in [s for s, size in changes.sizes.items() if size == self._sizes.planned(s, snapshot)]:
            del changes.sizes[subject]


def _checked(policy: Policy) -> Policy:
    problems = find_problems(policy)
    if problems:
        raise PolicyError(*(problem.text for problem in problems))
    return policy
