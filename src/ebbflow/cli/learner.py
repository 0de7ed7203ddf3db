"""``ebbflow learner``: train the table of the strategy ``learner`` in the simulator, and look at it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ebbflow.cli.comparison import check_workers, print_files, progress_bar
from ebbflow.cli.output import Json, check_writable, errors, print_json
from ebbflow.cli.simulation import (
    Workers,
    complete_strategies,
    simulated_spec,
    takes_description,
    takes_simulated_configuration,
)
from ebbflow.core.duration import format_duration
from ebbflow.core.expression import Call
from ebbflow.core.folders import replace_file
from ebbflow.core.plural import counted
from ebbflow.errors import InputError
from ebbflow.options import Configuration
from ebbflow.papers.learner.page import (
    ORDER,
    greedy_action,
    levels,
    table_json,
    table_page,
    text_rows,
    training_page,
    write_page,
)
from ebbflow.papers.learner.training import TRAINED, Training, check_learner, runs_of, train
from ebbflow.report.wording import share, whole
from ebbflow.runs.loads import read_loads, split_loads
from ebbflow.runs.sweep import SweepCase
from ebbflow.strategies import read_strategy
from ebbflow.strategies.learner import Learner, table_file
from ebbflow.strategies.learner.q_table import Entry
from ebbflow.strategies.learner.state import Action, Direction, Region
from ebbflow.strategies.learner.table_file import StoredTable

app = typer.Typer(help="Train and show the table of the strategy learner.", no_args_is_help=True)


def register(parent: typer.Typer) -> None:
    """Add the group."""
    app.command("train")(train_command)
    app.command("show")(show)
    parent.add_typer(app, name="learner")


@takes_simulated_configuration()
@takes_description
def train_command(
    load: Annotated[
        str,
        typer.Option(
            help="Comma-separated loads, taken in turn: expressions like 'sine(base=100, peak=900, period=1h)', or "
            "trace files.",
            metavar="A,B,…",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File for the table or weights of the best agent.")
    ],
    episodes: Annotated[int, typer.Option(help="Runs of each agent.")] = 20,
    seeds: Annotated[int, typer.Option(help="Agents, each with a seed of its own.")] = 2,
    seed: Annotated[int, typer.Option(help="Seed of the first agent.")] = 1,
    strategy: Annotated[
        str,
        typer.Option(
            help="The agent with its parameters, like 'learner(learning=q-learning)' or 'deep-learner'."
        ),
    ] = "learner",
    seconds: Annotated[
        str | None,
        typer.Option(
            help="Simulated time of an episode.", show_default="as long as the load", metavar="DURATION"
        ),
    ] = None,
    *,
    configured: Configuration,
    given: dict[str, Any],
    workers: Workers = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page with learning curves and the table to this file.")
    ] = None,
    json: Json = False,
) -> None:
    """Train agents in the simulator and write the table of the best.

    Every agent goes through its episodes with exploration and keeps its table from one to the next. Then each runs once
    on every load without exploring; the cheapest of those that keep the SLO is written. Use it with
    `--strategy 'learner(table=FILE)'`, the weights of a deep agent with `--strategy 'deep-learner(weights=FILE)'`.
    """
    for name, value in (("--episodes", episodes), ("--seeds", seeds)):
        if value < 1:
            raise InputError(f"{name} is {value}; it must be 1 or more")
    if seed < 0:
        raise InputError(f"--seed is {seed}; it must be 0 or more")
    check_workers(workers)
    (expression,) = complete_strategies(configured, [strategy], "--strategy", {}).strategies
    check_learner(expression)
    spec = simulated_spec(configured, given | {"seconds": seconds})
    peak_per_s = 0.75 * float(spec.scenario(_any_load()).capacity_rows_per_s[-1])
    named = read_loads(
        split_loads(load), peak_per_s=peak_per_s, speed=1.0, seconds=spec.duration_s or 86_400.0
    )
    cases = [SweepCase(load=each.name, scenario=spec.scenario(each.load)) for each in named]
    check_writable(output)
    check_writable(report)
    with progress_bar() as bar:
        task = bar.add_task("episodes", total=runs_of(len(cases), episodes, seeds))
        training = train(
            cases,
            expression,
            episodes=episodes,
            seeds=range(seed, seed + seeds),
            guards=configured.make_guards,
            workers=workers,
            on_done=lambda: bar.advance(task),
        )
    best = training.best
    replace_file(output, best.table)
    call = read_strategy(expression)
    table = table_file.from_text(best.table, str(output)) if call.name == Learner.name else None
    if report is not None:
        write_page(report, training_page(training, table, [case.load for case in cases]))
    if json:
        print_json(_document(training, output, expression))
        return
    _tell(training)
    errors.print(
        f"\n[bold]{escape(str(output))}[/bold] has {_what(table)} of seed {best.seed}: "
        f"{training.simulated_s / 3600:.0f} simulated hours. Use it with "
        f"--strategy {escape(repr(_use(call, output)))}.",
        soft_wrap=True,
    )
    print_files(report)


def _what(table: StoredTable | None) -> str:
    return "the weights" if table is None else f"the table ({counted(len(table.entries), 'state')})"


def _use(call: Call, output: Path) -> str:
    """The expression that uses a trained file."""
    return str(replace(call, arguments={**call.arguments, TRAINED[call.name].file: str(output)}))


def show(
    table: Annotated[Path, typer.Argument(help="Table file, from `ebbflow learner train` or a job.")],
    report: Annotated[Path | None, typer.Option(help="Write a page with heat maps to this file.")] = None,
    json: Json = False,
) -> None:
    """Show a table: the value of each action in each state, visits, and the greedy action."""
    stored = table_file.read(table)
    check_writable(report)
    if report is not None:
        write_page(report, table_page(stored, table.name))
    if json:
        print_json(table_json(stored))
        return
    _draw(stored)
    print_files(report)


def _any_load() -> Any:
    from ebbflow.workloads import Constant

    return Constant(level_per_s=1.0)


# -- training --------------------------------------------------------------------------------------------------


def _document(training: Training, output: Path, expression: str) -> dict[str, Any]:
    return {
        "output": str(output),
        "strategy": expression,
        "best_seed": training.best.seed,
        "simulated_hours": round(training.simulated_s / 3600, 3),
        "episodes": [run.to_json() for run in training.episodes],
        "evaluation": [run.to_json() for agent in training.agents for run in agent.evaluation],
    }


def _tell(training: Training) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    grid = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("seed", "late", "node-s", "first episode: late", "node-s", "last episode: late", "node-s"):
        grid.add_column(name, justify="right", no_wrap=True)
    for agent in training.agents:
        own = [run for run in training.episodes if run.seed == agent.seed]
        cells = [str(agent.seed), share(agent.violation), whole(agent.node_seconds)]
        for run in (own[0], own[-1]):
            cells += [share(run.violation), whole(run.node_seconds)]
        grid.add_row(*cells, style="bold" if agent is training.best else "")
    console.print(grid)


# -- the picture of a table ------------------------------------------------------------------------------------


def _draw(stored: StoredTable) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    space = stored.space
    shown = {name: value for name, value in stored.parameters.items() if value is not None}
    console.print(", ".join(f"{name}={value}" for name, value in shown.items()), style="dim")
    for level in levels(stored):
        each = stored.parameters["incomingMessageGranularity"]
        if each is not None:
            console.print(f"\n{level * float(each):g} to {(level + 1) * float(each):g} rows/s")
        grid = Table(box=None, pad_edge=False, header_style="dim")
        grid.add_column("latency", justify="right")
        for direction in ("rising", "falling"):
            for name in ("region", *(action.label for action in ORDER), "visits", "greedy"):
                grid.add_column(name if name != "region" else direction, justify="right", no_wrap=True)
        for latency_s, entries in text_rows(stored, level):
            cells: list[Text | str] = [f"{latency_s:g} s"]
            for direction in (Direction.RISING, Direction.FALLING):
                region = space.region(space.state(latency_s, 0.0, direction))
                cells += _cells(entries.get(direction), region)
            grid.add_row(*cells)
        console.print(grid)
    met, last = len(stored.entries), format_duration(space.max_latency_s)
    console.print(
        f"{counted(met, 'state')} met in {counted(stored.decisions, 'decision')}; the target is "
        f"{format_duration(space.target_latency_s)}, everything from {last} on is one state.",
        style="dim",
    )


def _cells(entry: Entry | None, region: Region) -> list[Text | str]:
    if entry is None:
        return [str(int(region)), "·", "·", "·", "", ""]
    best = greedy_action(entry, region)
    values: list[Text | str] = [_value(entry, action, best) for action in ORDER]
    return [str(int(region)), *values, str(sum(entry.visits)), best.label]


def _value(entry: Entry, action: Action, best: Action) -> Text:
    """A value, red to blue by its size; bold if its action is the greedy one."""
    value = entry.values[action]
    strength = min(1.0, abs(value))
    fade = round(235 - 120 * strength)
    colour = f"rgb({fade},{fade},235)" if value >= 0 else f"rgb(235,{fade},{fade})"
    weight = "bold " if action is best else ""
    return Text(f"{value:.2f}", style=f"{weight}rgb(20,20,20) on {colour}")
