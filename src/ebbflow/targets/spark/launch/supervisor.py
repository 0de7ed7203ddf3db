"""Runs one child process and ends it when whoever started us is gone, however it went.

Called with a folder to remove at the end (or nothing) and a command. Run by path, not as a module, so that
it starts in milliseconds and imports nothing. Our standard input is a pipe that the starter holds open;
it closes when the starter closes it, exits, or is killed. The child gets a session of its own, so that
Ctrl-C in the terminal reaches the starter alone and the starter decides the order in which things end. We
have one too: who kills the starter's whole group must not kill those who clean up after it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

GRACE_S = 8.0


def start(
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a supervisor and, under it, a command. It ends them when its standard input closes.

    ``folder`` is removed at the end, should the starter be gone by then.
    """
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-I", __file__, str(folder or ""), *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ask the child to end, and make it end if it has not after a grace."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(child.pid, signal.SIGTERM)
    force = threading.Timer(GRACE_S, _end_group, (child,))
    force.daemon = True
    force.start()


def _end_group(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def main(folder: str, command: list[str]) -> int:
    """Run the command until it ends or standard input closes; then remove the folder, if one is named."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)

    abandoned = threading.Event()

    def watch() -> None:
        # A plain read: a buffered one would hold a lock at exit if it is still waiting then.
        while os.read(0, 1024):
            pass
        abandoned.set()
        _end(child)

    threading.Thread(target=watch, daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: _end(child))
    # Its id is not free for others before we have waited for it in earnest; until then the group is its own.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    _end_group(child)  # what it started and left: executors of a worker that was killed
    code = child.wait()
    if folder and abandoned.is_set():  # else the starter still wants to read why it ended
        shutil.rmtree(folder, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
