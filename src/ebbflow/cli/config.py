"""``ebbflow config``: show the options in force and where each value comes from."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ebbflow.cli.options import ConfigFile, SetOption, configuration, spark_conf
from ebbflow.cli.output import Json, print_json
from ebbflow.options import Option, Rank, Setting, from_spark, reference_page

app = typer.Typer(help="Show the options in force.", no_args_is_help=True)


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="config")


@app.command("show")
def show(
    set: SetOption = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(help="Spark setting, like spark.ebbflow.slo=…; repeatable.", metavar="KEY=VALUE"),
    ] = None,
    changed: Annotated[bool, typer.Option("--changed", help="Leave out defaults.")] = False,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Print every option with its value and where it comes from: command line, Spark, environment, file, default."""
    in_force = configuration({}, config, set).plus(from_spark(spark_conf(conf or []))).in_force()
    rows = [(option, at) for option, at in in_force if not changed or at.rank is not Rank.DEFAULT]
    if json:
        print_json([_document(option, setting) for option, setting in rows])
        return
    table = Table("option", "value", "from", box=None, pad_edge=False, header_style="dim")
    for option, setting in rows:
        set_here = setting.rank is not Rank.DEFAULT
        value = escape(option.written(setting.value)) or "–"
        table.add_row(
            escape(option.key),
            f"[bold]{value}[/bold]" if set_here else value,
            escape(_place(setting)) if set_here else "[dim]default[/dim]",
        )
    Console(highlight=False, soft_wrap=True).print(table)


@app.command("reference")
def reference(json: Json = False) -> None:
    """Print the reference of all built-in options as Markdown: docs/options.md."""
    if json:
        print_json({"markdown": reference_page()})
    else:
        typer.echo(reference_page(), nl=False)


def _place(setting: Setting) -> str:
    """Where a value is set; of a file without the key, which stands in the row already."""
    return setting.where.rpartition(", ")[0] if setting.rank is Rank.FILE else setting.where


def _document(option: Option, setting: Setting) -> dict[str, Any]:
    return {
        "key": option.key,
        "value": option.written(setting.value),
        "source": setting.rank.label,
        "where": setting.where,
        "default": option.written(option.default),
        "type": option.kind.type_name,
        "meaning": option.meaning,
        "argument": option.argument,
        "command_line": option.flag,
        "toml": option.toml,
        "environment": option.environment,
        "spark": option.spark,
    }
