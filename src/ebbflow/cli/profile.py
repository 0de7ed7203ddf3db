"""``ebbflow profile``: learn the costs of a pipeline on a stair of loads and write them to a file."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ebbflow.cli import datastore, profile_datastore
from ebbflow.cli.options import takes_configuration
from ebbflow.cli.output import (
    Json,
    check_writable,
    errors,
    print_json,
    refuse,
    say,
    standard_output_to_error,
)
from ebbflow.cli.profile_datastore import DatastoreOptions
from ebbflow.control.attach import check_agents
from ebbflow.core.clock import SystemClock
from ebbflow.core.duration import parse_seconds
from ebbflow.errors import InputError, TargetError, UnknownNameError
from ebbflow.options import Configuration, Rank
from ebbflow.profiling.datastore import DatastoreProfile
from ebbflow.profiling.datastore.profile import CASSANDRA
from ebbflow.profiling.profile import NodeProfile, Profile, SparkCosts, Spread
from ebbflow.profiling.profile_file import sound_text
from ebbflow.profiling.samples import WINDOW_S
from ebbflow.runs.profiling import ProfilingResult
from ebbflow.runs.profiling.from_store import learn_from_store
from ebbflow.runs.profiling.simulated import SimulatedProfiling
from ebbflow.targets.simulator.catalogue import costed_pipeline
from ebbflow.targets.simulator.scenario import CONTINUOUS, MICRO_BATCH

SIMULATOR, SPARK = "simulator", "spark"
DEFAULT_PIPELINE = "top-words"
SHORTEST_HOLD_S = 2 * WINDOW_S
"""So that each step contains a whole window, wherever windows begin."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("profile")(profile)


@takes_configuration(only=("agents", "agent_keys"), tables=())
def profile(
    pipeline: Annotated[
        str | None,
        typer.Option(
            help="Built-in pipeline, or datastore; with --store, a query in the store.",
            show_default="top-words; with --store, its query",
            metavar="NAME",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="simulator or spark; for a datastore simulator or cassandra.",
            show_default=SIMULATOR,
            metavar="TARGET",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="File for the profile.",
            show_default="NAME.profile.toml, NAME.micro-batch.profile.toml, NAME.spark.profile.toml",
            metavar="FILE",
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            help="Learn from the store of an earlier run instead of running anything.",
            metavar="FILE",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Simulator only: continuous, or micro-batch, which has costs of batches but no CPU.",
            show_default=CONTINUOUS,
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Steps of the stair.", show_default="8")
    ] = None,
    hold: Annotated[
        str | None,
        typer.Option(help="Length of each step.", show_default="60s; on Spark 20s", metavar="DURATION"),
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Simulator only: relative noise of the cost of rows.", show_default="0.05"
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Simulator only: random seed.", show_default="1")
    ] = None,
    peak: Annotated[
        float | None,
        typer.Option(help="Spark only: rows/s of the highest step.", show_default="depends on the pipeline"),
    ] = None,
    initial_executors: Annotated[
        int | None, typer.Option(min=1, help="Spark only: executors at the start.", show_default="2")
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            help="Spark only: spark://HOST:PORT, yarn or k8s://…; without it, a cluster on this machine."
        ),
    ] = None,
    check: Annotated[
        bool | None,
        typer.Option(
            help="Spark only: run a sine after the stair and report the error of the profile.",
            show_default="check",
        ),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(help="Datastore only: numbers of nodes.", show_default="3:6", metavar="MIN:MAX"),
    ] = None,
    first_rate: Annotated[
        float | None,
        typer.Option(
            help="Datastore only: requests/s of the first step.", show_default="20000", metavar="RATE"
        ),
    ] = None,
    data_gb: Annotated[
        list[float] | None,
        typer.Option(
            help="Datastore only: further sizes of the data at which changes are timed; repeatable.",
            metavar="GB",
        ),
    ] = None,
    response: Annotated[
        str | None,
        typer.Option(
            help="Datastore only: wanted mean response time, which bounds the throughput.",
            show_default="twice that of the lowest rate",
            metavar="DURATION",
        ),
    ] = None,
    *,
    configured: Configuration,
    json: Json = False,
) -> None:
    """Learn the costs of a pipeline by running it on a stair of loads, and write them to a readable file.

    This takes seconds in the simulator and a few minutes on a Spark cluster. The profile has selectivities, the CPU of
    an instance and of a node, the costs of batches and restarts, and the error of each.

    Of a datastore, the profile has the highest throughput of each size, found by stepping the load until response times
    diverge, and how long nodes take to join and to leave.
    """
    if pipeline == "":
        raise InputError("--pipeline is empty; give the name of a pipeline, or leave it out")
    if peak is not None and not 0 < peak < math.inf:
        raise InputError(f"--peak {peak:g} is not a load; use rows per second above 0")
    hold_s = None if hold is None else _hold_s(hold)
    simulated: dict[str, object] = {"engine": engine, "noise": noise, "seed": seed}
    real: dict[str, object] = {"peak": peak, "initial-executors": initial_executors, "master": master}
    for key, name in (("agents", "agent"), ("agent_keys", "agent-keys")):
        if (setting := configured.given(key)) is not None and setting.rank is Rank.COMMAND_LINE:
            real[name] = setting.value
    real["no-check" if check is False else "check"] = check
    stored = DatastoreOptions(nodes=nodes, first_rate=first_rate, data_gb=data_gb, response=response)
    if target == CASSANDRA and pipeline in (None, profile_datastore.PIPELINE) and store is None:
        others = {"engine": engine, "noise": noise, "steps": steps, "data-gb": data_gb or None, **real}
        refuse(others, "is not for a datastore on Cassandra")
        datastore.profile(
            output or Path("datastore.profile.toml"), nodes=nodes or "3:6", first=first_rate or 200.0,
            hold=hold or "20s", response=response, seed=seed or 1, json=json,
        )  # fmt: skip
        return
    if pipeline == profile_datastore.PIPELINE and store is None:
        refuse({"engine": engine, "steps": steps, **real}, "is not for a datastore")
        if target not in (None, SIMULATOR):
            raise UnknownNameError("target", target, (CASSANDRA, SIMULATOR))
        path = _writable(output, pipeline)
        with _ProgressBar() as bar:
            found = profile_datastore.profile_simulated(
                stored, hold_s=hold_s, noise=noise, seed=seed, learned_at=_now(), on_progress=bar.update
            )
        _write_datastore(found, path, json=json)
        return
    refuse(stored.given(), "is for --pipeline datastore")
    if store is not None:
        phases: dict[str, object] = {"target": target, "steps": steps, "hold": hold}
        refuse({**phases, **simulated, **real}, "is for a profiling phase, which --store does not run")
        path = _writable(output, store.stem)
        phase = learn_from_store(store, pipeline, learned_at=_now())
    elif (target or SIMULATOR) == SPARK:
        refuse(simulated, "is for --target simulator")
        name = pipeline or DEFAULT_PIPELINE
        path = _writable(output, f"{name}.spark")
        phase = _on_spark(
            name, steps, hold_s, peak, initial_executors or 2, master, configured, check is not False
        )
    else:
        if target not in (None, SIMULATOR):
            raise UnknownNameError("target", target, (SIMULATOR, SPARK))
        refuse(real, "is for --target spark")
        name = costed_pipeline(pipeline or DEFAULT_PIPELINE).pipeline.name
        path = _writable(output, name if engine in (None, CONTINUOUS) else f"{name}.{engine}")
        phase = _in_simulator(name, engine, noise, seed, steps, hold_s)
    learned = phase.profile
    if not learned.cpu and (learned.costs is None or not learned.costs.stages) and store is None:
        raise TargetError(
            "nothing was learned because no window was complete; make the steps longer with --hold"
        )
    text = sound_text(learned, str(store or learned.pipeline))
    path.write_text(text, encoding="utf-8")
    if json:
        print_json({**phase.to_json(), "file": str(path)})
    else:
        _print_phase(phase)
    say(f"profile: {escape(str(path))}")


def _write_datastore(found: DatastoreProfile, path: Path, *, json: bool) -> None:
    path.write_text(found.to_text(), encoding="utf-8")
    if json:
        print_json(profile_datastore.profile_json(found, path))
    else:
        profile_datastore.print_profile(found)
    say(f"profile: {escape(str(path))}")


def _hold_s(hold: str) -> float:
    seconds = parse_seconds(hold)
    if not seconds >= SHORTEST_HOLD_S:
        raise InputError(
            f"--hold {hold} is too short: a profile is learned from windows of {WINDOW_S:g} s; "
            f"use {SHORTEST_HOLD_S:g}s or more"
        )
    return seconds


def _writable(output: Path | None, name: str) -> Path:
    path = output or Path(f"{name}.profile.toml")
    check_writable(path)
    return path


def _in_simulator(
    pipeline: str, engine: str | None, noise: float | None, seed: int | None, steps: int | None,
    hold_s: float | None,
) -> ProfilingResult:  # fmt: skip
    if engine not in (None, CONTINUOUS, MICRO_BATCH):
        raise UnknownNameError("engine", engine, (CONTINUOUS, MICRO_BATCH))
    given: dict[str, Any] = {"engine": engine, "noise": noise, "seed": seed, "steps": steps, "hold_s": hold_s}
    phase = replace(
        SimulatedProfiling(pipeline=pipeline),
        **{key: value for key, value in given.items() if value is not None},
    )
    with _ProgressBar() as bar:
        return phase.run(learned_at=_now(), on_progress=bar.update)


def _now() -> datetime:
    return datetime.fromtimestamp(SystemClock().now_s(), UTC).replace(microsecond=0)


def _on_spark(
    pipeline: str, steps: int | None, hold_s: float | None, peak: float | None, executors: int,
    master: str | None, configured: Configuration, check: bool,
) -> ProfilingResult:  # fmt: skip
    from ebbflow.papers.elysium.profiling_on_spark import SparkPhase, application
    from ebbflow.targets.spark.launch.preflight import check_java, check_master_to_scale

    application(pipeline)
    if master is not None:
        check_master_to_scale(master)
    agents, keys = configured["agents"], configured["agent_keys"]
    check_agents(agents, keys)
    check_java()
    default = SparkPhase(pipeline=pipeline)
    phase = SparkPhase(
        pipeline=pipeline, executors=executors, peak_per_s=peak, steps=steps or default.steps,
        hold_s=hold_s or default.hold_s, check_s=default.check_s if check else 0.0, master=master, agents=agents,
        agent_keys=keys,
    )  # fmt: skip
    with standard_output_to_error(), _ProgressBar() as bar:
        return phase.run(on_progress=bar.update)


class _ProgressBar:
    """Progress on standard error."""

    def __init__(self) -> None:
        columns = (
            BarColumn(30),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
        )
        self._progress = Progress(*columns, console=errors, transient=True)
        self._task = self._progress.add_task("", total=1.0)

    def __enter__(self) -> _ProgressBar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def update(self, share: float, text: str) -> None:
        """Show the finished share and the current activity."""
        self._progress.update(self._task, completed=min(1.0, share), description=escape(text))


def _print_phase(phase: ProfilingResult) -> None:
    learned, checked = phase.profile, phase.accuracy
    table = Table("", "model", "cores", "at", "error", "on a sine", box=None, pad_edge=False)
    for name, curve in (*learned.cpu.items(), *((("a node", learned.node),) if learned.node.samples else ())):
        whole = isinstance(curve, NodeProfile)
        off = None if checked is None else checked.node if whole else checked.cpu.get(name)
        used = curve.estimate(curve.high).value * (learned.node.cores if whole else 1)
        table.add_row(
            escape(name),
            type(curve.model).__name__.lower(),
            f"{used:.2f}",
            f"{curve.high:.4g} {'cores of instances' if whole else 'rows/s'}",
            _percent(curve.error),
            _percent(off),
        )
    console = Console(highlight=False)
    if table.row_count:
        console.print(table)
    for line in (*_facts(learned), *map(escape, phase.notes)):
        console.print(line, soft_wrap=True)
    console.print(f"[dim]{phase.seconds:.0f} s of load, models fitted in {phase.training_s:.1f} s[/dim]")


def _facts(learned: Profile) -> list[str]:
    lines = [
        f"{escape(a)} → {escape(b)}: {_spread(s, 'rows for each')}"
        for (a, b), s in learned.selectivity.items()
    ]
    if not learned.cpu:
        lines.append("the CPU of operators was not measured")
    costs = learned.costs
    if learned.target == SPARK and (costs is None or not costs.stages):
        lines.append("the costs of batches, tasks and rows were not measured")
    if costs is None:
        return lines
    if costs.stages:
        tasks = ", ".join(
            f"{s.tasks} task{'s' if s.tasks != 1 else ''} of {1000 * s.per_task_s:.0f} ms"
            for s in costs.stages
        )
        lines.append(
            f"a batch: {costs.driver_s:.2f} s on the driver, {tasks}, {1e6 * costs.per_row_s:.0f} µs per row"
            f"{_batch_range(costs)}"
        )
    if costs.lead_time_s is not None:
        lines.append(f"a new node: {_spread(costs.lead_time_s, 's until its first work')}")
    if (change := costs.reconfiguration) is not None:
        lines.append(
            f"a restart: {_spread(change.stop_s, 's to stop')}, {_spread(change.state_s, 's for state')}, "
            f"{_spread(change.restart_s, 's to start')}, {_spread(change.drain_s, 's to drain')}"
        )
    if costs.state_bytes is not None:
        lines.append(f"state: {costs.state_rows or 0:.0f} keys, {costs.state_bytes / 1e6:.1f} MB")
    if costs.reload_s is not None:
        lines.append(
            f"the first batch after a restart: {_spread(costs.reload_s, 's longer than other batches')}"
        )
    return lines


def _batch_range(costs: SparkCosts) -> str:
    errors = [stage.error for stage in costs.stages if stage.error is not None]
    off = f"; mean error of a stage up to {_percent(max(errors))}" if errors else ""
    return f"{off}; batches of {costs.batch_rows} rows" if costs.batch_rows is not None else off


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _spread(spread: Spread, what: str) -> str:
    """Mean and deviation; no deviation for a single sample."""
    if spread.samples < 2:
        return f"{spread.mean:.3g} {what}{' (once)' if spread.samples else ''}"
    deviation = spread.deviation if spread.deviation > 1e-3 * abs(spread.mean) else 0.0
    return f"{spread.mean:.3g} ± {deviation:.2g} {what}"
