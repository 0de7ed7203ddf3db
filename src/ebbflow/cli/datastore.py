"""``ebbflow datastore``: check, observe, load, profile and scale a Cassandra cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ebbflow.cli.options import Seed, takes_configuration
from ebbflow.cli.output import Json, check_writable, errors, print_json, say
from ebbflow.cli.profile_datastore import print_profile, profile_json
from ebbflow.control.datastore import scale_datastore
from ebbflow.control.loop import CycleReport
from ebbflow.core.clock import SystemClock
from ebbflow.core.duration import parse_seconds
from ebbflow.core.folders import scratch_folder
from ebbflow.core.limits import Limits
from ebbflow.core.metrics import Metric
from ebbflow.core.plural import counted
from ebbflow.core.topology import NodeState, StoreNode, Topology
from ebbflow.errors import InputError, TargetError
from ebbflow.options import Configuration, Rank, Source, from_command_line, options
from ebbflow.profiling.datastore import DatastoreProfile, DatastoreProfiling
from ebbflow.targets.cassandra.cluster import OpenCluster
from ebbflow.targets.cassandra.cluster_file import ClusterFile
from ebbflow.targets.cassandra.launch.local_cassandra import LocalCassandra
from ebbflow.targets.cassandra.load.generator import LoadGenerator, LoadResult, RequestMix
from ebbflow.targets.cassandra.load.rows import check_keyspace, create_table, fill
from ebbflow.targets.cassandra.load.written import Written, WrittenCheck, check_written
from ebbflow.targets.cassandra.target import check_floor
from ebbflow.targets.cassandra.under_load import CassandraUnderLoad
from ebbflow.workloads import parse_load

app = typer.Typer(help="Check, observe, profile and scale a Cassandra cluster.", no_args_is_help=True)

REPLICATION = 3
NO_LIMIT = 1_000_000
TARGET = "cassandra"
STRATEGY, FALLBACK = "datastore", "static"
"""Defaults of ``run``: the general ones are for streams."""

ClusterOption = Annotated[
    Path | None,
    typer.Option("--cluster", help="Cluster file; by default a cluster on this machine.", metavar="FILE"),
]
Nodes = Annotated[str, typer.Option(help="Minimum and maximum number of nodes, MIN:MAX.", metavar="RANGE")]
Keys = Annotated[int, typer.Option(min=1, help="Rows in the table of the load generator.")]
Reads = Annotated[float, typer.Option(min=0, max=1, help="Share of requests that read.")]
Processes = Annotated[int, typer.Option(min=1, max=64, help="Processes of the load generator.")]
Keyspace = Annotated[str, typer.Option(help="Keyspace of the load generator.")]
LimitPerNode = Annotated[
    int,
    typer.Option(
        min=1,
        help="On this machine only: requests/s that each node may answer, so that capacity grows with the nodes.",
    ),
]


def register(parent: typer.Typer) -> None:
    """Add the group."""
    app.command("check")(check)
    app.command("status")(status)
    app.command("run")(run)
    app.command("profile")(profile)
    parent.add_typer(app, name="datastore")


# -- check and status --------------------------------------------------------------------------------------


def check(
    cluster: Annotated[Path, typer.Argument(help="Cluster file.", metavar="FILE")],
    json: Json = False,
) -> None:
    """Check that a cluster can be scaled: it answers, its hosts fit, nodetool and probes work. Changes nothing."""
    with OpenCluster.of_file(ClusterFile.read(cluster), SystemClock()) as opened:
        topology = opened.check()
        problems = []
        for node in topology.active:
            try:
                opened.nodetool.run(node.address, "version")
            except TargetError as error:
                problems.append(str(error))
            if node.disk_free_bytes is None:
                problems.append(
                    f"the free disk space of {node.address} is unknown, so no node can be removed"
                )
        check_floor(topology.replication_factor, topology.replication_factor, len(opened.hosts))
        document = {**_document(opened, topology), "problems": problems}
    if problems:
        raise InputError(
            f"{cluster}: {problems[0]}{f' (and {len(problems) - 1} more)' if problems[1:] else ''}"
        )
    if json:
        print_json(document)
    else:
        _print_nodes(opened.name, topology)
        say("the cluster can be scaled")


def status(
    cluster: Annotated[Path, typer.Argument(help="Cluster file.", metavar="FILE")],
    json: Json = False,
) -> None:
    """Show the nodes of a cluster: state, rack, data, streams, cleanups, repairs."""
    with OpenCluster.of_file(ClusterFile.read(cluster), SystemClock()) as opened:
        topology = opened.monitor().settle()
        document = _document(opened, topology)
    if json:
        print_json(document)
    else:
        _print_nodes(opened.name, topology)


def _document(opened: OpenCluster, topology: Topology) -> dict[str, Any]:
    return {
        "cluster": opened.name,
        "version": opened.connection.version,
        "replication_factor": topology.replication_factor,
        "hosts": len(opened.hosts),
        "nodes": [_node_json(node) for node in topology.nodes],
    }


def _node_json(node: StoreNode) -> dict[str, Any]:
    return {
        "address": node.address, "state": str(node.state), "up": node.up, "rack": node.rack, "seed": node.seed,
        "data_bytes": node.data_bytes, "disk_free_bytes": node.disk_free_bytes, "streams": node.streams,
        "cleanups": node.cleanups, "repairs": node.repairs,
    }  # fmt: skip


def _print_nodes(name: str, topology: Topology) -> None:
    table = Table("node", "state", "rack", "data", "disk free", "streams", "cleanups", "repairs", box=None)
    for node in topology.nodes:
        state = str(node.state) + ("" if node.up or node.state is NodeState.INACTIVE else ", down")
        table.add_row(
            f"{escape(node.address)}{' (seed)' if node.seed else ''}", state, escape(node.rack),
            _size(node.data_bytes), _size(node.disk_free_bytes), str(node.streams), str(node.cleanups),
            str(node.repairs),
        )  # fmt: skip
    console = Console()
    console.print(f"{escape(name)}: replication factor {topology.replication_factor}", highlight=False)
    console.print(table)


def _size(size: float | None) -> str:
    if size is None:
        return "unknown"
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.2f} MB"


# -- run ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Loaded:
    """A cluster with the table of the load generator."""

    opened: OpenCluster
    keyspace: str
    mix: RequestMix
    version: int
    """Version of the rows that were filled in; 0 if the cluster had them."""
    lift_limit: Callable[[], None]


@takes_configuration(
    only=("strategy", "fallback", "store", "dry_run", "cycle", "guards.add"),
    defaults={"strategy": STRATEGY, "fallback": FALLBACK},
)
def run(
    *,
    cluster: ClusterOption = None,
    nodes: Nodes = "3:6",
    profile: Annotated[
        Path | None,
        typer.Option(help="Profile of the cluster, from `ebbflow datastore profile`.", metavar="FILE"),
    ] = None,
    configured: Configuration,
    load: Annotated[
        str | None,
        typer.Option(
            help="Load to offer, in requests/s, like 'sine(base=100, peak=400, period=10m)' or a trace."
        ),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option("--for", help="How long to run; without it, until Ctrl-C.", metavar="DURATION"),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(
            help="What is remembered if the controller dies in the middle of a change; required with --cluster.",
            metavar="FILE",
        ),
    ] = None,
    keys: Keys = 100_000,
    reads: Reads = 0.95,
    keyspace: Keyspace = "ebbflow",
    processes: Processes = 2,
    limit_per_node: LimitPerNode = 100,
    verify: Annotated[
        bool, typer.Option(help="With a load: read every written row back at QUORUM at the end.")
    ] = True,
    seed: Seed = 1,
    json: Json = False,
) -> int:
    """Scale a Cassandra cluster, a named one or one on this machine, with any strategy and all guards of a datastore.

    With --load it also offers a load, in an open loop, and checks at the end that no written row is lost.
    """
    limits = Limits.parse(nodes)
    span_s = None if duration is None else parse_seconds(duration)
    if load is not None:
        parse_load(load)
        if span_s is None:
            raise InputError("--load needs --for, the time for which the load is offered")
    check_keyspace(keyspace)
    name = LocalCassandra.default_name if cluster is None else ClusterFile.read(cluster).name
    configured = for_datastore(configured, profile, name)
    for path in (configured["store"], journal):
        check_writable(path)
    if cluster is not None and journal is None:
        raise InputError("--cluster needs --journal FILE, where a change that is cut off can be found again")
    stop, clock = threading.Event(), SystemClock()
    mix = RequestMix(keys=keys, reads=reads)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(scratch_folder("datastore")))
        loaded = stack.enter_context(
            _open(cluster, limits, mix, keyspace, limit_per_node, needs_rows=load is not None)
        )
        opened = loaded.opened
        check_floor(limits.min_nodes, opened.connection.replication_factor, len(opened.hosts))
        generator = None
        if load is not None:
            assert span_s is not None
            generator = stack.enter_context(
                LoadGenerator(
                    opened.contact, load, duration_s=span_s, keyspace=keyspace, mix=mix, processes=processes,
                    seed=seed, log_folder=folder,
                )
            )  # fmt: skip
        target = opened.target(journal or folder / "journal.json", clients=generator)
        watch = stack.enter_context(_watching(span_s))
        timer = threading.Timer(span_s, stop.set) if span_s is not None else None
        if timer is not None:
            timer.daemon = True
            timer.start()
        started_s = clock.now_s()
        try:
            loop = scale_datastore(
                target, configured, limits, clock=clock, stop=stop, target_name=TARGET, on_cycle=watch
            )
        finally:
            if timer is not None:
                timer.cancel()
        ended_s = clock.now_s()
        result = generator.wait() if generator is not None else None
        checked = None
        if generator is not None and verify:
            generator.stop()
            checked = _verify(loaded, generator)
    document = {
        "cluster": opened.name,
        "seconds": round(ended_s - started_s, 3),
        "decisions": [entry.to_json() for entry in loop.ledger.entries if entry.verdict == "act"],
        "reconfigurations": loop.ledger.reconfigurations,
        "load": None if result is None else _result_json(result),
        "written": None if checked is None else _checked_json(checked),
    }
    if json:
        print_json(document)
    else:
        _print_run(loop.ledger.reconfigurations, result, checked)
    return 0 if checked is None or checked.complete else 1


def for_datastore(configured: Configuration, profile: Path | None, cluster: str) -> Configuration:
    """The configuration with the defaults of a datastore and the profile. ``InputError`` if they do not fit."""
    if configured.policy is None:
        given = {"strategy": STRATEGY, "fallback": FALLBACK}
        configured = configured.plus(
            _defaults({key: text for key, text in given.items() if configured.given(key) is None})
        )
    strategy = str(configured["strategy"])
    key = f"strategy.{strategy}.profile"
    if profile is not None:
        if key not in options():
            raise InputError(f"--profile is not for the strategy {strategy}; leave it out")
        configured = configured.plus(from_command_line({key: str(profile)}, flags={key: "--profile"}))
    if configured.policy is None and key in options():
        setting = configured.given(key)
        if setting is None:
            raise InputError(
                f"the strategy {strategy} needs a profile of the cluster; learn one with `ebbflow datastore profile` "
                "and give it with --profile FILE"
            )
        if isinstance(setting.value, Path):
            DatastoreProfile.read(setting.value).check_cluster(cluster, str(setting.value))
    return configured


def _defaults(values: Mapping[str, str]) -> Source:
    source, known = Source(Rank.DEFAULT), options()
    for key, text in values.items():
        source.set(key, text, f"the default {key}", from_text=True, known=known)
    return source


@contextmanager
def _open(
    cluster: Path | None,
    limits: Limits,
    mix: RequestMix,
    keyspace: str,
    limit_per_node: int,
    *,
    needs_rows: bool,
) -> Iterator[_Loaded]:
    clock = SystemClock()
    with ExitStack() as stack:
        if cluster is not None:
            opened = stack.enter_context(OpenCluster.of_file(ClusterFile.read(cluster), clock))
            opened.check()
            factor = min(REPLICATION, limits.min_nodes)
            version = _fill(opened, keyspace, mix.keys, factor) if needs_rows else 0
            yield _Loaded(opened=opened, keyspace=keyspace, mix=mix, version=version, lift_limit=lambda: None)
            return
        if limits.min_nodes < REPLICATION:
            check_floor(limits.min_nodes, REPLICATION, limits.max_nodes)
        say(
            f"starting {counted(limits.min_nodes, 'Cassandra node')} on this machine, for up to {limits.max_nodes}"
        )
        local = stack.enter_context(LocalCassandra(nodes=limits.min_nodes, hosts=limits.max_nodes))
        opened = stack.enter_context(OpenCluster.of_local(local, clock))
        version = _fill(opened, keyspace, mix.keys, REPLICATION)
        local.limit_requests(limit_per_node)
        say(
            f"each node answers at most {limit_per_node} requests/s: capacity by construction, because all nodes share "
            "the cores of this machine"
        )
        yield _Loaded(
            opened=opened,
            keyspace=keyspace,
            mix=mix,
            version=version,
            lift_limit=lambda: local.limit_requests(NO_LIMIT),
        )


def _fill(opened: OpenCluster, keyspace: str, keys: int, factor: int) -> int:
    create_table(
        opened.connection, keyspace, replication_factor=factor, data_center=opened.contact.data_center
    )
    version = int(SystemClock().now_s() * 1e6)
    with _bar() as bar:
        task = bar.add_task(f"writing {keys:,} rows", total=keys)
        fill(
            opened.connection,
            keyspace,
            range(keys),
            version,
            on_written=lambda n: bar.update(task, completed=n),
        )
    return version


def _verify(loaded: _Loaded, generator: LoadGenerator) -> WrittenCheck:
    loaded.lift_limit()
    before = Written()
    before.fill(range(loaded.mix.keys), loaded.version)
    written = generator.written(before)
    with _bar() as bar:
        task = bar.add_task("reading all rows at QUORUM", total=len(written.acknowledged))
        return check_written(
            loaded.opened.connection,
            loaded.keyspace,
            written,
            on_read=lambda n: bar.update(task, completed=n),
        )


@contextmanager
def _watching(span_s: float | None) -> Iterator[Callable[[CycleReport], None]]:
    """Show the nodes while the loop runs, and print each change."""
    shown = ""
    started_s: float | None = None
    with _bar() as bar:
        task = bar.add_task("scaling", total=span_s)

        def watch(report: CycleReport) -> None:
            nonlocal shown, started_s
            seen = report.observation
            if seen is None or seen.topology is None:
                return
            started_s = seen.time_s if started_s is None else started_s
            states = [
                f"{len(seen.topology.in_state(s))} {s}" for s in NodeState if s is not NodeState.INACTIVE
            ]
            rate = next((r.value for r in seen.readings if r.metric is Metric.ARRIVAL_RATE), None)
            offered = "" if rate is None else f", {rate:.0f} requests/s"
            bar.update(task, completed=seen.time_s - started_s, description=f"{', '.join(states)}{offered}")
            line = "; ".join(each.note for each in seen.under_way if each.note)
            if line and line != shown:
                say(escape(line))
            shown = line
            if report.entry is not None and report.entry.changed:
                say(escape(report.entry.decision.reason))

        yield watch


@contextmanager
def _bar() -> Iterator[Progress]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True) as bar:
        yield bar


def _result_json(result: LoadResult) -> dict[str, float | int]:
    return {
        "seconds": result.seconds, "offered": result.offered, "answered": result.answered, "failed": result.failed,
        "response_mean_s": result.response_mean_s, "response_p50_s": result.response_p50_s,
        "response_p95_s": result.response_p95_s, "response_p99_s": result.response_p99_s,
    }  # fmt: skip


def _checked_json(checked: WrittenCheck) -> dict[str, int]:
    return {
        "rows": checked.rows, "lost": checked.lost, "stale": checked.stale, "damaged": checked.damaged,
        "unreadable": checked.unreadable,
    }  # fmt: skip


def _print_run(changes: int, result: LoadResult | None, checked: WrittenCheck | None) -> None:
    console = Console(highlight=False)
    console.print(counted(changes, "reconfiguration"))
    if result is not None:
        console.print(
            f"{result.offered:,} requests offered, {result.answered:,} answered, {result.failed:,} failed; response "
            f"times {1e3 * result.response_mean_s:.1f} ms on average, p95 {1e3 * result.response_p95_s:.1f} ms"
        )
    if checked is not None:
        console.print(
            f"{checked.rows:,} rows read back at QUORUM: {checked.lost} lost, {checked.stale} stale, "
            f"{checked.damaged} damaged, {checked.unreadable} unreadable"
        )


# -- profile -----------------------------------------------------------------------------------------------


def profile(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File for the profile.", metavar="FILE")
    ] = Path("datastore.profile.toml"),
    cluster: ClusterOption = None,
    nodes: Nodes = "3:6",
    first: Annotated[float, typer.Option(min=1, help="First offered rate, in requests/s.")] = 200.0,
    hold: Annotated[str, typer.Option(help="Length of each step of the load.", metavar="DURATION")] = "20s",
    tolerance: Annotated[
        float, typer.Option(min=0.001, max=0.5, help="Relative tolerance of the highest throughput.")
    ] = 0.05,
    points: Annotated[int, typer.Option(min=0, help="Points of the curve of response times.")] = 4,
    response: Annotated[
        str | None,
        typer.Option(
            help="Wanted mean response time, from which the share of the highest throughput to use follows.",
            show_default="twice that of a low rate",
            metavar="DURATION",
        ),
    ] = None,
    keys: Keys = 100_000,
    reads: Reads = 0.95,
    keyspace: Keyspace = "ebbflow",
    processes: Processes = 2,
    limit_per_node: LimitPerNode = 100,
    seed: Seed = 1,
    json: Json = False,
) -> None:
    """Learn the highest throughput of each number of nodes, and how long nodes take to join and leave (Pascal §4.2).

    Steps the load until response times diverge, then adds a node, and so on; from the largest size it goes back.
    """
    limits = Limits.parse(nodes)
    check_writable(output)
    check_keyspace(keyspace)
    phase = DatastoreProfiling(
        first_per_s=first,
        sizes=range(limits.min_nodes, limits.max_nodes + 1),
        hold_s=parse_seconds(hold),
        tolerance=tolerance,
        points=points,
        wanted_response_s=None if response is None else parse_seconds(response),
    )
    mix, clock = RequestMix(keys=keys, reads=reads), SystemClock()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(scratch_folder("datastore")))
        loaded = stack.enter_context(_open(cluster, limits, mix, keyspace, limit_per_node, needs_rows=True))
        store = CassandraUnderLoad(
            loaded.opened, clock, folder, keyspace=keyspace, mix=mix, processes=processes, seed=seed
        )
        bar = stack.enter_context(_bar())
        task = bar.add_task("profiling", total=1.0)
        learned = phase.run(
            store,
            learned_at=datetime.fromtimestamp(clock.now_s(), UTC).replace(microsecond=0),
            on_progress=lambda share, text: bar.update(task, completed=share, description=text),
        )
    output.write_text(learned.to_text(), encoding="utf-8")
    if json:
        print_json(profile_json(learned, output))
    else:
        print_profile(learned)
    say(f"profile: {escape(str(output))}")
