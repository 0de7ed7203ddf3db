"""The Google cluster query in one process, batch by batch, without Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from ebbflow.papers.rules.google_cluster.sink import ResultsWriter, prepare_output
from ebbflow.papers.rules.google_cluster.source import TaskEventReader
from ebbflow.papers.rules.google_cluster.steps import cluster_step, machine_step


@dataclass
class BucketState:
    """Stands in for Spark's ``GroupState``."""

    value: tuple[Any, ...] | None = None

    @property
    def exists(self) -> bool:
        return self.value is not None

    @property
    def get(self) -> tuple[Any, ...] | None:
        return self.value

    def update(self, value: tuple[Any, ...]) -> None:
        self.value = value


@dataclass
class OneProcess:
    """The query; ``offset`` and ``states`` are its checkpoint."""

    folder: Path
    output: Path
    options: dict[str, Any] = field(default_factory=dict)
    offset: dict[str, Any] | None = None
    states: dict[int, BucketState] = field(default_factory=dict)
    batches: int = 0

    def batch(self) -> bool:
        """Run one batch; False if nothing is left."""
        known = {"speed": None, "max_parts": None, "max_trace_us": None, "packed": True, **self.options}
        reader = TaskEventReader(path=str(self.folder), **known)
        start = self.offset or reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        if end == start:
            return False
        rows = [b for partition in reader.partitions(start, end) for b in reader.read(partition)]
        frame = pa.Table.from_batches(rows).to_pandas().sample(frac=1.0, random_state=self.batches)
        frames = [
            out
            for bucket, group in frame.groupby("bucket")
            for out in machine_step((bucket,), [group], self.states.setdefault(bucket, BucketState()))
        ]
        results = pd.concat(frames)
        passed_on = results[results["instance"] < 0][["kind", "reports", "note"]]
        table = pa.Table.from_pandas(
            passed_on,
            schema=pa.schema([("kind", pa.int32()), ("reports", pa.binary()), ("note", pa.string())]),
            preserve_index=False,
        )
        prepare_output(self.output)
        writer = ResultsWriter(str(self.output))
        writer.commit([writer.write(cluster_step(iter(table.to_batches())))], self.batches)
        self.offset, self.batches = end, self.batches + 1
        return True

    def to_the_end(self, most: int = 1000) -> OneProcess:
        for _ in range(most):
            if not self.batch():
                return self
        raise AssertionError(f"not at the end after {most} batches")
