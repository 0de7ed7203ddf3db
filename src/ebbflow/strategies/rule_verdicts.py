"""What becomes of a rule whose conditions hold."""

from __future__ import annotations

from collections.abc import Iterable

from ebbflow.core.decision import Constraint
from ebbflow.core.duration import format_duration
from ebbflow.core.snapshot import Snapshot
from ebbflow.policy.evaluation import RuleState
from ebbflow.strategies.rule_attempts import Attempts
from ebbflow.strategies.rule_limits import InForce, bounded, limited
from ebbflow.strategies.rule_reasons import GUARD_TIME, LIMIT, RETRY, Verdict
from ebbflow.strategies.rule_sizes import Sizes


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
