"""Whether all nodes that are there were read: a condition on nodes is about each of them, not about those that speak.

A node is there while the target or an agent reads anything of it; one of which nothing is read any more is gone
and asks for nothing. Of a host only its agent tells, so a silent one counts until nodes went away or it is forgotten.
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

_OF_EACH = (SubjectKind.NODE, SubjectKind.HOST)


def is_of_each(metric: Metric) -> bool:
    """Whether all nodes or hosts are read again and again, so that the silence of one means something."""
    return metric.about in _OF_EACH and metric is not Metric.LEAD_TIME


class Coverage(msgspec.Struct, frozen=True):
    """Up to when all that are there were read: the last reading of the one that is silent longest."""

    subject: str
    last_s: float
    """−∞ if it was never read."""
    interval_s: float
    """How far its readings usually are apart."""


def coverages(windows: Windows, metrics: Iterable[Metric], now_s: float) -> dict[Metric, Coverage]:
    """Of each metric the node that is silent longest; one pass over the series, whatever the number of rules.

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
    newest: dict[SubjectKind, dict[str, float]] = {kind: {} for kind in _OF_EACH}
    for subject, metric in windows.series():
        if metric.about in _OF_EACH:
            last_s = windows.of(subject, metric).last_time_s
            by_subject = newest[metric.about]
            if last_s is not None and last_s > by_subject.get(subject, -math.inf):
                by_subject[subject] = last_s
    there = {
        SubjectKind.NODE: [
            name for name, s in newest[SubjectKind.NODE].items() if now_s - s <= STALE_AFTER_S
        ],
        SubjectKind.HOST: [
            name
            for name, s in newest[SubjectKind.HOST].items()
            if now_s - s <= STALE_AFTER_S or not _went_since(windows, s)
        ],
    }
    found: dict[Metric, Coverage] = {}
    for metric in wanted:
        each = [_last(windows, subject, metric) for subject in there[metric.about]]
        if each:
            found[metric] = min(each, key=lambda one: one.last_s)
    return found


def _last(windows: Windows, subject: str, metric: Metric) -> Coverage:
    points = windows.of(subject, metric).points
    if not points:
        return Coverage(subject, -math.inf, 0.0)
    times = [points[k][0] for k in range(-1, -min(3, len(points)) - 1, -1)]
    # the shorter of the last two, so that one gap does not make the next one usual
    interval_s = min((later - earlier for later, earlier in itertools.pairwise(times)), default=0.0)
    return Coverage(subject, times[0], interval_s)


def _went_since(windows: Windows, time_s: float) -> bool:
    """Whether nodes have gone since: a host may have gone with them. Taken for gone where nobody counts nodes."""
    counted = windows.of(MAIN, Metric.NODES)
    since = [value for _, value in counted.since(time_s)]
    return not since or since[-1] < max(since)
