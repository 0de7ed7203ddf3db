"""The options that say what is simulated: the same words for every command, and in scenario files."""

from __future__ import annotations

from typing import Annotated

import typer

from ebbflow.bench.spec import Spec

_DEFAULT = Spec()

Pipeline = Annotated[
    str | None, typer.Option(help="A built-in pipeline.", show_default=_DEFAULT.pipeline, metavar="NAME")
]
Engine = Annotated[
    str | None, typer.Option(help="micro-batch or continuous.", show_default=_DEFAULT.engine, metavar="NAME")
]
Nodes = Annotated[
    str | None, typer.Option(help="Fewest and most nodes.", show_default=_DEFAULT.nodes, metavar="MIN:MAX")
]
Objective = Annotated[str | None, typer.Option("--slo", help="The objective.", show_default=_DEFAULT.slo)]
LeadTime = Annotated[
    str | None,
    typer.Option(
        help="From asking for a node to its first work.",
        show_default=str(_DEFAULT.lead_time),
        metavar="DURATION",
    ),
]
LeadNoise = Annotated[
    float | None,
    typer.Option(help="Spread of the lead time, as a share.", show_default=str(_DEFAULT.lead_noise)),
]
Trigger = Annotated[
    str | None,
    typer.Option(help="Trigger interval of the micro-batch engine.", show_default="5s", metavar="DURATION"),
]
Slots = Annotated[
    int | None,
    typer.Option(
        "--slots-per-node", help="Tasks a node runs at once.", show_default=str(_DEFAULT.slots_per_node)
    ),
]
Noise = Annotated[
    float | None,
    typer.Option(help="Spread of what tasks take, as a share.", show_default=str(_DEFAULT.noise)),
]
Cycle = Annotated[
    str | None,
    typer.Option(
        help="How often strategies look and decide.", show_default=str(_DEFAULT.cycle), metavar="DURATION"
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(help="Processes to work with.", show_default="one per core; one for a short comparison"),
]
InitialNodes = Annotated[
    int | None,
    typer.Option(help="Nodes there at the start.", show_default="what the first minute needs"),
]
