"""Pages and terminal pictures of a table: values by state as heat maps, visits, the greedy action; learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ebbflow.core.duration import format_duration
from ebbflow.core.plural import counted
from ebbflow.papers.learner.training import Training
from ebbflow.report.palette import COLOURS, FONT, GRID, INK, NEUTRAL, TRANSPARENT
from ebbflow.report.panels import Panel, PanelLine, Picture, panels_figure
from ebbflow.report.template import figure_json, render
from ebbflow.report.wording import share, whole
from ebbflow.strategies.learner.policies import TIES, Situation, best_action
from ebbflow.strategies.learner.q_table import Entry
from ebbflow.strategies.learner.state import Action, Direction, Region, State
from ebbflow.strategies.learner.table_file import StoredTable

ORDER = (Action.OUT, Action.NONE, Action.IN)
"""From left to right."""
_DIVERGING = [[0.0, COLOURS[1]], [0.5, NEUTRAL], [1.0, COLOURS[0]]]


def greedy_action(entry: Entry, region: Region) -> Action:
    """The action with the largest value, without the monotonicity constraint."""
    return best_action(Situation(values=entry.values, feasible=TIES, region=region))


def levels(table: StoredTable) -> list[int]:
    """The levels of messages in the table, in order; 0 alone without them."""
    return sorted({state.messages for state in table.entries})


def visited(table: StoredTable, messages: int, direction: Direction) -> dict[int, Entry]:
    """The entries of one direction and level of messages, by step of latency."""
    return {
        state.latency: entry
        for state, entry in sorted(table.entries.items())
        if state.messages == messages and state.direction is direction
    }


def table_json(table: StoredTable) -> dict[str, Any]:
    """A table for machines: its parameters, and every state with its region, values, visits and greedy action."""
    space = table.space
    return {
        "parameters": dict(table.parameters),
        "decisions": table.decisions,
        "visits": sum(sum(entry.visits) for entry in table.entries.values()),
        "states": [
            {
                "latency_s": space.latency_s(state),
                "n": round(space.ratio(state), 6),
                "direction": state.direction.value,
                "messages": state.messages,
                "region": int(space.region(state)),
                "values": {action.label: entry.values[action] for action in ORDER},
                "visits": {action.label: entry.visits[action] for action in ORDER},
                "greedy": greedy_action(entry, space.region(state)).label,
            }
            for state, entry in sorted(table.entries.items())
        ],
    }


def table_page(table: StoredTable, name: str) -> str:
    """The page of a table as HTML."""
    data, sections = _table_sections(table)
    total = sum(sum(entry.visits) for entry in table.entries.values())
    return render(
        "figures.html.j2",
        title=f"{name}: {counted(len(table.entries), 'state')}, {counted(total, 'transition')}",
        eyebrow="Ebbflow: the table of a learner",
        ok=None,
        sections=sections,
        data={**data, "ebbflow-data": table_json(table)},
    )


def training_page(training: Training, table: StoredTable | None, loads: Sequence[str]) -> str:
    """The page of a training: learning curves, then the table of the best agent if it has one."""
    best = training.best
    curves = _curves(training, loads)
    data, sections = ({}, []) if table is None else _table_sections(table)
    hours = training.simulated_s / 3600
    return render(
        "figures.html.j2",
        title=f"Trained for {hours:.0f} simulated hours: {share(best.violation)} of the rows late, "
        f"{whole(best.node_seconds)} node-seconds",
        eyebrow=f"Ebbflow: learner; the best of {counted(len(training.agents), 'agent')}, without exploring",
        ok=None,
        sections=[
            {
                "heading": "Learning curves",
                "paragraphs": [
                    "Each line is one agent, each point one episode, with its exploration. Episodes take the loads in "
                    "turn."
                ],
                "figure": "curves",
            },
            *sections,
        ],
        data={
            "curves": figure_json(panels_figure(curves)),
            **data,
            "ebbflow-data": {
                "episodes": [run.to_json() for run in training.episodes],
                "evaluation": [run.to_json() for agent in training.agents for run in agent.evaluation],
                "table": None if table is None else table_json(table),
            },
        },
    )


def write_page(path: Path, text: str) -> None:
    """Write a page."""
    path.write_text(text, encoding="utf-8")


def _curves(training: Training, loads: Sequence[str]) -> Picture:
    """Late rows and cost over the episodes, each load in a panel of its own: loads differ more than episodes do."""

    def panel(title: str, value: str, load: str) -> Panel:
        runs = [run for run in training.episodes if run.load == load]
        return Panel(
            title=f"{title}, {load}",
            lines=[
                PanelLine(
                    name=f"seed {agent.seed}",
                    points=[(run.episode, getattr(run, value)) for run in runs if run.seed == agent.seed],
                )
                for agent in training.agents
            ],
        )

    return Picture(
        title="Learning curves",
        caption="",
        x_title="episode",
        panels=[
            panel(title, value, load)
            for load in loads
            for title, value in (("share of late rows", "violation"), ("node-seconds", "node_seconds"))
        ],
    )


# -- heat maps -----------------------------------------------------------------------------------------------------


def _table_sections(table: StoredTable) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    space, data, sections = table.space, {}, []
    target = f"The dashed line is the target of {format_duration(space.target_latency_s)}"
    for level in levels(table):
        each = table.parameters["incomingMessageGranularity"]
        where = "" if each is None else f", {level * float(each):g} to {(level + 1) * float(each):g} rows/s"
        for kind, heading, paragraph in (
            (
                "values",
                "Values",
                "The larger, the better the action in that state. A ring marks the greedy action.",
            ),
            ("visits", "Visits", "How often each action was carried out in each state."),
        ):
            key = f"{kind}-{level}"
            data[key] = figure_json(_heat_map(table, level, kind))
            sections.append(
                {
                    "heading": f"{heading} by state{where}",
                    "paragraphs": [f"{paragraph} {target}: regions 1 and 4 are below it, 2 and 3 above."],
                    "figure": key,
                }
            )
    return data, sections


def _heat_map(table: StoredTable, level: int, kind: str) -> Any:
    """Latency against actions, the rising load on the left and the falling one on the right."""
    import plotly.graph_objects as graph

    space, figure = table.space, graph.Figure()
    most = 1e-9
    for number, direction in enumerate((Direction.RISING, Direction.FALLING), start=1):
        entries = visited(table, level, direction)
        cells = {step: _row(entry, kind) for step, entry in entries.items()}
        most = max([most, *(abs(value) for row in cells.values() for value in row)])
        steps = list(range(max([space.first_above + 2, *entries]) + 1))
        axis = "" if number == 1 else "2"
        figure.add_trace(
            graph.Heatmap(
                x=[action.label for action in ORDER],
                y=[step * space.granularity_s for step in steps],
                z=[cells.get(step, [None] * 3) for step in steps],
                xaxis=f"x{axis}", yaxis=f"y{axis}", coloraxis="coloraxis", xgap=1, ygap=1,
                hovertemplate=f"{direction.value}, %{{y}} s, %{{x}}: %{{z:.3f}}<extra></extra>",
            )
        )  # fmt: skip
        if kind == "values":
            region = {step: space.region(State(step, direction, level)) for step in entries}
            best = {step: greedy_action(entry, region[step]) for step, entry in entries.items()}
            figure.add_trace(
                graph.Scatter(
                    x=[action.label for action in best.values()],
                    y=[step * space.granularity_s for step in best],
                    xaxis=f"x{axis}", yaxis=f"y{axis}", mode="markers", showlegend=False, hoverinfo="skip",
                    marker={"symbol": "circle-open", "size": 7, "color": INK, "line": {"width": 1.4}},
                )
            )  # fmt: skip
        figure.add_shape(
            type="line", xref=f"x{axis} domain", yref=f"y{axis}", x0=0, x1=1, line={"dash": "dash", "width": 1.3},
            y0=(space.first_above - 0.5) * space.granularity_s, y1=(space.first_above - 0.5) * space.granularity_s,
        )  # fmt: skip
    scale: dict[str, Any] = (
        {"colorscale": _DIVERGING, "cmin": -most, "cmax": most}
        if kind == "values"
        else {"colorscale": [[0.0, NEUTRAL], [1.0, COLOURS[0]]], "cmin": 0}
    )
    figure.update_layout(
        height=520, template="none", font={"family": FONT, "size": 13}, margin={"l": 60, "r": 10, "t": 30, "b": 60},
        paper_bgcolor=TRANSPARENT, plot_bgcolor=TRANSPARENT, coloraxis=scale,
        xaxis={"domain": [0.0, 0.47], "title": {"text": "load rising (regions 1, 2)"}, "fixedrange": True},
        xaxis2={"domain": [0.53, 1.0], "title": {"text": "load falling (regions 4, 3)"}, "fixedrange": True},
        yaxis={"title": {"text": "latency, s"}, "gridcolor": GRID, "zeroline": False, "anchor": "x"},
        yaxis2={"matches": "y", "anchor": "x2", "gridcolor": GRID, "zeroline": False},
    )  # fmt: skip
    return figure


def _row(entry: Entry, kind: str) -> list[float]:
    numbers: Sequence[float] = entry.values if kind == "values" else entry.visits
    return [float(numbers[action]) for action in ORDER]


# -- for the terminal ----------------------------------------------------------------------------------------------


def text_rows(table: StoredTable, level: int) -> list[tuple[float, Mapping[Direction, Entry]]]:
    """Latency and the entries of both directions, for every step that has been met."""
    rising, falling = (
        visited(table, level, direction) for direction in (Direction.RISING, Direction.FALLING)
    )
    found: list[tuple[float, Mapping[Direction, Entry]]] = []
    for step in sorted({*rising, *falling}):
        entries = {
            direction: entries[step]
            for direction, entries in ((Direction.RISING, rising), (Direction.FALLING, falling))
            if step in entries
        }
        found.append((step * table.space.granularity_s, entries))
    return found
