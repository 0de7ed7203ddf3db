"""``ebbflow google-cluster``: the query of the Rules seed over a folder of task events, and a folder made up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ebbflow.cli.options import spark_conf
from ebbflow.cli.output import Json, print_json, say, standard_output_to_error
from ebbflow.core.duration import parse_duration_s
from ebbflow.core.folders import LOCK_FILE, make_folder
from ebbflow.core.machine import cores
from ebbflow.errors import InputError
from ebbflow.papers.rules.google_cluster.folder import TraceFolder, TraceSpec
from ebbflow.papers.rules.google_cluster.generator import CSV, PARQUET, ClusterTrace
from ebbflow.papers.rules.google_cluster.job import Figures, make_trace, resumed, run_job
from ebbflow.papers.rules.google_cluster.sink import CLUSTER, REJECTS, held_output, read_table
from ebbflow.papers.rules.google_cluster.source_rows import BUCKETS
from ebbflow.report.wording import counted
from ebbflow.targets.spark.launch.preflight import check_java, check_master, local_slots

app = typer.Typer(help="Task events of a Google cluster: analyse them, or make some.", no_args_is_help=True)

_OF_THE_JVM = (
    "spark.driver.memory",
    "spark.driver.extraJavaOptions",
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath",
    "spark.jars.packages",
)
_SHOWN = ("total", "mean", "median", "p75", "p90", "p95", "p99")


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="google-cluster")


@app.command("stats")
def stats(
    input: Annotated[
        Path,
        typer.Option(
            help="A folder of task-event files (.csv, .csv.gz or .parquet, 13 columns).", metavar="DIR"
        ),
    ],
    output: Annotated[
        Path, typer.Option(help="Where Parquet goes: machines, cluster, rejected, read.", metavar="DIR")
    ],
    master: Annotated[
        str | None, typer.Option(help="Any Spark master.", show_default="all cores of this machine")
    ] = None,
    instances: Annotated[
        int | None,
        typer.Option(
            help="Instances of the machine operator.",
            show_default="one a slot of a local master, else one a core here",
        ),
    ] = None,
    conf: Annotated[list[str] | None, typer.Option(help="A Spark setting, KEY=VALUE; repeatable.")] = None,
    json: Json = False,
) -> int:
    """Running tasks and requests a machine and over the cluster, every 15 minutes of the trace.

    A run that was broken off goes on where it was; one that has ended has nothing left to do.
    """
    parts = TraceFolder(input).paths
    if instances is not None and not 1 <= instances <= BUCKETS:
        raise InputError(f"{instances} instances make no sense; 1 to {BUCKETS}")
    settings = spark_conf(conf or [])
    _check_in_time(settings)
    if master is not None:
        check_master(master)
    with held_output(output):  # told here, before anything else is; the run itself holds it again
        before = resumed(input=input, output=output)
    check_java()
    count = instances or _instances(master, settings)
    if before is not None and before.instances not in (None, count):
        if instances is not None:
            had = counted(before.instances or count, "instance")
            say(f"the run goes on with the {had} it was begun with, not {instances}")
        count = before.instances or count
    say(f"{counted(len(parts), 'part')} with {counted(count, 'instance')} of the machine operator")
    with standard_output_to_error():
        figures = run_job(
            input=input,
            output=output,
            master=master or f"local[{cores()}]",
            instances=count,
            conf=settings,
        )
    last = _last_report(output)
    if json:
        print_json({**figures.to_json(), "last_report": last})
    else:
        _show(figures, last)
        say(f"Parquet: {escape(str(output))}")
    if figures.rejected or not figures.events:
        _tell_rejected(figures, output)
    return 0


@app.command("generate")
def generate(
    output: Annotated[Path, typer.Option(help="Where the parts go.", metavar="DIR")],
    events: Annotated[int, typer.Option(help="How many; the real month has 144328173.")] = 5_000_000,
    machines: Annotated[int, typer.Option(help="Machines of the cluster.")] = 12_500,
    span: Annotated[
        str | None,
        typer.Option(
            help="How long it lasts.",
            show_default="as long as the published mean rate takes",
            metavar="DURATION",
        ),
    ] = None,
    parts: Annotated[int | None, typer.Option(help="Files.", show_default="288,656 events each")] = None,
    seed: Annotated[int, typer.Option(help="Of the random numbers; the same seed makes the same files.")] = 0,
    parquet: Annotated[
        bool, typer.Option("--parquet", help="Parquet instead of gzip CSV: read faster.")
    ] = False,
    json: Json = False,
) -> int:
    """Make a trace with the published statistics, of any size, in parallel with Spark."""
    spec = TraceSpec(
        events=events,
        machines=machines,
        seed=seed,
        span_s=None if span is None else parse_duration_s(span),
        parts=parts,
    )
    _check_new(output)
    count = ClusterTrace(spec).parts
    make_folder(output)
    check_java()
    say(f"writing {events:,} events of {machines:,} machines in {count} parts")
    with standard_output_to_error():
        written = make_trace(spec, output, ending=PARQUET if parquet else CSV)
    if json:
        print_json({"output": str(output), "events": written, "parts": count, "seed": seed})
    else:
        say(f"{written:,} events: {escape(str(output))}")
    return 0


def _instances(master: str | None, settings: dict[str, str]) -> int:
    """One for each task that can run at once, as far as that is known before anything is started."""
    if master is None:
        slots = cores()
    elif (here := local_slots(master)) is not None:
        slots = here
    else:
        asked = [settings.get(f"spark.executor.{name}", "") for name in ("instances", "cores")]
        most = settings.get("spark.cores.max", "")
        if all(each.isdecimal() for each in asked):
            slots = int(asked[0]) * int(asked[1])
        elif most.isdecimal():
            slots = int(most)
        else:
            slots = cores()
            say("as many instances as this machine has cores; what the cluster has, --instances can say")
    return max(1, min(slots, BUCKETS))


def _check_in_time(settings: dict[str, str]) -> None:
    """The driver's JVM runs before it is told the settings."""
    for key, value in settings.items():
        if key in _OF_THE_JVM:
            raise InputError(
                f"--conf {key} would come too late, the driver's JVM is running by then; set it in the environment: "
                f"PYSPARK_SUBMIT_ARGS='--conf {key}={value} pyspark-shell'"
            )


def _check_new(output: Path) -> None:
    try:
        is_new = not output.exists() or (
            output.is_dir() and all(each.name == LOCK_FILE for each in output.iterdir())
        )
    except OSError as error:
        raise InputError(f"cannot write to {output}: {(error.strerror or str(error)).lower()}") from None
    if not is_new:
        raise InputError(f"cannot write to {output}: it must be a new or empty folder")


def _tell_rejected(figures: Figures, output: Path) -> None:
    """A run in which nothing could be read ends as well as any, and with as many tables."""
    reasons = f"the reasons are in {escape(str(output / REJECTS))}"
    rows = counted(figures.rejected, "row was", "rows were")
    if figures.events:
        say(f"{rows} rejected; {reasons}")
    else:
        say(f"warning: no row of the files is a task event: {rows} rejected; {reasons}")


def _last_report(output: Path) -> dict[str, Any] | None:
    table = read_table(output, CLUSTER)
    return None if not table.num_rows else table.slice(table.num_rows - 1).to_pylist()[0]


def _show(figures: Figures, last: dict[str, Any] | None) -> None:
    console = Console(highlight=False)
    speed = f"{figures.events_per_s:,.0f} events/s" if figures.batches else "nothing was left to do"
    console.print(
        f"{figures.events:,} events ({figures.without_machine:,} without a machine, "
        f"{figures.rejected:,} rows rejected), {figures.reports:,} reports of {figures.machines:,} machines, {speed}"
    )
    if last is None:
        return
    table = Table("last report", *_SHOWN, box=None, pad_edge=False)
    for quantity in ("tasks", "cpu", "memory", "disk"):
        table.add_row(quantity, *(f"{last[f'{quantity}_{name}']:,.4g}" for name in _SHOWN))
    console.print(table)
