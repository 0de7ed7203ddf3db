"""The load of §7.2: 41 days of tweets, as their approximated workload trace, replayed at 12:1.

The paper replays the trace of §7 against Cassandra. Its Table 5 has both the seconds of the test and the minutes of the
trace, 12 minutes of the trace in a minute. What is replayed is the approximated workload trace (§7.2.1). The trace is
not public; ``--trace`` replays another one. Without it a made one stands in: a day that crosses the bounds of 3, 4 and
5 nodes about when the day of Table 5 does, with quieter weekends, days of unequal height, drift, and the noise and
short bursts that the approximated trace is there to remove.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.interpolate import PchipInterpolator

from ebbflow.core.curve import Curve, Floats
from ebbflow.core.expression import quote
from ebbflow.errors import InputError
from ebbflow.forecasting.approximated import approximated
from ebbflow.workloads import Noise, Recorded, Trace, parse_load

SPEED = 12.0
"""Seconds of the trace in a second of the test."""
DAYS, TESTED_DAYS = 41, 7
MINUTES = 1440
DAY_S = 86_400.0 / SPEED
"""A day of the trace, in seconds of the test."""
PEAK_PER_S = 90_000.0
"""Below the bound of six nodes, as in Figure 21(c)."""
NOISE = 0.004
"""Spread of the offered rate from second to second: that of independent requests at 65,000 per second."""
SEED = 41

HOURS = (0.0, 4.0, 7.0, 10.25, 13.25, 15.25, 17.25, 18.5, 19.4, 20.25, 22.0, 24.0)
RATES = (
    45_000.0, 33_000.0, 42_000.0, 64_733.0, 74_108.0, 82_625.0, 89_000.0, 85_000.0, 74_108.0, 64_733.0, 52_000.0,
    45_000.0,
)  # fmt: skip
"""Requests per second over a working day."""
WEEKDAYS = (1.0, 1.0, 1.01, 1.01, 0.99, 0.93, 0.9)


@dataclass(frozen=True, kw_only=True)
class DatastoreLoad:
    """The days before the test, to learn from, and the days of the test."""

    name: str
    past: Floats = field(repr=False)
    """Requests per second in each minute of the trace."""
    present: Floats = field(repr=False)
    raw: Floats = field(repr=False)
    """The present before it was approximated, on the same scale."""
    peak_per_s: float

    @property
    def seconds(self) -> float:
        """Duration of the test."""
        return len(self.present) * 60.0 / SPEED

    @property
    def load(self) -> Noise:
        """What is offered during the test."""
        step_s = 60.0 / SPEED
        times_s = step_s * np.arange(len(self.present) + 1.0)
        # the rate is continuous: each minute has the mean of its edges
        arrived = np.concatenate(([0.0], np.cumsum(step_s * self.present)))
        return Noise(
            load=Recorded(source=self.name, arrived=Curve(times_s, arrived)), amount=NOISE, seed=SEED
        )

    def history(self, step_s: float) -> list[tuple[float, float]]:
        """(end, mean rate) of each step of the test's time before second 0.

        >>> steps = made_load(days=9).history(30.0)
        >>> len(steps), steps[-1][0]
        (480, 0.0)
        """
        per_step = step_s * SPEED / 60.0
        count = math.floor(len(self.past) / per_step)
        edges = len(self.past) - per_step * np.arange(count, -1, -1)
        total = np.interp(
            edges, np.arange(len(self.past) + 1.0), np.concatenate(([0.0], np.cumsum(self.past)))
        )
        means = np.diff(total) / per_step
        ends_s = step_s * np.arange(1 - count, 1)
        return list(zip(ends_s.tolist(), means.tolist(), strict=True))


def made_load(days: int = DAYS, tested: int = TESTED_DAYS, seed: int = SEED) -> DatastoreLoad:
    """A generated trace; the last days are for the test."""
    return _split("made", made_minutes(days, seed), tested)


def recorded_load(trace: str, tested: int = TESTED_DAYS) -> DatastoreLoad:
    """A trace file, whole days from its start; the last days are for the test."""
    load = parse_load(f"trace({quote(trace)})")
    assert isinstance(load, Trace)
    days = math.floor(load.duration_s / 86_400.0 + 1e-6)
    if days <= tested:
        raise InputError(
            f"{trace} has {days} whole days; give a trace of more than {tested}, to learn from those before"
        )
    minutes = load.rows_between(60.0 * np.arange(days * MINUTES + 1.0)) / 60.0
    return _split(trace, minutes, tested)


def _split(name: str, minutes: Floats, tested: int) -> DatastoreLoad:
    curve = approximated(minutes, per_hour=60)
    highest = float(curve.max())
    if not highest > 0:
        raise InputError(f"{name} has no events; give a trace with some")
    scale = PEAK_PER_S / highest
    at = len(minutes) - tested * MINUTES
    return DatastoreLoad(
        name=name,
        past=scale * curve[:at],
        present=scale * curve[at:],
        raw=scale * minutes[at:],
        peak_per_s=PEAK_PER_S,
    )


def made_minutes(days: int, seed: int) -> Floats:
    """Requests per second in each minute of days from a Monday on.

    A day's shape times weekday, height of the day (±2 %), a drift that halves in six hours (±1.5 %), noise of a minute
    (±2 %) and two bursts a day that add 30 % for up to three minutes.

    >>> rates = made_minutes(7, seed=1)
    >>> rates.shape, bool(rates.reshape(7, -1).mean(axis=1)[6] < rates.reshape(7, -1).mean(axis=1)[0])
    ((10080,), True)
    """
    rng = np.random.default_rng(seed)
    count = days * MINUTES
    hours = np.arange(count) % MINUTES / 60.0
    shape = np.asarray(PchipInterpolator(HOURS, RATES)(hours))
    heights = np.asarray([WEEKDAYS[day % 7] for day in range(days)]) * rng.normal(1.0, 0.02, days).clip(
        0.9, 1.1
    )
    middles = (np.arange(days) + 0.5) * MINUTES
    # heights change smoothly through the night, not with a jump at midnight
    rates = shape * np.interp(np.arange(count), middles, heights)
    keep = 0.5 ** (1.0 / 360.0)
    steps = rng.normal(0.0, 0.015 * math.sqrt(1 - keep**2), count)
    drift = np.empty(count)
    level = 0.0
    for at, step in enumerate(steps.tolist()):
        level = keep * level + step
        drift[at] = level
    rates = rates * np.exp(drift) * rng.normal(1.0, 0.02, count).clip(0.8, 1.2)
    for start in rng.integers(0, count, 2 * days):
        rates[start : start + int(rng.integers(1, 4))] *= 1.3
    return np.asarray(rates)
