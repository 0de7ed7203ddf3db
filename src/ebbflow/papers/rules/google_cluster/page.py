"""Pages of the Google cluster tests: speed-up (Figures 5.23 to 5.26), CPU, size, rates and results (5.29 to 5.35)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ebbflow.core.duration import format_duration
from ebbflow.core.plural import counted
from ebbflow.report.palette import COLOURS, FONT, GRID, MUTED, TRANSPARENT, tint
from ebbflow.report.template import figure_json, render

_MAX_POINTS = 3000
_DAY_S = 86_400


@dataclass(frozen=True, kw_only=True)
class StaticPoint:
    """The result for one number of instances."""

    instances: int
    measured: bool
    """False if simulated."""
    seconds: float
    speed_up: float
    published_speed_up: float | None
    rates_per_s: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class DynamicPicture:
    """A dynamic run on the page; times are seconds since its start."""

    speed: float
    cpu: Sequence[tuple[float, float]]
    sizes: Sequence[tuple[float, int]]
    rates: Sequence[tuple[float, float]]
    changes: Sequence[tuple[float, str]]
    stops: Sequence[tuple[float, float]] = ()
    """(time, seconds) of each stop of the query for a resize."""
    cluster: Mapping[str, Sequence[float]] = field(default_factory=dict)


def write_static_page(path: Path, points: Sequence[StaticPoint], note: str) -> None:
    """Write the page as one HTML file."""
    best = max((p for p in points if p.measured), key=lambda p: p.speed_up, default=points[0])
    title = f"Google cluster, static: {_fastest(best)}{'' if best.measured else ' (simulated)'}"
    sections = [
        ("Speed-up", f"{note}.", speed_up_figure(points)),
        ("Efficiency", "Speed-up ÷ instances.", efficiency_figure(points)),
        ("Throughput", "Events per second of the batches; dashed: simulated.", throughput_figure(points)),
    ]
    path.write_text(_page(title, sections, [vars(point) for point in points]), encoding="utf-8")


def write_dynamic_page(path: Path, picture: DynamicPicture) -> None:
    """Write the page as one HTML file."""
    path.write_text(dynamic_page(picture), encoding="utf-8")


def dynamic_page(picture: DynamicPicture) -> str:
    """The page as HTML text."""
    times = counted(len(picture.changes), "time")
    title = f"Google cluster ×{picture.speed:g}: the machine operator was resized {times}"
    changes = (
        "; ".join(f"{time_s:.0f} s: {text}" for time_s, text in picture.changes) or "It was never resized"
    )
    if picture.stops:
        stopped_s = sum(seconds for _, seconds in picture.stops)
        changes += (
            f". Resizing stopped the query for {format_duration(stopped_s)} in total, where the lines break"
        )
    sections = [
        ("CPU of the machine operator against its size", f"{changes}.", cpu_figure(picture)),
        ("Event rate", "Events per second of real time in the batches.", rate_figure(picture)),
    ]
    cluster = picture.cluster
    if cluster.get("trace_s"):
        sections += [
            (
                "Running tasks in the cluster",
                f"Every 15 minutes of the trace{', and the mean of the last 24 hours' if has_day(cluster) else ''}.",
                results_figure(cluster, {"tasks_total": "running tasks"}, rolling=has_day(cluster)),
            ),
            (
                "Running tasks of a machine",
                "Median and percentiles over all machines.",
                results_figure(cluster, _percentiles("tasks")),
            ),
            (
                "CPU requests of a machine",
                "1 is the largest machine's CPU.",
                results_figure(cluster, _percentiles("cpu")),
            ),
            (
                "Memory requests of a machine",
                "1 is the largest machine's memory.",
                results_figure(cluster, _percentiles("memory")),
            ),
        ]
    data = {
        "cpu": [list(p) for p in picture.cpu],
        "sizes": [list(p) for p in picture.sizes],
        "rates": [list(p) for p in picture.rates],
        "changes": [list(p) for p in picture.changes],
        "stops": [list(p) for p in picture.stops],
        "cluster": {name: list(values) for name, values in cluster.items()},
    }
    return _page(title, sections, data)


def cpu_figure(picture: DynamicPicture) -> Any:
    """Figure 5.31: CPU of an instance (left) and instances (right) over time."""
    figure = _figure("seconds", "CPU of an instance, % of a core")
    _line(figure, broken([(t, 100 * v) for t, v in picture.cpu], picture.stops), "CPU", COLOURS[0])
    _line(figure, picture.sizes, "size", COLOURS[1], yaxis="y2", shape="hv", dash="dot")
    largest = max((n for _, n in picture.sizes), default=1)
    figure.update_layout(
        yaxis2={
            "title": "instances", "overlaying": "y", "side": "right", "range": [0, largest + 1], "dtick": 1,
            "showgrid": False, "zeroline": False,
        }
    )  # fmt: skip
    return figure


def rate_figure(picture: DynamicPicture) -> Any:
    """Figures 5.29 and 5.30: the rate, and its rolling mean of a minute."""
    figure = _figure("seconds", "events/s")
    _line(figure, broken(picture.rates, picture.stops), "rate of each batch", tint(COLOURS[0], 0.45))
    _line(figure, rolling_mean(picture.rates, 60.0), "1-minute mean", COLOURS[1])
    return figure


def broken(
    points: Sequence[tuple[float, float]], stops: Sequence[tuple[float, float]]
) -> list[tuple[float, float | None]]:
    """Points with a gap at each stop.

    >>> broken([(0, 1.0), (5, 1.0), (30, 2.0)], [(6, 20.0)])
    [(0, 1.0), (5, 1.0), (6, None), (30, 2.0)]
    """
    gaps: list[tuple[float, float | None]] = [(time_s, None) for time_s, _ in stops]
    return sorted([*points, *gaps], key=lambda point: point[0])


def rolling_mean(points: Sequence[tuple[float, float]], over_s: float) -> list[tuple[float, float]]:
    """The mean of the points of the last ``over_s`` seconds, at each point.

    >>> rolling_mean([(0, 1.0), (30, 3.0), (70, 5.0)], 60)
    [(0, 1.0), (30, 2.0), (70, 4.0)]
    """
    found, first, total = [], 0, 0.0
    for index, (time_s, value) in enumerate(points):
        total += value
        while points[first][0] <= time_s - over_s:
            total -= points[first][1]
            first += 1
        found.append((time_s, total / (index - first + 1)))
    return found


def results_figure(
    cluster: Mapping[str, Sequence[float]], columns: Mapping[str, str], *, rolling: bool = False
) -> Any:
    """Columns of the cluster table over the days of the trace, or the hours of a short one; ``rolling`` adds the mean
    of the last 24 hours."""
    unit, unit_s = ("hours", 3_600) if cluster["trace_s"][-1] < 2 * _DAY_S else ("days", _DAY_S)
    figure = _figure(f"{unit} of the trace", "")
    times = [seconds / unit_s for seconds in cluster["trace_s"]]
    for index, (column, name) in enumerate(columns.items()):
        points = list(zip(times, cluster[column], strict=True))
        _line(figure, points, name, COLOURS[index % len(COLOURS)])
        if rolling:
            _line(figure, rolling_mean(points, _DAY_S / unit_s), "24-hour mean", COLOURS[1])
    return figure


def has_day(cluster: Mapping[str, Sequence[float]]) -> bool:
    """Whether the trace is long enough for a mean of 24 hours.

    >>> has_day({"trace_s": [900, 85_500]}), has_day({"trace_s": [900, 86_400]})
    (False, True)
    """
    return cluster["trace_s"][-1] >= _DAY_S


def speed_up_figure(points: Sequence[StaticPoint]) -> Any:
    """Figure 5.23: our speed-up, the thesis's and the linear one."""
    figure = _figure("instances of the machine operator", "speed-up")
    sizes = [point.instances for point in points]
    _line(figure, [(n, n) for n in sizes], "linear", MUTED, dash="dot")
    published = [(p.instances, p.published_speed_up) for p in points if p.published_speed_up is not None]
    _line(figure, published, "thesis", COLOURS[1], mode="lines+markers")
    _measured_and_simulated(figure, [(p.instances, p.speed_up, p.measured) for p in points])
    return figure


def efficiency_figure(points: Sequence[StaticPoint]) -> Any:
    """Figure 5.24."""
    figure = _figure("instances of the machine operator", "efficiency")
    published = [
        (p.instances, p.published_speed_up / p.instances) for p in points if p.published_speed_up is not None
    ]
    _line(figure, published, "thesis", COLOURS[1], mode="lines+markers")
    _measured_and_simulated(figure, [(p.instances, p.speed_up / p.instances, p.measured) for p in points])
    return figure


def throughput_figure(points: Sequence[StaticPoint]) -> Any:
    """Figure 5.25."""
    figure = _figure("instances of the machine operator", "events/s")
    for index, name in enumerate(("median", "p75", "p90", "p95")):
        found = [(p.instances, p.rates_per_s[index], p.measured) for p in points]
        _measured_and_simulated(figure, found, (name, f"{name}, simulated"), COLOURS[index])
    return figure


def _measured_and_simulated(
    figure: Any,
    points: Sequence[tuple[int, float, bool]],
    names: tuple[str, str] = ("measured", "simulated"),
    colour: str = COLOURS[0],
) -> None:
    measured = [(n, value) for n, value, known in points if known]
    _line(figure, measured, names[0], colour, mode="lines+markers")
    simulated = [(n, value) for n, value, known in points if not known]
    if simulated:
        _line(figure, [*measured[-1:], *simulated], names[1], colour, mode="lines+markers", dash="dash")


def _fastest(best: StaticPoint) -> str:
    if best.instances == 1:
        return "one instance is the fastest measured"
    return f"{best.instances} instances are {best.speed_up:.2f} times as fast as one"


def _percentiles(quantity: str) -> dict[str, str]:
    return {f"{quantity}_{name}": name for name in ("median", "p75", "p90", "p95", "p99")}


def _line(
    figure: Any,
    points: Sequence[tuple[float, float | None]],
    name: str,
    colour: str,
    *,
    yaxis: str = "y",
    shape: str = "linear",
    dash: str = "solid",
    mode: str = "lines",
) -> None:
    import plotly.graph_objects as graph

    step = max(1, len(points) // _MAX_POINTS)
    kept = points[::step]
    figure.add_trace(
        graph.Scatter(
            x=[round(x, 3) for x, _ in kept], y=[None if y is None else round(y, 6) for _, y in kept],
            name=name, mode=mode, yaxis=yaxis, line={"color": colour, "width": 1.8, "shape": shape, "dash": dash},
        )
    )  # fmt: skip


def _figure(x_title: str, y_title: str) -> Any:
    import plotly.graph_objects as graph

    figure = graph.Figure()
    figure.update_layout(
        height=320, margin={"l": 64, "r": 48, "t": 12, "b": 40}, font={"family": FONT, "size": 13},
        paper_bgcolor=TRANSPARENT, plot_bgcolor=TRANSPARENT, hovermode="x unified",
        # grows upwards from the plot, so that several lines do not cover it
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
        xaxis={
            "title": {"text": x_title, "font": {"size": 13}}, "gridcolor": GRID, "zeroline": False,
            "ticks": "outside", "ticklen": 6, "tickcolor": TRANSPARENT,  # keeps labels apart from those of the y axes
        },
        yaxis={"title": y_title, "gridcolor": GRID, "rangemode": "tozero", "zeroline": False},
    )  # fmt: skip
    return figure


def _page(title: str, sections: Sequence[tuple[str, str, Any]], data: Any) -> str:
    figures = {f"figure-{index}": figure_json(figure) for index, (_, _, figure) in enumerate(sections)}
    return render(
        "figures.html.j2",
        title=title,
        eyebrow="Ebbflow: the Google cluster query of the Rules thesis",
        ok=True,
        sections=[
            {"heading": heading, "paragraphs": [text], "figure": f"figure-{index}"}
            for index, (heading, text, _) in enumerate(sections)
        ],
        data={**figures, "ebbflow-data": data},
    )
