"""Run the query over a folder to its end on any Spark master, and generate a trace with Spark.

A run of the static test has a process of its own, because a JVM that has run the query once is faster and keeps its
settings. The process prints its figures as one line of JSON.
"""

from __future__ import annotations

import json
import signal
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
from ebbflow.papers.rows import run_in_process
from ebbflow.papers.rules.google_cluster import sink
from ebbflow.papers.rules.google_cluster.folder import fingerprint, part_files
from ebbflow.papers.rules.google_cluster.generator import CSV, PARQUET, ClusterTrace, TraceSpec
from ebbflow.papers.rules.google_cluster.query import GoogleClusterQuery, run_to_the_end, settings
from ebbflow.papers.rules.google_cluster.source import FOLDER, folder_changed
from ebbflow.targets.spark.launch.preflight import is_on_this_machine, local_slots
from ebbflow.targets.spark.launch.session import local_session, use_python_of, use_this_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


QUANTILES = (50, 75, 90, 95)
WARM_UP_BATCHES = 5
MIN_BATCHES = 15
"""With fewer batches, a 95th percentile is a guess."""
MAX_PARTS = 8
"""One task reads a part: a batch of the static test has one part for each of eight instances, if there are enough."""


@dataclass(frozen=True, kw_only=True)
class JobFigures:
    """The figures of a run. Events are those of the files, with and without a machine."""

    events: int
    without_machine: int
    rejected: int
    reports: int
    machines: int
    batches: int
    seconds: float
    """From the start of the first batch to the end of the last."""
    rates_per_s: tuple[float, ...]
    """Events per second of the batches: median, 75th, 90th and 95th percentile."""
    batch_events: tuple[int, ...] = ()
    """Events of each batch."""

    @property
    def events_per_s(self) -> float:
        """Rate over the batches of this run; a resumed run did not process all events itself."""
        return sum(self.batch_events) / self.seconds if self.seconds > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        values = {name: value for name, value in asdict(self).items() if name != "batch_events"}
        return {
            **values,
            "seconds": round(self.seconds, 3),
            "rates_per_s": [round(rate, 1) for rate in self.rates_per_s],
            "events_per_s": round(self.events_per_s, 1),
        }


# -- resuming a run ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class InterruptedRun:
    """How a run was started, according to the newest batch that Spark planned."""

    folder: str
    """Fingerprint of its folder."""
    instances: int | None
    """Instances of the machine operator: Spark keeps the number of state partitions on a restart."""


def read_checkpoint(checkpoint: Path) -> InterruptedRun | None:
    """Return how the run of a checkpoint was started, or None if no batch was planned.

    A file of Spark's ``offsets`` has a version, a line of settings, and a line for each source.
    """
    batches = [int(each.name) for each in checkpoint.glob("offsets/*") if each.name.isdecimal()]
    if not batches:
        return None
    lines = (checkpoint / "offsets" / str(max(batches))).read_text().splitlines()
    try:
        conf, offset = json.loads(lines[1])["conf"], json.loads(lines[2])
        instances = conf.get("spark.sql.shuffle.partitions")
        return InterruptedRun(
            folder=str(offset.get(FOLDER, "")), instances=None if instances is None else int(instances)
        )
    except (IndexError, KeyError, TypeError, AttributeError, ValueError):
        return InterruptedRun(folder="", instances=None)  # of another source or another version


def run_to_resume(*, input: Path, output: Path, checkpoint: Path | None = None) -> InterruptedRun | None:
    """Return the run to resume in this output, or None for a new run; raise if it cannot be resumed."""
    sink.check_output(output)
    before = read_checkpoint(checkpoint or output / sink.CHECKPOINT)
    if before is None:
        if any((output / table).exists() for table in sink.TABLES):
            raise InputError(f"{output} has results without their checkpoint; name a new or empty folder")
    elif before.folder != fingerprint(part_files(input)):
        raise folder_changed(str(input))
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
) -> JobFigures:
    """Run the query over the folder; an interrupted run is resumed with the instances it had.

    With ``warm_up_parts``, first run it over that many parts in the same Spark. The first batches start Python workers
    and run uncompiled code, which matters in a measurement of a minute.
    """
    remote = local_slots(master) is None
    if is_on_this_machine(master):  # its executors need this Python, even if it is not a local master
        use_this_python()
    use_python_of(conf or {})
    with sink.locked_output(output):
        before = run_to_resume(input=input, output=output, checkpoint=checkpoint)
        if before is not None:
            instances = before.instances or instances
        sink.prepare_output(output)
        query = GoogleClusterQuery(input=input, output=output, max_parts=max_parts)
        own = {
            **settings(instances),
            "spark.sql.streaming.numRecentProgressUpdates": "100000",
            **(conf or {}),
        }
        with local_session(master, own, name="google-cluster", remote=remote, detached=True) as spark:
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


def figures(output: Path, progress: list[Any]) -> JobFigures:
    """Compute the figures from the tables and the progress of the batches."""
    read = sink.read_table(output, sink.READ).to_pydict()
    cluster = sink.read_table(output, sink.CLUSTER, ["trace_s", "machines"]).to_pydict()
    by_batch = sink.events_by_batch(output)
    spans = [
        (_started_s(each), each["durationMs"]["triggerExecution"] / 1000, by_batch.get(each["batchId"], 0))
        for each in progress
    ]
    rates = [events / took_s for _, took_s, events in spans if took_s > 0]
    seconds = max((s + t for s, t, _ in spans), default=0.0) - min((s for s, _, _ in spans), default=0.0)
    return JobFigures(
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
    """Return the median, 75th, 90th and 95th percentile."""
    return tuple(np.percentile(rates, QUANTILES).tolist()) if rates else ()


def _started_s(progress: Any) -> float:
    return datetime.fromisoformat(progress["timestamp"]).timestamp()


def make_trace(spec: TraceSpec, folder: Path, *, cores: int | None = None, suffix: str = CSV) -> int:
    """Write a generated trace with a local Spark, one task per part, and return its number of events."""
    parts, target = ClusterTrace(spec).parts, str(folder.resolve())
    with local_session(
        f"local[{cores or cores_here()}]",
        {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"},
        name="google-cluster-generate",
    ) as spark:
        numbers = spark.sparkContext.parallelize(range(parts), parts)
        return int(numbers.map(lambda number: _trace(spec).write(number, Path(target), suffix)).sum())


@lru_cache(maxsize=1)
def _trace(spec: TraceSpec) -> ClusterTrace:
    """Cache the trace in a Python worker: all parts share its machines and long-running tasks."""
    return ClusterTrace(spec)


# -- in a process of its own -------------------------------------------------------------------------


def parts_per_batch(parts: int) -> int:
    """Return the parts of a batch: as many as instances read at once, but few enough for quantiles over the batches.

    >>> [parts_per_batch(parts) for parts in (3, 17, 60, 160, 500)]
    [1, 1, 4, 8, 8]
    """
    return max(1, min(MAX_PARTS, parts // MIN_BATCHES))


def run_in_a_process(*, input: Path, instances: int) -> JobFigures:
    """Run the query on ``instances`` slots of this machine."""
    answer = _in_a_process("run", str(input), str(instances))
    tuples = {name: tuple(answer[name]) for name in ("rates_per_s", "batch_events")}
    return JobFigures(**{**answer, **tuples})


def make_trace_in_a_process(spec: TraceSpec, folder: Path) -> int:
    """Run ``make_trace`` in Parquet."""
    return int(_in_a_process("make", json.dumps(asdict(spec)), str(folder))["events"])


def _in_a_process(*arguments: str) -> dict[str, Any]:
    answer = run_in_process(__name__, *arguments, name="the query")
    if "error" in answer:
        raise (InputError if answer["is_input_error"] else TargetError)(answer["error"])
    return answer


def main() -> None:
    """Do ``run FOLDER INSTANCES`` or ``make SPEC FOLDER`` and print the answer as JSON."""
    try:
        answer = _answer(*sys.argv[1:4])
    except EbbflowError as error:  # the parent process reports it
        answer = {"error": str(error), "is_input_error": isinstance(error, InputError)}
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    sys.stdout.write(json.dumps(answer) + "\n")


def _answer(command: str, first: str, second: str) -> dict[str, Any]:
    if command == "make":
        return {"events": make_trace(TraceSpec(**json.loads(first)), Path(second), suffix=PARQUET)}
    per_batch = parts_per_batch(len(part_files(Path(first))))
    with scratch_folder("google") as folder:
        found = run_job(
            input=Path(first),
            output=Path(folder) / "out",
            master=f"local[{second}]",
            instances=int(second),
            max_parts=per_batch,
            conf={"spark.ui.enabled": "false"},
            warm_up_parts=WARM_UP_BATCHES * per_batch,
        )
    return asdict(found)


if __name__ == "__main__":
    main()
