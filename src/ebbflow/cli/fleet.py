"""``ebbflow fleet``: many streaming queries on several Spark applications."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ebbflow.cli.output import Json, errors, print_json, say
from ebbflow.core.plural import counted
from ebbflow.errors import FleetError

FleetFile = Annotated[Path, typer.Argument(help="Fleet file, see docs/fleet.md.", metavar="FILE")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, help=__doc__)
    group.command("check")(check)
    app.add_typer(group, name="fleet")


def check(file: FleetFile, json: Json = False) -> int:
    """Check a fleet file; one line for each problem, FILE:LINE: what is wrong, what would be right."""
    from ebbflow.targets.fleet.file import load_fleet

    problems: tuple[str, ...] = ()
    fleet = None
    try:
        fleet = load_fleet(file)
    except FleetError as error:
        problems = error.problems
    if json:
        print_json({"file": str(file), "ok": not problems, "problems": list(problems)})
    elif fleet is None:
        for problem in problems:
            errors.print(problem, markup=False, soft_wrap=True)
    else:
        counts = (
            counted(len(fleet.applications), "application"),
            counted(len(fleet.streams), "stream"),
            counted(len(fleet.operators), "operator"),
        )
        say(f"{file} is fine: {', '.join(counts)}")
    return 2 if problems else 0
