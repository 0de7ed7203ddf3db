"""Which node has been silent longest: a condition on nodes is about every running node, not only about those reporting.

A node is running while the target or an agent reports any metric of it; a node without readings is gone and no longer
counts. Only its agent reports on a host, so a silent host counts until nodes have left or it is forgotten.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import msgspec

from ebbflow.core.layout import MAIN
from ebbflow.core.metrics import Metric, SubjectKind
from ebbflow.core.readings import Windows
from ebbflow.core.snapshot import STALE_AFTER_S

_KINDS = (SubjectKind.NODE, SubjectKind.HOST)


def is_covered(metric: Metric) -> bool:
    """Whether every node or host reports the metric regularly, so that a missing reading means something."""
    return metric.about in _KINDS and metric is not Metric.LEAD_TIME


class Coverage(msgspec.Struct, frozen=True):
    """The node or host that has been silent longest, and its last reading."""

    subject: str
    last_s: float
    """−∞ without readings."""
    interval_s: float
    """The usual time between its readings."""


def coverages(windows: Windows, metrics: Iterable[Metric], now_s: float) -> dict[Metric, Coverage]:
    """The node that has been silent longest, for each metric; one pass over the series for all rules.

    >>> from ebbflow.core.readings import Reading
    >>> windows = Windows()
    >>> windows.add(Reading(float(t), "executor-1", Metric.ACTIVE_TASKS, 1.0) for t in range(20))
    >>> windows.add(Reading(float(t), "executor-1", Metric.NODE_CPU, 0.9) for t in range(10))
    >>> windows.add(Reading(float(t), "executor-2", Metric.NODE_CPU, 0.1) for t in range(20))
    >>> coverages(windows, [Metric.NODE_CPU], 19.0)[Metric.NODE_CPU]
    Coverage(subject='executor-1', last_s=9.0, interval_s=1.0)
    """
    wanted = list(metrics)
    if not wanted:
        return {}
    newest: dict[SubjectKind, dict[str, float]] = {kind: {} for kind in _KINDS}
    for subject, metric in windows.series():
        if metric.about in _KINDS:
            last_s = windows.of(subject, metric).last_time_s
            by_subject = newest[metric.about]
            if last_s is not None and last_s > by_subject.get(subject, -math.inf):
                by_subject[subject] = last_s
    running = {
        SubjectKind.NODE: [
            name for name, s in newest[SubjectKind.NODE].items() if now_s - s <= STALE_AFTER_S
        ],
        SubjectKind.HOST: [
            name
            for name, s in newest[SubjectKind.HOST].items()
            if now_s - s <= STALE_AFTER_S or not _nodes_left_since(windows, s)
        ],
    }
    found: dict[Metric, Coverage] = {}
    for metric in wanted:
        each = [_last(windows, subject, metric) for subject in running[metric.about]]
        if each:
            found[metric] = min(each, key=lambda one: one.last_s)
    return found


def _last(windows: Windows, subject: str, metric: Metric) -> Coverage:
    points = windows.of(subject, metric).points
    if not points:
        return Coverage(subject, -math.inf, 0.0)
    times = [points[k][0] for k in range(-1, -min(3, len(points)) - 1, -1)]
    # the shorter of the last two intervals, so that one gap does not make the next one look usual
    interval_s = min((later - earlier for later, earlier in itertools.pairwise(times)), default=0.0)
    return Coverage(subject, times[0], interval_s)


def _nodes_left_since(windows: Windows, time_s: float) -> bool:
    """Whether nodes have left since, perhaps with their host. True if the number of nodes is unknown."""
    counted = windows.of(MAIN, Metric.NODES)
    since = [value for _, value in counted.since(time_s)]
    return not since or since[-1] < max(since)
