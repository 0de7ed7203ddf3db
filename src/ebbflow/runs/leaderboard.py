"""The leaderboard: one row per strategy, ranked by a rule that can be said in one sentence.

**The rule.** Strategies that kept the SLO come first, those that cost least before the others; strategies that did not
keep it come after them, the least late first. Kept: the mean violation over all runs is at most 1 − quantile (5 % for
p95). Cost: the mean of node_seconds over all runs. A strategy with a run that failed comes last, since its means are
over fewer runs than those of the others. Where nobody knows the cost (of a recorded run), it counts as the highest.

**Coarse loads are told apart.** A load sampled every five minutes is flat for five minutes and then jumps; what happens
between is not in it, so who follows it is judged by the jumps of its file. Where there are loads of both kinds, the
rank is by the runs on the fine ones (a sample a minute or more often, and shapes); the means of both are told.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ebbflow.runs.score import Scores
from ebbflow.runs.sweep import HINDSIGHT, Failure, Result, Sweep, kept_slo, mean

RULE = (
    "Those that kept the SLO first (mean violation ≤ 1 − quantile), the fewest mean node_seconds before the "
    "others; then those that did not, the least late first; then those with failed runs."
)
APART = "Ranked by the runs on loads with a sample a minute or more often; coarser ones are told apart."

SCORE_NAMES: tuple[str, ...] = tuple(field.name for field in fields(Scores))

SPREAD_OF = ("node_seconds", "violation")
"""Scores of which the spread over the seeds is told: those that the rank is by."""

FINE_S = 60.0
"""Samples no further apart than this make a load fine."""
FINE, COARSE = "fine", "coarse"


@dataclass(frozen=True, kw_only=True)
class MeanScores:
    """A strategy over some of its runs."""

    scores: Mapping[str, float | None]
    kept: bool
    """By its mean violation."""
    runs: int
    kept_runs: int
    wins: int
    """Loads on which it was first by the same rule."""
    infeasible: int
    """Loads of its runs on which no schedule within the limits keeps the SLO: ``cost_ratio`` is against a best effort
    there, and in the mean all the same."""
    spread: Mapping[str, float | None]
    """Of some scores the standard deviation over the seeds (see ``spread_over_seeds``)."""

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            **self.scores,
            **{f"{name}_sd": value for name, value in self.spread.items()},
            "slo_kept": self.kept,
            "runs": self.runs,
            "runs_kept": self.kept_runs,
            "loads_won": self.wins,
            "loads_infeasible": self.infeasible,
        }


@dataclass(frozen=True, kw_only=True)
class LeaderboardRow:
    """A strategy on the board."""

    rank: int
    strategy: str
    failed: int
    overall: MeanScores
    by_step: Mapping[str, MeanScores]
    """The same by how finely the loads were sampled: ``fine``, ``coarse``, as far as there are such."""

    @property
    def ranked_on(self) -> str:
        """Which loads the rank is by: the fine ones if there are any."""
        return COARSE if set(self.by_step) == {COARSE} else FINE

    @property
    def judged(self) -> MeanScores:
        """The means that the rank is by."""
        return self.by_step.get(self.ranked_on, self.overall)

    @property
    def apart(self) -> MeanScores | None:
        """The means that are told beside those: of coarse loads, where there are fine ones too."""
        return self.by_step.get(COARSE) if self.ranked_on == FINE else None

    def to_json(self) -> dict[str, Any]:
        """As plain values, the rank and the name first; means are over all runs, in ``by_step`` over some."""
        row = {"rank": self.rank, "strategy": self.strategy, **self.overall.to_json()}
        return row | {
            "slo_kept": self.judged.kept,
            "runs_failed": self.failed,
            "ranked_on": self.ranked_on,
            "by_step": {kind: means.to_json() for kind, means in self.by_step.items()},
        }


def sampling(step_s: float) -> str:
    """Whether a load with samples so far apart is fine or coarse.

    >>> sampling(0.0), sampling(60.0), sampling(300.0)
    ('fine', 'fine', 'coarse')
    """
    return FINE if step_s <= FINE_S else COARSE


def rank_strategies(sweep: Sweep, *, quantile: float) -> list[LeaderboardRow]:
    """Rank the strategies of a sweep; ``quantile`` is that of its SLO."""
    results = sweep.results
    groups = {kind: [r for r in results if sampling(r.step_s) == kind] for kind in (FINE, COARSE)}
    groups = {kind: some for kind, some in groups.items() if some}
    winners: dict[str, str] = {}
    for load in dict.fromkeys(result.load for result in results):
        on_it = [result for result in results if result.load == load]
        lost = [failure for failure in sweep.failures if failure.load == load]
        winners[load] = _order(on_it, lost, quantile)[0]

    def means(strategy: str, some: Sequence[Result]) -> MeanScores:
        mine = [result for result in some if result.strategy == strategy]
        scores = mean_scores(mine)
        return MeanScores(
            scores=scores,
            kept=bool(mine) and kept_slo(scores["violation"], quantile),
            runs=len(mine),
            kept_runs=sum(result.kept for result in mine),
            wins=sum(winners[load] == strategy for load in {result.load for result in some}),
            infeasible=len({result.load for result in mine if result.oracle_feasible is False}),
            spread={name: spread_over_seeds(mine, name) for name in SPREAD_OF},
        )

    judged = next(iter(groups.values()), [])
    order = _order(judged, sweep.failures, quantile)
    order += [name for name in _order(results, (), quantile) if name not in order]
    return [
        LeaderboardRow(
            rank=rank,
            strategy=strategy,
            failed=sum(failure.strategy == strategy for failure in sweep.failures),
            overall=means(strategy, results),
            by_step={kind: means(strategy, some) for kind, some in groups.items()},
        )
        for rank, strategy in enumerate(order, start=1)
    ]


def mean_scores(results: Sequence[Result]) -> dict[str, float | None]:
    """The mean of every score over runs, where it is known.

    >>> mean_scores([])["node_seconds"] is None
    True
    """
    return {name: mean([getattr(result.scores, name) for result in results]) for name in SCORE_NAMES}


def spread_over_seeds(results: Sequence[Result], score: str) -> float | None:
    """How far a mean over the loads moves with the seed: its standard deviation s over n seeds,
    s² = Σ (m_k − m)² / (n − 1), m_k the mean over the loads with seed k and m that of all m_k.

    Seeds that lack a load are left out: their means are of other things. None with fewer than two seeds.
    """
    loads = {result.load for result in results}
    by_seed: dict[int, list[Result]] = {}
    for result in results:
        by_seed.setdefault(result.seed, []).append(result)
    whole = [mine for mine in by_seed.values() if {result.load for result in mine} == loads]
    means = [mean([getattr(result.scores, score) for result in mine]) for mine in whole]
    known = [value for value in means if value is not None]
    return statistics.stdev(known) if len(known) > 1 else None


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
