"""The four loads of §7.1.5, each with its past, from which the workload model is learned before the run.

The paper gives the sawtooth (500 to 1,800 events/s; from its text and figure: a tooth of twelve minutes) and plots the
others without a scale. Lengths follow from its percentages, which are multiples of one node in one period of 300 s:
21.42, 17.85 and 25 % are 6, 5 and 7 of 28 (seven periods), 41.07 % is 23 of 56 (fourteen). The other 33 are one more
than a square of twenty minutes needs that starts low, if its trough fits on one node. The sine has the range of the
sawtooth and the length of the one in §7.1.3.

The Twitter trace of the paper, 41 days of tweets on an election, is not public. ``--trace`` replays a day of another
one at 60:1. Without it a generated one is used: days of a web service, each with its own height, drift and bursts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ebbflow.core.curve import Curve, Floats
from ebbflow.core.expression import quote
from ebbflow.errors import InputError, UnknownNameError
from ebbflow.papers.elysium.calibration import ARRIVAL_NOISE
from ebbflow.papers.pascal.published import LOADS, SAWTOOTH, SINE, SQUARE, TWITTER
from ebbflow.workloads import Load, Noise, Trace, parse_load
from ebbflow.workloads.trace import Recorded

PEAK_PER_S = 1800.0
PAST_S = 4 * 3600.0
"""How long a generated load was observed before the run, at least: whole periods."""
SHAPES: dict[str, tuple[str, float]] = {
    SAWTOOTH: ("sawtooth(base=500, peak=1800, period=12m)", 2100.0),
    SINE: ("sine(base=500, peak=1800, period=25m)", 2100.0),
    SQUARE: ("square(base=400, peak=1800, period=20m)", 4200.0),
}
"""The load and the length of a run in seconds."""

SPEED = 60.0
DAY_S = 86_400.0
RECORDED_S = 23.5 * 3600.0
"""The part of each day of the trace that is replayed: its last half hour may be missing."""
TRACE_DAY = 5
"""The day of the trace that is replayed, counted from 0; the days before it are the past."""
MADE_DAYS = 7
"""Days of the generated trace; the last two are replayed."""
MADE_SEED = 41
NIGHT_PER_S = PEAK_PER_S / 6
"""The tweets of one country nearly stop at night."""


@dataclass(frozen=True, kw_only=True)
class PastAndPresent:
    """A load of the paper: what is known when the run starts, and the run."""

    name: str
    load: Load
    seconds: float
    past: tuple[tuple[Load, float], ...] = field(repr=False)
    """Earlier loads with their lengths in seconds, the oldest first."""
    missing_s: float = 0.0
    """Length of the gap after each of them."""
    note: str = ""

    def history(self, step_s: float) -> list[tuple[float, float]]:
        """(end, mean rows per second) of each step before second 0.

        >>> (sawtooth,) = paper_loads([SAWTOOTH])
        >>> steps = sawtooth.history(10.0)
        >>> len(steps), steps[0][0], steps[-1][0]
        (1440, -14390.0, 0.0)
        """
        start_s = -sum(seconds + self.missing_s for _, seconds in self.past)
        found: list[tuple[float, float]] = []
        for load, seconds in self.past:
            means = _means(load, seconds, step_s)
            ends_s = start_s + step_s * np.arange(1, len(means) + 1)
            found += zip(ends_s.tolist(), means.tolist(), strict=True)
            start_s += seconds + self.missing_s
        return found


def _means(load: Load, seconds: float, step_s: float) -> Floats:
    return load.rows_between(np.arange(0.0, seconds + 1e-9, step_s)) / step_s


def paper_loads(names: Sequence[str] = (), trace: str | None = None) -> list[PastAndPresent]:
    """The loads with these names, or all. ``trace``: a file of tweets per second over at least six days."""
    for name in names:
        if name not in LOADS:
            raise UnknownNameError("load", name, LOADS)
    chosen = [name for name in LOADS if not names or name in names]
    if trace is not None and TWITTER not in chosen:
        raise InputError(f"the trace {trace} is for the load twitter; leave --trace out, or select twitter")
    found = []
    for name in chosen:
        if name in SHAPES:
            text, seconds = SHAPES[name]
            load = parse_load(text)
            past = Noise(load=load, amount=ARRIVAL_NOISE, seed=1000)
            past_s = math.ceil(PAST_S / load.span_s) * load.span_s
            found.append(PastAndPresent(name=name, load=load, seconds=seconds, past=((past, past_s),)))
        else:
            found.append(_made() if trace is None else _replayed(trace))
    return found


# -- Twitter -------------------------------------------------------------------------------------------


def _replayed(trace: str, day: int = TRACE_DAY) -> PastAndPresent:
    """A day of a trace at 60:1, scaled so that its busiest minute is the peak, and the days before it."""
    days = [_day_of(trace, each) for each in range(day + 1)]
    seconds = math.floor(RECORDED_S / SPEED / 10.0) * 10.0
    busiest = float(np.max(_means(days[-1], seconds, 60.0), initial=0.0))
    if not busiest > 0:
        raise InputError(f"{trace} has no events on day {day + 1}; give a trace of at least {day + 1} days")
    scaled = [(PEAK_PER_S / busiest) * each for each in days]
    return PastAndPresent(
        name=TWITTER,
        load=scaled[-1],
        seconds=seconds,
        past=tuple((each, seconds) for each in scaled[:-1]),
        missing_s=DAY_S / SPEED - seconds,
        note=f"day {day + 1} of the trace at {SPEED:g}:1",
    )


def _day_of(trace: str, day: int) -> Trace:
    start_s, end_s = day * DAY_S, day * DAY_S + RECORDED_S
    load = parse_load(f"trace({quote(trace)}, speed={SPEED:g}, start={start_s:g}s, end={end_s:g}s)")
    assert isinstance(load, Trace)
    return load


def _made() -> PastAndPresent:
    seconds = DAY_S / SPEED
    rates = made_days(MADE_DAYS, MADE_SEED)
    run_s, past_s = 2 * seconds, (MADE_DAYS - 2) * seconds
    past, present = (_section(rates, *span) for span in ((0.0, past_s), (past_s, past_s + run_s)))
    return PastAndPresent(
        name=TWITTER,
        load=present,
        seconds=run_s,
        past=((past, past_s),),
        note="no trace was given; a generated one is used instead of Twitter",
    )


def _section(rates: Floats, start_s: float, end_s: float) -> Recorded:
    part = rates[round(start_s) : round(end_s)]
    arrived = Curve(np.arange(len(part) + 1.0), np.concatenate(([0.0], np.cumsum(part))))
    return Recorded(source="a generated trace", arrived=arrived)


def made_days(days: int, seed: int) -> Floats:
    """Rows per second of each second of days at 60:1, the busiest minute at the peak.

    A day of a web service times its own height (±10 %), a drift that fades within half an hour (±8 %), and five bursts
    a day that add 10 to 40 % and halve every 25 minutes of the trace, as news do.

    >>> rates = made_days(2, seed=1)
    >>> len(rates), round(float(rates.reshape(-1, 60).mean(axis=1).max()))
    (2880, 1800)
    """
    rng = np.random.default_rng(seed)
    seconds = round(DAY_S / SPEED)
    count = days * seconds
    day = parse_load(f"day(base={NIGHT_PER_S:g}, peak={PEAK_PER_S:g}, period={seconds}s)")
    rates = day.rate_per_s(np.arange(count, dtype=np.float64) % seconds + 0.5)
    rates = rates * np.repeat(rng.normal(1.0, 0.10, days).clip(0.7, 1.3), seconds)
    keep = 0.5 ** (1.0 / 30.0)  # half of the drift is left after half an hour of the trace
    steps = rng.normal(0.0, 0.08 * math.sqrt(1 - keep**2), count)
    drift = np.empty(count)
    level = 0.0
    for at, step in enumerate(steps):
        level = keep * level + float(step)
        drift[at] = level
    rates = rates * np.exp(drift)
    for start in rng.integers(0, count, 5 * days):
        height = rng.uniform(0.1, 0.4)
        rates[start:] *= 1.0 + height * 0.5 ** (np.arange(count - start) / 25.0)
    busiest = float(rates.reshape(-1, 60).mean(axis=1).max())
    return np.asarray(PEAK_PER_S / busiest * rates)
