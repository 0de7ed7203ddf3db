"""``ebbflow ledger``: the decisions of a run with reasons and effects, from its store."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ebbflow.cli.output import Json, print_json
from ebbflow.control.ledger import ACT
from ebbflow.errors import InputError
from ebbflow.monitoring.store import Store
from ebbflow.report.wording import scaling_points
from ebbflow.runs.scaling_points import ScalingPoints
from ebbflow.runs.stored_run import read_run


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ledger")(ledger)


def ledger(
    store: Annotated[Path, typer.Argument(help="SQLite file written by attach, submit or simulate.")],
    acts: Annotated[bool, typer.Option("--acts", help="Show only acts, with their inputs.")] = False,
    last: Annotated[int, typer.Option(min=1, help="Number of entries to show.")] = 50,
    json: Json = False,
) -> None:
    """Show the decisions of a run. Also works while the job is running."""
    chosen = Store.read_ledger(store, verdict=ACT if acts else None, last=last)
    points = _points(store) if any(entry["verdict"] == ACT for entry in chosen) else {}
    if json:
        chosen = [
            {**entry, "points": points[entry["id"]].to_json()} if entry["id"] in points else entry
            for entry in chosen
        ]
        print_json(chosen)
        return
    table = Table("time (UTC)", "verdict", "nodes", "why", "expected", "achieved", box=None, pad_edge=False)
    for entry in chosen:
        table.add_row(*_row(entry, points.get(entry["id"]), with_inputs=acts))
    Console().print(table)


def _points(store: Path) -> dict[int, ScalingPoints]:
    """The points of the acts of the last run, by id; none if an older version wrote the store."""
    try:
        return {each.entry_id: each for each in read_run(store).scaling_points()}
    except InputError:
        return {}


def _row(entry: dict[str, Any], points: ScalingPoints | None, *, with_inputs: bool) -> tuple[str, ...]:
    at = datetime.fromtimestamp(entry["time_s"], UTC).strftime("%m-%d %H:%M:%S")
    before = sum(entry["before"]["nodes"].values())
    after = sum(entry["wanted"]["nodes"].values())
    bound = "".join(f" [{c['name']}: {c['why']}]" for c in entry["bound_by"])
    note = (entry.get("outcome") or {}).get("note")
    bound += f" → {note}" if note else ""
    inputs = entry.get("inputs", {}) if with_inputs else {}
    listed = "".join(f"\n  [dim]{escape(f'{name}: {_value(value)}')}[/dim]" for name, value in inputs.items())
    if text := scaling_points(points):
        listed = f"\n  [dim]{escape(text)}[/dim]{listed}"
    expected, achieved = entry["expected"], entry["achieved"]
    return (
        at,
        entry["verdict"],
        f"{before} → {after}" if before != after else str(after),
        escape(entry["reason"] + bound) + listed,
        f"{expected['metric']} {expected['value']:.1f}" if expected else "",
        f"{achieved:.1f}" if achieved is not None else "",
    )


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
