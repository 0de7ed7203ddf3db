"""The pages of ``ebbflow forecast`` and ``ebbflow bench forecast``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ebbflow.core.duration import format_duration
from ebbflow.core.plural import counted
from ebbflow.forecasting.backtest import RELIABILITY_LEVELS, Accuracy, pairs
from ebbflow.report.palette import AREA, COLOURS, FONT, GRID, INK, MUTED, SLO, TRANSPARENT, tint
from ebbflow.report.template import figure_json, render
from ebbflow.report.wording import number, share
from ebbflow.runs.forecast_bench import ForecasterSummary, ForecastRow, geometric_mean, summarise
from ebbflow.runs.scored_forecast import BAND, ScoredForecast, moment

_PAST_STEPS = 600
"""Steps of a backtest that are drawn."""
_FEWEST_PAST_STEPS = 60
"""Steps before a forecast that are drawn at least; eight times as many as it has itself."""
_DASHES = ("solid", "dash", "dot", "dashdot")


# -- one forecast --------------------------------------------------------------------------------


def write_forecast_page(path: Path, made: ScoredForecast) -> None:
    """Write the page of a forecast."""
    path.write_text(forecast_page(made), encoding="utf-8")


def forecast_page(made: ScoredForecast) -> str:
    """The page as HTML text: the forecast after the last steps, and its backtest."""
    data = {
        "forecast-data": figure_json(forecast_figure(made)),
        "ebbflow-data": made.to_json(),
    }
    sections: list[dict[str, Any]] = [
        {
            "heading": "Forecast",
            "paragraphs": [
                f"Based on: {made.forecast.basis}.",
                " ".join([_ends(made), *recurring_text(made)]),
            ],
            "figure": "forecast-data",
        }
    ]
    if made.tried.accuracy:
        data["backtest-data"] = figure_json(backtest_figure(made))
        sections.append(
            {
                "heading": "Backtest",
                "paragraphs": [
                    "At every step, a forecast was made from the steps before it. Dots: the load that then came. "
                    f"Band: 90 % band of the forecast {_steps(made.tried.accuracy[-1].ahead)} ahead.",
                ],
                "figure": "backtest-data",
                "table": {
                    "columns": ["", *(f"{_steps(score.ahead)} ahead" for score in made.tried.accuracy)],
                    "rows": accuracy_rows(made.tried.accuracy),
                },
            }
        )
    return render(
        "figures.html.j2",
        title=forecast_headline(made),
        eyebrow=f"Ebbflow: forecast of {made.load} by {made.forecaster.name}",
        ok=None,
        facts=[
            f"horizon {format_duration(made.horizon_s)}",
            f"steps of {format_duration(made.forecast.step_s)}",
            f"learned {counted(len(made.scored), 'step')}",
        ],
        sections=sections,
        notes=list(made.notes),
        data=data,
    )


def forecast_headline(made: ScoredForecast) -> str:
    """The forecast in one sentence."""
    ahead = made.forecast
    low, median, high = (float(ahead.at(level)[-1]) for level in BAND)
    return (
        f"In {format_duration(made.horizon_s)}: {number(median)} rows/s, with 90 % probability {number(low)} to "
        f"{number(high)}; now {number(float(made.series.values[-1]))}"
    )


def accuracy_rows(scores: Sequence[Accuracy]) -> list[list[str]]:
    """The measures of a backtest as rows of text, one column for each lead."""
    measures: tuple[tuple[str, Callable[[Accuracy], str]], ...] = (
        ("error ÷ that of the last value", lambda s: number(s.error_ratio)),
        ("squared error ÷ that of the last value", lambda s: number(s.squared_error_ratio)),
        ("mean absolute error", lambda s: f"{number(s.error)} rows/s"),
        ("… relative to the mean load", lambda s: share(s.error / s.level if s.level else None)),
        ("scaled error (MASE)", lambda s: number(s.scaled_error)),
        ("coverage of the 90 % band", lambda s: share(s.coverage)),
        ("width of the band ÷ mean load", lambda s: share(s.width)),
        ("forecasts", lambda s: f"{s.steps:,}"),
    )
    return [[name, *(text(score) for score in scores)] for name, text in measures]


def forecast_figure(made: ScoredForecast) -> Any:
    """The last steps, and the forecast with its band."""
    import plotly.graph_objects as graph

    figure = graph.Figure()
    ahead = made.forecast
    past = made.series.last(max(_FEWEST_PAST_STEPS, 8 * len(ahead.ends_s)))
    past_x, values = _with_breaks(past.ends_s, past.values, past.step_s)
    figure.add_trace(
        graph.Scatter(
            x=_axis(past_x, made), y=values, mode="lines", name="load", line={"color": INK, "width": 1.4},
            connectgaps=False, hovertemplate="load %{y:,.1f} rows/s<extra></extra>",
        )
    )  # fmt: skip
    low, median, high = (
        np.append(made.series.values[-1], ahead.at(level)).round(3).tolist() for level in BAND
    )
    _add_band(figure, graph, _axis(np.append(ahead.start_s, ahead.ends_s), made), low, median, high)
    figure.update_layout(**_layout(height=380, x_title=_unit(made)[1]))
    return figure


def backtest_figure(made: ScoredForecast) -> Any:
    """The forecasts at the longest lead beside the load that came."""
    import plotly.graph_objects as graph

    figure = graph.Figure()
    lead = made.tried.accuracy[-1].ahead
    place = {score.ahead: index for index, score in enumerate(made.tried.accuracy)}[lead]
    origins, targets = pairs(made.scored, lead)
    origins, targets = origins[-_PAST_STEPS:], targets[-_PAST_STEPS:]
    x = _axis(made.scored.ends_s[targets], made)
    quantiles = made.tried.forecasts[place][:, origins].round(3)
    middle = RELIABILITY_LEVELS.index(0.5)
    _add_band(figure, graph, x, quantiles[0].tolist(), quantiles[middle].tolist(), quantiles[-1].tolist())
    figure.add_trace(
        graph.Scatter(
            x=x, y=made.scored.values[targets].round(3).tolist(), mode="markers", name="load that came",
            marker={"color": INK, "size": 3.5}, hovertemplate="load %{y:,.1f} rows/s<extra></extra>",
        )
    )  # fmt: skip
    figure.update_layout(**_layout(height=340, x_title=_unit(made)[1]))
    return figure


def _add_band(
    figure: Any, graph: Any, x: list[Any], low: list[float], median: list[float], high: list[float]
) -> None:
    colour = COLOURS[0]
    edge = {"width": 0, "color": colour}
    figure.add_trace(graph.Scatter(x=x, y=low, mode="lines", line=edge, showlegend=False, hoverinfo="skip"))
    figure.add_trace(
        graph.Scatter(
            x=x, y=high, mode="lines", line=edge, fill="tonexty", fillcolor=tint(colour, 0.22), name="90 % band",
            customdata=low, hovertemplate="90 % band %{customdata:,.1f} to %{y:,.1f}<extra></extra>",
        )
    )  # fmt: skip
    figure.add_trace(
        graph.Scatter(
            x=x, y=median, mode="lines", line={"color": colour, "width": 2}, name="median",
            hovertemplate="median %{y:,.1f} rows/s<extra></extra>",
        )
    )  # fmt: skip


def _with_breaks(ends_s: Any, values: Any, step_s: float) -> tuple[Any, list[float | None]]:
    """Times and values, with an empty value in every gap, so that no line crosses it."""
    gaps = np.flatnonzero(np.diff(ends_s) > 1.5 * step_s) + 1
    times_s = np.insert(ends_s, gaps, ends_s[gaps] - step_s)
    filled = np.insert(values, gaps, np.nan)
    return times_s, [None if np.isnan(value) else round(float(value), 3) for value in filled]


def _axis(times_s: Any, made: ScoredForecast) -> list[Any]:
    """Dates; if the times are not dates, minutes or hours since the start."""
    unit_s, _ = _unit(made)
    return [moment(float(time_s)) or round(float(time_s) / unit_s, 3) for time_s in times_s]


def _unit(made: ScoredForecast) -> tuple[float, str]:
    """The unit of the time axis, and its title."""
    if moment(float(made.series.ends_s[0])) is not None:
        return 1.0, "time (UTC)"
    return (3600.0, "hours") if made.forecast.start_s > 36_000 else (60.0, "minutes")


def _ends(made: ScoredForecast) -> str:
    when = moment(made.forecast.start_s)
    return f"The load is known until {when}." if when else "The load is known until the start of the band."


def recurring_text(made: ScoredForecast) -> list[str]:
    """The period and the jumps of the load as sentences."""
    texts = [f"The load has a period of {format_duration(made.period_s)}."] if made.period_s else []
    if made.jumps:
        texts.append(f"It jumps at the same time every hour or day: {'; '.join(map(str, made.jumps))}.")
    return texts


def _steps(count: int) -> str:
    return counted(count, "step")


# -- the benchmark -------------------------------------------------------------------------------


def write_forecast_bench_page(
    path: Path, rows: Sequence[ForecastRow], notes: Sequence[str], *, highlighted: str
) -> None:
    """Write the page of a benchmark; ``highlighted`` is the forecaster that is drawn in front."""
    path.write_text(forecast_bench_page(rows, notes, highlighted=highlighted), encoding="utf-8")


def forecast_bench_page(rows: Sequence[ForecastRow], notes: Sequence[str], *, highlighted: str) -> str:
    """The page as HTML text."""
    summaries = summarise(rows)
    names = [summary.forecaster for summary in summaries]
    front = highlighted if highlighted in names else names[0]
    own = [row for row in rows if row.forecaster == front]
    loads, horizons_s = _loads(rows), _horizons(rows)
    data = {
        "horizons-data": figure_json(horizon_figure(summaries, front)),
        "loads-data": figure_json(load_figure(own)),
        "reliability-data": figure_json(reliability_figure(summaries, front)),
        "coverage-data": figure_json(coverage_figure(own)),
        "ebbflow-data": [row.to_json() for row in rows],
    }
    overall = geometric_mean([row.accuracy.error_ratio for row in own])
    sections: list[dict[str, Any]] = [
        {
            "heading": "Error by horizon",
            "paragraphs": [
                "Mean absolute error divided by that of the last value on the same steps: geometric mean over the "
                "loads. Below 1 is better than the last value."
            ],
            "figure": "horizons-data",
            "table": {
                "columns": [
                    "forecaster", *(format_duration(h) for h in horizons_s), "coverage", "worst load", "update",
                    "30 steps",
                ],
                "rows": [summary_row(summary, horizons_s) for summary in summaries],
            },
        },
        {
            "heading": f"Error of {front} on each load",
            "paragraphs": ["One dot for each horizon; left of the line it beats the last value."],
            "figure": "loads-data",
        },
        {
            "heading": "Reliability of the quantiles",
            "paragraphs": [
                "Share of loads at or below each forecast quantile, mean over all loads and horizons. On the diagonal "
                "a quantile is what it claims to be."
            ],
            "figure": "reliability-data",
        },
        {
            "heading": f"Coverage of the 90 % bands of {front}",
            "paragraphs": ["Grey: 87 to 93 %."],
            "figure": "coverage-data",
        },
        {
            "heading": "Every backtest",
            "paragraphs": [],
            "table": {"columns": list(_COLUMNS), "rows": [_detail(row) for row in rows]},
        },
    ]  # fmt: skip
    return render(
        "figures.html.j2",
        title=f"{front}: {number(overall)} of the error of the last value",
        eyebrow="Ebbflow: forecasters compared",
        ok=None if overall is None else overall < 1,
        facts=[
            counted(len(names), "forecaster"),
            counted(len(loads), "load"),
            f"{counted(len(horizons_s), 'horizon')} from {format_duration(horizons_s[0])} to "
            f"{format_duration(horizons_s[-1])}",
            "rolling origin, from the first step",
        ],
        sections=sections,
        notes=list(notes),
        data=data,
    )


_COLUMNS = (
    "load", "horizon", "forecaster", "error ratio", "squared", "MASE", "coverage", "width", "update", "forecast",
    "steps",
)  # fmt: skip


def _detail(row: ForecastRow) -> list[str]:
    score = row.accuracy
    return [
        row.load,
        format_duration(row.horizon_s),
        row.forecaster,
        number(score.error_ratio),
        number(score.squared_error_ratio),
        number(score.scaled_error),
        share(score.coverage),
        share(score.width),
        f"{number(row.update_ms)} ms",
        f"{number(row.forecast_ms)} ms",
        f"{score.steps:,}",
    ]


def summary_row(summary: ForecasterSummary, horizons_s: Sequence[float]) -> list[str]:
    """A forecaster over all loads, as text: ratios by horizon, coverage, worst load, times."""
    worst = summary.worst
    return [
        summary.forecaster,
        *(_ratio(summary.error_ratio.get(horizon_s)) for horizon_s in horizons_s),
        f"{100 * summary.coverage[0]:.0f}–{100 * summary.coverage[1]:.0f} %",
        "–" if worst is None else f"{_ratio(worst.accuracy.error_ratio)} {worst.load}",
        f"{number(summary.update_ms)} ms",
        f"{number(summary.forecast_30_ms)} ms",
    ]


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def horizon_figure(summaries: Sequence[ForecasterSummary], front: str) -> Any:
    """The error ratio of each forecaster by horizon."""
    import plotly.graph_objects as graph

    figure = graph.Figure()
    horizons_s = sorted({horizon_s for summary in summaries for horizon_s in summary.error_ratio})
    for index, summary in enumerate(_front_last(summaries, front)):
        points = [summary.error_ratio.get(horizon_s) for horizon_s in horizons_s]
        figure.add_trace(
            graph.Scatter(
                x=[format_duration(horizon_s) for horizon_s in horizons_s],
                y=[None if point is None else round(point, 4) for point in points],
                mode="lines+markers", name=summary.forecaster, **_style(index, summary.forecaster == front),
                hovertemplate=f"{_plain(summary.forecaster)} %{{y:.3f}}<extra></extra>",
            )
        )  # fmt: skip
    figure.add_hline(y=1.0, line={"color": MUTED, "width": 1.2, "dash": "dash"})
    known = [
        ratio for summary in summaries for ratio in summary.error_ratio.values() if ratio is not None
    ] or [1.0]
    top = min(2.0, max(1.1, *known) * 1.03)
    figure.update_layout(**_layout(height=430, x_title="horizon", hovermode="closest"))
    figure.update_xaxes(type="category")
    figure.update_yaxes(title="error ÷ last value's", range=[max(0.0, min(known) - 0.08), top])
    return figure


def load_figure(rows: Sequence[ForecastRow]) -> Any:
    """The error ratio on each load, one colour for each horizon."""
    return _by_load(rows, lambda score: score.error_ratio, "error ÷ last value's", line=1.0)


def coverage_figure(rows: Sequence[ForecastRow]) -> Any:
    """The coverage on each load, one colour for each horizon."""
    figure = _by_load(rows, lambda score: 100 * score.coverage, "coverage, %", line=90.0)
    figure.add_vrect(x0=87, x1=93, fillcolor=AREA, line={"width": 0}, layer="below")
    return figure


def _by_load(rows: Sequence[ForecastRow], value: Any, title: str, *, line: float) -> Any:
    import plotly.graph_objects as graph

    figure = graph.Figure()
    loads = _loads(rows)
    for index, horizon_s in enumerate(_horizons(rows)):
        shown = [row for row in rows if row.horizon_s == horizon_s and value(row.accuracy) is not None]
        figure.add_trace(
            graph.Scatter(
                x=[round(value(row.accuracy), 4) for row in shown], y=[row.load for row in shown], mode="markers",
                name=format_duration(horizon_s),
                marker={"size": 10, "color": COLOURS[index % len(COLOURS)], "opacity": 0.85},
                hovertemplate=f"%{{y}}, {format_duration(horizon_s)}: %{{x:.3g}}<extra></extra>",
            )
        )  # fmt: skip
    figure.add_vline(x=line, line={"color": SLO, "width": 1.2, "dash": "dash"})
    layout = _layout(height=120 + 30 * len(loads), x_title=title, hovermode="closest")
    figure.update_layout(**layout)
    figure.update_yaxes(
        type="category", categoryorder="array", categoryarray=loads[::-1], title="", automargin=True
    )
    return figure


def reliability_figure(summaries: Sequence[ForecasterSummary], front: str) -> Any:
    """Observed share at or below each quantile against its level."""
    import plotly.graph_objects as graph

    figure = graph.Figure()
    levels = [100 * level for level in RELIABILITY_LEVELS]
    figure.add_trace(
        graph.Scatter(
            x=[0, 100], y=[0, 100], mode="lines", line={"color": MUTED, "width": 1.2, "dash": "dash"},
            showlegend=False, hoverinfo="skip",
        )
    )  # fmt: skip
    for index, summary in enumerate(_front_last(summaries, front)):
        figure.add_trace(
            graph.Scatter(
                x=levels, y=[round(100 * value, 2) for value in summary.reliability], mode="lines+markers",
                name=summary.forecaster, **_style(index, summary.forecaster == front),
                hovertemplate=f"{_plain(summary.forecaster)}: %{{y:.1f}} % at or below the %{{x:g}} % quantile"
                "<extra></extra>",
            )
        )  # fmt: skip
    figure.update_layout(**_layout(height=430, x_title="quantile, %", hovermode="closest"))
    figure.update_yaxes(title="loads at or below, %", range=[0, 100])
    return figure


def _front_last(summaries: Sequence[ForecasterSummary], front: str) -> list[ForecasterSummary]:
    return sorted(summaries, key=lambda summary: summary.forecaster == front)


def _style(index: int, front: bool) -> dict[str, Any]:
    if front:
        return {"line": {"color": INK, "width": 3.2}, "marker": {"size": 8}}
    dash = _DASHES[index // len(COLOURS) % len(_DASHES)]
    return {
        "line": {"color": COLOURS[index % len(COLOURS)], "width": 1.5, "dash": dash},
        "marker": {"size": 5},
        "opacity": 0.85,
    }


def _layout(*, height: int, x_title: str, hovermode: str = "x unified") -> dict[str, Any]:
    return {
        "template": "none", "height": height, "margin": {"l": 62, "r": 16, "t": 12, "b": 46},
        "font": {"family": FONT, "size": 13}, "paper_bgcolor": TRANSPARENT, "plot_bgcolor": TRANSPARENT,
        "hovermode": hovermode, "legend": {"orientation": "v", "x": 1.01, "xanchor": "left", "y": 1},
        "xaxis": {"title": {"text": x_title, "font": {"size": 13}}, "gridcolor": GRID, "zeroline": False},
        "yaxis": {"gridcolor": GRID, "zeroline": False, "rangemode": "tozero"},
    }  # fmt: skip


def _loads(rows: Sequence[ForecastRow]) -> list[str]:
    return list(dict.fromkeys(row.load for row in rows))


def _horizons(rows: Sequence[ForecastRow]) -> list[float]:
    return sorted({row.horizon_s for row in rows})


def _plain(name: str) -> str:
    """A name without markup or placeholders for Plotly."""
    return name.replace("<", "&lt;").replace("%{", "% {")
