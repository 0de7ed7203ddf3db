"""Runs the batch job and the stream on the same ratings, and measures both."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from ebbflow.papers.dodo.in_session import fleet_in, running
from ebbflow.papers.dodo.movies.batch import recommend
from ebbflow.papers.dodo.movies.ratings import COLUMNS, Ratings
from ebbflow.papers.dodo.movies.stream import USER_BUCKETS, WAITING, read_lists

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Lists = dict[int, list[tuple[int, int]]]
"""For each movie the most similar ones, each with its number of mutual fans."""

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Settings of the session. With a change log, a batch uploads what it changed, not whole files of the state store."""
FLEET = Path(__file__).with_name("movies.toml")


@dataclass(frozen=True, kw_only=True)
class Timed:
    """Some ratings, and what processing them took."""

    ratings: int
    seconds: float
    cpu_s: float
    """CPU time of the driver and its Python workers."""

    @property
    def per_s(self) -> float:
        """Ratings per second."""
        return self.ratings / self.seconds


@dataclass(frozen=True, kw_only=True)
class StreamRun:
    """The stream on ratings that came in parts."""

    parts: Sequence[Timed]
    """Each from its arrival until the last list that it changed was in the file."""
    longest_batch_s: float
    most_waiting: int
    """New fans that waited for a later batch, at most."""
    lists: Lists

    @property
    def total(self) -> Timed:
        """All parts together."""
        return Timed(
            ratings=sum(each.ratings for each in self.parts),
            seconds=sum(each.seconds for each in self.parts),
            cpu_s=sum(each.cpu_s for each in self.parts),
        )


def run_batch(spark: SparkSession, folder: Path, ratings: Ratings, *, top: int) -> tuple[Timed, Lists]:
    """Run the three rounds on ratings in a Parquet file, as a job that reads all data so far."""
    write_ratings(folder, ratings, "all")
    with _timed(len(ratings)) as result:
        rows = recommend(spark.read.schema(COLUMNS).parquet(str(folder)), top=top).toArrow().to_pylist()
    return result(), {
        row["movie"]: list(zip(row["similar"], row["mutual_fans"], strict=True)) for row in rows
    }


def run_stream(
    spark: SparkSession,
    folder: Path,
    parts: Sequence[Ratings],
    *,
    options: Mapping[str, int] | None = None,
    warm_up: Ratings | None = None,
    on_part: Callable[[], None] = lambda: None,
) -> StreamRun:
    """Feed the parts one after the other, each when the lists of the one before are complete.

    ``warm_up`` goes first and is not measured: the first batches start Python and compile.
    """
    options = options or {}
    fleet = fleet_in(folder, fleet_text(folder, options))
    source = fleet.streams["ratings"].folder
    output = folder / "lists.tsv"
    zeros = _zeros(options.get("user_buckets", USER_BUCKETS))
    source.mkdir(parents=True)
    timed = []
    with running(spark, fleet) as queries:
        if warm_up is not None:
            write_ratings(source, warm_up, "warm-up")
            _process_all(queries, source, zeros)
        before = {name: len(query.recentProgress) for name, query in queries.items()}
        for number, part in enumerate(parts):
            with _timed(len(part)) as result:
                write_ratings(source, part, f"part-{number:06d}")
                _process_all(queries, source, zeros)
            timed.append(result())
            on_part()
        progress = {name: query.recentProgress[before[name] :] for name, query in queries.items()}
    lists = read_lists(output) if output.exists() else {}
    return StreamRun(
        parts=timed,
        longest_batch_s=max(each["batchDuration"] for own in progress.values() for each in own) / 1000.0,
        most_waiting=max((waiting_fans([each]) for each in progress["history"]), default=0),
        lists={
            movie: list(zip(each.similar, each.mutual_fans, strict=True)) for movie, each in lists.items()
        },
    )


def fleet_text(folder: Path, options: Mapping[str, int]) -> str:
    """The fleet file with the output in a folder, and with options for ``history`` and ``similar``."""
    text = FLEET.read_text(encoding="utf-8")
    text = text.replace('file = "lists.tsv"', f'file = "{folder / "lists.tsv"}"')
    table = ", ".join(f'{name} = "{value}"' for name, value in options.items())
    for operator in ("history", "similar") if table else ():
        start = f'start = "ebbflow.papers.dodo.movies.stream:{operator}"'
        text = text.replace(start, f"{start}\noptions = {{ {table} }}")
    return text


def write_ratings(folder: Path, ratings: Ratings, name: str) -> None:
    """Write ratings as a Parquet file that appears in the folder at once."""
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{name}.parquet"
    pq.write_table(ratings.to_arrow(), hidden)
    hidden.replace(folder / f"{name}.parquet")


def waiting_fans(progress: Sequence[Any]) -> int:
    """New fans that the last batch of ``history`` left for later."""
    observed = [each["observedMetrics"][WAITING] for each in progress if WAITING in each["observedMetrics"]]
    return int(observed[-1]["fans"] or 0) if observed else 0


def _process_all(queries: Mapping[str, StreamingQuery], source: Path, zeros: Ratings) -> None:
    """Wait until each operator has processed all that the one before it sent."""
    history = queries["history"]
    history.processAllAvailable()
    while waiting_fans(history.recentProgress):
        # A rating of 0 makes no fan; it lets the batch continue with the fans that wait.
        write_ratings(source, zeros, f"zeros-{len(history.recentProgress):06d}")
        history.processAllAvailable()
    for name in ("similar", "output"):
        queries[name].processAllAvailable()


def _zeros(buckets: int) -> Ratings:
    every = np.arange(buckets, dtype=np.int32)
    return Ratings(user=every, movie=every, rating=np.zeros(buckets), source="")


@contextmanager
def _timed(ratings: int) -> Iterator[Callable[[], Timed]]:
    found: list[Timed] = []
    began_s, cpu_s = time.monotonic(), _cpu_s()
    yield lambda: found[0]
    found.append(Timed(ratings=ratings, seconds=time.monotonic() - began_s, cpu_s=_cpu_s() - cpu_s))


def _cpu_s() -> float:
    """CPU time so far of this process, the driver's JVM and the Python workers."""
    this = psutil.Process()
    total = 0.0
    for each in (this, *this.children(recursive=True)):
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
