"""A store as the loop on Spark writes it, made from a simulated run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from made_progress import START_S
from msgspec.structs import replace

from ebbflow.core.clock import ManualClock
from ebbflow.core.metrics import Metric
from ebbflow.core.readings import Reading
from ebbflow.core.run import Run
from ebbflow.monitoring.store import Store


def write_store(path: Path, run: Run, *, query: str = "clicks", app: str = "app", slots: int = 1) -> Path:
    """Each batch, with its readings under the query and under the application; of the nodes readings every second."""
    store = Store(path, ManualClock(START_S))
    for batch in run.batches:
        started_s, oldest_s = START_S + batch.started_s, START_S + batch.oldest_arrival_s
        store.add((), [replace(batch, query=query, started_s=started_s, oldest_arrival_s=oldest_s)])
        for subject in (query, app):
            store.add(
                Reading(START_S + batch.ended_s, subject, metric, value)
                for metric, value in (
                    (Metric.BATCH_ROWS, float(batch.rows)),
                    (Metric.BATCH_TIME, batch.duration_s),
                    (Metric.BACKLOG, batch.backlog_rows),
                )
            )
    for second in np.arange(0.0, run.ended_s):
        working, held = float(run.nodes_working.stepped(second)), float(run.nodes.stepped(second))
        at_s = START_S + float(second)
        store.add(
            [
                Reading(at_s, app, Metric.ARRIVAL_RATE, 1.0),
                Reading(at_s, "main", Metric.NODES, working),
                Reading(at_s, "main", Metric.NODES_REQUESTED, held),
                Reading(at_s, "main", Metric.SLOTS, working * slots),
            ]
        )
    store.add([Reading(START_S + 9.0, "executor-1", Metric.LEAD_TIME, lead_s) for lead_s in (20.0,)])
    store.append_ledger(START_S, "hold", {"reason": "written by another version"})
    for entry in run.decisions:
        then = replace(entry, time_s=START_S + entry.time_s)
        store.append_ledger(then.time_s, then.verdict, then.to_json())
    store.close()
    return path
