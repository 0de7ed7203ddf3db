"""``ebbflow``: all commands, and how they fail.

Invalid input ends with one line and exit code 2 before anything is started; any other failure with one line and 1.
"""

from __future__ import annotations

import inspect
import logging
import os
import signal
import sys
from types import FrameType
from typing import Annotated, Any

import typer

import ebbflow
from ebbflow.cli import (
    agent,
    bench,
    config,
    datastore,
    demo,
    fleet,
    forecast,
    google_cluster,
    learner,
    ledger,
    metrics,
    policy,
    profile,
    replay,
    report,
    simulate,
    submit,
)
from ebbflow.errors import EbbflowError, InputError, UnreachableError

# Newer versions of Typer carry their own copy of click. This finds its ClickException in either.
_USAGE_ERROR: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

_INTERRUPTED = 128 + signal.SIGINT

app = typer.Typer(
    name="ebbflow",
    help="Keeps a Spark streaming pipeline exactly as large as its load needs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
demo.register(app)
submit.register(app)
fleet.register(app)
simulate.register(app)
replay.register(app)
profile.register(app)
forecast.register(app)
learner.register(app)
bench.register(app)
datastore.register(app)
google_cluster.register(app)
report.register(app)
ledger.register(app)
metrics.register(app)
policy.register(app)
agent.register(app)
config.register(app)


def _reflow(commands: typer.Typer) -> None:
    """Let the terminal break the lines of help texts: those of a docstring are for readers of the source."""
    for command in commands.registered_commands:
        text = command.help or inspect.getdoc(command.callback) or ""
        command.help = "\n\n".join(
            part if "\n " in part or part.startswith("\b") else " ".join(part.split())
            for part in text.split("\n\n")
        )
    for group in commands.registered_groups:
        if group.typer_instance is not None:
            _reflow(group.typer_instance)


_reflow(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ebbflow {ebbflow.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more to standard error.")] = False,
) -> None:
    del version
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    # py4j logs every closed connection as an error.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)


def main() -> None:
    """The console script."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Exit normally, so that clusters are stopped. A signal that was ignored at the start, as SIGHUP under nohup,
        # stays ignored.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _leave)
    try:
        code = app(standalone_mode=False)
    except (InputError, UnreachableError) as error:
        _fail(str(error), 2)
    except EbbflowError as error:
        _fail(str(error), 1)
    except _USAGE_ERROR as error:
        if not error.format_message():  # a group without a command, whose help was shown
            sys.exit(2)
        words = error.format_message().rstrip(".")
        command = error.ctx.command_path if getattr(error, "ctx", None) is not None else "ebbflow"
        _fail(f"{words}; see `{command} --help`", 2)
    except BrokenPipeError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except OSError as error:  # a full disk, a deleted file
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}", 1)
    except (typer.Abort, KeyboardInterrupt):
        _fail("stopped", _INTERRUPTED)
    else:
        if code == _INTERRUPTED:  # some libraries turn Ctrl-C into this code
            _fail("stopped", _INTERRUPTED)
        sys.exit(code if isinstance(code, int) else 0)


def _leave(number: int, frame: FrameType | None) -> None:
    del frame
    sys.exit(128 + number)


def _fail(message: str, code: int) -> None:
    sys.stderr.write(f"ebbflow: {' '.join(message.split())}\n")
    sys.exit(code)
