"""Processes that look like Spark executors: a parent with an executor's command line, and its workers.

Run as a program, it is one of them: it forks ``--workers`` children and holds as many files open as a JVM.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MAIN_CLASS = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
OPEN_FILES = 300
"""About as many as an executor's JVM has open: its jars and a few sockets."""


@contextlib.contextmanager
def fake_executors(count: int, *, workers: int = 3, application: str = "app-benchmark") -> Iterator[None]:
    """Run fake executors, each of 1 + ``workers`` processes, while the context is open."""
    started = [
        subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", __file__, str(workers), MAIN_CLASS, "--driver-url", "none"),
                *(
                    "--executor-id",
                    str(number),
                    "--hostname",
                    "here",
                    "--cores",
                    "1",
                    "--app-id",
                    application,
                ),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        for number in range(count)
    ]
    try:
        for each in started:
            assert each.stdout is not None
            each.stdout.readline()
        yield
    finally:
        for each in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGKILL)
            each.wait()


def main() -> None:
    held = [Path("/dev/null").open() for _ in range(OPEN_FILES)]  # noqa: SIM115
    for _ in range(int(sys.argv[1])):
        if os.fork() == 0:
            break
    else:
        print("up", flush=True)
    sys.stdin.read()  # returns when the parent exits
    del held


if __name__ == "__main__":
    main()
