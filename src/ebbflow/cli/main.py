"""``ebbflow``: the commands in one place, and one way in which all of them fail.

What a person got wrong ends with one line and code 2, and before anything was started; what the world
got wrong ends with one line and code 1.
"""

from __future__ import annotations

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
    demo,
    google_cluster,
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

# Typer used to build on click and now carries its own copy; what both call ClickException is found from here.
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
simulate.register(app)
replay.register(app)
profile.register(app)
bench.register(app)
google_cluster.register(app)
report.register(app)
ledger.register(app)
metrics.register(app)
policy.register(app)
agent.register(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ebbflow {ebbflow.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and leave.", callback=_show_version, is_eager=True),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more on standard error.")] = False,
) -> None:
    del version
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    # py4j reports every closed connection as an error; ours are reported by us.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)


def main() -> None:
    """The console script."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        # A polite kill ends like an exit: clusters are stopped on the way out. One that was ignored when we were
        # started, as a hang-up is under nohup, stays so.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _leave)
    try:
        code = app(standalone_mode=False)
    except (InputError, UnreachableError) as error:
        _fail(str(error), 2)
    except EbbflowError as error:
        _fail(str(error), 1)
    except _USAGE_ERROR as error:
        if not error.format_message():  # a group without a command: its help has been shown
            sys.exit(2)
        words = error.format_message().rstrip(".")
        command = error.ctx.command_path if getattr(error, "ctx", None) is not None else "ebbflow"
        _fail(f"{words}; `{command} --help` says what there is", 2)
    except BrokenPipeError:  # who read has heard enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except OSError as error:  # a full disk, a file that went away
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}", 1)
    except (typer.Abort, KeyboardInterrupt):
        _fail("stopped", _INTERRUPTED)
    else:
        if code == _INTERRUPTED:  # some of the libraries below turn Ctrl-C into this answer
            _fail("stopped", _INTERRUPTED)
        sys.exit(code if isinstance(code, int) else 0)


def _leave(number: int, frame: FrameType | None) -> None:
    del frame
    sys.exit(128 + number)


def _fail(message: str, code: int) -> None:
    sys.stderr.write(f"ebbflow: {' '.join(message.split())}\n")
    sys.exit(code)
