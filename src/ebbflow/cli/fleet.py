"""``ebbflow fleet``: many streaming queries on several Spark applications, moved between them while data flows."""

from __future__ import annotations

import contextlib
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from ebbflow.cli.options import takes_configuration
from ebbflow.cli.output import Json, errors, print_json, say
from ebbflow.control.attach import decider
from ebbflow.core.clock import SystemClock, wait_until
from ebbflow.core.decision import LedgerEntry
from ebbflow.core.duration import format_duration, parse_seconds
from ebbflow.core.plural import counted
from ebbflow.errors import FleetError, InputError, TargetError
from ebbflow.options import Configuration, from_arguments

if TYPE_CHECKING:
    from ebbflow.targets.fleet.coordination import Coordination
    from ebbflow.targets.fleet.model import Fleet

FleetFile = Annotated[Path, typer.Argument(help="Fleet file, see docs/fleet.md.", metavar="FILE")]
DEFAULT_STRATEGY = "balance"
READY_WITHIN_S = 240.0
MOVE_WITHIN_S = 300.0

log = logging.getLogger(__name__)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        no_args_is_help=True, help="Run many streaming queries on several Spark applications, and move them."
    )
    for name, command in (
        ("check", check), ("up", up), ("status", status), ("move", move), ("pause", pause), ("down", down),
        ("host", host),
    ):  # fmt: skip
        group.command(name)(command)
    app.add_typer(group, name="fleet")


def check(file: FleetFile, json: Json = False) -> int:
    """Check a fleet file; one line for each problem, FILE:LINE: what is wrong, what would be right."""
    fleet, problems = _checked(file)
    if json:
        print_json({"file": str(file), "ok": not problems, "problems": list(problems)})
    elif fleet is None:
        _print_problems(problems)
    else:
        counts = (
            counted(len(fleet.applications), "application"),
            counted(len(fleet.streams), "stream"),
            counted(len(fleet.operators), "operator"),
        )
        say(f"{file} is fine: {', '.join(counts)}")
    return 2 if problems else 0


@takes_configuration(
    without=("executors", "profiles", "store", "agents", "agent_keys"),
    tables=("decide", "strategy", "guards"),
    defaults={"strategy": DEFAULT_STRATEGY},
)
def up(
    file: FleetFile,
    *,
    configured: Configuration,
    seconds: Annotated[
        str | None,
        typer.Option(help="Take the fleet down after this time, like 60 or 5m.", metavar="DURATION"),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return once every query runs; the fleet goes on.")
    ] = False,
    json: Json = False,
) -> int:
    """Start a host for each application and the controller, and show what runs where.

    Hosts that run already are used as they are. Ctrl-C takes the fleet down, queries after their running batches; if
    the controller is killed, hosts and queries go on, and the next `ebbflow fleet up` continues.
    """
    lasts_s = None if seconds is None else parse_seconds(seconds)
    if detach and lasts_s is not None:
        raise InputError(
            "--seconds and --detach exclude each other; a detached fleet ends with `ebbflow fleet down`"
        )
    fleet, problems = _checked(file)
    if fleet is None:
        if json:
            print_json({"file": str(file), "ok": False, "problems": list(problems)})
        else:
            _print_problems(problems)
        return 2
    if configured.given("strategy") is None and configured.policy is None:
        configured = configured.plus(from_arguments({"strategy": DEFAULT_STRATEGY}))
    followed, strategy = decider(configured)
    from ebbflow.control.fleet import FleetController, check_can_lead
    from ebbflow.targets.fleet.coordination import Wish
    from ebbflow.targets.spark.launch.preflight import check_java, check_master

    check_java()
    for application in fleet.applications.values():
        check_master(application.master)
    controller = FleetController(
        fleet,
        strategy=strategy,
        guards=configured.make_guards(strategy),
        slo=configured["slo"],
        cycle_s=configured["cycle"],
        dry_run=configured["dry_run"],
        failures=configured.failure_limits,
        fallback=configured.make_fallback(strategy),
        policy=followed,
    )
    check_can_lead(fleet, controller.coordination)
    if detach:
        controller.close()
        return _detached(fleet, json=json)
    controller.coordination.set_wish(Wish.RUN)
    say(
        f"fleet {fleet.name}: {counted(len(fleet.applications), 'application')}, "
        f"{counted(len(fleet.queries), 'query', 'queries')}, strategy {strategy.name}; logs in {fleet.folder / 'logs'}"
    )
    thread = threading.Thread(target=controller.run, name="ebbflow-controller", daemon=True)
    thread.start()
    with _signals_to(controller.stop), errors_live() as live:
        clock = SystemClock()
        ends_s = None if lasts_s is None else clock.now_s() + lasts_s
        while not controller.stop.wait(1.0):
            seen = _status(fleet, controller.coordination)
            live.update(_table(seen, controller.keeper.failures))
            if ends_s is not None and clock.now_s() >= ends_s:
                break
    controller.stop.set()
    thread.join(20.0)
    last = _status(fleet, controller.coordination)
    controller.close()
    if fleet.coordination and not controller.leads:
        say("this controller did not lead; the fleet goes on")
    else:
        say("taking the fleet down, queries after their running batches")
        from ebbflow.control.fleet import shut_down

        left = shut_down(fleet, clock)
        if left:
            raise TargetError(
                f"the hosts of {', '.join(left)} did not end in time; see {fleet.folder / 'logs'}"
            )
    if json:
        print_json(last)
    return 0


def status(file: FleetFile, json: Json = False) -> int:
    """Show what runs where. Works without a controller, too; exits with 1 if a query does not run."""
    fleet = _loaded(file)
    with _coordination(fleet) as coordination:
        seen = _status(fleet, coordination)
    if json:
        print_json(seen)
    else:
        Console().print(_table(seen, {}))
    return 0 if all(each["phase"] == "running" for each in seen["operators"]) else 1


def move(
    file: FleetFile,
    operator: Annotated[str, typer.Argument(help="Operator to move; of one with shards, NAME-NUMBER.")],
    application: Annotated[str, typer.Argument(help="Application to move it to.")],
    json: Json = False,
) -> int:
    """Move an operator to another application: stop it after its running batch, start it there on its checkpoint."""
    from ebbflow.targets.fleet.dispatch import request_move

    fleet = _loaded(file)
    clock = SystemClock()
    with _coordination(fleet) as coordination:
        if coordination.leader() is None:
            raise InputError(f"no controller of {file} runs; start one with `ebbflow fleet up {file}`")
        asked = request_move(fleet, coordination, operator, application, clock.now_s())
        if not json:
            say(f"moving {operator} from {asked.source} to {application}")

        def settled() -> bool:
            record = coordination.record(operator)
            return record is not None and not record.is_moving

        if not wait_until(settled, clock, within_s=MOVE_WITHIN_S, every_s=0.1):
            raise TargetError(
                f"{operator} is still moving after {MOVE_WITHIN_S:g} s; see `ebbflow fleet status {file}`"
            )
        record = coordination.record(operator)
        assert record is not None
        took_s = clock.now_s() - asked.since_s
    moved = record.application == application
    if json:
        print_json(
            {
                "operator": operator,
                "from": asked.source,
                "to": application,
                "moved": moved,
                "why": record.why,
                "took_s": round(took_s, 3),
            }
        )
    elif moved:
        say(f"{operator} runs in {application} after {format_duration(round(took_s, 1))}")
    else:
        errors.print(f"{operator} stays in {asked.source}: {record.why}", markup=False, soft_wrap=True)
    return 0 if moved else 1


def pause(
    file: FleetFile,
    resume: Annotated[bool, typer.Option("--resume", help="Decide again.")] = False,
    json: Json = False,
) -> None:
    """Decide nothing until `ebbflow fleet pause --resume`: queries run on where they are, sizes stay."""
    from ebbflow.targets.fleet.coordination import Wish

    fleet = _loaded(file)
    with _coordination(fleet) as coordination:
        if coordination.wish() is Wish.DOWN:
            raise InputError(f"the fleet is down; start it with `ebbflow fleet up {file}`")
        coordination.set_wish(Wish.RUN if resume else Wish.PAUSE)
    if json:
        print_json({"fleet": fleet.name, "paused": not resume})
    else:
        say("the fleet decides again" if resume else "the fleet is paused; its queries run on")


def down(file: FleetFile, json: Json = False) -> int:
    """Stop every query after its running batch, and end hosts and controller. The next `up` continues."""
    from ebbflow.control.fleet import shut_down

    fleet = _loaded(file)
    left = shut_down(fleet, SystemClock())
    if json:
        print_json({"fleet": fleet.name, "down": not left, "left": left})
    elif left:
        errors.print(
            f"the hosts of {', '.join(left)} did not end in time; see {fleet.folder / 'logs'}", markup=False
        )
    else:
        say(f"fleet {fleet.name} is down")
    return 1 if left else 0


def host(
    file: FleetFile,
    application: Annotated[str, typer.Argument(help="Application of the fleet file.")],
) -> int:
    """Run the host of one application here, such as on another machine. `ebbflow fleet up` starts those of its own."""
    from ebbflow.errors import UnknownNameError
    from ebbflow.targets.fleet.host.process import run_host
    from ebbflow.targets.spark.launch.preflight import check_java, check_master

    fleet = _loaded(file)
    if application not in fleet.applications:
        raise UnknownNameError("application", application, fleet.applications)
    check_java()
    check_master(fleet.applications[application].master)
    return run_host(fleet, fleet.applications[application])


# -- parts ----------------------------------------------------------------------------------------


def _checked(file: Path) -> tuple[Fleet | None, tuple[str, ...]]:
    from ebbflow.targets.fleet.file import load_fleet

    try:
        return load_fleet(file), ()
    except FleetError as error:
        return None, error.problems


def _loaded(file: Path) -> Fleet:
    """The fleet, without importing the code of its operators."""
    from ebbflow.targets.fleet.file import load_fleet

    return load_fleet(file, imports=False)


def _print_problems(problems: tuple[str, ...]) -> None:
    for problem in problems:
        errors.print(problem, markup=False, soft_wrap=True)


@contextlib.contextmanager
def _coordination(fleet: Fleet) -> Iterator[Coordination]:
    from ebbflow.targets.fleet.coordination.opening import open_coordination

    if not fleet.coordination and not fleet.store.exists():
        raise InputError(
            f"{fleet.path.name} has never been up; start it with `ebbflow fleet up {fleet.path}`"
        )
    opened = open_coordination(fleet, SystemClock())
    try:
        yield opened
    finally:
        opened.close()


@contextlib.contextmanager
def _signals_to(stop: threading.Event) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM set an event, so that the fleet is taken down in order."""
    before = {
        number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _detached(fleet: Fleet, *, json: bool) -> int:
    """Start the same command in the background, and return once every query runs."""
    words = [each for each in sys.argv[1:] if each not in ("--detach", "--json")]
    log_file = fleet.folder / "logs" / "controller.log"
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with log_file.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "ebbflow", "--verbose", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    clock = SystemClock()
    seen: dict[str, Any] = {}

    def ready() -> bool:
        nonlocal seen
        if process.poll() is not None:
            return True
        if not fleet.coordination and not fleet.store.exists():
            return False
        with _coordination(fleet) as coordination:
            seen = _status(fleet, coordination)
        return bool(seen["operators"]) and all(each["phase"] == "running" for each in seen["operators"])

    say("starting; this takes half a minute")
    if not wait_until(ready, clock, within_s=READY_WITHIN_S, every_s=0.5):
        raise TargetError(
            f"not every query runs after {READY_WITHIN_S:g} s; see `ebbflow fleet status {fleet.path}`"
        )
    if process.poll() is not None:
        lines = log_file.read_text(errors="replace").strip().splitlines() or ["no output"]
        raise TargetError(f"the controller ended with code {process.returncode}: {lines[-1]}; see {log_file}")
    if json:
        print_json(seen)
    else:
        errors.print(_table(seen, {}))
        say(f"controller runs as process {process.pid}; end the fleet with `ebbflow fleet down {fleet.path}`")
    return 0


def errors_live() -> Live:
    """A view on standard error that is redrawn in a terminal, and not shown elsewhere."""
    return Live(console=errors, refresh_per_second=2, transient=not errors.is_terminal)


def _status(fleet: Fleet, coordination: Coordination) -> dict[str, Any]:
    """Applications and operators, as their hosts report them now."""
    from ebbflow.monitoring.store import Store
    from ebbflow.targets.fleet.links import HostLinks
    from ebbflow.targets.fleet.wire.messages import Report

    reports: dict[str, Report] = {}
    links = HostLinks(fleet, coordination)
    try:
        hosts = links.update()
        for name in hosts:
            with contextlib.suppress(TargetError):
                reports[name] = links.report(name)
        records, leader, wish = coordination.records(), coordination.leader(), coordination.wish()
    except TargetError as error:
        log.warning("%s", error)
        hosts, records, leader, wish = {}, {}, None, None
    finally:
        links.close()
    operators = []
    for name, query in fleet.queries.items():
        record = records.get(name)
        where = query.operator.application if record is None else record.runs_in
        state = reports[where].query(name) if where in reports else None
        moving = record is not None and record.is_moving
        operators.append(
            {
                "operator": name,
                "application": where,
                "moving_to": record.application if record is not None and moving else None,
                "phase": "unknown" if state is None else state.phase.value,
                "rate_per_s": None if state is None else state.rate_per_s,
                "batch": None if state is None or state.batch_id < 0 else state.batch_id,
                "moves": 0 if record is None else record.moves,
                "error": "" if state is None else state.error,
                "last_move_given_up": "" if record is None else record.why,
            }
        )
    applications = [
        {
            "application": name,
            "master": each.master,
            "host": hosts[name].owner.pid if name in hosts else None,
            "machine": hosts[name].machine if name in hosts else None,
            "answers": name in reports,
            "nodes": reports[name].nodes if name in reports else None,
            "requested": reports[name].requested if name in reports else None,
            "executors": str(each.executors),
            "error": reports[name].error if name in reports else "",
        }
        for name, each in fleet.applications.items()
    ]
    last: list[dict[str, Any]] = []
    if fleet.store.exists():
        with contextlib.suppress(Exception):
            last = Store.read_ledger(fleet.store, last=1)
    return {
        "fleet": fleet.name,
        "controller": None if leader is None else {"process": leader.owner.pid, "machine": leader.machine},
        "paused": wish == "pause",
        "applications": applications,
        "operators": operators,
        "last_decision": _decision(LedgerEntry.from_json(last[0])) if last else None,
    }


def _decision(entry: LedgerEntry) -> dict[str, Any]:
    return {"time_s": entry.time_s, "verdict": entry.verdict, "reason": entry.decision.reason}


def _table(seen: Mapping[str, Any], failures: Mapping[str, str]) -> Table:
    """Applications with their operators."""
    table = Table(
        "application", "nodes", "operator", "state", "rows/s", "batch", "moves", box=None, pad_edge=False
    )
    for application in seen["applications"]:
        name = application["application"]
        nodes = "–" if application["nodes"] is None else str(application["nodes"])
        if application["requested"] not in (None, application["nodes"]):
            nodes += f" → {application['requested']}"
        placed = [each for each in seen["operators"] if each["application"] == name]
        why = failures.get(name) or application["error"]
        label = f"{name} [dim]{escape(application['master'])}[/dim]"
        if application["host"] is None:
            table.add_row(label, nodes, "", f"[yellow]no host[/yellow] {escape(why)}", "", "", "")
            label = ""
        for each in placed or [None]:
            if each is None:
                table.add_row(label, nodes, "[dim]no operator[/dim]", "", "", "", "")
                continue
            state = (
                each["phase"]
                if each["moving_to"] is None
                else f"{each['phase']}, moving to {each['moving_to']}"
            )
            colour = {"running": "green", "failed": "red"}.get(each["phase"], "yellow")
            rate = "–" if each["rate_per_s"] is None else f"{each['rate_per_s']:.1f}"
            error = f" {escape(each['error'][:100])}" if each["error"] else ""
            batch = "–" if each["batch"] is None else str(each["batch"])
            table.add_row(
                label, nodes if label else "", each["operator"], f"[{colour}]{state}[/{colour}]{error}", rate,
                batch, str(each["moves"]),
            )  # fmt: skip
            label = ""
    decision = seen["last_decision"]
    notes = "paused" if seen["paused"] else ""
    if seen["controller"] is None:
        notes = "no controller"
    table.caption = escape("; ".join(filter(None, [notes, decision and decision["reason"]])))
    return table
