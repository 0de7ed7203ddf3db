"""The leaderboard: one row per strategy, ranked by a rule that can be said in one sentence.

**The rule.** Strategies that kept the SLO come first, those that cost least before the others; strategies that did not
keep it come after them, the least late first. Kept: the mean violation over all runs is at most 1 − quantile (5 % for
p95). Cost: the mean of node_seconds over all runs. A strategy with a run that failed comes last, since its means are
over fewer runs than those of the others. Where nobody knows the cost (of a recorded run), it counts as the highest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ebbflow.bench.leaderboard.sweep import HINDSIGHT, Failure, Result, Sweep, kept_slo, mean
from ebbflow.bench.score import Scores

RULE = (
    "Those that kept the SLO first (mean violation ≤ 1 − quantile), the fewest mean node_seconds before the "
    "others; then those that did not, the least late first; then those with failed runs."
)

SCORE_NAMES: tuple[str, ...] = tuple(field.name for field in fields(Scores))


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A strategy on the board. ``scores`` are means over its runs."""

    rank: int
    strategy: str
    kept: bool
    """By its mean violation."""
    kept_runs: int
    wins: int
    """Loads on which it was first by the same rule."""
    runs: int
    failed: int
    scores: Mapping[str, float | None]

    def to_json(self) -> dict[str, Any]:
        """As plain values, the rank and the name first."""
        return {
            "rank": self.rank,
            "strategy": self.strategy,
            **self.scores,
            "slo_kept": self.kept,
            "runs": self.runs,
            "runs_kept": self.kept_runs,
            "runs_failed": self.failed,
            "loads_won": self.wins,
        }


def leaderboard(sweep: Sweep, *, quantile: float) -> list[Standing]:
    """Rank the strategies of a sweep; ``quantile`` is that of its SLO."""
    order = _order(sweep.results, sweep.failures, quantile)
    winners: list[str] = []
    for load in dict.fromkeys(result.load for result in sweep.results):
        on_it = [result for result in sweep.results if result.load == load]
        lost = [failure for failure in sweep.failures if failure.load == load]
        winners += _order(on_it, lost, quantile)[:1]
    standings = []
    for rank, strategy in enumerate(order, start=1):
        mine = [result for result in sweep.results if result.strategy == strategy]
        scores = mean_scores(mine)
        standings.append(
            Standing(
                rank=rank,
                strategy=strategy,
                kept=bool(mine) and kept_slo(scores["violation"], quantile),
                kept_runs=sum(result.kept for result in mine),
                wins=winners.count(strategy),
                runs=len(mine),
                failed=sum(failure.strategy == strategy for failure in sweep.failures),
                scores=scores,
            )
        )
    return standings


def mean_scores(results: Sequence[Result]) -> dict[str, float | None]:
    """The mean of every score over runs, where it is known.

    >>> mean_scores([])["node_seconds"] is None
    True
    """
    return {name: mean([getattr(result.scores, name) for result in results]) for name in SCORE_NAMES}


def _order(results: Sequence[Result], failures: Iterable[Failure], quantile: float) -> list[str]:
    """Names, best first: the rule. Equals are ordered by name, so that the board is the same every time."""
    failed = [failure.strategy for failure in failures if failure.strategy != HINDSIGHT]
    keys: dict[str, tuple[int, float, float, str]] = {}
    for name in dict.fromkeys([*(result.strategy for result in results), *failed]):
        mine = [result for result in results if result.strategy == name]
        late = mean([result.scores.violation for result in mine]) or 0.0
        known = mean([result.scores.node_seconds for result in mine])
        cost = math.inf if known is None else known
        if name in failed:
            keys[name] = (2, float(failed.count(name)), late, name)
        elif kept_slo(late, quantile):
            keys[name] = (0, cost, late, name)
        else:
            keys[name] = (1, late, cost, name)
    return sorted(keys, key=lambda name: keys[name])
