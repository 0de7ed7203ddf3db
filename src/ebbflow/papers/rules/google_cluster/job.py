"""One run of the query over a folder, to its end, on any Spark master: what ``stats`` and the static test do.

A run of the static test is a process of its own: a JVM that has run the query once runs it faster, and remembers
settings. It prints its figures as one line of JSON.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ebbflow.core.folders import scratch_folder
from ebbflow.core.machine import cores as cores_here
from ebbflow.errors import EbbflowError, InputError, TargetError
from ebbflow.papers.rules.google_cluster import sink
from ebbflow.papers.rules.google_cluster.folder import TraceSpec, fingerprint, part_files
from ebbflow.papers.rules.google_cluster.generator import CSV, PARQUET, ClusterTrace
from ebbflow.papers.rules.google_cluster.query import GoogleClusterQuery, run_to_the_end, settings
from ebbflow.papers.rules.google_cluster.source import FOLDER, another_folder
from ebbflow.targets.spark.launch.preflight import is_on_this_machine, local_slots
from ebbflow.targets.spark.launch.session import local_session, use_python_of, use_this_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# A generated trace, written by as many tasks as Spark has slots.


def write_trace(spark: SparkSession, spec: TraceSpec, folder: Path, ending: str = CSV) -> int:
    """Write all parts; returns the events in them. What all parts share is made once in each Python worker."""
    parts = ClusterTrace(spec).parts
    target = str(folder.resolve())
    numbers = spark.sparkContext.parallelize(range(parts), parts)
    return int(numbers.map(lambda number: _trace(spec).write(number, Path(target), ending)).sum())


@lru_cache(maxsize=1)
def _trace(spec: TraceSpec) -> ClusterTrace:
    return ClusterTrace(spec)


# What Spark wrote down of a run that was broken off: read before anything is started.


@dataclass(frozen=True, kw_only=True)
class Begun:
    """How a run was begun, by the newest batch that was planned."""

    folder: str
    """Fingerprint of the folder it reads."""
    instances: int | None
    """Of the machine operator: Spark keeps the number of state partitions, whatever a later start asks for."""


def begun(checkpoint: Path) -> Begun | None:
    """None where no batch was planned.

    A file of Spark's ``offsets`` is a version, a line of settings, and a line for each source.
    """
    batches = [int(each.name) for each in checkpoint.glob("offsets/*") if each.name.isdecimal()]
    if not batches:
        return None
    lines = (checkpoint / "offsets" / str(max(batches))).read_text().splitlines()
    try:
        settings, offset = json.loads(lines[1])["conf"], json.loads(lines[2])
        instances = settings.get("spark.sql.shuffle.partitions")
        return Begun(
            folder=str(offset.get(FOLDER, "")), instances=None if instances is None else int(instances)
        )
    except (IndexError, KeyError, TypeError, AttributeError, ValueError):
        return Begun(folder="", instances=None)  # of another source, or of another version


QUANTILES = (50, 75, 90, 95)
WARM_UP_BATCHES = 5
FEWEST_BATCHES = 15
"""Of fewer a 95th percentile is a guess."""
MOST_PARTS = 8
"""A part is read by one task: a batch of the static test has one for each of eight instances, if there are enough."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What came of a run. Events are those of the files, with and without a machine."""

    events: int
    without_machine: int
    rejected: int
    reports: int
    machines: int
    batches: int
    seconds: float
    """From the start of the first batch to the end of the last."""
    rates_per_s: tuple[float, ...]
    """Events a second of the batches, at the median, the 75th, 90th and 95th percentile."""
    batch_events: tuple[int, ...] = ()
    """Events of each batch."""

    @property
    def events_per_s(self) -> float:
        """Over the batches of this run; a run that goes on where another was broken off did not do all events."""
        return sum(self.batch_events) / self.seconds if self.seconds > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        rounded = [round(rate, 1) for rate in self.rates_per_s]
        told = {name: value for name, value in asdict(self).items() if name != "batch_events"}
        return {
            **told,
            "seconds": round(self.seconds, 3),
            "rates_per_s": rounded,
            "events_per_s": round(self.events_per_s, 1),
        }


def resumed(*, input: Path, output: Path, checkpoint: Path | None = None) -> Begun | None:
    """How the run was begun that would go on here, None for a new one; told at once if it cannot go on."""
    sink.check_output(output)
    before = begun(checkpoint or output / sink.CHECKPOINT)
    if before is None:
        if any((output / table).exists() for table in sink.TABLES):
            raise InputError(f"{output} has results, but not their checkpoint; name a new or empty folder")
    elif before.folder != fingerprint(part_files(input)):
        raise another_folder(str(input))
    return before


def run_job(
    *,
    input: Path,
    output: Path,
    master: str,
    instances: int,
    checkpoint: Path | None = None,
    max_parts: int = 4,
    conf: dict[str, str] | None = None,
    warm_up_parts: int = 0,
) -> Figures:
    """Run the query over the folder; a run that was broken off goes on where it was, with the instances it had.

    ``warm_up_parts``: run it over so many before, in the same Spark. A query that runs for hours does not notice that
    its first batch starts Python workers and has nothing compiled; a measurement of a minute does.
    """
    elsewhere = local_slots(master) is None
    if is_on_this_machine(master):  # its executors need what we have; its workers may still be elsewhere
        use_this_python()
    use_python_of(conf or {})
    with sink.held_output(output):
        before = resumed(input=input, output=output, checkpoint=checkpoint)
        if before is not None:
            instances = before.instances or instances
        sink.prepare_output(output)
        query = GoogleClusterQuery(input=input, output=output, max_parts=max_parts)
        own = {
            **settings(instances),
            "spark.sql.streaming.numRecentProgressUpdates": "100000",
            **(conf or {}),
        }
        with local_session(master, own, name="google-cluster", remote=elsewhere, detached=True) as spark:
            if warm_up_parts:
                _warm_up(spark, input, instances, warm_up_parts)
            running = query.start(spark, checkpoint or output / sink.CHECKPOINT, instances, to_the_end=True)
            progress = run_to_the_end(running)
        return figures(output, progress)


def _warm_up(spark: SparkSession, input: Path, instances: int, parts: int) -> None:
    with scratch_folder("google") as scratch:
        few, output = Path(scratch) / "few", Path(scratch) / "out"
        few.mkdir()
        for path in part_files(input)[:parts]:
            (few / path.name).symlink_to(path.resolve())
        sink.prepare_output(output)
        query = GoogleClusterQuery(input=few, output=output, max_parts=max(1, parts // WARM_UP_BATCHES))
        run_to_the_end(query.start(spark, Path(scratch) / "checkpoint", instances, to_the_end=True))


def figures(output: Path, progress: list[Any]) -> Figures:
    """What the tables and the progress of the batches say."""
    read = sink.read_table(output, sink.READ).to_pydict()
    cluster = sink.read_table(output, sink.CLUSTER, ["trace_s", "machines"]).to_pydict()
    by_batch = sink.events_by_batch(output)
    spans = [
        (_started_s(each), each["durationMs"]["triggerExecution"] / 1000, by_batch.get(each["batchId"], 0))
        for each in progress
    ]
    rates = [events / took_s for _, took_s, events in spans if took_s > 0]
    seconds = max((s + t for s, t, _ in spans), default=0.0) - min((s for s, _, _ in spans), default=0.0)
    return Figures(
        events=sum(read.get("events", ())),
        without_machine=sum(read.get("without_machine", ())),
        rejected=sum(read.get("rejected", ())),
        reports=len(cluster.get("trace_s", ())),
        machines=max(cluster.get("machines", ()), default=0),
        batches=len(progress),
        seconds=seconds,
        rates_per_s=quantiles(rates),
        batch_events=tuple(events for _, _, events in spans),
    )


def quantiles(rates: list[float]) -> tuple[float, ...]:
    """At the median, the 75th, 90th and 95th percentile."""
    return tuple(np.percentile(rates, QUANTILES).tolist()) if rates else ()


def _started_s(progress: Any) -> float:
    return datetime.fromisoformat(progress["timestamp"]).timestamp()


def make_trace(spec: TraceSpec, folder: Path, *, cores: int | None = None, ending: str = CSV) -> int:
    """Write a generated trace with a Spark of this machine; returns its events."""
    master = f"local[{cores or cores_here()}]"
    with local_session(
        master,
        {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"},
        name="google-cluster-generate",
    ) as spark:
        return write_trace(spark, spec, folder, ending)


# -- in a process of its own -------------------------------------------------------------------------


def parts_a_batch(parts: int) -> int:
    """As many as instances can read at once, but few enough that there are batches to take quantiles of.

    >>> [parts_a_batch(parts) for parts in (3, 17, 60, 160, 500)]
    [1, 1, 4, 8, 8]
    """
    return max(1, min(MOST_PARTS, parts // FEWEST_BATCHES))


def run_in_a_process(*, input: Path, instances: int) -> Figures:
    """The query on ``instances`` slots of this machine."""
    told = _in_a_process("run", str(input), str(instances))
    listed = {name: tuple(told[name]) for name in ("rates_per_s", "batch_events")}
    return Figures(**{**told, **listed})


def make_trace_in_a_process(spec: TraceSpec, folder: Path) -> int:
    """As ``make_trace``, in Parquet."""
    return int(_in_a_process("make", json.dumps(asdict(spec)), str(folder))["events"])


def _in_a_process(*words: str) -> dict[str, Any]:
    told = subprocess.run([sys.executable, "-m", __name__, *words], stdout=subprocess.PIPE, check=False)
    if told.returncode != 0:
        raise TargetError(f"the Spark process failed (code {told.returncode}); its words are above")
    found: dict[str, Any] = json.loads(told.stdout.splitlines()[-1])
    if "wrong" in found:
        raise (InputError if found["input"] else TargetError)(found["wrong"])
    return found


def main() -> None:
    """``run FOLDER INSTANCES`` or ``make SPEC FOLDER``."""
    try:
        result = _answer(*sys.argv[1:4])
    except EbbflowError as error:  # who started us tells it
        result = {"wrong": str(error), "input": isinstance(error, InputError)}
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    sys.stdout.write(json.dumps(result) + "\n")


def _answer(what: str, first: str, second: str) -> dict[str, Any]:
    if what == "make":
        return {"events": make_trace(TraceSpec(**json.loads(first)), Path(second), ending=PARQUET)}
    a_batch = parts_a_batch(len(part_files(Path(first))))
    with scratch_folder("google") as folder:
        found = run_job(
            input=Path(first),
            output=Path(folder) / "out",
            master=f"local[{second}]",
            instances=int(second),
            max_parts=a_batch,
            conf={"spark.ui.enabled": "false"},
            warm_up_parts=WARM_UP_BATCHES * a_batch,
        )
    return asdict(found)


if __name__ == "__main__":
    main()
