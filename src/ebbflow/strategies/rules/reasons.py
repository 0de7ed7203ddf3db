"""The explanations of the strategy ``rules``: which rule fired and why, what blocked it, and which came closest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ebbflow.core.decision import Constraint, Decision
from ebbflow.core.duration import format_duration
from ebbflow.core.snapshot import Snapshot
from ebbflow.policy.evaluation.routing import Router
from ebbflow.policy.evaluation.states import RuleState
from ebbflow.policy.language.english import rule_in_english
from ebbflow.policy.model import EACH_OPERATOR, Policy
from ebbflow.strategies.rules.sizes import Sizes

LIMIT, GUARD_TIME, RETRY_LATER = "limit", "guard time", "retry"
SHOWN_READINGS = 12
NAMES_AFTER_S = 30.0
"""Names may be missing for this long, because the queries of a job start one by one."""
READINGS_AFTER_S = 300.0
"""Readings may be missing for this long, because some are only reported with a finished batch."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What a rule whose conditions hold wants to do, and what blocks or limits it."""

    state: RuleState
    size: int
    blocked: Constraint | None = None
    limited: Constraint | None = None


def hold(states: Sequence[RuleState], proposals: Sequence[Proposal], snapshot: Snapshot) -> Decision:
    """Change nothing; explain what blocks the rules that would fire, and which other rule is closest."""
    now_s = snapshot.now_s
    blocked = [(proposal.state, proposal.blocked) for proposal in proposals if proposal.blocked is not None]
    # a rule that only waits is more informative than one at its limit
    blocked.sort(key=lambda each: each[1].name not in (GUARD_TIME, RETRY_LATER))
    firing = {id(proposal.state) for proposal in proposals}
    waiting = [s for s in states if id(s) not in firing and Sizes.exists(s.operator, snapshot)]
    closest = max(waiting, key=lambda state: state.progress(now_s), default=None)
    reasons = [f"rule {_named(state)} would fire, but {why.why}" for state, why in blocked[:1]]
    if closest is not None:
        other = "other " if reasons else ""
        missing = closest.missing(now_s)
        if closest.progress(now_s) > 0:
            reasons.append(f"the closest {other}rule is {_named(closest)}: {missing}")
        else:
            reasons.append(f"no {other}rule is close to firing (for {_named(closest)}, {missing})")
    elif not states:
        reasons.append("the policy has no rules")
    elif not reasons:
        named = ", ".join(sorted({state.operator for state in states}))
        reasons.append(f"no rule applies: the rules name operators {named}; {_operators_of(snapshot)}")
    first = blocked[0][0] if blocked else closest
    return Decision(
        wanted=snapshot.planned,
        reason="; ".join(reasons),
        formula=formula(first),
        inputs={"rule": blocked[0][0].rule.name} if blocked else {},
        bound_by=tuple(why for _, why in blocked),
    )


def _named(state: RuleState) -> str:
    """The name of a rule, with the operator it is applied to if the rule is on each operator."""
    operator = f" ({state.operator})" if state.rule.operator == EACH_OPERATOR else ""
    return f"'{state.rule.name}'{operator}"


def _operators_of(snapshot: Snapshot) -> str:
    operators = ", ".join(snapshot.pipeline.order)
    return f"the pipeline has {operators}" if operators else "the pipeline has none"


def formula(state: RuleState | None) -> str:
    """The rule as a sentence."""
    return "all conditions of a rule hold" if state is None else rule_in_english(state.rule)


def evidence_of(fired: list[RuleState], router: Router, snapshot: Snapshot) -> Mapping[str, float | str]:
    """The rules that fired, the values their triggers compared, and the readings."""
    inputs: dict[str, float | str] = {}
    if fired:
        inputs["rule"] = "; ".join(dict.fromkeys(state.rule.name for state in fired))
    for state in fired:
        operator = f" [{state.operator}]" if state.operator else ""
        for evidence in state.evidence(snapshot.now_s):
            inputs[f"{evidence.condition}{operator}"] = evidence.observed
            for subject, metric in router.series_of(evidence.state):
                window = snapshot.windows.of(subject, metric)
                points = window.since(evidence.since_s)
                listed = _listed([value for _, value in points])
                if points and points[-1][0] - window.span_s > evidence.since_s:  # the window lacks older ones
                    listed = f"of the last {format_duration(window.span_s)}: {listed}"
                inputs[f"readings of {metric.key} of {subject}"] = listed
    return inputs


def _listed(values: list[float]) -> str:
    """The readings; of many, the first and the last ones.

    >>> _listed([float(v) for v in range(100)])
    '0, 1, 2, 3, 4, … (88 more) …, 93, 94, 95, 96, 97, 98, 99'
    """
    texts = [f"{value:.6g}" for value in values]
    if len(texts) > SHOWN_READINGS:
        texts[5:-7] = [f"… ({len(texts) - 12} more) …"]
    return ", ".join(texts)


class PolicyWarnings:
    """Warns once about operators and metrics that a policy names but the pipeline lacks.

    Such rules never do anything. Operators are checked shortly after the policy starts, readings later.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start again with another policy."""
        self._since_s: float | None = None
        self._names_checked = self._readings_checked = False

    def due(
        self, policy: Policy, unread: Callable[[], Mapping[str, Iterable[str]]], snapshot: Snapshot
    ) -> list[str]:
        """The warnings to give now. ``unread`` returns the measures without readings, by rule."""
        if self._since_s is None:
            self._since_s = snapshot.now_s
        elapsed_s = snapshot.now_s - self._since_s
        warnings: list[str] = []
        if elapsed_s >= NAMES_AFTER_S and not self._names_checked:
            self._names_checked = True
            warnings += _unknown_operators(policy, snapshot)
        if elapsed_s >= READINGS_AFTER_S and not self._readings_checked:
            self._readings_checked = True
            warnings += [
                f"rule '{name}' has had no readings of {' and '.join(measures)} "
                f"for {format_duration(READINGS_AFTER_S)}"
                for name, measures in unread().items()
            ]
        return warnings


def _unknown_operators(policy: Policy, snapshot: Snapshot) -> Iterator[str]:
    for kind, verb, parts in (("rule", "names", policy.rules), ("bounds", "name", policy.bounds)):
        for part in parts:
            if part.operator != EACH_OPERATOR and not Sizes.exists(part.operator, snapshot):
                yield f"{kind} '{part.name}' {verb} operator {part.operator}, but {_operators_of(snapshot)}"
