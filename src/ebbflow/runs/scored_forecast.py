"""The forecast of a load: from a trace, an expression or the store of a run, with its backtest."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ebbflow.core.duration import format_duration
from ebbflow.core.metrics import Metric
from ebbflow.core.plural import counted
from ebbflow.errors import InputError, LoadError, StepError, UnknownNameError
from ebbflow.forecasting.backtest import Backtest, LoadSeries, backtest
from ebbflow.forecasting.experts.jumps import Calendar
from ebbflow.forecasting.history import History
from ebbflow.forecasting.load_periods import SEARCHED, find_period
from ebbflow.forecasting.port import Forecast, Forecaster
from ebbflow.monitoring.store import Store
from ebbflow.runs.loads import read_whole_loads
from ebbflow.workloads.series import Computed, Counted, readings_of, samples_of

USUAL_STEPS = 30
"""The default step divides the horizon into at most this many."""
MOST_STEPS = 1_000
"""The most steps of a forecast."""
LEARNED_STEPS = 5_000
"""The last steps of a series from which a forecast is learned, unless another number is given."""
BAND = (0.05, 0.5, 0.95)
HOUR_S, DAY_S = 3_600.0, 86_400.0
LEAST_JUMP = 0.1
"""The smallest recurring jump that is named, relative to the mean load."""
_MOST_JUMPS = 5

_SQLITE = b"SQLite format 3\0"
_FIRST_DATE_S = 5e8
"""Times before 1985 are not dates but seconds since the start of a trace."""


@dataclass(frozen=True, kw_only=True)
class Jump:
    """A change of the load that comes at the same time of every hour or day.

    >>> str(Jump(every_s=3600.0, at_s=300.0, change=0.42)), str(Jump(every_s=86_400.0, at_s=23_400.0, change=-0.2))
    ('+42 % at minute 5 of the hour', '-20 % at 06:30')
    """

    every_s: float
    at_s: float
    """Start of the step with the jump, since the start of the hour or day (UTC)."""
    change: float
    """Relative to the mean load."""

    def __str__(self) -> str:
        minutes = round(self.at_s / 60)
        when = (
            f"minute {minutes} of the hour"
            if self.every_s == HOUR_S
            else f"{minutes // 60:02d}:{minutes % 60:02d}"
        )
        return f"{100 * self.change:+.0f} % at {when}"


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredForecast:
    """A forecast of a load, and how good earlier forecasts of the same load were."""

    load: str
    forecaster: Forecaster
    series: LoadSeries
    """The last steps of the load."""
    scored: LoadSeries
    """Those of the backtest: all, or those that a restored forecaster did not know."""
    forecast: Forecast
    tried: Backtest
    period_s: float | None
    """The period found in the load by autocorrelation."""
    jumps: tuple[Jump, ...]
    """Jumps that recur at the same minute of the hour or the day, the largest first."""
    notes: tuple[str, ...]

    @property
    def horizon_s(self) -> float:
        """How far the forecast reaches."""
        return self.forecast.step_s * len(self.forecast.ends_s)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        ahead = self.forecast
        low, median, high = (ahead.at(level).tolist() for level in BAND)
        return {
            "load": self.load,
            "forecaster": self.forecaster.name,
            "horizon_s": self.horizon_s,
            "step_s": ahead.step_s,
            "start_s": ahead.start_s,
            "start": moment(ahead.start_s),
            "last_value": float(self.series.values[-1]),
            "basis": ahead.basis,
            "learned_steps": len(self.scored),
            "forecast": [
                {"end_s": end_s, "end": moment(end_s), "p05": p05, "p50": p50, "p95": p95}
                for end_s, p05, p50, p95 in zip(ahead.ends_s.tolist(), low, median, high, strict=True)
            ],
            "period_s": self.period_s,
            "jumps": [
                {"every_s": jump.every_s, "at_s": jump.at_s, "change": jump.change} for jump in self.jumps
            ],
            "backtest": [score.to_json() for score in self.tried.accuracy],
            "update_ms": self.tried.update_ms,
            "forecast_ms": self.tried.forecast_ms,
            "notes": list(self.notes),
        }


def moment(time_s: float) -> str | None:
    """A time as a date in UTC; None if it is not one.

    >>> moment(86_400.0), moment(1_415_000_000.0)
    (None, '2014-11-03T07:33:20Z')
    """
    if time_s < _FIRST_DATE_S:
        return None
    return datetime.fromtimestamp(time_s, UTC).isoformat().replace("+00:00", "Z")


def read_samples_or_store(
    text: str, *, query: str | None = None, keep_zeros: bool = False
) -> tuple[str, Counted | Computed]:
    """Name and samples of a trace file, a load expression, or the arrival rate in the store of a run."""
    path = Path(text).expanduser()
    if path.is_dir():
        raise InputError(f"{text} is a folder; name one trace file, load or store")
    if path.is_file():
        with path.open("rb") as file:
            if file.read(len(_SQLITE)) == _SQLITE:
                return _read_store(path, query)
    if query is not None:
        raise InputError("--query is for the store of a run; leave it out")
    loads = read_whole_loads([text])
    if len(loads) != 1:
        raise InputError(f"{text} names {counted(len(loads), 'load')}; name one")
    return loads[0].name, samples_of(loads[0].load, keep_zeros=keep_zeros, keep_last_zeros=True)


def _read_store(path: Path, query: str | None) -> tuple[str, Counted]:
    rates = {
        subject: points
        for (subject, _), points in Store.read_readings(path, [Metric.ARRIVAL_RATE]).series.items()
    }
    if not rates:
        raise InputError(f"{path} has no arrival rates; was a query running while it was written?")
    if query is None and len(rates) > 1:
        raise InputError(
            f"{path} has the arrival rates of {', '.join(sorted(rates))}; select one with --query"
        )
    name = next(iter(rates)) if query is None else query
    if name not in rates:
        raise UnknownNameError("query", name, rates)
    points = np.asarray(rates[name], dtype=np.float64)
    times_s, last = np.unique(points[:, 0][::-1], return_index=True)
    try:
        return name, readings_of(times_s, np.maximum(points[::-1, 1][last], 0.0))
    except LoadError as error:
        raise InputError(f"{path}: {error}; let the job run for longer") from None


def usual_step_s(sample_s: float, horizon_s: float) -> float:
    """The default step: the sampling interval, or the shortest multiple of which the horizon has at most 30.

    >>> usual_step_s(60.0, 300.0), usual_step_s(1.0, 300.0), usual_step_s(0.0, 900.0)
    (60.0, 10.0, 30.0)
    """
    if sample_s == 0:
        return horizon_s / USUAL_STEPS
    return sample_s * max(1, math.ceil(horizon_s / USUAL_STEPS / sample_s - 1e-9))


def forecast_load(
    load: str,
    samples: Counted | Computed,
    make: Callable[[float], Forecaster] | Forecaster,
    *,
    horizon_s: float,
    step_s: float | None = None,
    most: int = LEARNED_STEPS,
    on_step: Callable[[], None] | None = None,
    on_start: Callable[[int], None] | None = None,
) -> ScoredForecast:
    """Learn the last steps of a load, with a backtest on the way, and forecast what follows.

    ``make`` creates the forecaster for a step length, or is one that has learned before: it keeps its step and learns
    only what is new. ``on_start`` is called with the number of steps to learn.
    """
    learned = make.forecast(1, BAND) if isinstance(make, Forecaster) else None
    if not horizon_s > 0:
        raise InputError(f"a horizon of {format_duration(horizon_s)} has no steps; it must be above 0")
    if horizon_s < samples.step_s * (1 - 1e-6):
        raise InputError(
            f"a horizon of {format_duration(horizon_s)} is shorter than the {format_duration(samples.step_s)} between "
            f"the samples of {load}; use {format_duration(samples.step_s)} or more"
        )
    if learned is not None:
        if step_s is not None and abs(step_s / learned.step_s - 1) > 1e-6:
            raise InputError(
                f"the model has steps of {format_duration(learned.step_s)}, not of {format_duration(step_s)}; leave "
                "--step out"
            )
        step_s = learned.step_s
    step_s = usual_step_s(samples.step_s, horizon_s) if step_s is None else step_s
    if not 0 < step_s <= horizon_s * (1 + 1e-6):
        raise InputError(
            f"a step of {format_duration(step_s)} does not fit into a horizon of {format_duration(horizon_s)}"
        )
    steps = max(1, math.ceil(horizon_s / step_s - 1e-6))
    if steps > MOST_STEPS:
        raise InputError(
            f"{format_duration(horizon_s)} has {steps:,} steps of {format_duration(step_s)}; the limit is "
            f"{MOST_STEPS:,}, so use a longer --step"
        )
    try:
        series = samples.series(step_s, most=most)
    except StepError as why:
        raise InputError(f"{load}: {why}") from None
    if not len(series):
        raise InputError(
            f"{load} is shorter than one step of {format_duration(step_s)}; use a shorter --step"
        )
    new = series if learned is None else series.after(learned.start_s)
    if on_start is not None:
        on_start(len(new))
    made = make if isinstance(make, Forecaster) else make(step_s)
    tried = backtest(made, new, leads=sorted({1, steps}), timer=time.process_time, on_step=on_step)
    ahead = made.forecast(steps, BAND)
    assert ahead is not None  # the backtest has checked that it forecasts
    period_s, jumps = _recurring(series)
    notes = _notes(samples, new, tried, steps)
    if learned is not None:
        notes.insert(
            0, f"the model knew the load until {when(learned.start_s)}; {counted(len(new), 'step')} are new"
        )
    return ScoredForecast(
        load=load,
        forecaster=made,
        series=series,
        forecast=ahead,
        tried=tried,
        scored=new,
        period_s=period_s,
        jumps=jumps,
        notes=tuple(notes),
    )


def when(time_s: float) -> str:
    """A date, or the time since the start."""
    return moment(time_s) or f"{format_duration(time_s)} after the start"


def _recurring(series: LoadSeries) -> tuple[float | None, tuple[Jump, ...]]:
    """The period of a series, and the jumps that recur every hour or every day."""
    history = History(series.step_s)
    calendars = {
        every_s: Calendar(round(every_s / series.step_s))
        for every_s in (HOUR_S, DAY_S)
        if every_s >= 2 * series.step_s and (every_s / series.step_s).is_integer()
    }
    level = float(np.mean(series.values))
    for time_s, value in zip(series.ends_s.tolist(), series.values.tolist(), strict=True):
        before = float(history.values[-1]) if len(history) else value
        history.push(time_s, value)
        for calendar in calendars.values():
            if level > 0 and not history.missing:
                calendar.learn(history.index, (value - before) / level)
    found = find_period(history.values[-SEARCHED:])
    jumps: list[Jump] = []
    for every_s, calendar in calendars.items():
        phases = np.arange(round(every_s / series.step_s))
        changes = calendar.ahead(0, phases)
        for phase in phases[np.abs(changes) >= LEAST_JUMP].tolist():
            at_s = ((phase - 1) * series.step_s) % every_s
            if any(jump.every_s == HOUR_S and jump.at_s == at_s % HOUR_S for jump in jumps):
                continue  # part of the hour's
            jumps.append(Jump(every_s=every_s, at_s=at_s, change=float(changes[phase])))
    jumps.sort(key=lambda jump: -abs(jump.change))
    return None if found is None else found * series.step_s, tuple(jumps[:_MOST_JUMPS])


def _notes(samples: Counted | Computed, series: LoadSeries, tried: Backtest, steps: int) -> list[str]:
    notes = [samples.note] if samples.note else []
    if 0 < samples.step_s < series.step_s * (1 - 1e-6):
        apart, step = format_duration(samples.step_s), format_duration(series.step_s)
        notes.append(f"samples are {apart} apart and were averaged over {step}")
    if not tried.accuracy:
        notes.append(f"{counted(len(series), 'step')}: too few for a backtest")
    elif steps not in {score.ahead for score in tried.accuracy}:
        notes.append(f"the load is too short for a backtest {counted(steps, 'step')} ahead")
    if len(series) and not series.values.any():
        notes.append("the load is 0 throughout")
    return notes
