"""A profile from the store of an earlier run, whatever ran in it.

A store has readings, and neither batches with their stages nor the graph of the operators. So what batches, tasks and
rows cost stays unknown, and selectivities are those from the source to each operator. Where several queries ran nobody
can tell whose the operators are, and those stay unknown too.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from ebbflow.bench.profiling.phase import Phase
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Operator, Pipeline
from ebbflow.core.readings import Reading
from ebbflow.errors import InputError
from ebbflow.monitoring.store import Store
from ebbflow.profiling.fitting import ALL
from ebbflow.profiling.learner import METRICS, ProfileLearner

TARGET = "spark"
"""Who keeps a store: ``attach``, ``submit`` and ``demo``."""


def learn_from_store(path: Path, query: str | None = None, *, kinds: Sequence[str] = ALL) -> Phase:
    """Learn from all that is in a store. ``query``: whose profile it is to be, where there are several."""
    if not path.is_file():
        raise InputError(f"there is no store {path}; name the file that a run was given with --store")
    series = Store.read_readings(path, METRICS)
    queries = sorted({subject for subject, metric in series if metric is Metric.BATCH_ROWS})
    name = _chosen(path, query, queries)
    operators = sorted({subject for subject, metric in series if metric is Metric.ROWS_IN})
    readings = [
        Reading(time_s, subject, metric, value)
        for (subject, metric), points in series.items()
        for time_s, value in points
        if metric is not Metric.BATCH_ROWS or len(queries) == 1
    ]
    readings.sort(key=lambda reading: reading.time_s)
    learner = ProfileLearner(
        Pipeline(name=name, operators=tuple(Operator(name=each) for each in operators)),
        kinds=kinds,
        target=TARGET,
    )
    for first in range(0, len(readings), 10_000):
        learner.learn(readings[first : first + 10_000])
    began_s = time.process_time()
    ended_s = readings[-1].time_s if readings else 0.0
    profile = learner.profile(datetime.fromtimestamp(ended_s, UTC).replace(microsecond=0))
    if not profile.cpu and not profile.selectivity and profile.costs is None:
        raise InputError(
            f"the store {path} has no readings of an operator, a node or a restart to learn from; let a run of some "
            "minutes keep one with --store"
        )
    return Phase(
        profile=profile,
        accuracy=None,
        seconds=ended_s - readings[0].time_s,
        training_s=time.process_time() - began_s,
    )


def _chosen(path: Path, query: str | None, queries: Sequence[str]) -> str:
    if query is None and len(queries) > 1:
        raise InputError(f"the store {path} has batches of {', '.join(queries)}; choose one with --pipeline")
    if query is not None and queries and query not in queries:
        raise InputError(
            f"the store {path} has no batches of '{query}', but of {', '.join(queries)}; name that with --pipeline"
        )
    return query or (queries[0] if queries else path.stem)
