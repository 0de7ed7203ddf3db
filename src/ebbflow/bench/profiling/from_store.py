"""A profile from the store of an earlier run, whatever ran in it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from ebbflow.bench.profiling.phase import Phase
from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Operator, Pipeline
from ebbflow.core.readings import Reading
from ebbflow.errors import InputError
from ebbflow.monitoring.store import Store
from ebbflow.profiling.fitting import ALL
from ebbflow.profiling.learner import METRICS, ProfileLearner


def learn_from_store(path: Path, pipeline: Pipeline | str, *, kinds: Sequence[str] = ALL) -> Phase:
    """Learn from all that is in a store; batches are not, so costs of stages stay unknown."""
    if not path.is_file():
        raise InputError(f"there is no store {path}; name the file that a run was given with --store")
    series = Store.read_readings(path, METRICS)
    if isinstance(pipeline, str):
        names = sorted({subject for subject, metric in series if metric is Metric.ROWS_IN})
        pipeline = Pipeline(name=pipeline, operators=tuple(Operator(name=name) for name in names))
    readings = [
        Reading(time_s, subject, metric, value)
        for (subject, metric), points in series.items()
        for time_s, value in points
    ]
    readings.sort(key=lambda reading: reading.time_s)
    if not any(reading.subject != MAIN for reading in readings):
        raise InputError(f"the store {path} has no readings of an operator, a query or a node to learn from")
    learner = ProfileLearner(pipeline, kinds=kinds)
    for first in range(0, len(readings), 10_000):
        learner.learn(readings[first : first + 10_000])
    began_s = time.process_time()
    profile = learner.profile(datetime.fromtimestamp(readings[-1].time_s, UTC).replace(microsecond=0))
    return Phase(
        profile=profile,
        accuracy=None,
        seconds=readings[-1].time_s - readings[0].time_s,
        training_s=time.process_time() - began_s,
    )
