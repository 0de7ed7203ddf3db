"""The comparison of forecasters: its series, its summaries, and the default forecaster on real traces."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ebbflow.forecasting.backtest import Accuracy
from ebbflow.forecasting.registry import DEFAULT
from ebbflow.runs.forecast_bench import ForecastRow, forecast_cases, run_forecast_bench, summarise
from ebbflow.runs.loads import NamedLoad, read_whole_loads
from ebbflow.workloads import parse_load


def row(load: str, forecaster: str, horizon_s: float, ratio: float, coverage: float = 0.9) -> ForecastRow:
    accuracy = Accuracy(
        ahead=1, steps=100, error=ratio, last_error=1.0, squared_error=ratio, last_squared_error=1.0, change=1.0,
        level=10.0, range=5.0, coverage=coverage, band=2.0, reliability=(0.05, 0.25, 0.5, 0.75, 0.95),
    )  # fmt: skip
    return ForecastRow(
        load=load, forecaster=forecaster, horizon_s=horizon_s, step_s=horizon_s, span_s=2 * 86_400.0, accuracy=accuracy,
        update_ms=0.1, forecast_ms=0.1, forecast_30_ms=0.2,
    )  # fmt: skip


def test_a_summary_has_geometric_means_by_horizon_the_worst_load_and_the_range_of_coverage() -> None:
    rows = [
        row("a", "x", 60.0, 0.5, coverage=0.88),
        row("b", "x", 60.0, 2.0, coverage=0.91),
        row("a", "x", 300.0, 0.9),
        dataclasses.replace(row("c", "x", 300.0, 0.1, coverage=0.2), span_s=3600.0),
        row("a", "y", 60.0, 0.7),
    ]
    x, y = summarise(rows)
    assert x.error_ratio == {60.0: pytest.approx(1.0), 300.0: pytest.approx(0.3)}
    assert x.worst is rows[1]
    assert x.coverage == (0.88, 0.91)  # the band of an hour says little
    assert (y.forecaster, y.error_ratio) == ("y", {60.0: pytest.approx(0.7)})


def test_a_periodic_load_is_learned_and_rows_come_in_the_order_of_loads_and_forecasters() -> None:
    load = NamedLoad(name="square", load=parse_load("square(base=10, peak=90, period=20m)"))
    cases, notes = forecast_cases([load], horizons_s=[60.0], steps=200)
    done: list[int] = []
    rows, failed = run_forecast_bench(
        cases, ["last-value", DEFAULT], workers=1, on_done=lambda: done.append(1)
    )
    assert (notes, failed, len(done)) == ([], [], 2)
    last, mixture = rows
    assert (last.forecaster, last.accuracy.error_ratio) == ("last-value", 1.0)
    assert mixture.accuracy.error_ratio is not None
    assert mixture.accuracy.error_ratio < 0.8


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_default_forecaster_beats_the_last_value_on_real_traces(shared_data: Path) -> None:
    """The last 5,000 steps of each; the bound of a single trace is for the fall-back to the last value."""
    cases, _ = forecast_cases(read_whole_loads([str(shared_data / "loads")]))
    rows, failed = run_forecast_bench(cases, [DEFAULT], workers=2, on_done=lambda: None)
    assert failed == []
    (summary,) = summarise(rows)
    assert all(ratio is not None and ratio < 1 for ratio in summary.error_ratio.values())
    assert summary.worst is not None
    assert (summary.worst.accuracy.error_ratio or 0.0) <= 1.02, summary.worst
    assert summary.coverage[0] >= 0.87
    assert summary.coverage[1] <= 0.93
