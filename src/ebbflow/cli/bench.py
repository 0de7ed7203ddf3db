"""``ebbflow bench``: comparisons and the seeds' own tests."""

from __future__ import annotations

import typer

from ebbflow.cli import (
    bench_elysium,
    bench_google_cluster,
    bench_leaderboard,
    bench_rules,
    bench_sentiment,
)

app = typer.Typer(help="Compare strategies, and run the tests of the seeds.", no_args_is_help=True)
bench_leaderboard.register(app)
bench_rules.register(app)
bench_google_cluster.register(app)
bench_sentiment.register(app)
bench_elysium.register(app)


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="bench")
