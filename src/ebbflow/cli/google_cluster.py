"""``ebbflow google-cluster``: run the query of the Rules thesis over a folder of task events, or generate a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ebbflow.cli.options import Seed, spark_conf
from ebbflow.cli.output import Json, print_json, say, standard_output_to_error
from ebbflow.core.duration import parse_duration_s
from ebbflow.core.folders import LOCK_FILE, make_folder
from ebbflow.core.machine import cores
from ebbflow.core.plural import counted
from ebbflow.errors import InputError
from ebbflow.papers.rules.google_cluster.folder import TraceFolder
from ebbflow.papers.rules.google_cluster.generator import CSV, PARQUET, ClusterTrace, TraceSpec
from ebbflow.papers.rules.google_cluster.job import JobFigures, make_trace, run_job, run_to_resume
from ebbflow.papers.rules.google_cluster.sink import CLUSTER, REJECTS, locked_output, read_table
from ebbflow.papers.rules.google_cluster.source import BUCKETS
from ebbflow.papers.rules.google_cluster.steps import STATISTICS
from ebbflow.targets.spark.launch.preflight import check_java, check_master, local_slots

app = typer.Typer(
    help="Task events of a Google cluster: analyse them, or generate a trace.", no_args_is_help=True
)

_DRIVER_JVM_SETTINGS = (
    "spark.driver.memory",
    "spark.driver.extraJavaOptions",
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath",
    "spark.jars.packages",
)


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="google-cluster")


@app.command("stats")
def stats(
    input: Annotated[
        Path,
        typer.Option(
            help="Folder of task-event files (.csv, .csv.gz or .parquet, 13 columns).", metavar="DIR"
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            help="Folder for the results: Parquet tables machines, cluster, rejected and read.", metavar="DIR"
        ),
    ],
    master: Annotated[
        str | None, typer.Option(help="Spark master.", show_default="all cores of this machine")
    ] = None,
    instances: Annotated[
        int | None,
        typer.Option(
            help="Instances of the machine operator.",
            show_default="one per slot of a local master, else one per core of this machine",
        ),
    ] = None,
    conf: Annotated[list[str] | None, typer.Option(help="Spark setting, KEY=VALUE; repeatable.")] = None,
    json: Json = False,
) -> int:
    """Report running tasks and requests per machine and over the cluster, for every 15 minutes of the trace.

    An interrupted run is resumed; a finished one is not repeated.
    """
    parts = TraceFolder(input).paths
    if instances is not None and not 1 <= instances <= BUCKETS:
        raise InputError(f"invalid --instances {instances}; use 1 to {BUCKETS}")
    settings = spark_conf(conf or [])
    _check_settings(settings)
    if master is not None:
        check_master(master)
    with locked_output(output):  # fail before Spark starts; the run locks it again
        before = run_to_resume(input=input, output=output)
    check_java()
    count = instances or _instances(master, settings)
    if before is not None and before.instances not in (None, count):
        if instances is not None:
            started_with = counted(before.instances or count, "instance")
            say(f"the run resumes with the {started_with} it was started with, not {instances}")
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
        _say_rejected(figures, output)
    return 0


@app.command("generate")
def generate(
    output: Annotated[Path, typer.Option(help="Folder for the parts.", metavar="DIR")],
    events: Annotated[int, typer.Option(help="Number of events; the real month has 144328173.")] = 5_000_000,
    machines: Annotated[int, typer.Option(help="Number of machines.")] = 12_500,
    span: Annotated[
        str | None,
        typer.Option(
            help="Length of the trace.",
            show_default="as long as the events take at the published mean rate",
            metavar="DURATION",
        ),
    ] = None,
    parts: Annotated[
        int | None, typer.Option(help="Number of files.", show_default="288,656 events each")
    ] = None,
    seed: Seed = 0,
    parquet: Annotated[
        bool, typer.Option("--parquet", help="Write Parquet instead of gzip CSV; it is faster to read.")
    ] = False,
    json: Json = False,
) -> int:
    """Generate a trace of any size with the published statistics, in parallel with Spark."""
    spec = TraceSpec(
        events=events,
        machines=machines,
        seed=seed,
        span_s=None if span is None else parse_duration_s(span),
        parts=parts,
    )
    _check_new_folder(output)
    count = ClusterTrace(spec).parts
    make_folder(output)
    check_java()
    say(f"writing {events:,} events of {machines:,} machines in {count} parts")
    with standard_output_to_error():
        written = make_trace(spec, output, suffix=PARQUET if parquet else CSV)
    if json:
        print_json({"output": str(output), "events": written, "parts": count, "seed": seed})
    else:
        say(f"{written:,} events: {escape(str(output))}")
    return 0


def _instances(master: str | None, settings: dict[str, str]) -> int:
    """Return one per task that can run at once, as far as that is known before Spark starts."""
    if master is None:
        slots = cores()
    elif (local := local_slots(master)) is not None:
        slots = local
    else:
        requested = [settings.get(f"spark.executor.{name}", "") for name in ("instances", "cores")]
        max_cores = settings.get("spark.cores.max", "")
        if all(each.isdecimal() for each in requested):
            slots = int(requested[0]) * int(requested[1])
        elif max_cores.isdecimal():
            slots = int(max_cores)
        else:
            slots = cores()
            say("one instance per core of this machine; set the number for the cluster with --instances")
    return max(1, min(slots, BUCKETS))


def _check_settings(settings: dict[str, str]) -> None:
    """Refuse settings of the driver's JVM, which starts before it gets them."""
    for key, value in settings.items():
        if key in _DRIVER_JVM_SETTINGS:
            raise InputError(
                f"--conf {key} has no effect, because the driver's JVM is already running; set it in the environment: "
                f"PYSPARK_SUBMIT_ARGS='--conf {key}={value} pyspark-shell'"
            )


def _check_new_folder(output: Path) -> None:
    try:
        is_new = not output.exists() or (
            output.is_dir() and all(each.name == LOCK_FILE for each in output.iterdir())
        )
    except OSError as error:
        raise InputError(f"cannot write to {output}: {(error.strerror or str(error)).lower()}") from None
    if not is_new:
        raise InputError(f"cannot write to {output}: it must be a new or empty folder")


def _say_rejected(figures: JobFigures, output: Path) -> None:
    """Report rejected rows, and warn if no row was valid: such a run ends normally, with all tables."""
    reasons = f"the reasons are in {escape(str(output / REJECTS))}"
    rows = counted(figures.rejected, "row was", "rows were")
    if figures.events:
        say(f"{rows} rejected; {reasons}")
    else:
        say(f"warning: no row of the files is a valid task event: {rows} rejected; {reasons}")


def _last_report(output: Path) -> dict[str, Any] | None:
    table = read_table(output, CLUSTER)
    return None if not table.num_rows else table.slice(table.num_rows - 1).to_pylist()[0]


def _show(figures: JobFigures, last: dict[str, Any] | None) -> None:
    console = Console(highlight=False)
    speed = f"{figures.events_per_s:,.0f} events/s" if figures.batches else "nothing was left to do"
    console.print(
        f"{figures.events:,} events ({figures.without_machine:,} without a machine, "
        f"{figures.rejected:,} rows rejected), {figures.reports:,} reports of {figures.machines:,} machines, {speed}"
    )
    if last is None:
        return
    table = Table("last report", *STATISTICS, box=None, pad_edge=False)
    for quantity in ("tasks", "cpu", "memory", "disk"):
        table.add_row(quantity, *(f"{last[f'{quantity}_{name}']:,.4g}" for name in STATISTICS))
    console.print(table)
