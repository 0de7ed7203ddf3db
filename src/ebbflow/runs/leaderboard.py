"""The leaderboard: one row per strategy, ranked by one rule.

**Rule.** Strategies that kept the SLO come first, the cheapest first; then those that did not, the least late first.
Kept means that the mean violation over all runs is at most 1 − quantile (5 % for p95). Cost is the mean of
node_seconds over all runs; an unknown cost (of a recorded run) counts as the highest. A strategy with a failed run
comes last, because its means cover fewer runs.

**Coarse loads are separate.** A load sampled every five minutes is flat for five minutes and then jumps; what happened
in between is unknown. If there are loads of both kinds, the ranking uses the fine ones (at least one sample per
minute, and shapes), and the means of both are shown.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ebbflow.runs.score import Scores
from ebbflow.runs.sweep import HINDSIGHT, Failure, Sweep, SweepResult, kept_slo, mean

RULE = (
    "Strategies that kept the SLO (mean violation ≤ 1 − quantile) come first, ordered by mean node_seconds; then those "
    "that did not, ordered by violation; then those with failed runs."
)
COARSE_NOTE = (
    "Ranked by the runs on loads with at least one sample per minute; coarser loads are shown separately."
)

SCORE_NAMES: tuple[str, ...] = tuple(field.name for field in fields(Scores))

SPREAD_OF = ("node_seconds", "violation")
"""Scores whose spread over the seeds is shown: those that the ranking uses."""

FINE_S = 60.0
"""A load is fine if its samples are at most this far apart."""
FINE, COARSE = "fine", "coarse"


@dataclass(frozen=True, kw_only=True)
class MeanScores:
    """Means of a strategy over some of its runs."""

    scores: Mapping[str, float | None]
    slo_kept: bool
    """By the mean violation."""
    runs: int
    runs_kept: int
    wins: int
    """Loads on which it was first by the same rule."""
    infeasible: int
    """Loads on which no schedule within the limits keeps the SLO. Their ``cost_ratio``, relative to a best effort, is
    part of the mean."""
    spread: Mapping[str, float | None]
    """Standard deviation over the seeds of the scores in ``SPREAD_OF``."""

    def to_json(self) -> dict[str, Any]:
        """Convert to plain values."""
        return {
            **self.scores,
            **{f"{name}_sd": value for name, value in self.spread.items()},
            "slo_kept": self.slo_kept,
            "runs": self.runs,
            "runs_kept": self.runs_kept,
            "loads_won": self.wins,
            "loads_infeasible": self.infeasible,
        }


@dataclass(frozen=True, kw_only=True)
class LeaderboardRow:
    """A strategy on the leaderboard."""

    rank: int
    strategy: str
    failed: int
    overall: MeanScores
    by_step: Mapping[str, MeanScores]
    """Means over the ``fine`` and the ``coarse`` loads, where there are such."""

    @property
    def ranked_on(self) -> str:
        """The kind of loads that the ranking uses: the fine ones if there are any."""
        return COARSE if set(self.by_step) == {COARSE} else FINE

    @property
    def ranked_means(self) -> MeanScores:
        """The means that the ranking uses."""
        return self.by_step.get(self.ranked_on, self.overall)

    @property
    def coarse_means(self) -> MeanScores | None:
        """The means over coarse loads if the ranking does not use them."""
        return self.by_step.get(COARSE) if self.ranked_on == FINE else None

    def to_json(self) -> dict[str, Any]:
        """Convert to plain values; the scores at the top are means over all runs."""
        row = {"rank": self.rank, "strategy": self.strategy, **self.overall.to_json()}
        return row | {
            "slo_kept": self.ranked_means.slo_kept,
            "runs_failed": self.failed,
            "ranked_on": self.ranked_on,
            "by_step": {kind: means.to_json() for kind, means in self.by_step.items()},
        }


def sampling(step_s: float) -> str:
    """The kind of a load with this distance of its samples.

    >>> sampling(0.0), sampling(60.0), sampling(300.0)
    ('fine', 'fine', 'coarse')
    """
    return FINE if step_s <= FINE_S else COARSE


def rank_strategies(sweep: Sweep, *, quantile: float) -> list[LeaderboardRow]:
    """Rank the strategies of a sweep; ``quantile`` is that of its SLO."""
    results = sweep.results
    groups = {kind: [r for r in results if sampling(r.step_s) == kind] for kind in (FINE, COARSE)}
    groups = {kind: group for kind, group in groups.items() if group}
    winners: dict[str, str] = {}
    for load in dict.fromkeys(result.load for result in results):
        on_load = [result for result in results if result.load == load]
        failures = [failure for failure in sweep.failures if failure.load == load]
        winners[load] = _order(on_load, failures, quantile)[0]

    def means(strategy: str, group: Sequence[SweepResult]) -> MeanScores:
        own = [result for result in group if result.strategy == strategy]
        scores = mean_scores(own)
        return MeanScores(
            scores=scores,
            slo_kept=bool(own) and kept_slo(scores["violation"], quantile),
            runs=len(own),
            runs_kept=sum(result.slo_kept for result in own),
            wins=sum(winners[load] == strategy for load in {result.load for result in group}),
            infeasible=len({result.load for result in own if result.oracle_feasible is False}),
            spread={name: spread_over_seeds(own, name) for name in SPREAD_OF},
        )

    ranked = next(iter(groups.values()), [])
    order = _order(ranked, sweep.failures, quantile)
    order += [name for name in _order(results, (), quantile) if name not in order]
    return [
        LeaderboardRow(
            rank=rank,
            strategy=strategy,
            failed=sum(failure.strategy == strategy for failure in sweep.failures),
            overall=means(strategy, results),
            by_step={kind: means(strategy, group) for kind, group in groups.items()},
        )
        for rank, strategy in enumerate(order, start=1)
    ]


def mean_scores(results: Sequence[SweepResult]) -> dict[str, float | None]:
    """The mean of every score over the runs for which it is known.

    >>> mean_scores([])["node_seconds"] is None
    True
    """
    return {name: mean([getattr(result.scores, name) for result in results]) for name in SCORE_NAMES}


def spread_over_seeds(results: Sequence[SweepResult], score: str) -> float | None:
    """The standard deviation s over n seeds of the mean over the loads.

    s² = Σ (m_k − m)² / (n − 1), where m_k is the mean over the loads with seed k, and m the mean of all m_k. Seeds that
    lack a load are left out. None with fewer than two seeds.
    """
    loads = {result.load for result in results}
    by_seed: dict[int, list[SweepResult]] = {}
    for result in results:
        by_seed.setdefault(result.seed, []).append(result)
    complete = [own for own in by_seed.values() if {result.load for result in own} == loads]
    means = [mean([getattr(result.scores, score) for result in own]) for own in complete]
    known = [value for value in means if value is not None]
    return statistics.stdev(known) if len(known) > 1 else None


def _order(results: Sequence[SweepResult], failures: Iterable[Failure], quantile: float) -> list[str]:
    """Strategy names by the rule, best first. Ties are broken by name."""
    failed = [failure.strategy for failure in failures if failure.strategy != HINDSIGHT]
    keys: dict[str, tuple[int, float, float, str]] = {}
    for name in dict.fromkeys([*(result.strategy for result in results), *failed]):
        own = [result for result in results if result.strategy == name]
        late = mean([result.scores.violation for result in own]) or 0.0
        known = mean([result.scores.node_seconds for result in own])
        cost = math.inf if known is None else known
        if name in failed:
            keys[name] = (2, float(failed.count(name)), late, name)
        elif kept_slo(late, quantile):
            keys[name] = (0, cost, late, name)
        else:
            keys[name] = (1, late, cost, name)
    return sorted(keys, key=lambda name: keys[name])
