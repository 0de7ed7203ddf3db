"""``ebbflow bench``: comparisons and the seeds' own tests."""

from __future__ import annotations

import typer

from ebbflow.cli import bench_rules

app = typer.Typer(help="Run the benchmarks.", no_args_is_help=True)
bench_rules.register(app)


@app.callback()
def _group() -> None:
    """A group, also while it has only one command."""


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="bench")
