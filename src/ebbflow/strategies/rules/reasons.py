"""What the strategy ``rules`` says: which rule fired and on what; which came closest and what blocked it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ebbflow.core.decision import Constraint, Decision
from ebbflow.core.duration import format_duration
from ebbflow.core.snapshot import Snapshot
from ebbflow.policy.evaluation import RuleState
from ebbflow.policy.evaluation.router import Router
from ebbflow.policy.language.english import rule_in_english
from ebbflow.policy.model import EACH_OPERATOR
from ebbflow.strategies.rules.attempts import Attempts
from ebbflow.strategies.rules.sizes import InForce, Sizes, bounded, limited

LIMIT, GUARD_TIME, RETRY = "limit", "guard time", "retry"
SHOWN_READINGS = 12


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A rule whose conditions hold: what it may do."""

    state: RuleState
    size: int
    now: int
    blocked: Constraint | None = None
    clamped: Constraint | None = None


def hold(
    states: Sequence[RuleState], verdicts: Sequence[Verdict], sizes: Sizes, snapshot: Snapshot
) -> Decision:
    """Everything stays: why, of the rules that would fire, and which of the others is closest."""
    now_s = snapshot.now_s
    blocked = [(v.state, v.blocked) for v in verdicts if v.blocked is not None]
    # who waits for a time tells more than who is at its end
    blocked.sort(key=lambda each: each[1].name not in (GUARD_TIME, RETRY))
    fires = {id(verdict.state) for verdict in verdicts}
    waiting = [s for s in states if id(s) not in fires and sizes.known(s.operator, snapshot)]
    closest = max(waiting, key=lambda state: state.progress(now_s), default=None)
    reasons = [f"rule {named(state)} would fire, but {why.why}" for state, why in blocked[:1]]
    if closest is not None:
        near = closest.progress(now_s) > 0
        words = f"closest is rule {named(closest)}: " if near else "no rule is near: "
        reasons.append(f"{'else, ' if reasons else ''}{words}{closest.missing(now_s)}")
    elif not states:
        reasons.append("the policy has no rules")
    elif not reasons:
        operators = ", ".join(sorted({state.operator for state in states}))
        there = ", ".join(snapshot.pipeline.order) or "none"
        reasons.append(f"no rule applies: they name operators {operators}; there are {there}")
    first = blocked[0][0] if blocked else closest
    return Decision(
        wanted=snapshot.planned,
        reason="; ".join(reasons),
        formula=formula(first),
        inputs={"rule": blocked[0][0].rule.name} if blocked else {},
        bound_by=tuple(why for _, why in blocked),
    )


def named(state: RuleState) -> str:
    """A rule by its name, and the operator it was applied to where it has no own one."""
    about = f" ({state.operator})" if state.rule.operator == EACH_OPERATOR else ""
    return f"'{state.rule.name}'{about}"


def formula(state: RuleState | None) -> str:
    """The rule as a sentence."""
    return "all conditions of a rule hold" if state is None else rule_in_english(state.rule)


def evidence_of(fired: list[RuleState], router: Router, snapshot: Snapshot) -> Mapping[str, float | str]:
    """Which rule fired, what its triggers saw, and the readings themselves."""
    inputs: dict[str, float | str] = {}
    if fired:
        inputs["rule"] = "; ".join(dict.fromkeys(state.rule.name for state in fired))
    for state in fired:
        about = f" [{state.operator}]" if state.operator else ""
        for evidence in state.evidence(snapshot.now_s):
            inputs[f"{evidence.condition}{about}"] = evidence.seen
            for subject, metric in router.heard_by(evidence.state):
                window = snapshot.windows.of(subject, metric)
                points = window.since(evidence.since_s)
                listed = _listed([value for _, value in points])
                if points and points[-1][0] - window.span_s > evidence.since_s:  # older ones are forgotten
                    listed = f"of the last {format_duration(window.span_s)}: {listed}"
                inputs[f"readings of {metric.key} of {subject}"] = listed
    return inputs


def _listed(values: list[float]) -> str:
    """The readings, with a gap where they are many.

    >>> _listed([float(v) for v in range(100)])
    '0, 1, 2, 3, 4, … (88 more) …, 93, 94, 95, 96, 97, 98, 99'
    """
    texts = [f"{value:.6g}" for value in values]
    if len(texts) > SHOWN_READINGS:
        texts[5:-7] = [f"… ({len(texts) - 12} more) …"]
    return ", ".join(texts)


# What becomes of a rule whose conditions hold.


def judge(
    state: RuleState, snapshot: Snapshot, in_force: Iterable[InForce], sizes: Sizes, attempts: Attempts
) -> Verdict:
    """What a rule that fires may do: guard times first, then the limit, then bounds."""
    rule, subject = state.rule, sizes.subject(state.operator, snapshot)
    now = sizes.now(subject, snapshot)
    for guard, changed_s, word in (
        (rule.no_scale_out_since, sizes.last_out_s.get(subject), "scale-out"),
        (rule.no_scale_in_since, sizes.last_in_s.get(subject), "scale-in"),
    ):
        if guard is not None and changed_s is not None:
            left_s = changed_s + guard.seconds - snapshot.now_s
            if left_s > 0:
                why = f"{word} was {format_duration(snapshot.now_s - changed_s) or 'just now'} ago"
                why += f"; waits {format_duration(left_s)} more"
                return Verdict(state=state, size=now, now=now, blocked=Constraint(name=GUARD_TIME, why=why))
    stepped = rule.to if rule.by is None else rule.by.from_size(now, out=rule.out)
    assert stepped is not None
    size, clamped = limited(rule, stepped, subject, sizes.original.get(subject, 1), snapshot)
    if (size <= now) if rule.out else (size >= now):
        why = f"it is {now}, and {clamped.why}" if clamped else f"it is {now} already"
        return Verdict(state=state, size=now, now=now, blocked=Constraint(name=LIMIT, why=why))
    size, held = bounded(rule, size, subject, in_force)
    if held is not None and ((size <= now) if rule.out else (size >= now)):
        return Verdict(state=state, size=now, now=now, blocked=held)
    if attempts.waits_s(subject, size, snapshot.now_s) > 0:
        why = attempts.told(subject, size, snapshot.now_s)
        return Verdict(state=state, size=now, now=now, blocked=Constraint(name=RETRY, why=why))
    return Verdict(state=state, size=size, now=now, clamped=held or clamped)
