"""Learn a profile from the store of an earlier run.

A store has readings and finished batches with their stages. The store of a simulated run also has the operator graph,
so its profile is that of a profiling run. On Spark the graph is unknown: selectivities are those from the source to
each operator, and with several queries the batches show which operators belong to which. Stores of old versions have
no batches: the costs of batches, tasks and rows stay unknown, and with several queries also whose operators they are.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ebbflow.core.batches import Batch
from ebbflow.core.metrics import Metric
from ebbflow.core.pipeline import Operator, Pipeline
from ebbflow.core.readings import Reading
from ebbflow.errors import InputError
from ebbflow.monitoring.store import Store
from ebbflow.profiling.fitting import ALL
from ebbflow.profiling.profile import SIMULATOR, SPARK
from ebbflow.profiling.profile_learner import METRICS, ProfileLearner
from ebbflow.runs.profiling import ProfilingResult
from ebbflow.runs.simulation import pipeline_of

Series = Mapping[tuple[str, Metric], Sequence[tuple[float, float]]]

_BATCH_METRICS = {Metric.BATCH_ROWS, Metric.BATCH_TIME}
_QUERY_METRICS = {
    Metric.QUEUE_LENGTH,
    Metric.FIRST_BATCH_TIME,
    Metric.RESTART_STOP,
    Metric.RESTART_STATE,
    Metric.RESTART_START,
}
_SHARED_METRICS = {Metric.STATE_ROWS, Metric.STATE_SIZE}


@dataclass(frozen=True, kw_only=True)
class _QueryData:
    """The data of one query in a store."""

    pipeline: Pipeline
    readings: list[Reading]
    batches: Sequence[Batch] = ()
    notes: tuple[str, ...] = ()


def learn_from_store(
    path: Path,
    query: str | None = None,
    *,
    kinds: Sequence[str] = ALL,
    learned_at: datetime = datetime(1970, 1, 1, tzinfo=UTC),
) -> ProfilingResult:
    """Learn a profile from a store. ``query``: required if there are several.

    ``learned_at``: only for a simulated run, whose time starts at 0. On Spark it is the time of the last reading.
    """
    found, finished, terms = (
        Store.read_readings(path, METRICS),
        Store.read_batches(path),
        Store.read_terms(path),
    )
    batches = finished.batches
    target = terms.get("target", SPARK)
    graph = pipeline_of(terms) if target == SIMULATOR else None
    if graph is not None:
        parts = graph.applications()
        data = _of_graph(found.series, batches, _part(path, query, parts), several=len(parts) > 1)
    else:
        series = found.series
        queries = sorted({batch.query for batch in batches}) or sorted(_subjects(series, Metric.BATCH_ROWS))
        name = _chosen(path, query, queries)
        if batches:
            data = _with_batches(series, batches, name, queries)
        else:
            data = _without_batches(series, name, queries, older=not finished.dropped)
    left_out = _left_out(found.dropped, finished.dropped)
    learner = ProfileLearner(data.pipeline, kinds=kinds, target=target)
    _learn(learner, data)
    started_s = time.process_time()
    ended_s = data.readings[-1].time_s if data.readings else 0.0
    profile = learner.profile(learned_at if target == SIMULATOR else _date(path, ended_s))
    own = [each.name for each in data.pipeline.operators]
    profile = replace(profile, cpu={each: profile.cpu[each] for each in own if each in profile.cpu})
    if not profile.cpu and not profile.selectivity and profile.costs is None:
        raise InputError(
            f"the store {path} has no batches and no readings of operators, nodes or restarts to learn from; run "
            f"a few minutes with --store to get one{''.join(f' ({each})' for each in left_out)}"
        )
    return ProfilingResult(
        profile=profile,
        accuracy=None,
        seconds=ended_s - data.readings[0].time_s,
        training_s=time.process_time() - started_s,
        notes=(*data.notes, *left_out),
    )


def _left_out(readings: int, batches: int) -> list[str]:
    dropped_parts = (
        (readings, "reading", "readings must be numbers of 0 or more"),
        (batches, "batch", "unreadable or invalid"),
    )
    return [f"{_were(dropped, what)} left out: {why}" for dropped, what, why in dropped_parts if dropped]


def _were(number: int, what: str) -> str:
    return f"1 {what} was" if number == 1 else f"{number} {what}{'es' if what.endswith('ch') else 's'} were"


def _date(path: Path, time_s: float) -> datetime:
    try:
        return datetime.fromtimestamp(time_s, UTC).replace(microsecond=0)
    except (OverflowError, OSError, ValueError):
        raise InputError(
            f"the store {path} has a reading at {time_s:g} s after 1970, which is not a date; record another run with "
            "--store"
        ) from None


def _learn(learner: ProfileLearner, data: _QueryData) -> None:
    """Learn in order of time, as a loop would report it."""
    learned = 0
    for first in range(0, len(data.readings), 10_000):
        part = data.readings[first : first + 10_000]
        until = bisect_right(data.batches, part[-1].time_s, key=lambda batch: batch.ended_s)
        learner.learn(part, data.batches[learned:until])
        learned = until


def _of_graph(series: Series, batches: Sequence[Batch], part: Pipeline, *, several: bool) -> _QueryData:
    """The data of one pipeline of a simulated run.

    With several pipelines, the store names operators ``pipeline/operator``; the profile uses the bare names.
    """
    bare = {name: name.removeprefix(f"{part.name}/") if several else name for name in part.order}
    series = {(bare.get(subject, subject), metric): points for (subject, metric), points in series.items()}
    own = [batch for batch in batches if batch.query == part.name]
    return _QueryData(
        pipeline=replace(
            part,
            operators=tuple(replace(each, name=bare[each.name]) for each in part.operators),
            streams=tuple(
                replace(each, source=bare[each.source], target=bare[each.target]) for each in part.streams
            ),
        ),
        readings=_readings_of(series, own, part.name, several=several),
        batches=own,
    )


def _with_batches(series: Series, batches: Sequence[Batch], name: str, queries: Sequence[str]) -> _QueryData:
    """The data of one query: its batches, operators and restarts."""
    owners: dict[str, set[str]] = {}
    for batch in batches:
        for run in batch.operators:
            owners.setdefault(run.name, set()).add(batch.query)
    operators, notes = _subjects(series, Metric.ROWS_IN), []
    if len(queries) > 1:
        notes += [
            f"operator {each} exists in {' and '.join(sorted(of))}: nothing is learned about it"
            for each, of in sorted(owners.items())
            if name in of and len(of) > 1
        ]
        operators = {each for each in operators if owners.get(each) == {name}}
    own = [batch for batch in batches if batch.query == name]
    readings = _readings_of(series, own, name, several=len(queries) > 1)
    return _QueryData(
        pipeline=_unconnected(name, operators), readings=readings, batches=own, notes=tuple(notes)
    )


def _readings_of(series: Series, batches: Sequence[Batch], name: str, *, several: bool) -> list[Reading]:
    """The readings of a query and its batches, in order of time.

    They include readings of other queries' operators, because the CPU of a node is that of all its instances. Readings
    of all queries together (state) are left out if there are several.
    """
    # Rows and times come from the batches: an application may have the name of one of its queries, and then the
    # readings of that name are of all queries.
    readings = [
        Reading(batch.ended_s, name, metric, value)
        for batch in batches
        for metric, value in (
            (Metric.BATCH_ROWS, float(batch.rows)),
            (Metric.BATCH_TIME, batch.duration_s),
        )
    ]
    readings += _readings(
        {
            (subject, metric): points
            for (subject, metric), points in series.items()
            if metric not in _BATCH_METRICS
            and (metric not in _QUERY_METRICS or subject == name)
            and (metric not in _SHARED_METRICS or not several)
        }
    )
    readings.sort(key=lambda reading: reading.time_s)
    return readings


def _without_batches(series: Series, name: str, queries: Sequence[str], *, older: bool) -> _QueryData:
    """The data of a store without batches: with several queries, the operators of all, and no selectivities.

    ``older``: written by a version that stored no batches; otherwise all batches were left out.
    """
    notes = []
    if queries and older:
        notes.append(
            "the store has no batches with their stages, because an older version wrote it; a new run also "
            "shows the costs of batches, tasks and rows"
        )
    if len(queries) > 1:
        notes.append(
            f"it is unknown which operators belong to which of {', '.join(queries)}: they are taken together, without "
            "selectivities"
        )
    readings = _readings(
        {
            (subject, metric): points
            for (subject, metric), points in series.items()
            if metric is not Metric.BATCH_ROWS or len(queries) == 1
        }
    )
    readings.sort(key=lambda reading: reading.time_s)
    operators = _subjects(series, Metric.ROWS_IN)
    return _QueryData(pipeline=_unconnected(name, operators), readings=readings, notes=tuple(notes))


def _unconnected(name: str, operators: Iterable[str]) -> Pipeline:
    """A pipeline of unconnected operators: the graph is unknown."""
    return Pipeline(name=name, operators=tuple(Operator(name=each) for each in sorted(operators)))


def _subjects(series: Series, wanted: Metric) -> set[str]:
    return {subject for subject, metric in series if metric is wanted}


def _readings(series: Series) -> list[Reading]:
    return [
        Reading(time_s, subject, metric, value)
        for (subject, metric), points in series.items()
        for time_s, value in points
    ]


def _part(path: Path, query: str | None, parts: Sequence[Pipeline]) -> Pipeline:
    names = ", ".join(part.name for part in parts)
    if query is None and len(parts) > 1:
        raise InputError(f"the store {path} has {names}; choose one with --pipeline")
    found = next((part for part in parts if query in (None, part.name)), None)
    if found is None:
        raise InputError(f"the store {path} has {names}, not '{query}'; choose with --pipeline")
    return found


def _chosen(path: Path, query: str | None, queries: Sequence[str]) -> str:
    if query is None and len(queries) > 1:
        raise InputError(f"the store {path} has batches of {', '.join(queries)}; choose one with --pipeline")
    if query is not None and queries and query not in queries:
        raise InputError(
            f"the store {path} has no batches of '{query}', but of {', '.join(queries)}; choose with --pipeline"
        )
    return query or (queries[0] if queries else path.stem)
