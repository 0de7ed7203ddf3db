"""Runs the operators of a fleet as queries of one Spark session, without hosts and controller.

For tests and for throughput figures of an application alone. ``ebbflow fleet up`` runs the same file on several
applications.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ebbflow.targets.fleet.context import QueryContext
from ebbflow.targets.fleet.file import import_function, parse_fleet
from ebbflow.targets.spark.act.restart import stop_between_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ebbflow.targets.fleet.model import Fleet


def fleet_in(folder: Path, text: str) -> Fleet:
    """The fleet of a file's text, with streams and checkpoints in a folder."""
    return parse_fleet(text, folder / "fleet.toml")


@contextmanager
def running(spark: SparkSession, fleet: Fleet) -> Iterator[Mapping[str, StreamingQuery]]:
    """All queries of a fleet by name, stopped between two batches at the end."""
    queries: dict[str, StreamingQuery] = {}
    try:
        for name, query in fleet.queries.items():
            start = import_function(query.operator.start, fleet.path.parent)
            queries[name] = start(QueryContext(spark, fleet, query)).start()
        yield queries
    finally:
        for each in queries.values():
            stop_between_batches(each)
