"""A profile from the store of an earlier run, whatever ran in it.

A store has readings and finished batches with their stages. That of a simulated run has the graph of the operators,
too, and the profile is what a phase would have learned. On Spark the graph is not known: selectivities are those from
the source to each operator, and where several queries ran, the batches tell whose an operator is. Stores of versions
that kept no batches have readings alone: what batches, tasks and rows cost stays unknown, and, of several queries,
whose the operators are.
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
from ebbflow.profiling.learner import METRICS, ProfileLearner
from ebbflow.profiling.profile import SIMULATOR, SPARK
from ebbflow.runs.profiling import ProfilingResult
from ebbflow.runs.simulation import pipeline_of

Series = Mapping[tuple[str, Metric], Sequence[tuple[float, float]]]

_OF_BATCHES = {Metric.BATCH_ROWS, Metric.BATCH_TIME}
_OF_A_QUERY = {
    Metric.QUEUE_LENGTH,
    Metric.FIRST_BATCH_TIME,
    Metric.RESTART_STOP,
    Metric.RESTART_STATE,
    Metric.RESTART_START,
}
_OF_ALL_QUERIES = {Metric.STATE_ROWS, Metric.STATE_SIZE}


@dataclass(frozen=True, kw_only=True)
class _Kept:
    """What a store has to learn from about one query."""

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
    """Learn from all that is in a store. ``query``: whose profile it is to be, where there are several.

    ``learned_at``: of a simulated run, whose own time begins at 0. On Spark it is when the run was last read.
    """
    found, finished, terms = (
        Store.read_readings(path, METRICS),
        Store.read_batches(path),
        Store.read_terms(path),
    )
    batches = finished.batches
    target = terms.get("target", SPARK)
    whole = pipeline_of(terms) if target == SIMULATOR else None
    if whole is not None:
        parts = whole.applications()
        kept = _of_graph(found.series, batches, _part(path, query, parts), several=len(parts) > 1)
    else:
        series = found.series
        queries = sorted({batch.query for batch in batches}) or sorted(_subjects(series, Metric.BATCH_ROWS))
        name = _chosen(path, query, queries)
        if batches:
            kept = _with_batches(series, batches, name, queries)
        else:
            kept = _without_batches(series, name, queries, older=not finished.dropped)
    left_out = _left_out(found.dropped, finished.dropped)
    learner = ProfileLearner(kept.pipeline, kinds=kinds, target=target)
    _learn(learner, kept)
    began_s = time.process_time()
    ended_s = kept.readings[-1].time_s if kept.readings else 0.0
    profile = learner.profile(learned_at if target == SIMULATOR else _date(path, ended_s))
    mine = [each.name for each in kept.pipeline.operators]
    profile = replace(profile, cpu={each: profile.cpu[each] for each in mine if each in profile.cpu})
    if not profile.cpu and not profile.selectivity and profile.costs is None:
        raise InputError(
            f"the store {path} has no batches, and no readings of an operator, a node or a restart, to learn from; let "
            f"a run of some minutes keep one with --store{''.join(f' ({each})' for each in left_out)}"
        )
    return ProfilingResult(
        profile=profile,
        accuracy=None,
        seconds=ended_s - kept.readings[0].time_s,
        training_s=time.process_time() - began_s,
        notes=(*kept.notes, *left_out),
    )


def _left_out(readings: int, batches: int) -> list[str]:
    told = (
        (readings, "reading", "a reading is a number of 0 or more"),
        (batches, "batch", "what is written there cannot be read, or is nothing that a batch can have"),
    )
    return [f"{_were(dropped, what)} left out: {why}" for dropped, what, why in told if dropped]


def _were(number: int, what: str) -> str:
    return f"1 {what} was" if number == 1 else f"{number} {what}{'es' if what.endswith('ch') else 's'} were"


def _date(path: Path, time_s: float) -> datetime:
    try:
        return datetime.fromtimestamp(time_s, UTC).replace(microsecond=0)
    except (OverflowError, OSError, ValueError):
        raise InputError(
            f"the store {path} has a reading of {time_s:g} s after 1970, which is no date; let a run keep another "
            "one with --store"
        ) from None


def _learn(learner: ProfileLearner, kept: _Kept) -> None:
    """In the order of time, as a loop would have shown it."""
    told = 0
    for first in range(0, len(kept.readings), 10_000):
        part = kept.readings[first : first + 10_000]
        until = bisect_right(kept.batches, part[-1].time_s, key=lambda batch: batch.ended_s)
        learner.learn(part, kept.batches[told:until])
        told = until


def _of_graph(series: Series, batches: Sequence[Batch], part: Pipeline, *, several: bool) -> _Kept:
    """What is of one pipeline of a simulated run. Of several, operators are named ``pipeline/operator`` in the store;
    a profile has the names that they have where the pipeline is alone, as whoever is given one expects."""
    bare = {name: name.removeprefix(f"{part.name}/") if several else name for name in part.order}
    series = {(bare.get(subject, subject), metric): points for (subject, metric), points in series.items()}
    mine = [batch for batch in batches if batch.query == part.name]
    return _Kept(
        pipeline=replace(
            part,
            operators=tuple(replace(each, name=bare[each.name]) for each in part.operators),
            streams=tuple(
                replace(each, source=bare[each.source], target=bare[each.target]) for each in part.streams
            ),
        ),
        readings=_readings_of(series, mine, part.name, several=several),
        batches=mine,
    )


def _with_batches(series: Series, batches: Sequence[Batch], name: str, queries: Sequence[str]) -> _Kept:
    """What is of the query: its batches, its operators, its restarts."""
    owners: dict[str, set[str]] = {}
    for batch in batches:
        for run in batch.operators:
            owners.setdefault(run.name, set()).add(batch.query)
    operators, notes = _subjects(series, Metric.ROWS_IN), []
    if len(queries) > 1:
        notes += [
            f"operator {each} has the same name in {' and '.join(sorted(of))}: nothing is learned of it"
            for each, of in sorted(owners.items())
            if name in of and len(of) > 1
        ]
        operators = {each for each in operators if owners.get(each) == {name}}
    mine = [batch for batch in batches if batch.query == name]
    readings = _readings_of(series, mine, name, several=len(queries) > 1)
    return _Kept(pipeline=_unjoined(name, operators), readings=readings, batches=mine, notes=tuple(notes))


def _readings_of(series: Series, batches: Sequence[Batch], name: str, *, several: bool) -> list[Reading]:
    """Of a query and its batches, in the order of time.

    Readings of other queries' operators stay among them: a node's CPU is that of all instances on it. What is only
    read of all queries together (state) is left out where there are several.
    """
    # Rows and times from the batches themselves: an application may be called as one of its queries is, and the
    # readings of that name are then of all of them.
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
            if metric not in _OF_BATCHES
            and (metric not in _OF_A_QUERY or subject == name)
            and (metric not in _OF_ALL_QUERIES or not several)
        }
    )
    readings.sort(key=lambda reading: reading.time_s)
    return readings


def _without_batches(series: Series, name: str, queries: Sequence[str], *, older: bool) -> _Kept:
    """Of several queries nobody can tell whose the operators are: those of all, and no selectivities.

    ``older``: a version before batches were kept wrote it; else it has some, and all were left out.
    """
    notes = []
    if queries and older:
        notes.append(
            "the store has no batches with their stages, as a version before this one wrote it; a run that this "
            "version keeps tells what batches, tasks and rows cost"
        )
    if len(queries) > 1:
        notes.append(
            f"whose the operators are is not in it: those of {', '.join(queries)} are together, without "
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
    return _Kept(pipeline=_unjoined(name, operators), readings=readings, notes=tuple(notes))


def _unjoined(name: str, operators: Iterable[str]) -> Pipeline:
    """Nobody knows which operator feeds which."""
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
        raise InputError(f"the store {path} is of {names}; choose one with --pipeline")
    found = next((part for part in parts if query in (None, part.name)), None)
    if found is None:
        raise InputError(f"the store {path} is of {names}, not of '{query}'; name that with --pipeline")
    return found


def _chosen(path: Path, query: str | None, queries: Sequence[str]) -> str:
    if query is None and len(queries) > 1:
        raise InputError(f"the store {path} has batches of {', '.join(queries)}; choose one with --pipeline")
    if query is not None and queries and query not in queries:
        raise InputError(
            f"the store {path} has no batches of '{query}', but of {', '.join(queries)}; name that with --pipeline"
        )
    return query or (queries[0] if queries else path.stem)
