"""Every forecaster on every load and horizon: one backtest each, on all cores.

A horizon is one step by default: the load is averaged into steps as long as the horizon, and forecast one step ahead.
With ``ahead`` = N the steps are an Nth of the horizon, and the forecast N steps ahead is scored. Times are CPU times:
other processes on the machine do not count.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebbflow.core.duration import format_duration
from ebbflow.core.plural import counted
from ebbflow.errors import InputError, StepError
from ebbflow.forecasting.backtest import RELIABILITY_LEVELS, Accuracy, Backtest, LoadSeries, backtest
from ebbflow.forecasting.registry import make_forecaster
from ebbflow.runs.loads import NamedLoad
from ebbflow.runs.parallel import parallel_map
from ebbflow.workloads.series import samples_of

HORIZONS_S = (10.0, 30.0, 60.0, 300.0, 900.0)
STEPS = 5_000
"""The last steps of each series that are used."""
FORMULA_STEPS = 2_000
"""The steps of a load that is a formula: it repeats."""
FEWEST_STEPS = 20
"""A series with fewer steps says nothing about a forecaster."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ForecastCase:
    """A series to forecast."""

    load: str
    horizon_s: float
    ahead: int
    series: LoadSeries


@dataclass(frozen=True, kw_only=True)
class ForecastRow:
    """A forecaster on a load at a horizon."""

    load: str
    forecaster: str
    horizon_s: float
    step_s: float
    span_s: float
    """Length of the series, gaps included."""
    accuracy: Accuracy
    update_ms: float
    forecast_ms: float
    forecast_30_ms: float

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "load": self.load,
            "forecaster": self.forecaster,
            "horizon_s": self.horizon_s,
            "step_s": self.step_s,
            "span_s": self.span_s,
            **self.accuracy.to_json(),
            "update_ms": self.update_ms,
            "forecast_ms": self.forecast_ms,
            "forecast_30_ms": self.forecast_30_ms,
        }


@dataclass(frozen=True, kw_only=True)
class FailedBacktest:
    """A backtest that ended with an error."""

    load: str
    forecaster: str
    horizon_s: float
    problem: str

    def __str__(self) -> str:
        return f"{self.forecaster} on {self.load} at {format_duration(self.horizon_s)}: {self.problem}"


def forecast_cases(
    loads: Sequence[NamedLoad],
    *,
    horizons_s: Sequence[float] | None = None,
    ahead: int = 1,
    steps: int = STEPS,
    keep_zeros: bool = False,
) -> tuple[list[ForecastCase], list[str]]:
    """The series of each load at each horizon, and notes on what is left out.

    Without ``horizons_s``, a load that is too coarse for all usual horizons is forecast by its own step.
    """
    if ahead < 1:
        raise InputError(f"--ahead is {ahead}; it must be 1 step or more")
    if steps < FEWEST_STEPS:
        raise InputError(f"--steps is {steps}; it must be {FEWEST_STEPS} or more")
    cases: list[ForecastCase] = []
    notes: list[str] = []
    too_coarse: dict[str, list[str]] = {}
    for named in loads:
        samples = samples_of(named.load, keep_zeros=keep_zeros)
        if samples.note:
            notes.append(f"{named.name}: {samples.note}")
        wanted_s = sorted(HORIZONS_S if horizons_s is None else horizons_s)
        if horizons_s is None and samples.step_s * ahead > max(wanted_s):
            wanted_s = [samples.step_s * ahead]
            own = format_duration(samples.step_s)
            notes.append(f"{named.name}: its samples are {own} apart, so {own} is the only step")
        most = steps if math.isfinite(named.load.duration_s) else min(steps, FORMULA_STEPS)
        short = [horizon_s for horizon_s in wanted_s if horizon_s / ahead < samples.step_s * (1 - 1e-6)]
        if short:
            left_out = ", ".join(format_duration(horizon_s) for horizon_s in short)
            why = f"{left_out} left out: samples are {format_duration(samples.step_s)} apart"
            too_coarse.setdefault(why, []).append(named.name)
        for horizon_s in wanted_s[len(short) :]:
            try:
                series = samples.series(horizon_s / ahead, most=most)
                _check_length(series, ahead)
            except StepError as why_not:
                notes.append(f"{named.name}: {format_duration(horizon_s)} left out: {why_not}")
                continue
            cases.append(ForecastCase(load=named.name, horizon_s=horizon_s, ahead=ahead, series=series))
    notes += [f"{', '.join(names)}: {why}" for why, names in too_coarse.items()]
    if not cases:
        raise InputError(f"no load can be forecast at these horizons: {notes[-1]}")
    return cases, notes


def _check_length(series: LoadSeries, ahead: int) -> None:
    if len(series) < FEWEST_STEPS + ahead:
        raise StepError(
            f"{counted(len(series), 'step')} of {format_duration(series.step_s)} are too few; "
            f"{FEWEST_STEPS + ahead} are needed"
        )


def check_forecasters(names: Sequence[str]) -> None:
    """Check that forecasters exist, and create each once."""
    for name in names:
        make_forecaster(name, 60.0)


def run_forecast_bench(
    cases: Sequence[ForecastCase],
    forecasters: Sequence[str],
    *,
    workers: int,
    on_done: Callable[[], None],
) -> tuple[list[ForecastRow], list[FailedBacktest]]:
    """Backtest every forecaster on every series; rows in the order of cases, then of forecasters."""
    items = [(place, name) for place in range(len(cases)) for name in forecasters]
    # the longest first, so that no core is left with one at the end
    queue = sorted(items, key=lambda item: -len(cases[item[0]].series))
    with parallel_map(list(cases), workers=workers) as work:
        results = work(_run, queue, lambda _index, _result: on_done())
    by_item = dict(zip(queue, results, strict=True))
    rows: list[ForecastRow] = []
    failed: list[FailedBacktest] = []
    for place, name in items:
        result, case = by_item[place, name], cases[place]
        if isinstance(result, ForecastRow):
            rows.append(result)
        else:
            failed.append(
                FailedBacktest(load=case.load, forecaster=name, horizon_s=case.horizon_s, problem=f"{result}")
            )
    return rows, failed


def _run(cases: Sequence[ForecastCase], item: tuple[int, str]) -> ForecastRow | str:
    place, name = item
    case = cases[place]
    log = logging.getLogger("ebbflow.forecasting")
    level = log.level
    log.setLevel(max(level, logging.ERROR))  # a model that is discarded is no news here
    try:
        made = make_forecaster(name, case.series.step_s)
        tried = backtest(made, case.series, leads=(case.ahead,), timer=time.process_time)
        if not tried.accuracy:
            return "no step of the series is that far after another one"
        return _row(case, name, tried)
    except Exception as error:  # one line in a table of hundreds
        return f"{type(error).__name__}: {error}"
    finally:
        log.setLevel(level)


def _row(case: ForecastCase, name: str, tried: Backtest) -> ForecastRow:
    series = case.series
    return ForecastRow(
        load=case.load,
        forecaster=name,
        horizon_s=case.horizon_s,
        step_s=series.step_s,
        span_s=float(series.ends_s[-1] - series.ends_s[0]) + series.step_s,
        accuracy=tried.accuracy[0],
        update_ms=tried.update_ms,
        forecast_ms=tried.forecast_ms,
        forecast_30_ms=tried.forecast_30_ms,
    )


@dataclass(frozen=True, kw_only=True)
class ForecasterSummary:
    """A forecaster over all loads."""

    forecaster: str
    error_ratio: Mapping[float, float | None]
    """Geometric mean over the loads, for each horizon in seconds."""
    worst: ForecastRow | None
    """The row with the highest error ratio."""
    coverage: tuple[float, float]
    """The lowest and the highest of all rows whose series is longer than a day; of all rows if none is."""
    reliability: tuple[float, ...]
    """Mean over the rows, for each of ``RELIABILITY_LEVELS``."""
    update_ms: float
    """The longest mean of a row."""
    forecast_30_ms: float


def summarise(rows: Sequence[ForecastRow]) -> list[ForecasterSummary]:
    """One summary for each forecaster, in the order of the rows."""
    names = list(dict.fromkeys(row.forecaster for row in rows))
    return [_summary(name, [row for row in rows if row.forecaster == name]) for name in names]


def _summary(name: str, rows: Sequence[ForecastRow]) -> ForecasterSummary:
    horizons_s = sorted({row.horizon_s for row in rows})
    compared = [row for row in rows if row.accuracy.error_ratio is not None]
    long = [row for row in rows if row.span_s > 86_400] or list(rows)
    covered = [row.accuracy.coverage for row in long]
    return ForecasterSummary(
        forecaster=name,
        error_ratio={
            horizon_s: geometric_mean(
                [row.accuracy.error_ratio for row in rows if row.horizon_s == horizon_s]
            )
            for horizon_s in horizons_s
        },
        worst=max(compared, key=lambda row: row.accuracy.error_ratio or 0.0, default=None),
        coverage=(min(covered), max(covered)),
        reliability=tuple(
            float(np.mean([row.accuracy.reliability[place] for row in rows]))
            for place in range(len(RELIABILITY_LEVELS))
        ),
        update_ms=max(row.update_ms for row in rows),
        forecast_30_ms=max(row.forecast_30_ms for row in rows),
    )


def geometric_mean(ratios: Sequence[float | None]) -> float | None:
    """The geometric mean of what is known; 0 if a ratio is 0.

    >>> geometric_mean([0.5, 2.0, None]), geometric_mean([])
    (1.0, None)
    """
    known = [ratio for ratio in ratios if ratio is not None]
    if not known:
        return None
    return 0.0 if min(known) <= 0 else float(np.exp(np.mean(np.log(known))))
