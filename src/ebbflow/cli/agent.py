"""``ebbflow agent``: monitor the executors of this host; ``ebbflow agent keys`` creates its keys."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer

from ebbflow.cli.output import Json, print_json, say
from ebbflow.core.duration import parse_duration_s
from ebbflow.monitoring import addresses
from ebbflow.monitoring.agent import start_agent
from ebbflow.monitoring.keys import make_keys


def register(app: typer.Typer) -> None:
    """Add the command and its subcommand."""
    group = typer.Typer(invoke_without_command=True)
    group.callback(help=agent.__doc__)(agent)
    group.command("keys")(keys)
    app.add_typer(group, name="agent")


def agent(
    context: typer.Context,
    bind: Annotated[
        str, typer.Option(help="Address to listen at; without keys it must be local to this machine.")
    ] = (addresses.DEFAULT),
    keys: Annotated[
        Path | None, typer.Option(help="Folder DIR/agent created by `ebbflow agent keys DIR`.")
    ] = None,
    every: Annotated[str, typer.Option(help="Sampling interval.")] = "1s",
    name: Annotated[str | None, typer.Option(help="Name of this host.", show_default="its host name")] = None,
    json: Json = False,
) -> None:
    """Monitor the executors of this host and publish CPU, memory, heap, disk and network to subscribers."""
    if context.invoked_subcommand is not None:
        return
    running = start_agent(bind, keys=keys, name=name, every_s=parse_duration_s(every))
    try:
        if json:
            print_json({"address": running.address, "name": running.name, "keys": keys is not None})
        say(f"agent {running.name} listens at {running.address} {'with' if keys else 'without'} keys")
        running.run(threading.Event())
    finally:
        running.close()


def keys(
    folder: Annotated[Path, typer.Argument(help="Where to create the folders agent and collector.")],
    json: Json = False,
) -> None:
    """Create keys, so that agents accept only your collectors, and collectors only your agents."""
    agent_folder, collector_folder = make_keys(folder)
    if json:
        print_json({"agent": str(agent_folder), "collector": str(collector_folder)})
        return
    say(
        f"copy {agent_folder} to every worker host: ebbflow agent --keys {agent_folder} --bind tcp://HOST:7788"
    )
    say(f"copy {collector_folder} to the driver's host, and pass it together with the agents' addresses")
