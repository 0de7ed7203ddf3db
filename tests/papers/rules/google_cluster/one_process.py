"""The operators of the Google cluster query, one batch after the other, without Spark between them."""

from __future__ import annotations

import time
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
    """What ``GroupState`` is to the machine operator."""

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
    """A query that runs where it is; ``offset`` and ``states`` are its checkpoint."""

    folder: Path
    output: Path
    options: dict[str, Any] = field(default_factory=dict)
    offset: dict[str, Any] | None = None
    states: dict[int, BucketState] = field(default_factory=dict)
    batches: int = 0

    def batch(self) -> bool:
        """Run one; False if there was nothing left."""
        known = {"speed": None, "max_parts": None, "max_trace_us": None, "packed": True, **self.options}
        reader = TaskEventReader(path=str(self.folder), **known)
        start = self.offset or reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        if end == start:
            return False
        rows = [b for partition in reader.partitions(start, end) for b in reader.read(partition)]
        frame = pa.Table.from_batches(rows).to_pandas().sample(frac=1.0, random_state=self.batches)
        told = [
            out
            for bucket, group in frame.groupby("bucket")
            for out in machine_step((bucket,), [group], self.states.setdefault(bucket, BucketState()))
        ]
        results = pd.concat(told)
        kept = results[results["instance"] < 0][["kind", "reports", "note"]]
        table = pa.Table.from_pandas(
            kept,
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
        raise AssertionError(f"{most} batches, and no end at {time.time()}")
