"""The sink: one Parquet file per batch and table, also if a batch runs more than once.

::

    DIR/machines/batch-00000012.parquet    trace_s, machine, tasks, cpu, memory, disk
    DIR/cluster/batch-00000012.parquet     trace_s, machines, tasks_total, tasks_mean, … disk_p99
    DIR/rejected/batch-00000012.parquet    part, line, reason, text
    DIR/read/batch-00000012.parquet        part, from_us, events, without_machine, rejected

A task writes files with unique names. When all tasks have ended, the driver renames the files after the batch. A batch
that runs again replaces its files by the same rows. ``trace_s`` counts from the start of the trace.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from ebbflow.core.folders import LOCK_FILE, make_folder, only_writer
from ebbflow.errors import InputError
from ebbflow.papers.rules.google_cluster.events import REPORT_US, REQUESTS, UNITS
from ebbflow.papers.rules.google_cluster.machine import Reports
from ebbflow.papers.rules.google_cluster.source import COUNTED, REJECTED
from ebbflow.papers.rules.google_cluster.steps import CLUSTER_COLUMNS, CLUSTER_ROW, MACHINE_ROWS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

FORMAT = "google-cluster-results"
MACHINES, CLUSTER, REJECTS, READ = "machines", "cluster", "rejected", "read"
TABLES = (MACHINES, CLUSTER, REJECTS, READ)
CHECKPOINT = ".checkpoint"
_STAGING = ".staging"
_NOTES = {
    REJECTS: ("part", "line", "reason", "text"),
    READ: ("part", "from_us", "events", "without_machine", "rejected"),
}
_TEXTS = ("part", "reason", "text")


def register(spark: SparkSession) -> None:
    """Register the format in a session."""
    spark.dataSource.register(ResultsSink)


@dataclass
class WrittenFiles(WriterCommitMessage):
    """The file that a task wrote for each table."""

    files: dict[str, str]


class ResultsSink(DataSource):
    """The format ``google-cluster-results``."""

    @classmethod
    def name(cls) -> str:
        """Return the name that ``format()`` takes."""
        return FORMAT

    def streamWriter(self, schema: StructType, overwrite: bool) -> ResultsWriter:  # noqa: ARG002, N802
        """Return the writer of one query."""
        if "path" not in self.options:
            raise InputError(f"format '{FORMAT}' needs .option('path', FOLDER) to write to")
        return ResultsWriter(self.options["path"])


class ResultsWriter(DataSourceStreamArrowWriter):
    """Writes the results of a batch."""

    def __init__(self, path: str) -> None:
        self._folder = path

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        """Write the rows of one task, one file per table."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        batches = [batch for batch in iterator if batch.num_rows]
        if not batches:
            return WrittenFiles({})
        rows = pa.Table.from_batches(batches)
        staging = Path(self._folder) / _STAGING
        staging.mkdir(parents=True, exist_ok=True)
        files = {}
        for name, table in _tables(rows):  # also tables without rows, so that readers find every table
            path = staging / f"{name}-{uuid.uuid4().hex}.parquet"
            pq.write_table(table, path, compression="zstd")
            files[name] = str(path)
        return WrittenFiles(files)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Rename the files of a batch to their final names, replacing those of an earlier attempt."""
        for message in messages:
            assert isinstance(message, WrittenFiles | None)
            for name, path in (message.files if message is not None else {}).items():
                folder = Path(self._folder) / name
                folder.mkdir(exist_ok=True)
                Path(path).replace(folder / f"batch-{batchId:08d}.parquet")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Remove the files of a failed batch."""
        for message in messages:
            if isinstance(message, WrittenFiles):
                for path in message.files.values():
                    Path(path).unlink(missing_ok=True)


def _tables(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    import pyarrow as pa

    kind = rows.column("kind").to_numpy()

    def of(wanted: int) -> pa.Table:
        return rows.filter(pa.array(kind == wanted))

    reports = Reports.from_bytes(*of(MACHINE_ROWS).column("reports").to_pylist())
    machines = {"trace_s": reports.report * (REPORT_US // 1_000_000)}
    machines |= {"machine": reports.machine, "tasks": reports.tasks}
    machines |= {name: getattr(reports, name) / UNITS for name in REQUESTS}
    yield MACHINES, pa.table({name: pa.array(values) for name, values in machines.items()})
    cluster = of(CLUSTER_ROW)
    values = cluster.column("over_machines").to_pylist()
    columns: dict[str, Any] = {"trace_s": cluster.column("trace_s"), "machines": cluster.column("machines")}
    columns |= {
        name: pa.array([v[i] for v in values], pa.float64()) for i, name in enumerate(CLUSTER_COLUMNS)
    }
    yield CLUSTER, pa.table(columns)
    for name, wanted in ((REJECTS, REJECTED), (READ, COUNTED)):
        notes = [json.loads(note) for note in of(wanted).column("note").to_pylist()]
        kinds = {each: pa.string() if each in _TEXTS else pa.int64() for each in _NOTES[name]}
        yield name, pa.Table.from_pylist(notes, pa.schema(kinds))


def check_output(folder: Path) -> None:
    """Raise unless the folder is new, empty, or has only results of this query."""
    try:
        if not folder.exists():
            return
        if not folder.is_dir():
            raise InputError(f"cannot write to {folder}: it is a file; name a folder")
        found = {each.name for each in folder.iterdir()}
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot write to {folder}: {reason}; name another folder") from None
    foreign = sorted(found - {*TABLES, CHECKPOINT, LOCK_FILE, _STAGING})
    if foreign:
        raise InputError(
            f"cannot write to {folder}: it contains {foreign[0]}, which is not a result of this query; name a new or "
            "empty folder"
        )


@contextmanager
def locked_output(folder: Path) -> Iterator[None]:
    """Lock the folder for this run: another run would remove its unfinished files."""
    check_output(folder)
    with only_writer(folder):
        yield


def prepare_output(folder: Path) -> None:
    """Create the folder if needed, and remove the unfinished files of a killed run."""
    check_output(folder)
    make_folder(folder)
    shutil.rmtree(folder / _STAGING, ignore_errors=True)


def read_table(folder: Path, table: str, columns: list[str] | None = None) -> pa.Table:
    """Return all rows of a table in trace order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = _by_batch(folder, table)
    if not files:
        return pa.table({})
    return pa.concat_tables([pq.read_table(each, columns=columns) for each in files.values()])


def events_by_batch(folder: Path) -> dict[int, int]:
    """Return the number of events of each batch, with and without a machine."""
    import pyarrow.parquet as pq

    return {
        batch: sum(pq.read_table(each, columns=["events"]).column(0).to_pylist())
        for batch, each in _by_batch(folder, READ).items()
    }


def written_s_by_batch(folder: Path) -> dict[int, float]:
    """Return when each batch was written, by the writer's clock."""
    return {batch: each.stat().st_mtime for batch, each in _by_batch(folder, READ).items()}


def _by_batch(folder: Path, table: str) -> dict[int, Path]:
    return {int(each.stem.split("-")[1]): each for each in sorted((folder / table).glob("batch-*.parquet"))}
