"""Runs one child process, and ends it when the process that started it is gone.

Called with a folder to remove at the end (or an empty string) and a command. It is run by path, not as a module, so it
starts in milliseconds and imports nothing of Ebbflow. Its standard input is a pipe that the starter holds open; the
pipe closes when the starter closes it, exits or is killed. The child has its own session, so Ctrl-C in the terminal
reaches the starter only, which decides in which order processes end. The supervisor has its own session too: killing
the starter's process group must not kill what cleans up after it.
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
    """Start a command under a supervisor, which ends it when its standard input closes.

    ``folder`` is removed at the end if the starter is gone by then.
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
    """Terminate the child, and kill its group if it has not ended after a grace period."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(child.pid, signal.SIGTERM)
    force = threading.Timer(GRACE_S, _end_group, (child,))
    force.daemon = True
    force.start()


def _end_group(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def main(folder: str, command: list[str]) -> int:
    """Run the command until it ends or standard input closes; then remove the folder, if any."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)

    abandoned = threading.Event()

    def watch() -> None:
        # Unbuffered: a buffered read that still waits at exit would hold a lock.
        while os.read(0, 1024):
            pass
        abandoned.set()
        _end(child)

    threading.Thread(target=watch, daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: _end(child))
    # Wait without reaping: until it is reaped, its id and process group cannot be reused.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    _end_group(child)  # what it started and left behind, such as executors of a killed worker
    code = child.wait()
    if folder and abandoned.is_set():  # else the starter may still read its log
        shutil.rmtree(folder, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
