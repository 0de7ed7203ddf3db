"""The Google cluster query as a plain loop over lines, without Spark, numpy or Arrow, to compare with."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path

QUARTER_US, START_US = 900_000_000, 600_000_000
QUANTITIES = ("tasks", "cpu", "memory", "disk")
PERCENTS = (50, 75, 90, 95, 99)


@dataclass
class PlainResults:
    machines: list[tuple] = field(default_factory=list)
    """(second of the trace, machine, tasks, cpu, memory, disk)"""
    cluster: list[tuple] = field(default_factory=list)
    """(second of the trace, machines, total, mean, median, p75, p90, p95, p99 of each quantity)"""
    rejected: list[tuple[str, int]] = field(default_factory=list)
    """(part, line)"""
    events: int = 0
    without_machine: int = 0


def plain_query(folder: Path) -> PlainResults:
    results = PlainResults()
    running: dict[int, dict[tuple[int, int], tuple[Decimal, ...]]] = {}
    report = 1
    for path in sorted(folder.iterdir()):
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
            for number, line in enumerate(lines, 1):
                event = _event(line.rstrip("\n"))
                if event is None:
                    results.rejected.append((path.name, number))
                    continue
                time_us, task, machine, kind, requests = event
                results.events += 1
                while time_us >= START_US + report * QUARTER_US:
                    _report(results, report, running)
                    report += 1
                if machine is None:
                    results.without_machine += 1
                    continue
                tasks = running.setdefault(machine, {})
                if kind == 1 or (kind == 8 and task in tasks):
                    tasks[task] = requests
                elif 2 <= kind <= 6:
                    tasks.pop(task, None)
    _report(results, report, running)
    return results


def _event(line: str):
    fields = line.split(",")
    if len(fields) != 13:
        return None
    try:
        time_us, job, task, kind = (int(fields[i]) for i in (0, 2, 3, 5))
        machine = int(fields[4]) if fields[4] else None
        requests = tuple(Decimal(fields[i] or 0) for i in (9, 10, 11))
    except (ValueError, InvalidOperation):
        return None
    if not 0 <= kind <= 8 or time_us == 2**63 - 1 or not all(0 <= each <= 100 for each in requests):
        return None
    return time_us, (job, task), machine, kind, requests


def _report(results: PlainResults, report: int, running: dict) -> None:
    if not running:
        return
    rows = []
    for machine in sorted(running):
        tasks = running[machine].values()
        sums = [sum((t[i] for t in tasks), Decimal(0)) for i in range(3)]
        rows.append((machine, Fraction(len(tasks)), *(Fraction(each) for each in sums)))
    results.machines += [
        (report * 900, row[0], int(row[1]), *(float(value) for value in row[2:])) for row in rows
    ]
    values_of_cluster: list[float] = []
    for index in range(1, 5):
        values = sorted(row[index] for row in rows)
        values_of_cluster += [float(sum(values)), float(sum(values) / len(values))]
        for percent in PERCENTS:
            place = Fraction(percent * (len(values) - 1), 100)
            low = int(place)
            high = min(low + 1, len(values) - 1)
            values_of_cluster.append(float(values[low] + (place - low) * (values[high] - values[low])))
    results.cluster.append((report * 900, len(rows), *values_of_cluster))
