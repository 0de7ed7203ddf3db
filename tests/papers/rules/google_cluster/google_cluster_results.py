"""Compare the tables of the sink with the plain loop, row by row and bit by bit."""

from __future__ import annotations

from pathlib import Path

from plain_google_cluster import PlainResults

from ebbflow.papers.rules.google_cluster.sink import CLUSTER, MACHINES, READ, REJECTS, read_table
from ebbflow.papers.rules.google_cluster.steps import CLUSTER_COLUMNS


def rows(output: Path, table: str, *columns: str) -> list[tuple]:
    found = read_table(output, table)
    return list(zip(*(found.column(name).to_pylist() for name in columns), strict=True)) if len(found) else []


def assert_results(output: Path, expected: PlainResults) -> None:
    assert rows(output, MACHINES, "trace_s", "machine", "tasks", "cpu", "memory", "disk") == expected.machines
    assert rows(output, CLUSTER, "trace_s", "machines", *CLUSTER_COLUMNS) == expected.cluster
    assert sorted(rows(output, REJECTS, "part", "line")) == sorted(expected.rejected)
    read = rows(output, READ, "events", "without_machine", "rejected")
    assert sum(row[0] for row in read) == expected.events
    assert sum(row[1] for row in read) == expected.without_machine
    assert sum(row[2] for row in read) == len(expected.rejected)
