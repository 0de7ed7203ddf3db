"""``ebbflow report``: the page of a run, made from its store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ebbflow.cli.output import Json, check_writable, errors, print_json
from ebbflow.errors import InputError
from ebbflow.report.page import write_run_page
from ebbflow.report.wording import headline
from ebbflow.runs.stored_run import read_run


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(report)


def report(
    store: Annotated[Path, typer.Argument(help="SQLite file written by attach, submit or simulate.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path(
        "ebbflow-report.html"
    ),
    json: Json = False,
) -> None:
    """Write the page of the last run in a store: scores, timeline, every decision.

    It is the page that `ebbflow submit --report` writes. Also works while the job is running.
    """
    stored = read_run(store)
    if not stored.queries:
        raise InputError(f"{store} has no batches; was a query running while it was written?")
    check_writable(output)
    write_run_page(output, stored)
    run, scores = stored.run, stored.score_values()
    if json:
        print_json(
            {
                "store": str(store),
                "report": str(output),
                "pipeline": run.pipeline,
                "strategy": run.strategy,
                "slo": str(run.slo),
                "nodes": str(run.limits),
                "started_s": run.started_s,
                "ended_s": run.ended_s,
                **scores,
                "queries": stored.query_scores(),
                "acts": [{"id": each.entry_id, **each.to_json()} for each in stored.scaling_points()],
            }
        )
        return
    errors.print(escape(headline(run, scores)), soft_wrap=True)
    errors.print(f"Report: [bold]{escape(str(output))}[/bold]", soft_wrap=True)
