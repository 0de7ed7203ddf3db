"""How many events each minute has: the published quantiles, in an order that wanders like the real one.

Between the published points ln(rate) is linear in the normal score of the rank, which they nearly follow
(a lognormal with σ = 1.02). The slope beyond the 95th percentile is chosen so that the sum is right.

Which minute has which rate: the ranks follow the sum of what lasts for minutes, hours and days. In the real first part
a minute says next to nothing of the one after it: ln(rate) is correlated by 0.08. In the job events of the whole month
ln(events in 5 minutes) is correlated by 0.42 with that of an hour later, 0.30 of four, 0.19 of twelve, 0.25 of 24.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import numpy.typing as npt

# What the Rules seed says of the trace (Figure 5.13, §5.3.1, §5.3.6) and of its own runs (Figures 5.22 and 5.26).


EVENTS = 144_328_173
PARTS = 500
DAYS = 29.0
MACHINES = 12_500
RATES_PER_S = {50: 31.6, 75: 62.8, 90: 116.1, 95: 179.5}
"""Percentile of the event rate → events a second."""
MEAN_RATE_PER_S = EVENTS / (DAYS * 86_400)
FIRST_TASKS, LAST_TASKS = 130_000, 40_000
"""Running tasks: "well above 100000" at first, "roughly 40000" at the end. The real first part has 132,982."""

STATIC_MINUTES = {1: 129.69, 2: 71.06, 4: 40.35, 8: 26.15, 16: 25.00}
"""Instances of the machine operator → minutes for the whole trace."""
STATIC_RATES_PER_S = {
    1: (18_405, 19_219, 19_955, 20_433),
    2: (33_779, 34_609, 35_010, 35_475),
    4: (59_118, 63_941, 71_445, 71_579),
    8: (89_329, 99_253, 115_291, 123_022),
    16: (96_985, 104_094, 104_575, 106_080),
}
"""Instances → throughput at the median, the 75th, 90th and 95th percentile."""


Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_LOWER_SLOPE = 1.02
_WANDERS = {15.0: 0.05, 180.0: 0.07, 4320.0: 0.18}
"""Minutes that a high rate lasts → the share of the variance that does; days and single minutes have the rest."""
_DAYS, _MINUTES = 0.03, 0.67


def minute_events(minutes: int, total: int, least: Ints, rng: np.random.Generator) -> Ints:
    """Events in each minute: ``total`` in all, none below ``least``."""
    rates = _rates_by_rank(minutes)
    rank = np.argsort(np.argsort(_wandering(minutes, rng), kind="stable"), kind="stable")
    scale = total / (MEAN_RATE_PER_S * 60 * minutes)
    return _fitted(np.rint(rates[rank] * 60 * scale).astype(np.int64), least, total)


def _rates_by_rank(minutes: int) -> Floats:
    """Events a second of the quietest to the busiest minute."""
    normal = NormalDist()
    score = np.array([normal.inv_cdf((i + 0.5) / minutes) for i in range(minutes)])
    knots = np.array([normal.inv_cdf(percent / 100) for percent in RATES_PER_S])
    logs = np.log(list(RATES_PER_S.values()))

    def rates(upper_slope: float) -> Floats:
        inside = np.interp(score, knots, logs)
        below = logs[0] + _LOWER_SLOPE * (score - knots[0])
        above = logs[-1] + upper_slope * (score - knots[-1])
        found: Floats = np.exp(np.where(score < knots[0], below, np.where(score > knots[-1], above, inside)))
        return found

    low, high = 0.0, 4.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if rates(middle).mean() < MEAN_RATE_PER_S else (low, middle)
    return rates(low)


def _wandering(minutes: int, rng: np.random.Generator) -> Floats:
    """Days, what lasts for a while, and something of every minute; only its order matters."""
    day = np.sin(2 * np.pi * (np.arange(minutes) / 1440 - 0.3))
    total: Floats = np.sqrt(2 * _DAYS) * day + np.sqrt(_MINUTES) * rng.normal(size=minutes)
    for lasts_minutes, share in _WANDERS.items():
        total += np.sqrt(share) * _wander(minutes, lasts_minutes, rng)
    return total


def _wander(minutes: int, lasts_minutes: float, rng: np.random.Generator) -> Floats:
    """Variance 1, and correlated by exp(−lag/lasts)."""
    keep = np.exp(-1 / lasts_minutes)
    shocks = rng.normal(size=minutes) * np.sqrt(1 - keep * keep)
    level, found = rng.normal(), np.empty(minutes)
    for index, shock in enumerate(shocks):
        level = keep * level + shock
        found[index] = level
    return found


def _fitted(wanted: Ints, least: Ints, total: int) -> Ints:
    """The wanted numbers, raised to the least and then fitted to the total, which is no less: each changes by its share
    of the room that there is.

    >>> _fitted(np.array([5, 10, 100]), np.array([8, 0, 0]), 110).tolist()
    [8, 9, 93]
    """
    fitted = np.maximum(wanted, least)
    missing = total - int(fitted.sum())
    if missing == 0:
        return fitted
    room = fitted - least if missing < 0 else fitted + 1
    # Whole shares of what is missing, and one more for those whose share was cut the most: none exceeds its room.
    shares, cut = np.divmod(abs(missing) * room, int(room.sum()))
    shares[np.argsort(-cut, kind="stable")[: abs(missing) - int(shares.sum())]] += 1
    exact: Ints = fitted + (shares if missing > 0 else -shares)
    return exact
