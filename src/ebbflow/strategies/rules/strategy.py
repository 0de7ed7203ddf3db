"""Scaling rules that a person wrote: the strategy of the Rules seed (§4.3.5), over the port of any target.

At each look new readings go through a router to the triggers that wait for them. A rule whose conditions all
hold, and whose guard times have passed, changes its operator by its step, up to its limit; a step past the
limit is clamped to it. Guard times count from the last change of *that* size, whoever made it. After its
action a rule needs a fresh full period. Where several rules fire for one size, scale-out goes before scale-in,
and of several the one that leaves it largest. Bounds of the calendar hold without a trigger and without
readings; but while the target cannot be seen the loop asks no strategy, so nothing is done, not even for them.

An operator with a parallelism of its own gets another one; one without is fused with its upstream and is
sized with the nodes. Growth that finds no free slot brings nodes for itself, shrinking gives back those that it
filled. What does not come about is wanted again ever later (``rule_attempts``), and nodes that came for it go
again. Missing or stale readings fire nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from ebbflow.core.decision import Constraint, Decision, LedgerEntry
from ebbflow.core.metrics import Metric
from ebbflow.core.parameters import PYTHON_ONLY
from ebbflow.core.ports import Strategy
from ebbflow.core.readings import Series
from ebbflow.core.snapshot import Snapshot
from ebbflow.errors import PolicyError
from ebbflow.policy.checks import findings
from ebbflow.policy.evaluation import RuleState
from ebbflow.policy.evaluation.calendar import holds
from ebbflow.policy.evaluation.change import PolicyChange
from ebbflow.policy.evaluation.needs import needs
from ebbflow.policy.evaluation.router import Router
from ebbflow.policy.language.builder import default_policy
from ebbflow.policy.language.english import bounds_in_english, measured_in_english
from ebbflow.policy.model import EACH_OPERATOR, NODES, Policy
from ebbflow.strategies.rules.attempts import Attempts
from ebbflow.strategies.rules.nodes import NodesOfInstances
from ebbflow.strategies.rules.reasons import Verdict, evidence_of, formula, hold, judge
from ebbflow.strategies.rules.sizes import InForce, MissingNames, Sizes, kept

FUTURE_S = 1.0
"""A reading from further in the future than this waits for its time."""


@dataclass(kw_only=True)
class _Answer:
    """What becomes of the sizes at this look."""

    sizes: dict[str, int] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    fired: list[RuleState] = field(default_factory=list)
    bound: list[Constraint] = field(default_factory=list)


class Rules(Strategy):
    """Does what a policy says.

    >>> Rules().policy.rules[0].name
    'Rows wait too long: half as many nodes again'
    """

    name = "rules"
    brings_own_guards = True

    def __init__(
        self, policy: Policy | None = None, *, begins_at_s: Annotated[float, PYTHON_ONLY] = 0.0
    ) -> None:
        """``begins_at_s``: what the calendar says when the snapshots' clock is at 0, where that is not the epoch."""
        self._policy = _sound(policy) if policy is not None else default_policy()
        self._begins_at_s = begins_at_s
        self._router: Router | None = None
        self._looked_s = -math.inf
        """When the last look was. To rules that come later, what was read before counts for nothing."""
        self._sizes = Sizes()
        self._nodes = NodesOfInstances()
        self._missing = MissingNames()
        self._acting: list[tuple[RuleState, str, int]] = []
        """Rules that fired at the last look, each with the size it found."""
        self._attempts = Attempts()
        self._idle_nodes = 0
        """Nodes that came for instances which did not."""

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._policy

    @property
    def needed_series(self) -> tuple[Series, ...]:
        """Every series the policy reads."""
        return tuple(Series(need.subject or "*", need.metric) for need in needs(self._policy))

    @property
    def unheard(self) -> dict[str, tuple[str, ...]]:
        """By the names of rules, what they wait for and was never read: such a condition cannot hold here."""
        found: dict[str, list[str]] = {}
        for state in self._router.states if self._router is not None else ():
            silent = [measured_in_english(each.trigger) for each in state.states if not each.heard]
            if silent:
                found.setdefault(state.rule.name, []).extend(silent)
        return {name: tuple(dict.fromkeys(silent)) for name, silent in found.items()}

    def use(self, policy: Policy) -> PolicyChange:
        """Another policy from the next look on; rules that are the same keep their histories, others have none."""
        change = PolicyChange.between(self._policy, _sound(policy))
        self._policy = policy
        self._missing.start_over()
        if self._router is not None:
            self._router.use(policy, self._looked_s)
        return change

    def recall(self, acts: Iterable[LedgerEntry]) -> None:
        """What a ledger says was done before the start, oldest first: a restart does not end a guard time."""
        for act in acts:
            self._sizes.recall(act)
            self._nodes.recall(act)

    def start_over(self, now_s: float) -> None:
        """The clock was set back: all conditions need a fresh full period, guard times count from now."""
        self._router, self._looked_s, self._acting = None, -math.inf, []
        self._sizes.start_over(now_s)
        self._attempts.start_over(now_s)
        self._missing.start_over()

    # -- the port ------------------------------------------------------------------------------

    def decide(self, snapshot: Snapshot) -> Decision:
        """The sizes that the rules which fire want; else a hold that tells which rule came closest."""
        decision = self._decide(snapshot)
        news = self._missing.news(self._policy, lambda: self.unheard, self._sizes, snapshot)
        return (
            msgspec.structs.replace(decision, reason="; ".join([*news, decision.reason]))
            if news
            else decision
        )

    def _decide(self, snapshot: Snapshot) -> Decision:
        router = self._routed(snapshot)
        self._settle(snapshot)
        self._feed(router, snapshot)
        in_force = list(self._in_force(snapshot))
        verdicts = [
            judge(state, snapshot, in_force, self._sizes, self._attempts)
            for state in router.states
            if self._sizes.known(state.operator, snapshot) and state.fires(snapshot.now_s)
        ]
        answer = _Answer()
        self._act(verdicts, answer)
        self._give_back(snapshot, answer)
        self._keep_bounds(snapshot, in_force, answer)
        if not answer.sizes:
            return hold(router.states, verdicts, self._sizes, snapshot)
        wanted, clamps = self._nodes.with_sizes(
            snapshot,
            answer.sizes,
            in_force,
            gives_back=not any(r.operator == NODES and not r.out for r in self._policy.rules),
        )
        if not wanted.difference(snapshot.planned):
            return hold(router.states, verdicts, self._sizes, snapshot)
        self._acting = [
            (state, subject, self._sizes.now(subject, snapshot))
            for state in answer.fired
            for subject in [self._sizes.subject(state.operator, snapshot)]
        ]
        self._attempts.note_all(snapshot, answer.sizes, wanted)
        self._sizes.acts(wanted, snapshot)
        first = answer.fired[0] if answer.fired else None
        return Decision(
            wanted=wanted,
            reason=f"{'; '.join(answer.reasons)} ({wanted.difference(snapshot.planned)})",
            formula=formula(first),
            inputs=evidence_of(answer.fired, router, snapshot),
            bound_by=(*answer.bound, *clamps),
        )

    # -- looking -------------------------------------------------------------------------------

    def _routed(self, snapshot: Snapshot) -> Router:
        names, limited = snapshot.pipeline.order, snapshot.read_limited
        router = self._router
        if router is None or router.pipeline != snapshot.pipeline.name:
            router = self._router = Router(
                self._policy, snapshot.pipeline.name, names, limited, begins_s=self._looked_s
            )
        elif router.operators != names or router.limited != limited:
            router.operators, router.limited = names, limited
            router.use(self._policy, self._looked_s)
        self._looked_s = snapshot.now_s
        return router

    def _settle(self, snapshot: Snapshot) -> None:
        """Note what became of the sizes since the last look. Rules that acted start afresh; those that
        were held back by a guard did not act."""
        for state, subject, before in self._acting:
            now = self._sizes.now(subject, snapshot)
            if (now > before) if state.rule.out else (now < before):
                state.reset()
        self._acting = []
        self._idle_nodes = self._attempts.settle(snapshot)
        self._sizes.look(snapshot)
        self._nodes.look(snapshot, starting=self._sizes.starting)

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
            router.offer_merged(series, metric)
        router.cover(snapshot.windows, snapshot.now_s)

    # -- judging -------------------------------------------------------------------------------

    def _in_force(self, snapshot: Snapshot) -> Iterator[InForce]:
        """The bounds that hold at this hour, with what each of them sizes."""
        for bounds in self._policy.bounds:
            if not holds(bounds, self._begins_at_s + snapshot.now_s):
                continue
            operators = snapshot.pipeline.order if bounds.operator == EACH_OPERATOR else (bounds.operator,)
            for operator in operators:
                if self._sizes.known(operator, snapshot):
                    yield InForce(bounds, self._sizes.subject(operator, snapshot))

    def _act(self, verdicts: list[Verdict], answer: _Answer) -> None:
        by_subject: dict[str, list[Verdict]] = {}
        for verdict in verdicts:
            if verdict.blocked is None:
                by_subject.setdefault(self._sizes.subject_of(verdict.state.operator), []).append(verdict)
        for subject, able in by_subject.items():
            chosen = max(able, key=lambda v: (v.size, v.state.rule.out))
            answer.sizes[subject] = chosen.size
            same = [v for v in able if v.state.rule.out == chosen.state.rule.out]
            answer.fired += [chosen.state, *(v.state for v in same if v is not chosen)]
            answer.bound += [chosen.clamped] if chosen.clamped else []
            also = [v.state.rule.name for v in same if v is not chosen]
            text = f"rule '{chosen.state.rule.name}' fired"
            answer.reasons.append(f"{text} (and {', '.join(also)})" if also else text)

    def _give_back(self, snapshot: Snapshot, answer: _Answer) -> None:
        count = self._idle_nodes
        if count and NODES not in answer.sizes:
            answer.sizes[NODES] = max(snapshot.limits.min_nodes, snapshot.planned.main_nodes - count)
            answer.reasons.append(f"{count} node(s) go that came for instances which did not come about")

    def _keep_bounds(self, snapshot: Snapshot, in_force: list[InForce], answer: _Answer) -> None:
        for bounds, subject in in_force:
            now = self._sizes.now(subject, snapshot)
            wanted = answer.sizes.get(subject, now)
            size = kept(bounds, wanted, subject, self._sizes.original.get(subject, 1), snapshot)
            if size == wanted or self._attempts.waits_s(subject, size, snapshot.now_s) > 0:
                continue
            answer.bound.append(Constraint(name=bounds.name, why=bounds_in_english(bounds)))
            answer.sizes[subject] = size
            if size != now:
                answer.reasons.append(f"bounds '{bounds.name}' hold")
        for subject in [s for s, size in answer.sizes.items() if size == self._sizes.now(s, snapshot)]:
            del answer.sizes[subject]


def _sound(policy: Policy) -> Policy:
    found = findings(policy)
    if found:
        raise PolicyError(*(problem.text for problem in found))
    return policy
