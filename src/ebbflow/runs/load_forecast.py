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
from ebbflow.forecasting.backtest import Backtest, Series, backtest
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

_SQLITE = b"SQLite format 3\0"
_FIRST_DATE_S = 5e8
"""Times before 1985 are not dates but seconds since the start of a trace."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadForecast:
    """A forecast of a load, and how good earlier forecasts of the same load were."""

    load: str
    forecaster: Forecaster
    series: Series
    """What was learned."""
    forecast: Forecast
    tried: Backtest
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
            "learned_steps": len(self.series),
            "forecast": [
                {"end_s": end_s, "end": moment(end_s), "p05": p05, "p50": p50, "p95": p95}
                for end_s, p05, p50, p95 in zip(ahead.ends_s.tolist(), low, median, high, strict=True)
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
    make: Callable[[float], Forecaster],
    *,
    horizon_s: float,
    step_s: float | None = None,
    most: int = LEARNED_STEPS,
    on_step: Callable[[], None] | None = None,
    on_start: Callable[[int], None] | None = None,
) -> LoadForecast:
    """Learn the last steps of a load, with a backtest on the way, and forecast what follows.

    ``make`` creates the forecaster for a step length. ``on_start`` is called with the number of steps to learn.
    """
    if not horizon_s > 0:
        raise InputError(f"a horizon of {format_duration(horizon_s)} has no steps; it must be above 0")
    if horizon_s < samples.step_s * (1 - 1e-6):
        raise InputError(
            f"a horizon of {format_duration(horizon_s)} is shorter than the {format_duration(samples.step_s)} between "
            f"the samples of {load}; use {format_duration(samples.step_s)} or more"
        )
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
    if on_start is not None:
        on_start(len(series))
    made = make(step_s)
    tried = backtest(made, series, leads=sorted({1, steps}), timer=time.process_time, on_step=on_step)
    ahead = made.forecast(steps, BAND)
    assert ahead is not None  # the backtest has checked that it forecasts
    return LoadForecast(
        load=load,
        forecaster=made,
        series=series,
        forecast=ahead,
        tried=tried,
        notes=tuple(_notes(samples, series, tried, steps)),
    )


def _notes(samples: Counted | Computed, series: Series, tried: Backtest, steps: int) -> list[str]:
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
