"""``ebbflow policy``: check, show, try and apply a scaling policy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ebbflow.cli.output import Json, check_writable, errors, print_json, say
from ebbflow.cli.simulation import (
    ENGINE_HELP,
    Pipeline,
    Seconds,
    StartTime,
    simulated_spec,
    takes_simulated_configuration,
)
from ebbflow.control.policy_file import answer_of_ledger, digest_of
from ebbflow.core.clock import SystemClock
from ebbflow.core.duration import format_duration, parse_duration_s
from ebbflow.core.folders import replace_file
from ebbflow.errors import InputError, PolicyError
from ebbflow.monitoring.store import Store
from ebbflow.options import Configuration
from ebbflow.policy.files import load_policy, policy_text, read_text
from ebbflow.policy.files.document import write_document
from ebbflow.policy.files.schema import policy_schema
from ebbflow.policy.language.english import policy_in_english
from ebbflow.report.page import write_page
from ebbflow.runs.policy_trial import Trial, chain, try_policy
from ebbflow.runs.score import score
from ebbflow.runs.spec import Spec, with_values

app = typer.Typer(help="Check, show, try and apply scaling policies.", no_args_is_help=True)

TRIED = Spec(engine="continuous", cycle="5s", noise=0.0)
"""What ``policy try`` simulates by default."""
SAME_AGAIN_S = 5.0
"""How long to wait for the answer of a job that may already have the policy: a few cycles."""

PolicyFile = Annotated[Path, typer.Argument(help="A policy in TOML or YAML.", metavar="FILE")]


def register(parent: typer.Typer) -> None:
    """Add the commands of ``ebbflow policy``."""
    parent.add_typer(app, name="policy")


@app.command("check")
def check(file: PolicyFile, json: Json = False) -> int:
    """Check a policy. Prints one line for each problem; the exit code is 2 if there are any."""
    problems: tuple[str, ...] = ()
    try:
        policy = load_policy(file)
    except PolicyError as error:
        problems = error.problems
    if json:
        print_json({"file": str(file), "ok": not problems, "problems": list(problems)})
    elif problems:
        for problem in problems:
            typer.echo(problem, err=True)
    else:
        say(f"{escape(str(file))} is valid: {_rules(len(policy.rules))}, {_bounds(len(policy.bounds))}")
    return 2 if problems else 0


@app.command("show")
def show(
    file: PolicyFile,
    format_: Annotated[
        str | None, typer.Option("--as", help="Print toml or yaml instead of English.", metavar="FORMAT")
    ] = None,
    json: Json = False,
) -> None:
    """Show a policy as English sentences, or convert it to TOML or YAML."""
    policy = load_policy(file)
    if json:
        print_json(write_document(policy))
    elif format_ is not None:
        typer.echo(policy_text(policy, f".{format_}"), nl=False)
    else:
        typer.echo(policy_in_english(policy))


@app.command("schema")
def schema(
    json: Annotated[
        bool, typer.Option("--json", help="Accepted for consistency; the schema is always JSON.")
    ] = False,
) -> None:
    """Print the JSON Schema of policy files, for use in editors."""
    del json
    print_json(policy_schema())


@app.command("apply")
def apply(
    file: PolicyFile,
    to: Annotated[Path, typer.Option("--to", help="Policy file that the job watches.", metavar="WATCHED")],
    store: Annotated[
        Path | None,
        typer.Option(help="Store of the job: wait until its ledger confirms the policy.", metavar="SQLITE"),
    ] = None,
    within: Annotated[
        str, typer.Option(help="How long to wait for the confirmation.", metavar="DURATION")
    ] = "30s",
    json: Json = False,
) -> int:
    """Check a policy and atomically replace the file that a running job watches (its --policy)."""
    policy = load_policy(file)
    if not to.is_file():
        raise InputError(f"no job can watch {to}: no such file; give the file of the job's --policy")
    since_id = max((int(row["id"]) for row in Store.read_ledger(store)), default=0) if store else 0
    within_s = parse_duration_s(within)
    text = read_text(file) if file.suffix.lower() == to.suffix.lower() else policy_text(policy, to.suffix)
    unchanged = read_text(to) == text
    replace_file(to, text)
    answer = None
    if store is not None:  # an unchanged file is only taken up again after a policy was set in Python
        wait_s = min(within_s, SAME_AGAIN_S) if unchanged else within_s
        answer = answer_of_ledger(store, digest_of(text.encode()), since_id, wait_s, SystemClock())
    if answer is None and unchanged:
        answer = "the file already had exactly this content"
    if json:
        names = [rule.name for rule in policy.rules]
        print_json({"applied": str(to), "rules": names, "answer": answer})
    elif store is None:
        say(
            f"wrote {_rules(len(policy.rules))} to {escape(str(to))}; a job that watches the file will use them"
        )
    elif answer is not None:
        say(escape(answer))
    else:
        say(
            f"no confirmation in {escape(str(store))} after {within}; is a job running that watches {escape(str(to))}?"
        )
    return 1 if store is not None and answer is None else 0


@app.command("try")
@takes_simulated_configuration(tables=("guards",), defaults={"cycle": str(TRIED.cycle)})
def try_(
    file: PolicyFile,
    load: Annotated[str, typer.Option(help="Load, such as 'square(base=10, peak=20, period=1m)'.")],
    seconds: Seconds = None,
    operators: Annotated[
        str | None,
        typer.Option(
            help="A chain of your own operators, each with the rows per second one instance processes.",
            metavar="NAME=RATE,…",
        ),
    ] = None,
    pipeline: Pipeline = None,
    engine: Annotated[
        str | None, typer.Option(help=ENGINE_HELP, show_default=TRIED.engine, metavar="NAME")
    ] = None,
    at: StartTime = None,
    *,
    configured: Configuration,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")] = None,
    json: Json = False,
) -> None:
    """Simulate a policy on a load and show when each rule fires."""
    policy = load_policy(file)
    check_writable(report)
    given = {"load": load, "seconds": seconds, "pipeline": pipeline, "engine": engine, "at": at}
    spec = simulated_spec(configured, given, base=TRIED)
    rates = _rates(operators) if operators else {}
    if rates and spec.engine != "continuous":
        raise InputError(
            f"--operators with --engine {engine}: your own operators run on the continuous engine only; "
            "leave out --engine, or choose a built-in --pipeline"
        )
    spec = with_values(spec, {"initial-nodes": spec.limits.clamp(len(rates))})
    scenario = spec.scenario(engine=chain(rates) if rates else None)
    trial = try_policy(policy, scenario, guards=configured.make_guards)
    scores = score(trial.run, oracle_node_seconds=None)
    if report is not None:
        write_page(
            report,
            title=f"Ebbflow: policy {file.name} on {load}",
            runs=[trial.run],
            scores=[scores.to_json()],
            notes=policy_in_english(policy).split("\n\n"),
        )
    if json:
        document: dict[str, Any] = {"policy": str(file), "load": load, **trial.to_json(), **scores.to_json()}
        print_json(document | ({"report": str(report)} if report else {}))
        return
    _print(trial)
    errors.print(
        f"{scores.node_seconds:.0f} node-seconds, {scores.reconfigurations} changes, "
        f"{100 * (scores.violation or 0):.1f} % of rows late"
    )
    if report is not None:
        say(f"report: {escape(str(report))}")


def _print(trial: Trial) -> None:
    console = Console(highlight=False)
    table = Table("at", "rule", "change", "because", box=None, pad_edge=False)
    for firing in trial.firings:
        at = format_duration(firing.time_s) or "0s"
        table.add_row(at, escape(firing.rule or "–"), escape(firing.change), escape(firing.because))
    if trial.firings:
        console.print(table)
    for name, times in trial.counts.items():
        result = f"fired {'once' if times == 1 else f'{times} times'}" if times else "never fired"
        if name in trial.unread:
            result += (
                f"; no readings of {', '.join(trial.unread[name])} (does it need another engine, or agents?)"
            )
        console.print(f"{escape(name)}: {escape(result)}")


def _rates(text: str) -> dict[str, float]:
    rates: dict[str, float] = {}
    for part in text.split(","):
        name, _, written = (each.strip() for each in part.partition("="))
        try:
            rate = float(written)
        except ValueError:
            rate = 0.0
        if not name or not 0 < rate < math.inf:
            raise InputError(
                f"--operators {text}: '{part}' is not NAME=RATE; write, for example, enrich=5,store=20"
            )
        if name in rates:
            raise InputError(f"--operators {text}: '{name}' appears twice; give each operator one rate")
        rates[name] = rate
    return rates


def _bounds(count: int) -> str:
    return f"{count} set{'' if count == 1 else 's'} of bounds"


def _rules(count: int) -> str:
    return f"{count} rule{'' if count == 1 else 's'}"
