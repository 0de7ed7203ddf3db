"""``ebbflow metrics``: the catalogue of everything that is measured."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ebbflow.cli.output import Json, print_json
from ebbflow.core.metrics import Metric


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("metrics")(metrics)


def metrics(
    markdown: Annotated[bool, typer.Option("--markdown", help="As the page docs/metrics.md.")] = False,
    json: Json = False,
) -> None:
    """List every metric with its unit, what it is about, and what it means."""
    rows = [(m.key, m.unit.value, m.about.value, m.meaning) for m in Metric]
    if json:
        print_json([dict(zip(("key", "unit", "about", "meaning"), row, strict=True)) for row in rows])
    elif markdown:
        typer.echo(markdown_page(rows))
    else:
        table = Table("metric", "unit", "about", "meaning", box=None, pad_edge=False)
        for row in rows:
            table.add_row(*row)
        Console().print(table)


def markdown_page(rows: list[tuple[str, str, str, str]]) -> str:
    """The reference page, made from the catalogue."""
    lines = ["# Metrics", "", "Made by `ebbflow metrics --markdown`; a test keeps it true.", ""]
    lines += ["| metric | unit | about | meaning |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)
