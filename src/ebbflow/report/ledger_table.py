"""The ledger of a run as a table for people: every act, and holds folded while their reason stays."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from ebbflow.core.decision import LedgerEntry
from ebbflow.core.run import Run
from ebbflow.report.numbers import clock
from ebbflow.report.wording import bound_by, change, effect, inputs

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True, kw_only=True)
class Fold:
    """Decisions shown as one row: a single act, or holds in a row for one reason."""

    entries: tuple[LedgerEntry, ...]

    @property
    def first(self) -> LedgerEntry:
        """The earliest."""
        return self.entries[0]

    @property
    def last(self) -> LedgerEntry:
        """The latest: the one whose words are shown."""
        return self.entries[-1]


def fold(entries: Sequence[LedgerEntry]) -> list[Fold]:
    """Acts one by one; consecutive holds together where their reasons differ in nothing but numbers.

    Numbers are left out of the comparison because "3 executors hold 240 rows/s" and "3 executors hold
    243 rows/s" say the same thing twice.
    """
    folds = []
    for _, group in groupby(entries, key=_reason_key):
        together = tuple(group)
        if together[0].verdict == "hold":
            folds.append(Fold(entries=together))
        else:
            folds.extend(Fold(entries=(entry,)) for entry in together)
    return folds


def _reason_key(entry: LedgerEntry) -> tuple[str, str, tuple[str, ...]]:
    constraints = tuple(constraint.name for constraint in entry.decision.bound_by)
    return entry.verdict, _NUMBER.sub("#", entry.decision.reason), constraints


def ledger_table(run: Run) -> str:
    """The table as HTML; every word of the ledger is escaped."""
    if not run.decisions:
        return '<p class="none">No decisions were made in this run.</p>'
    rows = "".join(_row(folded, run.started_s) for folded in fold(run.decisions))
    heads = "".join(
        f'<th scope="col"{title}>{name}</th>'
        for name, title in (
            ("Time", ' title="Minutes and seconds since the start"'),
            ("Verdict", ""),
            ("Executors", ' title="Planned before → planned after"'),
            ("Why", ' title="Reason, formula, and the numbers put into it"'),
            ("Bound by", ' title="What made the step smaller, larger or later than the strategy wanted"'),
            ("Expected → achieved", ' title="What the step should bring, and what was measured later"'),
        )
    )
    return f'<table class="ledger"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'


def _row(folded: Fold, started_s: float) -> str:
    last = folded.last
    kind = "act" if last.verdict == "act" else "hold"
    times = clock(folded.first.time_s - started_s)
    if len(folded.entries) > 1:
        times += f"<span class='to'>–{clock(last.time_s - started_s)}</span>"
    direction = _direction(last)
    return (
        f'<tr class="{kind}" data-verdict="{kind}">'
        f'<td class="time">{times}</td>'
        f'<td><span class="verdict {kind}">{html.escape(last.verdict)}</span>{_count(folded)}</td>'
        f'<td class="change">{direction}{html.escape(change(last.before, last.decision.wanted))}</td>'
        f'<td class="why">{_why(folded, started_s)}</td>'
        f'<td class="bound">{_bound(last)}</td>'
        f'<td class="effect">{html.escape(effect(last))}</td></tr>'
    )


def _count(folded: Fold) -> str:
    count = len(folded.entries)
    return f' <span class="count">×{count}</span>' if count > 1 else ""


def _direction(entry: LedgerEntry) -> str:
    growth = sum(entry.decision.wanted.nodes.values()) - sum(entry.before.nodes.values())
    if growth == 0:
        return ""
    return '<span class="up">▲</span> ' if growth > 0 else '<span class="down">▼</span> '


def _why(folded: Fold, started_s: float) -> str:
    reason = f'<span class="reason">{html.escape(folded.last.decision.reason)}</span>'
    if len(folded.entries) == 1:
        return reason + _working(folded.last)
    each = "".join(
        f'<li><span class="time">{clock(entry.time_s - started_s)}</span>'
        f"<div>{html.escape(entry.decision.reason)}{_working(entry)}</div></li>"
        for entry in folded.entries
    )
    return f"<details><summary>{reason}</summary><ol>{each}</ol></details>"


def _working(entry: LedgerEntry) -> str:
    """Formula and inputs, the way the number came about, and what could not be had."""
    decision = entry.decision
    parts = [part for part in (decision.formula, inputs(decision)) if part]
    text = f'<span class="working">{html.escape("  ·  ".join(parts))}</span>' if parts else ""
    outcome = entry.outcome
    if outcome is not None and (outcome.infeasible_nodes or outcome.note):
        too_many = sum(outcome.requested.nodes.values()) > sum(decision.wanted.nodes.values())
        cannot = "cannot leave" if too_many else "cannot be had"
        note = f"{outcome.infeasible_nodes} {cannot}" if outcome.infeasible_nodes else ""
        note = ": ".join(part for part in (note, outcome.note) if part)
        text += f'<span class="working">{html.escape(note)}</span>'
    return text


def _bound(entry: LedgerEntry) -> str:
    constraints = entry.decision.bound_by
    names = ", ".join(constraint.name for constraint in constraints)
    return (
        f'<abbr title="{html.escape(bound_by(entry.decision))}">{html.escape(names)}</abbr>' if names else ""
    )
