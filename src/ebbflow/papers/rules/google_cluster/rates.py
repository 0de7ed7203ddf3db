"""Published figures of the trace, and the number of events in each minute of a generated one.

Between the published quantiles, ln(rate) is linear in the normal score of the rank, which they nearly follow
(a lognormal with σ = 1.02). The slope above the 95th percentile is chosen so that the sum is right.

The order of the rates follows the real trace: the ranks follow a sum of components that last for minutes, hours and
days. In the real first part, consecutive minutes are hardly correlated: 0.08 for ln(rate). In the job events of the
whole month, ln(events in 5 minutes) has a correlation of 0.42 after an hour, 0.30 after four, 0.19 after twelve and
0.25 after 24 hours.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from ebbflow.papers.rules.google_cluster.events import Floats, Ints

# Figure 5.13, §5.3.1 and §5.3.6 of the Rules thesis.
EVENTS = 144_328_173
PARTS = 500
DAYS = 29.0
MACHINES = 12_500
RATES_PER_S = {50: 31.6, 75: 62.8, 90: 116.1, 95: 179.5}
"""Percentile → events per second."""
MEAN_RATE_PER_S = EVENTS / (DAYS * 86_400)
FIRST_TASKS, LAST_TASKS = 130_000, 40_000
"""Running tasks: "well above 100000" at first, "roughly 40000" at the end. The real first part has 132,982."""

_LOWER_SLOPE = 1.02
_LASTING_SHARES = {15.0: 0.05, 180.0: 0.07, 4320.0: 0.18}
"""Minutes that a component lasts → its share of the variance."""
_DAILY_SHARE, _MINUTE_SHARE = 0.03, 0.67


def minute_events(minutes: int, total: int, least: Ints, rng: np.random.Generator) -> Ints:
    """Return the events of each minute: ``total`` in sum, and at least ``least`` in each."""
    rates = _rates_by_rank(minutes)
    rank = np.argsort(np.argsort(_load_order(minutes, rng), kind="stable"), kind="stable")
    scale = total / (MEAN_RATE_PER_S * 60 * minutes)
    return _fitted(np.rint(rates[rank] * 60 * scale).astype(np.int64), least, total)


def _rates_by_rank(minutes: int) -> Floats:
    """Return events per second, from the quietest to the busiest minute."""
    normal = NormalDist()
    score = np.array([normal.inv_cdf((i + 0.5) / minutes) for i in range(minutes)])
    knots = np.array([normal.inv_cdf(percent / 100) for percent in RATES_PER_S])
    logs = np.log(list(RATES_PER_S.values()))

    def rates(upper_slope: float) -> Floats:
        inside = np.interp(score, knots, logs)
        below = logs[0] + _LOWER_SLOPE * (score - knots[0])
        above = logs[-1] + upper_slope * (score - knots[-1])
        values: Floats = np.exp(np.where(score < knots[0], below, np.where(score > knots[-1], above, inside)))
        return values

    low, high = 0.0, 4.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if rates(middle).mean() < MEAN_RATE_PER_S else (low, middle)
    return rates(low)


def _load_order(minutes: int, rng: np.random.Generator) -> Floats:
    """Return the sum of the daily, the lasting and the per-minute components; only its order matters."""
    day = np.sin(2 * np.pi * (np.arange(minutes) / 1440 - 0.3))
    total: Floats = np.sqrt(2 * _DAILY_SHARE) * day + np.sqrt(_MINUTE_SHARE) * rng.normal(size=minutes)
    for lasts_minutes, share in _LASTING_SHARES.items():
        total += np.sqrt(share) * _autocorrelated(minutes, lasts_minutes, rng)
    return total


def _autocorrelated(minutes: int, lasts_minutes: float, rng: np.random.Generator) -> Floats:
    """Return a series of variance 1 with correlation exp(−lag/lasts)."""
    keep = np.exp(-1 / lasts_minutes)
    shocks = rng.normal(size=minutes) * np.sqrt(1 - keep * keep)
    level, series = rng.normal(), np.empty(minutes)
    for index, shock in enumerate(shocks):
        level = keep * level + shock
        series[index] = level
    return series


def _fitted(wanted: Ints, least: Ints, total: int) -> Ints:
    """Raise the wanted numbers to ``least``, then fit them to ``total``, which must be at least the sum of ``least``.

    Each number changes in proportion to how much it may change.

    >>> _fitted(np.array([5, 10, 100]), np.array([8, 0, 0]), 110).tolist()
    [8, 9, 93]
    """
    fitted = np.maximum(wanted, least)
    missing = total - int(fitted.sum())
    if missing == 0:
        return fitted
    slack = fitted - least if missing < 0 else fitted + 1
    # Rounded-down shares, and one more where rounding cut the most: no share exceeds its slack.
    shares, cut = np.divmod(abs(missing) * slack, int(slack.sum()))
    shares[np.argsort(-cut, kind="stable")[: abs(missing) - int(shares.sum())]] += 1
    exact: Ints = fitted + (shares if missing > 0 else -shares)
    return exact
