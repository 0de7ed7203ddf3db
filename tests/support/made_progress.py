"""Query progress as Spark prints it, made from the batches of a simulated run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ebbflow.core.batches import Batch

START_S = 1_790_000_000.0
"""A multiple of every trigger interval used here."""


def timestamp(time_s: float) -> str:
    """As in ``"timestamp" : "2026-09-21T14:13:20.000Z"``."""
    return datetime.fromtimestamp(START_S + time_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def offsets(row: float, partitions: int) -> dict[str, dict[str, int]]:
    """Offsets of a Kafka topic with rows distributed evenly."""
    each, more = divmod(round(row), partitions)
    return {"clicks": {str(i): each + (i < more) for i in range(partitions)}}


def progress(
    batch: Batch, end_row: float, *, query: str = "clicks", run: int = 0, partitions: int = 48, **more: Any
) -> dict[str, Any]:
    """The progress of one batch, with the fields of Spark 4."""
    work_ms = round(1000 * sum(stage.wall_s for stage in batch.stages))
    trigger_ms = round(1000 * batch.duration_s)
    rest_ms = max(0, trigger_ms - work_ms)
    rate = batch.rows / batch.duration_s if batch.duration_s else 0.0
    made = {
        "id": f"{abs(hash(query)) % 16**8:08x}-0000-4000-8000-000000000000",
        "runId": f"{run:08x}-1111-4000-8000-000000000000",
        "name": query,
        "timestamp": timestamp(batch.started_s),
        "batchId": batch.batch_id,
        "batchDuration": trigger_ms,
        "numInputRows": batch.rows,
        "inputRowsPerSecond": batch.arrival_rate_per_s,
        "processedRowsPerSecond": rate,
        "durationMs": {
            "addBatch": work_ms,
            "commitOffsets": rest_ms // 3,
            "getBatch": 0,
            "latestOffset": rest_ms // 6,
            "queryPlanning": rest_ms // 6,
            "triggerExecution": trigger_ms,
            "walCommit": rest_ms // 3,
        },
        "stateOperators": [],
        "sources": [
            {
                "description": "KafkaV2[Subscribe[clicks]]",
                "startOffset": offsets(end_row - batch.rows, partitions),
                "endOffset": offsets(end_row, partitions),
                "latestOffset": offsets(end_row + batch.backlog_rows, partitions),
                "numInputRows": batch.rows,
                "inputRowsPerSecond": batch.arrival_rate_per_s,
                "processedRowsPerSecond": rate,
                "metrics": {"avgOffsetsBehindLatest": "0.0"},
            }
        ],
        "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
    }
    return made | more


def progress_of(batches: Iterable[Batch], **more: Any) -> list[dict[str, Any]]:
    """All batches of a run."""
    made, row = [], 0.0
    for batch in batches:
        row += batch.rows
        made.append(progress(batch, row, **more))
    return made


def write_lines(path: Path, documents: Iterable[dict[str, Any]]) -> Path:
    """One document per line."""
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return path
