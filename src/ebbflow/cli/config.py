"""``ebbflow config``: show the options in force and where each value comes from."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ebbflow.cli.options import Taken, spark_conf, takes_configuration
from ebbflow.cli.output import Json, print_json
from ebbflow.cli.simulation import choose
from ebbflow.control.attach import check_agents, decider
from ebbflow.core.parameters import declared
from ebbflow.errors import InputError, UnknownNameError
from ebbflow.options import GENERAL, Configuration, Option, Rank, Setting, sections

_ON_SPARK = ("submit", "demo")

app = typer.Typer(help="Show the options in force.", no_args_is_help=True)


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="config")


@app.command("show")
@takes_configuration()
def show(
    context: typer.Context,
    *,
    configured: Configuration,
    command: Annotated[
        str,
        typer.Option(
            "--for",
            help="Command whose options to show, like simulate or 'bench leaderboard'.",
            metavar="COMMAND",
        ),
    ] = "submit",
    conf: Annotated[
        list[str] | None,
        typer.Option(help="Spark setting, like spark.ebbflow.slo=…; repeatable.", metavar="KEY=VALUE"),
    ] = None,
    changed: Annotated[bool, typer.Option("--changed", help="Leave out defaults.")] = False,
    json: Json = False,
) -> None:
    """Print every option with its value and where it comes from: command line, Spark, environment, file, default."""
    taken = _commands(context.find_root().command)
    if command not in taken:
        raise UnknownNameError("command with options", command, taken)
    reads = taken[command]
    if conf and command not in _ON_SPARK:
        raise InputError(f"--conf is for commands that run on Spark; {command} reads no Spark configuration")
    configured = configured.with_spark(spark_conf(conf or []))
    in_force = configured.in_force()
    reads.check({option.key: at for option, at in in_force if at.rank is Rank.COMMAND_LINE})
    _check(configured, on_spark=command in _ON_SPARK)
    overridden = configured.overridden()
    rows = [
        (option, at)
        for option, at in in_force
        if reads.reads(option.key) and not (changed and at.rank is Rank.DEFAULT)
    ]
    if json:
        print_json([_document(option, at, reads, overridden.get(option.key)) for option, at in rows])
        return
    table = Table("option", "value", "from", box=None, pad_edge=False, header_style="dim")
    for option, setting in rows:
        by = overridden.get(option.key)
        set_here = setting.rank is not Rank.DEFAULT
        place = escape(_place(setting)) if set_here else "[dim]default[/dim]"
        value = escape(_value(option, setting, reads)) or "–"
        table.add_row(
            escape(option.key),
            f"[bold]{value}[/bold]" if set_here and by is None else value,
            place if by is None else f"{place}, overridden by {escape(by)}",
        )
    for column in table.columns:
        column.overflow = "fold"
    Console(highlight=False, width=None if sys.stdout.isatty() else 200).print(table)


@app.command("reference")
def reference(json: Json = False) -> None:
    """Print the reference of all built-in options as Markdown: docs/options.md."""
    if json:
        print_json({"markdown": reference_page()})
    else:
        typer.echo(reference_page(), nl=False)


def _check(configured: Configuration, *, on_spark: bool) -> None:
    """Raise for what is invalid together or cannot be read: parameters, policy, profiles, keys of agents."""
    if on_spark:
        decider(configured)
        check_agents(configured["agents"], configured["agent_keys"])
    else:
        choose(configured).check()


def _commands(command: Any, under: str = "") -> dict[str, Taken]:
    """What each command reads, by the name of the command; itself and commands without options left out."""
    found: dict[str, Taken] = {}
    for name, each in getattr(command, "commands", {}).items():
        found |= _commands(each, f"{under}{name} ")
        if (
            each.callback is not None
            and each.callback.__module__ != __name__
            and hasattr(each.callback, "taken")
        ):
            found[f"{under}{name}"] = each.callback.taken
    return found


def _value(option: Option, setting: Setting, reads: Taken) -> str:
    return reads.default_text(option) if setting.rank is Rank.DEFAULT else option.written(setting.value)


def _place(setting: Setting) -> str:
    """Where a value is set. For a file without the key, which is in the same row."""
    return setting.where.rpartition(", ")[0] if setting.rank is Rank.FILE else setting.where


def _document(option: Option, setting: Setting, reads: Taken, overridden_by: str | None) -> dict[str, Any]:
    return {
        "key": option.key,
        "value": _value(option, setting, reads),
        "source": setting.rank.label,
        "where": setting.where,
        "overridden_by": overridden_by,
        "default": reads.default_text(option),
        "type": option.kind.type_name,
        "unit": option.kind.unit,
        "meaning": option.meaning,
        "argument": option.argument,
        "command_line": reads.flags.get(option.key),
        "toml": option.toml,
        "environment": option.environment,
        "spark": option.spark,
        "spark_published": option.spark_published,
    }


_INTRODUCTION = """# Options

Generated by `make docs` from the declarations in the code; a test keeps it current. `ebbflow config show` prints the
values in force and where each comes from; it takes the options of `submit`. `ebbflow config show --for simulate` prints
those of another command, with its own defaults.

## Where to set an option

If several sources set an option, the first of these wins:

1. an argument of `ebbflow.attach`: its own, or `options={"shrink.deadline": "60s"}` for any key;
2. the command line: `--slo …`, or `--set KEY=VALUE` for any key;
3. the Spark configuration of the job: `--conf spark.ebbflow.KEY=VALUE`;
4. the environment: `EBBFLOW_KEY`, in capitals, with `_` for `.` and `-`;
5. a TOML file: `--config FILE`, else the file that `EBBFLOW_CONFIG` names, else `ebbflow.toml` in the working
   directory;
6. the default.

Each option is decided on its own: a file may set the SLO and the environment a parameter of the strategy. With a
policy its rules decide, so of `policy` and `strategy` the one from the stronger source is in force; setting both in one
source is an error.

Added guards add up: those of `attach(guards=[…])`, of `--guard`, and of `guards.add` in the Spark configuration, the
environment and the file all apply. So a job adds its own guards to those that its platform sets, and cannot remove
them.

```toml
# ebbflow.toml
executors = "1:20"
slo = "freshness p95 <= 30s"

[strategy]
name = "capacity"       # without tables below it, strategy = "capacity" at the top will do

[strategy.capacity]
budget_out = 0.5

[guards.cool-down]
in = "30s"

[shrink]
deadline = "60s"
```

The same without a file: `--strategy 'capacity(budget_out=0.5)' --set guards.cool-down.in=30s --set
shrink.deadline=60s`, or `EBBFLOW_STRATEGY_CAPACITY_BUDGET_OUT=0.5`, or
`spark.ebbflow.strategy.capacity.budget_out=0.5`.

Durations are written `500ms`, `30s`, `5m` or `1h30m`; a bare number is seconds. Python arguments in seconds end in
`_s`. Lists are written with commas, and as arrays in TOML. Relative paths in a file start at its folder. An unknown
key, a value of the wrong type or out of bounds is one line that names source and key, and exit code 2; in Python it is
an `InputError`. Parameters of strategies that are not chosen are checked too, except for the files they name.

The parameters of `learner` keep the names under which its thesis published them, like `maxLatency`. In the Spark
configuration they may also have the prefix that the thesis gave them: `spark.streaming.dynamicAllocation.maxLatency`.
Spark has keys of its own there, so that prefix is read only if `learner` is the strategy in force.

The commands that simulate read the same options, with `--set` and `--config`. Their `--nodes` is `executors`. A
scenario file counts as command line. Where nothing is set, they have their own nodes and cycle: see `--help`.

| command | besides `executors`, `slo`, `cycle` and the guards it reads |
|---|---|
| `simulate` | `strategy` or `policy`, parameters of strategies, `profiles` |
| `replay` | `strategy` or `policy`, parameters of strategies. What is set nowhere comes from the recording |
| `bench leaderboard` | parameters of strategies; `--strategies` names the strategies |
| `learner train` | parameters of strategies |
| `policy try` | nothing |

`profile` reads only `agents` and `agent_keys`. Other commands read no options from the environment or a file: what they
take is in their `--help`.

A script under `ebbflow submit` that calls `attach` itself takes over: its `attach` reads the Spark configuration, the
environment and the file, but not the command line of `submit`.
"""

_TITLES = {
    "decide": "Failing strategies",
    "grow": "Scale-out",
    "shrink": "Scale-in",
    "guards": "Guards",
    "strategy": "Strategies",
}


def reference_page() -> str:
    """docs/options.md: the built-in options, whatever else is installed."""
    lines = [_INTRODUCTION, "## General", ""]
    lines += [
        "| key | type | unit | default | `attach` | command line | meaning |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| `{each.key}` | {each.kind.type_name} | {each.kind.unit} | {_default(each)} | `{each.argument}` | "
        f"`{each.flag}` | {each.meaning} |"
        for each in GENERAL
    ]
    title = ""
    for table, factory in sections():
        parameters = declared(factory)
        if not parameters or not factory.__module__.startswith("ebbflow."):
            continue
        if (top := _TITLES[table.partition(".")[0]]) != title:
            title = top
            lines += ["", f"## {title}"]
        lines += [
            "",
            f"### `[{table}]`",
            "",
            "| key | type | unit | default | bounds | meaning |",
            "|---|---|---|---|---|---|",
        ]
        for key, parameter in parameters.items():
            kind = parameter.kind
            default = _default(Option(key=key, kind=kind, default=parameter.default))
            lines.append(
                f"| `{key}` | {kind.type_name} | {kind.unit} | {default} | {kind.bounds} | {kind.meaning} |"
            )
    return "\n".join(lines) + "\n"


def _default(option: Option) -> str:
    text = option.written(option.default)
    if option.default is None:
        return text or "none"
    return f"`{text}`" if text else "none"
