"""Hosts and controllers as processes, with a small exact engine in place of Spark, so that hundreds can be killed.

    python file_host.py host FILE APPLICATION
    python file_host.py controller FILE

The engine works as Spark does: it writes the range of a batch, then its result, then that it is committed, each with an
atomic creation that fails if the file exists. A batch that was cut off runs again with the same range.
"""

from __future__ import annotations

import json
import logging
import os
import random
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from ebbflow.control.fleet import FleetController
from ebbflow.core.clock import Clock, SystemClock
from ebbflow.core.decision import Outcome
from ebbflow.core.layout import Layout
from ebbflow.core.pipeline import Pipeline
from ebbflow.core.ports import Observation
from ebbflow.core.slo import Slo
from ebbflow.strategies.static import Static
from ebbflow.targets.fleet.checkpoint import holder_of
from ebbflow.targets.fleet.file import load_fleet
from ebbflow.targets.fleet.host.process import OpenedApplication, run_host
from ebbflow.targets.fleet.model import Application, Fleet, Query


def create(path: Path, body: object) -> None:
    """Create a file that must not exist, complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(body))
    try:
        os.link(draft, path)
    finally:
        draft.unlink()


def numbered(folder: Path) -> list[int]:
    try:
        return sorted(int(each.name) for each in folder.iterdir() if each.name.isdecimal())
    except FileNotFoundError:
        return []


class FileQuery:
    """Counts the rows of a stream, batch by batch."""

    def __init__(self, query: Query, fleet: Fleet) -> None:
        self._checkpoint = query.checkpoint
        self._input = fleet.streams[query.operator.reads[0]].folder
        self._output = fleet.streams[query.operator.writes[0]].folder
        claim = holder_of(query.checkpoint)
        self._token = 0 if claim is None else claim.token
        self._stop = threading.Event()
        self._random = random.Random()
        self._error = ""
        self.batch_id = -1
        self.is_ready = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_active(self) -> bool:
        return self._thread.is_alive()

    def failure(self) -> str:
        return self._error

    def stop(self, *, interrupt: bool) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._batch()
                self.is_ready = True
                self._stop.wait(0.02)
        except FileExistsError as error:
            self._error = f"concurrent update of {error.filename2 or error.filename}"

    def _batch(self) -> None:
        offsets, commits = self._checkpoint / "offsets", self._checkpoint / "commits"
        begun, committed = numbered(offsets), numbered(commits)
        done = json.loads((commits / str(committed[-1])).read_text()) if committed else {"end": 0, "rows": 0}
        if len(begun) > len(committed):
            end = json.loads((offsets / str(begun[-1])).read_text())["end"]
            batch = begun[-1]
        else:
            end = len(numbered_files(self._input))
            batch = len(committed)
            if end == done["end"]:
                return
            create(offsets / str(batch), {"end": end, "token": self._token})
        self._dawdle()
        rows = [
            json.loads(line)["row"]
            for file in numbered_files(self._input)[done["end"] : end]
            for line in file.read_text().splitlines()
        ]
        self._dawdle()
        with suppress(FileExistsError):  # it ran before, and was cut off
            create(self._output / str(batch), {"rows": rows, "token": self._token})
        self._dawdle()
        create(commits / str(batch), {"end": end, "rows": done["rows"] + len(rows), "token": self._token})
        self.batch_id = batch

    def _dawdle(self) -> None:
        time.sleep(self._random.uniform(0.0, 0.03))


def numbered_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]*.json"))


class FileEngine:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def start(self, query: Query) -> FileQuery:
        return FileQuery(query, self._fleet)


class OneNode:
    """An application with one node and nothing to measure."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def observe(self) -> Observation:
        return Observation(
            time_s=self._clock.now_s(), pipeline=Pipeline(name="files", operators=()), layout=Layout.of(1),
            requested=Layout.of(1), slots_per_node=1, lead_time_s=0.0, held_nodes=1,
        )  # fmt: skip

    def apply(self, planned: Layout) -> Outcome:
        return Outcome(requested=planned)

    def arrival_rates(self) -> Mapping[str, float]:
        return {}

    def close(self) -> None: ...


@contextmanager
def file_application(fleet: Fleet, application: Application, clock: Clock) -> Iterator[OpenedApplication]:
    yield OpenedApplication(polled=OneNode(clock), engine=FileEngine(fleet))


def main(arguments: list[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    fleet = load_fleet(Path(arguments[1]), imports=False)
    if arguments[0] == "host":
        return run_host(fleet, fleet.applications[arguments[2]], file_application)
    controller = FleetController(
        fleet, strategy=Static(), guards=(), slo=Slo.parse("freshness p95 <= 30s"), clock=SystemClock(),
        host_command=(sys.executable, __file__, "host"),
    )  # fmt: skip
    controller.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
