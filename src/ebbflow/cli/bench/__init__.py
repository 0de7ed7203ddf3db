"""``ebbflow bench``: compare strategies and forecasters, and reproduce the tests of the papers."""

from __future__ import annotations

import typer

from ebbflow.cli.bench import (
    datastore,
    dodo,
    elysium,
    forecast,
    google_cluster,
    leaderboard,
    learner,
    movies,
    pascal,
    rules,
    sentiment,
)

app = typer.Typer(
    help="Compare strategies and forecasters, and reproduce the tests of the papers.", no_args_is_help=True
)
leaderboard.register(app)
rules.register(app)
google_cluster.register(app)
sentiment.register(app)
elysium.register(app)
pascal.register(app)
movies.register(app)
dodo.register(app)
datastore.register(app)
learner.register(app)
forecast.register(app)


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="bench")
